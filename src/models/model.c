/* Models: parameters loaded once by walking the graph of each part, and graphs bound to them. */
#include "models/model.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "io/weights/scaled.h"
#include "kernels/coded.h"
#include "models/factored.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *zn_part_name(zn_part part)
{
    static const char *const names[ZN_PARTS] = { "encoder", "decoder", "latent net", "classifier" };
    return names[part];
}

int zn_model_inputs(const zn_model *m, zn_part part)
{
    return part == ZN_DECODER ? m->config.latent : m->config.inputs ? m->config.inputs : 3;
}

zn_status zn_model_new(const zn_arch *arch, const zn_config *config, zn_model **out)
{
    zn_model *m = zn_calloc(1, sizeof *m);
    *out = m;
    if (!m)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    m->arch = arch;
    m->config = *config;
    m->info = (zn_model_info){ .architecture = config->name,
                               .description = config->description,
                               .path = "",
                               .latent_channels = config->latent,
                               .downscale = config->downscale,
                               .diffuses = (arch->can & ZN_SAMPLES) != 0,
                               .clip_frames = config->frames,
                               .image_size = config->size };
    return ZN_OK;
}

void zn_model_free(zn_model *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->count; i++)
        zn_free(m->parameters[i].data);
    for (int i = 0; i < 2; i++)
        zn_weights_close(m->files[i]);
    zn_free(m->parameters);
    zn_free(m->splits.all);
    zn_arena_free(&m->arena);
    zn_free(m);
}

const zn_model_info *zn_model_info_of(const zn_model *m) { return &m->info; }

/* Without values yet. */
static zn_status add_parameter(zn_model *m, zn_part part, const zn_node *n, zn_model_parameter **out)
{
    if (!ZN_GROW(m->parameters, m->capacity, m->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for parameters");
    zn_model_parameter *p = &m->parameters[m->count];
    *p = (zn_model_parameter){
        .name = zn_arena_copy(&m->arena, n->name), .shape = n->shape, .layout = n->layout, .role = n->role, .part = part
    };
    if (!p->name)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for parameters");
    m->count++;
    m->info.parameters += n->layout == ZN_LAYOUT_INDEX ? 0 : zn_shape_count(n->shape);
    *out = p;
    return ZN_OK;
}

static zn_status allocate(zn_model_parameter *p)
{
    return zn_alloc_for("a parameter", sizeof(float) * (size_t)zn_shape_count(p->shape), (void **)&p->data);
}

typedef struct source {
    const zn_weights *file;
    const char *path; /* of the file, in the model's arena */
    const zn_naming *naming;
    zn_rng *rng;
} source;

/* What a file calls a parameter. */
static void stored_name(const zn_model *m, const zn_naming *naming, const zn_node *n, char *name, size_t size)
{
    if (m->arch->file_name)
        m->arch->file_name(n->name, naming, name, size);
    else
        snprintf(name, size, "%s%s", naming->prefix, n->name);
}

/* What a file has for a parameter: a tensor, or a chain of convolutions whose product or bias it is. */
typedef struct stored {
    const zn_weight *tensor;
    zn_factored chain;
} stored;

/* What is stored of a parameter, of the right shape; so memory is only taken for what the file really holds. */
static zn_status find_stored(const zn_model *m, const source *from, const zn_node *n, stored *out)
{
    char name[256], layer[256];
    out->tensor = NULL;
    out->chain.count = 0;
    if (!from->file)
        return ZN_OK;
    const char *link = zn_splits_tensor(&m->splits, n->name);
    stored_name(m, from->naming, n, name, sizeof name);
    if (link)
        snprintf(name, sizeof name, "%s", link);
    const bool is_weight = n->layout == ZN_LAYOUT_CONV || n->layout == ZN_LAYOUT_CONV3D;
    const bool may_be_chain = (m->arch->can & ZN_CLIPS) && !link && (is_weight || n->role == ZN_ROLE_BIAS);
    const int64_t *d = n->shape.dim;
    if (may_be_chain && zn_lacks_layer(from->file, name, layer, sizeof layer)) {
        const int last = n->shape.rank - 1;
        ZN_TRY(zn_factored_find(from->file, layer, is_weight ? d[last] : 0, is_weight ? d[last - 1] : 0, &out->chain));
        if (out->chain.count && is_weight)
            return zn_weight_check_shape(&out->chain.whole, n->shape, n->layout);
        if (out->chain.count && out->chain.whole.shape[0] == d[0])
            return ZN_OK;
        out->chain.count = 0;
    }
    out->tensor = zn_weights_find(from->file, name);
    return out->tensor ? zn_weight_check_shape(out->tensor, n->shape, n->layout)
                       : ZN_FAIL(ZN_ENOTFOUND, "tensor '%s' is missing", name);
}

/* Of a convolution or linear layer, or of the one before it, whose bias it then is. */
static int64_t fan_in(const zn_model *m, const zn_model_parameter *p)
{
    if (p->shape.rank != 4 && p > m->parameters && p[-1].shape.rank == 4)
        p--;
    return p->shape.rank == 4 ? p->shape.dim[0] * p->shape.dim[1] * p->shape.dim[2] : 1;
}

/* ---- parameters that stay in their files ---- */

typedef struct stored_values {
    zn_deferred as;
    const zn_weights *file;
    const zn_weight *tensor;
    zn_shape shape;
    zn_layout layout;
} stored_values;

static zn_status read_stored(const zn_deferred *self, float *out)
{
    const stored_values *v = (const stored_values *)self;
    ZN_TRY(zn_weight_read(v->file, v->tensor, v->shape, v->layout, out));
    zn_map_release(&v->file->map, v->tensor->data, v->tensor->bytes);
    return ZN_OK;
}

/* Whether one table says what all bytes of a tensor stand for. all: the tensor [1][256] of all codes. */
static zn_status codes_of(const zn_weights *file, const zn_weight *t, const uint8_t *codes, zn_packed *all, bool *coded)
{
    *coded = false;
    if ((t->dtype != ZN_F8_E4M3 && t->dtype != ZN_F8_E5M2 && t->dtype != ZN_I8) || t->rank < 1)
        return ZN_OK;
    ZN_TRY(zn_scaled_rows(file, t, all));
    *coded = !all->groups && !all->period && !all->rotated;
    all->data = codes;
    all->row_bytes = ZN_CODES;
    return ZN_OK;
}

/* The same as codes. */
static zn_status read_codes(const zn_deferred *self, float *out, float *meanings)
{
    const stored_values *v = (const stored_values *)self;
    uint8_t codes[ZN_CODES];
    zn_packed all = { 0 };
    bool coded;
    zn_weight bytes = *v->tensor;
    bytes.dtype = ZN_U8;
    for (int c = 0; c < ZN_CODES; c++)
        codes[c] = (uint8_t)c;
    ZN_TRY(codes_of(v->file, v->tensor, codes, &all, &coded));
    zn_packed_row(&all, 0, 0, ZN_CODES, meanings);
    ZN_TRY(zn_weight_import(&bytes, v->shape, v->layout, out));
    zn_map_release(&v->file->map, v->tensor->data, v->tensor->bytes);
    return ZN_OK;
}

/* The open file of this path. */
static zn_status open_file(zn_model *m, const char *path, const zn_weights **out)
{
    int i = 0;
    while (i < 2 && m->files[i] && strcmp(m->files[i]->name, path))
        i++;
    *out = NULL;
    if (i == 2) /* a model has no more files than parts */
        return ZN_OK;
    if (!m->files[i])
        ZN_TRY(zn_weights_open(path, &m->files[i]));
    *out = m->files[i];
    return ZN_OK;
}

/* Small parameters are kept in memory, and so are those that layers read as they are: all but dense convolutions. */
static bool may_stay_in_file(const zn_model *m, const zn_model_parameter *p)
{
    enum { LEAST = 1 << 14 };
    const bool dense = p->layout == ZN_LAYOUT_CONV3D || (p->layout == ZN_LAYOUT_CONV && p->shape.dim[2] > 1);
    return (m->arch->can & ZN_CLIPS) && p->file && zn_shape_count(p->shape) >= LEAST && dense;
}

/* Gives back the values of a parameter if its file is still there for reading them; p->data may be NULL already. */
static zn_status release(zn_model *m, zn_model_parameter *p)
{
    const zn_weights *file;
    zn_packed all;
    bool coded;
    if (p->deferred || !may_stay_in_file(m, p))
        return ZN_OK;
    ZN_TRY(open_file(m, p->file, &file));
    const zn_weight *tensor = file ? zn_weights_find(file, p->tensor) : NULL;
    if (!tensor)
        return ZN_OK;
    ZN_TRY(zn_weight_check_shape(tensor, p->shape, p->layout));
    ZN_TRY(codes_of(file, tensor, NULL, &all, &coded));
    stored_values *v = zn_arena_alloc(&m->arena, sizeof *v);
    if (!v)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    *v = (stored_values){ { read_stored, coded ? read_codes : NULL }, file, tensor, p->shape, p->layout };
    p->deferred = &v->as;
    zn_free(p->data);
    p->data = NULL;
    return ZN_OK;
}

/* ---- values ---- */

/* Values of a file, unless they stay there. */
static zn_status take_stored(zn_model *m, const source *from, const zn_weight *w, zn_model_parameter *p)
{
    p->file = from->path;
    p->tensor = zn_arena_copy(&m->arena, w->name);
    if (!p->tensor)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    if (m->released)
        ZN_TRY(release(m, p));
    if (p->deferred)
        return ZN_OK;
    ZN_TRY(allocate(p));
    return zn_weight_read(from->file, w, p->shape, p->layout, p->data);
}

static zn_status fill(zn_model *m, const source *from, const stored *w, const zn_node *n, zn_model_parameter *p)
{
    const int64_t count = zn_shape_count(p->shape);
    if (w->tensor)
        return take_stored(m, from, w->tensor, p);
    ZN_TRY(allocate(p));
    if (w->chain.count)
        return p->shape.rank == 1 ? zn_factored_bias(from->file, &w->chain, p->data)
                                  : zn_factored_multiply(from->file, &w->chain, p->shape, p->layout, p->data);
    const zn_fresh fresh = { .shape = p->shape, .fan_in = fan_in(m, p), .rng = from->rng, .out = p->data };
    if (zn_start_fill(n, m->arch->start, &fresh))
        return ZN_OK;
    const float deviation = p->layout == ZN_LAYOUT_CONV ? sqrtf(2.0f / (float)(count / p->shape.dim[3])) : 0;
    for (int64_t i = 0; i < count; i++)
        p->data[i] = deviation > 0 ? deviation * zn_rng_normal(from->rng) : 0;
    return ZN_OK;
}

const zn_model_parameter *zn_model_parameter_find(const zn_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->parameters[i].name, name) == 0)
            return &m->parameters[i];
    return NULL;
}

/* The smallest graph of a part: what it names are its parameters. */
static zn_status part_graph(const zn_model *m, zn_part part, zn_graph **graph)
{
    const zn_config *k = &m->config;
    if (m->arch->network) {
        zn_network n;
        const zn_status status = zn_model_network(m, part, 1, k->downscale, k->downscale, &n);
        *graph = n.graph;
        return status;
    }
    zn_node *input, *output;
    const int width = k->made_width ? k->made_width : k->downscale, d = part == ZN_ENCODER ? 1 : k->downscale;
    const int height = k->made_height ? k->made_height : k->downscale;
    const zn_shape shape = ZN_SHAPE(1, height / d, width / d, zn_model_inputs(m, part));
    return zn_model_graph(m, part, shape, graph, &input, &output);
}

static void mark_part(zn_model *m, zn_part part)
{
    m->has[part] = true;
    if (m->arch->can & ZN_RESTORES)
        m->info.restores = 1;
    else if (m->arch->can & ZN_JUDGES)
        m->info.judges = 1;
    else if (part == ZN_LATENT_NET)
        m->info.has_latent_net = 1;
    else if (part == ZN_CLASSIFIER)
        m->info.has_classifier = 1;
    else if (!(m->arch->can & ZN_SAMPLES))
        *(part == ZN_ENCODER ? &m->info.has_encoder : &m->info.has_decoder) = 1;
}

/* Notes which convolutions over time of a part stay chains: those that are quicker so. */
static zn_status note_splits(zn_model *m, zn_part part, const source *from)
{
    zn_graph *g;
    zn_status status = ZN_OK;
    if (!(m->arch->can & ZN_CLIPS))
        return ZN_OK;
    ZN_TRY(part_graph(m, part, &g));
    for (int i = 0; i < zn_graph_count(g) && status == ZN_OK; i++) {
        const zn_node *n = zn_graph_at(g, i);
        stored values;
        zn_split split;
        if (n->op != &zn_op_parameter || n->layout != ZN_LAYOUT_CONV3D || n->shape.dim[0] * n->shape.dim[1] < 9)
            continue;
        if (find_stored(m, from, n, &values) != ZN_OK || !values.chain.count || /* what is missing is told later */
            !zn_factored_split(&values.chain, &split))
            continue;
        status = zn_splits_add(&m->splits, &m->arena, n->name, &split);
    }
    zn_graph_free(g);
    return status;
}

static zn_status add_part(zn_model *m, zn_part part, const source *from)
{
    zn_graph *g;
    ZN_TRY(part_graph(m, part, &g));
    zn_status status = ZN_OK;
    for (int i = 0; i < zn_graph_count(g) && status == ZN_OK; i++) {
        const zn_node *n = zn_graph_at(g, i);
        stored values;
        zn_model_parameter *p = NULL;
        if (n->op != &zn_op_parameter || n->data || n->deferred) /* what parts share is already there */
            continue;
        status = find_stored(m, from, n, &values);
        if (status == ZN_OK)
            status = add_parameter(m, part, n, &p);
        if (status == ZN_OK)
            status = fill(m, from, &values, n, p);
    }
    zn_graph_free(g);
    if (status == ZN_OK)
        mark_part(m, part);
    return status;
}

zn_status zn_model_load_part(zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming)
{
    const source from = { .file = w, .path = zn_arena_copy(&m->arena, w->name), .naming = naming };
    if (!from.path)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    ZN_TRY(note_splits(m, part, &from));
    return add_part(m, part, &from);
}

zn_status zn_model_load_constant(zn_model *m, zn_part part, const char *name, zn_shape shape, const zn_weight *w)
{
    const zn_node n = { .name = name, .shape = shape, .layout = ZN_LAYOUT_PLAIN, .role = ZN_ROLE_CONSTANT };
    zn_model_parameter *p;
    zn_weight row = *w;
    if (w->rank == 1 && shape.rank == 2) { /* a row, stored without saying that it is the only one */
        row.rank = 2;
        row.shape[0] = 1;
        row.shape[1] = w->shape[0];
    }
    ZN_TRY(zn_weight_check_shape(&row, shape, n.layout));
    ZN_TRY(add_parameter(m, part, &n, &p));
    ZN_TRY(allocate(p));
    return zn_weight_import(&row, p->shape, p->layout, p->data);
}

/* The tensor of a file that is a parameter of encoder or decoder by its name, which must say so: files of a single part
 * number their layers alike. */
static const zn_weight *named_stored(const zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming,
                                     const zn_node *n)
{
    char name[256];
    if (n->op != &zn_op_parameter)
        return NULL;
    stored_name(m, naming, n, name, sizeof name);
    return strstr(name, part == ZN_ENCODER ? "enc" : "dec") ? zn_weights_find(w, name) : NULL;
}

double zn_model_share_stored(const zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming)
{
    zn_graph *g;
    int found = 0, all = 0;
    if (part_graph(m, part, &g) != ZN_OK) /* the other part does not say enough about this one */
        return 0;
    for (int i = 0; i < zn_graph_count(g); i++) {
        all += zn_graph_at(g, i)->op == &zn_op_parameter;
        found += named_stored(m, part, w, naming, zn_graph_at(g, i)) != NULL;
    }
    zn_graph_free(g);
    return all ? (double)found / all : 0;
}

zn_status zn_model_explain_lost(const zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming)
{
    zn_graph *g;
    zn_status status = ZN_OK;
    const zn_node *missing = NULL;
    ZN_TRY(part_graph(m, part, &g));
    for (int i = 0; i < zn_graph_count(g) && status == ZN_OK; i++) {
        const zn_node *n = zn_graph_at(g, i);
        const zn_weight *t = named_stored(m, part, w, naming, n);
        if (t)
            status = zn_weight_check_shape(t, n->shape, n->layout);
        else if (n->op == &zn_op_parameter && !missing)
            missing = n;
    }
    if (status == ZN_OK && missing)
        status = find_stored(m, &(source){ .file = w, .naming = naming }, missing, &(stored){ 0 });
    zn_graph_free(g);
    return status;
}

zn_status zn_model_release(zn_model *m)
{
    for (int i = 0; i < m->count; i++)
        ZN_TRY(release(m, &m->parameters[i]));
    return ZN_OK;
}

size_t zn_model_bytes(const zn_model *m)
{
    size_t bytes = 0;
    for (int i = 0; i < m->count; i++)
        bytes += m->parameters[i].data ? sizeof(float) * (size_t)zn_shape_count(m->parameters[i].shape) : 0;
    return bytes;
}

zn_status zn_model_random_part(zn_model *m, zn_part part, uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed * 2 + (uint64_t)part);
    return add_part(m, part, &(source){ .rng = &rng });
}

void zn_model_bind(const zn_model *m, zn_graph *g, const char *prefix)
{
    const size_t skip = strlen(prefix);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op != &zn_op_parameter || strncmp(n->name, prefix, skip))
            continue;
        for (int k = 0; k < m->count && !n->data && !n->deferred; k++)
            if (strcmp(m->parameters[k].name, n->name + skip) == 0) {
                n->data = m->parameters[k].data;
                n->deferred = n->data ? NULL : m->parameters[k].deferred;
            }
    }
}

typedef zn_node *(*build_fn)(zn_scope s, zn_node *x, const zn_config *k);

/* The graph of a part as `build` makes it, or, where that is NULL, of a clip. */
static zn_status make_graph(const zn_model *m, zn_part part, zn_shape shape, build_fn build, zn_stream *stream,
                            zn_graph **graph, zn_node **input, zn_node **output)
{
    zn_graph *g = zn_graph_new();
    *graph = g;
    if (!g)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    *input = zn_graph_input(g, part == ZN_ENCODER ? "image" : "latent", shape);
    const zn_scope s = { g, m->arch->scope[part] };
    zn_graph_set_splits(g, "", &m->splits);
    *output = build ? build(s, *input, &m->config) : m->arch->clip(s, part, *input, &m->config, stream);
    const zn_status status = zn_graph_status(g);
    if (status != ZN_OK) {
        zn_graph_free(g);
        *graph = NULL;
        return status;
    }
    zn_model_bind(m, g, "");
    return ZN_OK;
}

zn_status zn_model_graph(const zn_model *m, zn_part part, zn_shape shape, zn_graph **graph, zn_node **input,
                         zn_node **output)
{
    *graph = NULL;
    const build_fn build = part == ZN_ENCODER ? m->arch->encode : m->arch->decode;
    if (part > ZN_DECODER || !build)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no %s", m->config.name, zn_part_name(part));
    return make_graph(m, part, shape, build, NULL, graph, input, output);
}

zn_status zn_model_clip(const zn_model *m, zn_part part, zn_shape shape, zn_stream *stream, zn_graph **graph,
                        zn_node **input, zn_node **output)
{
    *graph = NULL;
    if (part > ZN_DECODER || !(m->arch->can & ZN_CLIPS) || !m->config.frames)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is for single images, not for videos", m->config.name);
    ZN_TRY(make_graph(m, part, shape, NULL, stream, graph, input, output));
    if (stream && stream->begin)
        *input = stream->begin;
    if (stream && stream->end)
        *output = stream->end;
    return ZN_OK;
}

zn_status zn_model_network(const zn_model *m, zn_part part, int64_t n, int64_t h, int64_t w, zn_network *out)
{
    static const char *const names[ZN_PARTS][ZN_NETWORK_INPUTS] = {
        { "image", "reference" }, { "x", "time", "condition" }, { "z", "time" }, { "z" }
    };
    zn_shape shapes[ZN_NETWORK_INPUTS];
    *out = (zn_network){ .graph = zn_graph_new() };
    if (!out->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const int count = m->arch->inputs(&m->config, part, n, h, w, shapes);
    for (int i = 0; i < count; i++)
        out->input[i] = zn_graph_input(out->graph, names[part][i], shapes[i]);
    out->output = m->arch->network((zn_scope){ out->graph, m->arch->scope[part] }, part, out->input, &m->config);
    const zn_status status = zn_graph_status(out->graph);
    if (status != ZN_OK) {
        zn_graph_free(out->graph);
        out->graph = NULL;
        return status;
    }
    zn_model_bind(m, out->graph, "");
    return ZN_OK;
}

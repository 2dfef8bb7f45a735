/* Models: parameters loaded once by walking the graph of each part, and graphs bound to them. */
#include "models/model.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/model_values.h"

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

/* The weight of zn_conv3d, 3x3x3: the other layers over time, 1x1x1 and 3x1x1, never run as chains (nn/video.c). */
static bool may_be_split(const zn_node *n)
{
    return n->op == &zn_op_parameter && n->layout == ZN_LAYOUT_CONV3D && n->shape.dim[0] > 1 && n->shape.dim[1] > 1;
}

/* Notes which convolutions over time of a part stay chains: those that are quicker so. */
static zn_status note_splits(zn_model *m, zn_part part, const zn_value_source *from)
{
    zn_graph *g;
    zn_status status = ZN_OK;
    if (!(m->arch->can & ZN_CLIPS))
        return ZN_OK;
    ZN_TRY(part_graph(m, part, &g));
    for (int i = 0; i < zn_graph_count(g) && status == ZN_OK; i++) {
        const zn_node *n = zn_graph_at(g, i);
        zn_stored_value values;
        zn_split split;
        if (!may_be_split(n))
            continue;
        if (zn_value_find(m, from, n, &values) != ZN_OK || !values.chain.count || /* add_part reports what is missing */
            !zn_factored_split(&values.chain, &split))
            continue;
        status = zn_splits_add(&m->splits, &m->arena, n->name, &split);
    }
    zn_graph_free(g);
    return status;
}

static zn_status add_part(zn_model *m, zn_part part, const zn_value_source *from)
{
    zn_graph *g;
    ZN_TRY(part_graph(m, part, &g));
    zn_status status = ZN_OK;
    for (int i = 0; i < zn_graph_count(g) && status == ZN_OK; i++) {
        const zn_node *n = zn_graph_at(g, i);
        zn_stored_value values;
        zn_model_parameter *p = NULL;
        if (n->op != &zn_op_parameter || n->data || n->deferred) /* what parts share is already there */
            continue;
        if (from->rng && m->stop && m->stop(m->stop_user, 0))
            status = ZN_FAIL(ZN_ECANCELLED, "stopped before the weights had values");
        if (status == ZN_OK)
            status = zn_value_find(m, from, n, &values);
        if (status == ZN_OK)
            status = add_parameter(m, part, n, &p);
        if (status == ZN_OK)
            status = zn_value_fill(m, from, &values, n, p);
    }
    zn_graph_free(g);
    if (status == ZN_OK)
        mark_part(m, part);
    return status;
}

zn_status zn_model_load_part(zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming)
{
    const zn_value_source from = { .file = w, .path = zn_arena_copy(&m->arena, w->name), .naming = naming };
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
    ZN_TRY(zn_value_allocate(p));
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
    zn_value_name(m, naming, n, name, sizeof name);
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
        status = zn_value_find(m, &(zn_value_source){ .file = w, .naming = naming }, missing, &(zn_stored_value){ 0 });
    zn_graph_free(g);
    return status;
}

size_t zn_model_bytes(const zn_model *m)
{
    size_t bytes = 0;
    for (int i = 0; i < m->count; i++)
        bytes += m->parameters[i].data ? sizeof(float) * (size_t)zn_shape_count(m->parameters[i].shape) : 0;
    return bytes;
}

void zn_model_drop_classifier(zn_model *m)
{
    int kept = 0;
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i];
        if (p->part != ZN_CLASSIFIER || p->role == ZN_ROLE_CONSTANT) {
            m->parameters[kept++] = *p;
            continue;
        }
        m->info.parameters -= zn_shape_count(p->shape);
        zn_free(p->data);
    }
    m->count = kept;
    m->has[ZN_CLASSIFIER] = false;
    m->info.has_classifier = 0;
}

zn_status zn_model_random_part(zn_model *m, zn_part part, uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed * 2 + (uint64_t)part);
    return add_part(m, part, &(zn_value_source){ .rng = &rng });
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

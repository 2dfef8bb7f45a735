/* Models: parameters loaded once by walking the graph of each part, and graphs bound to them. */
#include "models/model.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *zn_part_name(zn_part part) { return part == ZN_ENCODER ? "encoder" : "decoder"; }

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
                               .downscale = config->downscale };
    return ZN_OK;
}

void zn_model_free(zn_model *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->count; i++)
        zn_free(m->parameters[i].data);
    zn_free(m->parameters);
    zn_arena_free(&m->arena);
    zn_free(m);
}

const zn_model_info *zn_model_info_of(const zn_model *m) { return &m->info; }

/* [kh,kw,I,O] has this shape in the file: [O,I,kh,kw]. */
static zn_shape file_shape(zn_shape s, zn_layout layout)
{
    return layout == ZN_LAYOUT_CONV ? ZN_SHAPE(s.dim[3], s.dim[2], s.dim[0], s.dim[1]) : s;
}

static void permute(const float *in, float *out, zn_shape s, bool to_file)
{
    const int64_t taps = s.dim[0] * s.dim[1], in_channels = s.dim[2], out_channels = s.dim[3];
    for (int64_t t = 0; t < taps; t++)
        for (int64_t i = 0; i < in_channels; i++)
            for (int64_t o = 0; o < out_channels; o++) {
                const int64_t ours = (t * in_channels + i) * out_channels + o, file = (o * in_channels + i) * taps + t;
                if (to_file)
                    out[file] = in[ours];
                else
                    out[ours] = in[file];
            }
}

zn_status zn_weight_import(const zn_weight *w, zn_shape shape, zn_layout layout, float *out)
{
    zn_shape stored = { .rank = w->rank };
    memcpy(stored.dim, w->shape, sizeof stored.dim);
    char a[96], b[96];
    if (!zn_shape_equal(stored, file_shape(shape, layout)))
        return ZN_FAIL(ZN_ESHAPE, "tensor '%s' is %s, but the network needs %s", w->name,
                       zn_shape_text(stored, a, sizeof a), zn_shape_text(file_shape(shape, layout), b, sizeof b));
    const size_t count = (size_t)zn_shape_count(shape);
    if (layout == ZN_LAYOUT_PLAIN) {
        zn_to_f32(out, w->data, w->dtype, count);
        return ZN_OK;
    }
    float *plain;
    ZN_TRY(zn_alloc_for("a weight", sizeof *plain * count, (void **)&plain));
    zn_to_f32(plain, w->data, w->dtype, count);
    permute(plain, out, shape, false);
    zn_free(plain);
    return ZN_OK;
}

void zn_weight_export(const float *in, zn_shape shape, zn_layout layout, float *out)
{
    if (layout == ZN_LAYOUT_CONV)
        permute(in, out, shape, true);
    else
        memcpy(out, in, sizeof *out * (size_t)zn_shape_count(shape));
}

static zn_status add_parameter(zn_model *m, const zn_node *n, zn_model_parameter **out)
{
    if (m->count == m->capacity) {
        const int capacity = m->capacity ? 2 * m->capacity : 64;
        zn_model_parameter *more = zn_realloc(m->parameters, sizeof *more * (size_t)capacity);
        if (!more)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for parameters");
        m->parameters = more;
        m->capacity = capacity;
    }
    zn_model_parameter *p = &m->parameters[m->count];
    *p = (zn_model_parameter){ .name = zn_arena_copy(&m->arena, n->name), .shape = n->shape, .layout = n->layout };
    if (!p->name)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for parameters");
    ZN_TRY(zn_alloc_for("a parameter", sizeof(float) * (size_t)zn_shape_count(n->shape), (void **)&p->data));
    m->count++;
    m->info.parameters += zn_shape_count(n->shape);
    *out = p;
    return ZN_OK;
}

typedef struct source {
    const zn_weights *file;
    const zn_naming *naming;
    zn_rng *rng;
} source;

static zn_status fill(const zn_model *m, const source *from, zn_model_parameter *p)
{
    const int64_t count = zn_shape_count(p->shape);
    if (from->file) {
        char name[256];
        if (m->arch->file_name)
            m->arch->file_name(p->name, from->naming, name, sizeof name);
        else
            snprintf(name, sizeof name, "%s%s", from->naming->prefix, p->name);
        const zn_weight *w = zn_weights_find(from->file, name);
        if (!w)
            return ZN_FAIL(ZN_ENOTFOUND, "tensor '%s' is missing", name);
        return zn_weight_import(w, p->shape, p->layout, p->data);
    }
    if (m->arch->initial && m->arch->initial(&m->config, p->name, p->shape, from->rng, p->data))
        return ZN_OK;
    const float deviation = p->layout == ZN_LAYOUT_CONV ? sqrtf(2.0f / (float)(count / p->shape.dim[3])) : 0;
    for (int64_t i = 0; i < count; i++)
        p->data[i] = deviation > 0 ? deviation * zn_rng_normal(from->rng) : 0;
    return ZN_OK;
}

static zn_status add_part(zn_model *m, zn_part part, const source *from)
{
    zn_graph *g;
    zn_node *input, *output;
    const int side = part == ZN_ENCODER ? m->config.downscale : 1;
    const zn_shape shape = ZN_SHAPE(1, side, side, part == ZN_ENCODER ? 3 : m->config.latent);
    ZN_TRY(zn_model_graph(m, part, shape, &g, &input, &output));
    zn_status status = ZN_OK;
    for (int i = 0; i < zn_graph_count(g) && status == ZN_OK; i++) {
        zn_model_parameter *p = NULL;
        if (zn_graph_at(g, i)->op != &zn_op_parameter)
            continue;
        status = add_parameter(m, zn_graph_at(g, i), &p);
        if (status == ZN_OK)
            status = fill(m, from, p);
    }
    zn_graph_free(g);
    *(part == ZN_ENCODER ? &m->info.has_encoder : &m->info.has_decoder) = status == ZN_OK;
    return status;
}

zn_status zn_model_load_part(zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming)
{
    return add_part(m, part, &(source){ .file = w, .naming = naming });
}

zn_status zn_model_random_part(zn_model *m, zn_part part, uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed * 2 + (uint64_t)part);
    return add_part(m, part, &(source){ .rng = &rng });
}

void zn_model_bind(const zn_model *m, zn_graph *g)
{
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op != &zn_op_parameter)
            continue;
        for (int k = 0; k < m->count && !n->data; k++)
            if (strcmp(m->parameters[k].name, n->name) == 0)
                n->data = m->parameters[k].data;
    }
}

zn_status zn_model_graph(const zn_model *m, zn_part part, zn_shape shape, zn_graph **graph, zn_node **input,
                         zn_node **output)
{
    zn_graph *g = zn_graph_new();
    *graph = g;
    if (!g)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    *input = zn_graph_input(g, part == ZN_ENCODER ? "image" : "latent", shape);
    const zn_scope s = { g, m->arch->scope[part] };
    *output = (part == ZN_ENCODER ? m->arch->encode : m->arch->decode)(s, *input, &m->config);
    const zn_status status = zn_graph_status(g);
    if (status != ZN_OK) {
        zn_graph_free(g);
        *graph = NULL;
        return status;
    }
    zn_model_bind(m, g);
    return ZN_OK;
}

/* Values of a model's parameters. See model_values.h. */
#include "models/model_values.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/weights/scaled.h"
#include "kernels/coded.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void zn_value_name(const zn_model *m, const zn_naming *naming, const zn_node *n, char *name, size_t size)
{
    if (m->arch->file_name)
        m->arch->file_name(n->name, naming, name, size);
    else
        snprintf(name, size, "%s%s", naming->prefix, n->name);
}

zn_status zn_value_find(const zn_model *m, const zn_value_source *from, const zn_node *n, zn_stored_value *out)
{
    char name[256], layer[256];
    out->tensor = NULL;
    out->chain.count = 0;
    if (!from->file)
        return ZN_OK;
    const char *link = zn_splits_tensor(&m->splits, n->name);
    zn_value_name(m, from->naming, n, name, sizeof name);
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

zn_status zn_value_allocate(zn_model_parameter *p)
{
    return zn_alloc_for("a parameter", sizeof(float) * (size_t)zn_shape_count(p->shape), (void **)&p->data);
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

/* Frees the values of a parameter that can be read from its file again; p->data may already be NULL. */
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
    *v =
        (stored_values){ { read_stored, coded ? read_codes : NULL, tensor->bytes }, file, tensor, p->shape, p->layout };
    p->deferred = &v->as;
    zn_free(p->data);
    p->data = NULL;
    return ZN_OK;
}

zn_status zn_model_release(zn_model *m)
{
    for (int i = 0; i < m->count; i++)
        ZN_TRY(release(m, &m->parameters[i]));
    return ZN_OK;
}

/* ---- values ---- */

/* Of a convolution or linear layer, or of the one before it, whose bias it then is. */
static int64_t fan_in(const zn_model *m, const zn_model_parameter *p)
{
    if (p->shape.rank != 4 && p > m->parameters && p[-1].shape.rank == 4)
        p--;
    return p->shape.rank == 4 ? p->shape.dim[0] * p->shape.dim[1] * p->shape.dim[2] : 1;
}

/* Values of a file, unless they stay there. */
static zn_status take_stored(zn_model *m, const zn_value_source *from, const zn_weight *w, zn_model_parameter *p)
{
    p->file = from->path;
    p->tensor = zn_arena_copy(&m->arena, w->name);
    if (!p->tensor)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    if (m->released)
        ZN_TRY(release(m, p));
    if (p->deferred)
        return ZN_OK;
    ZN_TRY(zn_value_allocate(p));
    return zn_weight_read(from->file, w, p->shape, p->layout, p->data);
}

zn_status zn_value_fill(zn_model *m, const zn_value_source *from, const zn_stored_value *w, const zn_node *n,
                        zn_model_parameter *p)
{
    const int64_t count = zn_shape_count(p->shape);
    if (w->tensor)
        return take_stored(m, from, w->tensor, p);
    ZN_TRY(zn_value_allocate(p));
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

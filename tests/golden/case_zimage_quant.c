/* Z-Image: quantised weights (specification 9). The matrix products of the files are checked with the weights that came
 * out, in double. */
#include "golden.h"

#include "../mlx_rows.h"
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/quant.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 192 };

/* out.NAME: x [n][in] times the rows of w [out][in]. */
static zn_status compare_product(golden *g, const char *name, const float *w, zn_shape shape)
{
    zn_shape sx;
    float *x, *y = NULL;
    ZN_TRY(golden_load(g, "in.", "x", &sx, &x));
    zn_status status = zn_alloc_for(name, sizeof *y * (size_t)(sx.dim[0] * shape.dim[0]), (void **)&y);
    if (status == ZN_OK && sx.dim[1] != shape.dim[1])
        status = ZN_FAIL(ZN_EFORMAT, "in.x has rows of %lld", (long long)sx.dim[1]);
    for (int64_t i = 0; status == ZN_OK && i < sx.dim[0]; i++)
        for (int64_t o = 0; o < shape.dim[0]; o++) {
            double sum = 0;
            for (int64_t k = 0; k < shape.dim[1]; k++)
                sum += (double)x[i * shape.dim[1] + k] * (double)w[o * shape.dim[1] + k];
            y[i * shape.dim[0] + o] = (float)sum;
        }
    if (status == ZN_OK)
        status = golden_compare_within(g, name, y, ZN_SHAPE(sx.dim[0], shape.dim[0]), 1e-5);
    zn_free(x);
    zn_free(y);
    return status;
}

/* ---- GGUF: out.TYPE.raw, .deq, .y for a tensor of that type in the file beside ---- */

static bool gguf_matches(const golden *g) { return zn_json_string(zn_json_get(g->config, "gguf")) != NULL; }

/* in.w encoded again: the types that have one right answer. */
static zn_status compare_blocks(golden *g, const zn_weight *t, const char *name)
{
    zn_shape s;
    float *w;
    static uint8_t blocks[1 << 16];
    if ((t->dtype != ZN_Q8_0 && t->dtype != ZN_Q4_0) || !golden_has(g, "in.", "w"))
        return ZN_OK;
    ZN_TRY(golden_load(g, "in.", "w", &s, &w));
    if (t->bytes <= sizeof blocks && zn_shape_count(s) == t->shape[0] * t->shape[1])
        zn_blocks_from_f32(blocks, t->dtype, w, (size_t)zn_shape_count(s));
    golden_compare_bytes(g, name, blocks, t->bytes);
    zn_free(w);
    return ZN_OK;
}

static zn_status compare_gguf(golden *g, const zn_weight *t)
{
    char name[NAME];
    size_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= (size_t)t->shape[i];
    zn_shape shape = { .rank = t->rank };
    memcpy(shape.dim, t->shape, sizeof shape.dim);
    snprintf(name, sizeof name, "%s.raw", zn_dtype_name(t->dtype));
    golden_compare_bytes(g, name, t->data, t->bytes);
    ZN_TRY(compare_blocks(g, t, name));
    float *floats;
    ZN_TRY(zn_alloc_for(t->name, sizeof *floats * (count + 1), (void **)&floats));
    zn_to_f32(floats, t->data, t->dtype, count);
    snprintf(name, sizeof name, "%s.deq", zn_dtype_name(t->dtype));
    zn_status status = golden_compare_within(g, name, floats, shape, 1e-6);
    snprintf(name, sizeof name, "%s.y", zn_dtype_name(t->dtype));
    if (status == ZN_OK && golden_has(g, "out.", name))
        status = compare_product(g, name, floats, shape);
    zn_free(floats);
    return status;
}

/* Every tensor that the configuration lists is there, with that shape and type. */
static zn_status check_listed(const golden *g, const zn_weights *w)
{
    ZN_JSON_EACH(key, zn_json_get(g->config, "tensors"))
    {
        const zn_weight *t = zn_weights_find(w, key->value.text);
        const char *type = zn_json_string(zn_json_get(key + 1, "type"));
        int rank = 0;
        if (!t || !type || strcmp(type, zn_dtype_name(t->dtype)) != 0)
            return ZN_FAIL(ZN_EFORMAT, "tensor '%s' is not there as %s", key->value.text, type ? type : "?");
        ZN_JSON_EACH(side, zn_json_get(key + 1, "shape"))
        {
            int64_t value;
            if (rank >= t->rank || !zn_json_i64(side, &value) || t->shape[rank++] != value)
                return ZN_FAIL(ZN_EFORMAT, "tensor '%s' has another shape", t->name);
        }
    }
    return ZN_OK;
}

static zn_status gguf_run(golden *g)
{
    char path[4096];
    const char *slash = strrchr(g->path, '/');
    snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - g->path) + 1 : 0, g->path,
             zn_json_string(zn_json_get(g->config, "gguf")));
    zn_weights *w;
    ZN_TRY(zn_weights_open(path, &w));
    zn_status status = check_listed(g, w);
    for (int64_t i = 0; i < zn_weights_count(w) && status == ZN_OK; i++)
        if (zn_weights_at(w, i)->rank == 2)
            status = compare_gguf(g, zn_weights_at(w, i));
    zn_weights_close(w);
    return status;
}

const golden_kind golden_zimage_gguf = { "z-image gguf", gguf_matches, gguf_run };

/* ---- MLX: out.FORM.weight, .scales, .biases, of which .deq, .y are made; FORM is bBITS_gGROUP_DTYPE ---- */

static const char example[] = "example.packed";

static bool mlx_matches(const golden *g) { return golden_has(g, "out.", example); }

static zn_status compare_example(golden *g)
{
    const zn_weight *packed = golden_find(g, "out.", example), *codes = golden_find(g, "out.", "example.codes");
    static const zn_mlx_form form = { .bits = 4, .group = 8 };
    uint8_t again[1024];
    float floats[1024], ones[128], zeros[128] = { 0 };
    if (!codes || codes->bytes > 1024 || codes->bytes != 2 * packed->bytes || codes->dtype != ZN_U8)
        return ZN_FAIL(ZN_EFORMAT, "out.example.codes are not twice as many bytes as out.%s", example);
    for (int i = 0; i < 128; i++)
        ones[i] = 1;
    zn_mlx_pack(again, codes->data, codes->bytes, 4);
    golden_compare_bytes(g, example, again, packed->bytes);
    zn_mlx_to_f32(floats, packed->data, ones, zeros, codes->bytes, &form);
    for (size_t i = 0; i < codes->bytes; i++)
        again[i] = (uint8_t)floats[i];
    golden_compare_bytes(g, "example.codes", again, codes->bytes);
    return ZN_OK;
}

static void compare_narrow(golden *g, const char *layer, const char *part, const float *values, const zn_weight *like)
{
    char name[NAME];
    static uint8_t narrow[1 << 16];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    zn_from_f32(narrow, like->dtype, values, like->bytes / zn_dtype_size(like->dtype));
    golden_compare_bytes(g, name, narrow, like->bytes);
}

/* in.w quantised again: the same codes, scales and biases. */
static zn_status compare_encoded(golden *g, const char *layer, const zn_mlx *m)
{
    zn_shape shape;
    float *w, *scales;
    char name[NAME];
    ZN_TRY(golden_load(g, "in.", "w", &shape, &w));
    const size_t count = (size_t)zn_shape_count(shape), groups = count / (size_t)m->form.group;
    uint8_t *codes = zn_alloc(count);
    zn_status status = zn_alloc_for(layer, 2 * groups * sizeof *scales, (void **)&scales);
    if (status == ZN_OK && codes) {
        zn_mlx_from_f32(codes, scales, scales + groups, w, count, &m->form, m->scales->dtype);
        snprintf(name, sizeof name, "%s.weight", layer);
        golden_compare_bytes(g, name, codes, count * (size_t)m->form.bits / 8);
        compare_narrow(g, layer, "scales", scales, m->scales);
        compare_narrow(g, layer, "biases", scales + groups, m->biases);
    }
    zn_free(scales);
    zn_free(codes);
    zn_free(w);
    return status;
}

static zn_status compare_layer(golden *g, const char *layer)
{
    char name[NAME];
    const zn_weight *w = golden_find(g, "in.", "w");
    zn_mlx m;
    float *floats;
    snprintf(name, sizeof name, "out.%s", layer);
    if (!w || w->rank != 2)
        return ZN_FAIL(ZN_EFORMAT, "there is no matrix in.w");
    ZN_TRY(zn_mlx_find(g->file, name, w->shape[1], &m));
    const zn_shape shape = ZN_SHAPE(m.rows, m.columns);
    ZN_TRY(zn_alloc_for(name, sizeof *floats * (size_t)(m.rows * m.columns + 1), (void **)&floats));
    mlx_rows(&m, floats);
    snprintf(name, sizeof name, "%s.deq", layer);
    zn_status status = golden_compare_within(g, name, floats, shape, 1e-6);
    snprintf(name, sizeof name, "%s.y", layer);
    if (status == ZN_OK)
        status = compare_product(g, name, floats, shape);
    zn_free(floats);
    return status == ZN_OK ? compare_encoded(g, layer, &m) : status;
}

static zn_status mlx_run(golden *g)
{
    ZN_TRY(compare_example(g));
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name, *dot = strrchr(name, '.');
        char layer[NAME / 2];
        if (strncmp(name, "out.", 4) != 0 || !dot || strcmp(dot, ".scales") != 0)
            continue;
        snprintf(layer, sizeof layer, "%.*s", (int)(dot - name - 4), name + 4);
        ZN_TRY(compare_layer(g, layer));
    }
    return ZN_OK;
}

const golden_kind golden_zimage_mlx = { "z-image mlx", mlx_matches, mlx_run };

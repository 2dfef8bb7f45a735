/* What quantised weights, and products in 8-bit integers, cost a step of Z-Image's transformer: the relative RMS
 * difference of its output. Writes the table of docs/results/quantised.md.
 *
 *     quantised [DIM [LAYERS [PIXELS]]]        width, main blocks and side of the image (1920, 2, 256)
 *
 * The network has random weights of normal distribution; its matrices are encoded in each format in turn. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/quant.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "models/zimage/zimage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPTION = 32 };

/* ---- weights in a format ---- */

static const struct format {
    const char *name;
    zn_dtype dtype;
    int group; /* of MLX codes of 4 bits; 0: the dtype */
} formats[] = {
    { "bf16", ZN_BF16, 0 },
    { "q8_0", ZN_Q8_0, 0 },
    { "q6_k", ZN_Q6_K, 0 },
    { "q5_k", ZN_Q5_K, 0 },
    { "q4_k", ZN_Q4_K, 0 },
    { "q4_0", ZN_Q4_0, 0 },
    { "mlx4, groups of 32", ZN_F16, 32 },
    { "mlx4, groups of 64", ZN_F16, 64 },
};

static void encode_mlx(const float *w, int64_t count, int group, zn_packed *m)
{
    const zn_mlx_form form = { 4, group };
    for (int64_t i = 0; i < count; i += group) {
        float scale, bias;
        zn_mlx_from_f32((uint8_t *)(uintptr_t)m->data + i / 2, &scale, &bias, w + i, (size_t)group, &form, ZN_F16);
        zn_from_f32((uint8_t *)(uintptr_t)m->scales + i / group * 2, ZN_F16, &scale, 1);
        zn_from_f32((uint8_t *)(uintptr_t)m->biases + i / group * 2, ZN_F16, &bias, 1);
    }
}

/* The matrix of a parameter in the format, in memory of its own. */
static zn_status encode(const struct format *f, const zn_node *n, zn_packed *m)
{
    const int64_t in = n->shape.dim[3], count = zn_shape_count(n->shape), groups = f->group ? in / f->group : 0;
    const size_t block = zn_dtype_block(f->dtype), size = zn_dtype_size(f->dtype);
    const size_t bytes = f->group ? (size_t)count / 2 : (size_t)count / block * size;
    uint8_t *data, *scales = NULL;
    ZN_TRY(zn_alloc_for("weights", bytes, (void **)&data));
    *m = (zn_packed){ .data = data, .row_bytes = bytes / (size_t)n->shape.dim[2], .dtype = f->dtype };
    if (!f->group) {
        if (block > 1)
            zn_blocks_from_f32(data, f->dtype, n->data, (size_t)count);
        else
            zn_from_f32(data, f->dtype, n->data, (size_t)count);
        return ZN_OK;
    }
    ZN_TRY(zn_alloc_for("scales", (size_t)(count / f->group) * 4, (void **)&scales));
    *m = (zn_packed){ .data = data,
                      .row_bytes = (size_t)in / 2,
                      .form = { 4, f->group },
                      .scales = scales,
                      .biases = scales + count / f->group * 2,
                      .scale_dtype = ZN_F16,
                      .bias_dtype = ZN_F16,
                      .groups = (size_t)groups };
    encode_mlx(n->data, count, f->group, m);
    return ZN_OK;
}

/* ---- the network ---- */

/* The matrices of blocks, which published files quantise: without those that embed, modulate and finish. */
static bool is_quantised(const zn_node *n)
{
    return n->op == &zn_op_parameter && n->layout == ZN_LAYOUT_ROWS &&
           (strstr(n->name, ".attention.") || strstr(n->name, ".feed_forward."));
}

static zn_status fill(zn_graph *g)
{
    zn_rng rng = zn_rng_new(1);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op != &zn_op_parameter)
            continue;
        const int64_t count = zn_shape_count(n->shape);
        const bool gain = n->role == ZN_ROLE_GAIN || strstr(n->name, "norm");
        const float scale = 1 / sqrtf((float)n->shape.dim[n->shape.rank - 1]);
        ZN_TRY(zn_alloc_for(n->name, sizeof(float) * (size_t)count, (void **)&n->data));
        for (int64_t k = 0; k < count; k++)
            n->data[k] = gain ? 1 + 0.1f * zn_rng_normal(&rng) : scale * zn_rng_normal(&rng);
    }
    return ZN_OK;
}

/* Runs the network; out: its result. */
static zn_status result(zn_graph *g, zn_node *y, zn_pool *pool, zn_precision math, float *out)
{
    zn_exec *e;
    ZN_TRY(zn_exec_new(g, &y, 1, &(zn_exec_options){ .pool = pool, .math = math }, &e));
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        zn_rng rng = zn_rng_new(2);
        for (int64_t k = 0; n->op == &zn_op_input && k < zn_shape_count(n->shape); k++)
            n->data[k] = zn_rng_normal(&rng);
    }
    const zn_status status = zn_exec_run(e);
    memcpy(out, y->data, sizeof(float) * (size_t)zn_shape_count(y->shape));
    zn_exec_free(e);
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->op == &zn_op_input)
            zn_graph_at(g, i)->data = NULL;
    return status;
}

static double distance(const float *a, const float *b, int64_t count)
{
    double difference = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / all);
}

static zn_status compare(const struct format *f, zn_graph *g, zn_node *y, zn_pool *pool, float *const out[3])
{
    const int64_t count = zn_shape_count(y->shape);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        zn_packed *m;
        if (!is_quantised(n))
            continue;
        ZN_TRY(zn_alloc_for("a matrix", sizeof *m, (void **)&m));
        ZN_TRY(encode(f, n, m));
        n->packed = m;
    }
    ZN_TRY(result(g, y, pool, ZN_PRECISION_F32, out[1]));
    ZN_TRY(result(g, y, pool, ZN_PRECISION_INT8, out[2]));
    printf("| %s | %.2e | %.2e | %.2e |\n", f->name, distance(out[1], out[0], count), distance(out[2], out[1], count),
           distance(out[2], out[0], count));
    fflush(stdout);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (!n->packed)
            continue;
        zn_free((void *)(uintptr_t)n->packed->data);
        zn_free((void *)(uintptr_t)n->packed->scales);
        zn_free((void *)(uintptr_t)n->packed);
        n->packed = NULL;
    }
    return ZN_OK;
}

static zn_status run(int dim, int layers, int pixels)
{
    zn_zimage_form k = zn_zimage_turbo;
    k.dim = dim;
    k.heads = dim / (zn_zimage_turbo.dim / zn_zimage_turbo.heads);
    k.inner = (int)(dim / 3.0 * 8);
    k.layers = layers;
    k.refiners = layers;
    zn_graph *g = zn_graph_new();
    zn_pool *pool;
    ZN_TRY(zn_pool_new(0, &pool));
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, pixels / 8, pixels / 8, k.channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, CAPTION, k.caption));
    zn_node *caption = zn_zimage_caption(s, features, &k);
    zn_node *y = zn_zimage(s, latent, zn_zimage_modulation(s, time, &k), caption, &k);
    ZN_TRY(zn_graph_status(g));
    ZN_TRY(fill(g));
    float *out[3];
    for (int i = 0; i < 3; i++)
        ZN_TRY(zn_alloc_for("results", sizeof(float) * (size_t)zn_shape_count(y->shape), (void **)&out[i]));
    ZN_TRY(result(g, y, pool, ZN_PRECISION_F32, out[0]));
    printf("| weights | format, against f32 weights | int8 products, against the same weights | both, against f32 |\n");
    printf("|---|---|---|---|\n");
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        ZN_TRY(compare(&formats[f], g, y, pool, out));
    return ZN_OK;
}

int main(int argc, char **argv)
{
    if (run(argc > 1 ? atoi(argv[1]) : 1920, argc > 2 ? atoi(argv[2]) : 2, argc > 3 ? atoi(argv[3]) : 256) == ZN_OK)
        return 0;
    fprintf(stderr, "quantised: %s\n", zn_error_text());
    return 1;
}

/* Cases of check_simd.c for the Prune family: dense products, lines of channels, gated depthwise, block gates. */
#include "simd_case.h"

#include "kernels/dense.h"
#include "kernels/gates.h"
#include "kernels/line.h"
#include "kernels/mix.h"
#include "kernels/simd.h"

#include <stdio.h>
#include <string.h>

/* ---- dense ---- */

static const int dense_sizes[][3] = { { 1, 3, 32 },   { 16, 200, 96 },  { 7, 64, 2080 }, { 50, 97, 64 },
                                      { 100, 5, 32 }, { 13, 300, 544 }, { 65, 129, 320 } }; /* rows, k, n */

static void dense(simd_case *c, int size)
{
    static zn_dense_args a;
    const int *z = dense_sizes[size];
    a = (zn_dense_args){ .x = simd_normal((int64_t)z[0] * z[1], 1),
                         .dy = simd_normal((int64_t)z[0] * z[2], 1),
                         .w = simd_normal((int64_t)z[1] * z[2], 1),
                         .bias = size % 2 ? simd_normal(z[2], 1) : NULL,
                         .rows = z[0],
                         .k = z[1],
                         .n = z[2] };
    snprintf(c->text, sizeof c->text, "%d x %d x %d", z[0], z[1], z[2]);
    c->args = &a;
    c->scratch = ZN_DENSE_SCRATCH;
    c->tolerance = 4e-6; /* of the largest result, which is small where there are three */
    c->units = c->kernel == ZN_SIMD_dense        ? zn_dense_units(&a)
               : c->kernel == ZN_SIMD_dense_grad ? zn_dense_grad_units(&a)
                                                 : zn_dense_weight_grad_units(&a);
    simd_output(c, &a.y,
                c->kernel == ZN_SIMD_dense        ? (int64_t)z[0] * z[2]
                : c->kernel == ZN_SIMD_dense_grad ? (int64_t)z[0] * z[1]
                                                  : (int64_t)z[1] * z[2]);
}

/* ---- masks ---- */

/* What is open: everything, whole pixels, any block, the same blocks in all pixels. */
enum { ALL, PIXELS, BLOCKS, SAME_BLOCKS, STRUCTURES };

/* soft: some masks are neither 0 nor 1. */
static const float *mask_of(int64_t pixels, int blocks, int structure, bool soft)
{
    float *m = (float *)simd_normal(pixels * blocks, 1);
    for (int64_t i = 0; i < pixels * blocks; i++) {
        const bool open = structure == ALL           ? true
                          : structure == PIXELS      ? i / blocks % 3 == 1
                          : structure == SAME_BLOCKS ? i % blocks % 3 == 1
                                                     : m[i] > 0.3f;
        m[i] = !open ? 0 : soft && i % 5 == 0 ? 0.25f : 1;
    }
    return m;
}

/* ---- lines ---- */

static const int line_sizes[][5] = { /* images, pixels, channels, kind, groups */
                                     { 1, 5, 512, ZN_LINE_PLAIN, 32 },    { 2, 9, 1024, ZN_LINE_SRIG, 32 },
                                     { 1, 7, 256, ZN_LINE_THRESHOLD, 0 }, { 3, 2, 16, ZN_LINE_SRIG, 1 },
                                     { 1, 140, 128, ZN_LINE_PLAIN, 4 },   { 1, 3, 64, ZN_LINE_PLAIN, 32 },
                                     { 2, 3, 4096, ZN_LINE_SRIG, 0 },     { 1, 2, 8, ZN_LINE_THRESHOLD, 0 },
                                     { 1, 6, 2048, ZN_LINE_SRIG, 32 }
};

/* What the kernels before this one would have left. */
static void line_before(zn_line_args *a, int64_t all)
{
    float *r = (float *)simd_normal(all * a->c, 1), *stats = (float *)simd_normal(a->n * a->groups * 4 + 1, 1);
    float *pruned = (float *)simd_normal(all, 1), *moments = (float *)simd_normal(all * a->groups * 2 + 1, 1);
    for (int64_t i = 0; i < all * a->c; i++)
        r[i] = r[i] < 0 ? 0 : r[i];
    for (int64_t p = 0; p < all; p++)
        pruned[p] = zn_line_is_pruned(a, p);
    for (int64_t i = 0; i < a->n * a->groups; i++)
        stats[4 * i + 1] = 1 + stats[4 * i + 1] * stats[4 * i + 1];
    a->r = r;
    a->stats = stats;
    a->pruned = pruned;
    a->moments = moments;
}

static void line(simd_case *c, int size)
{
    static zn_line_args a;
    const int *z = line_sizes[size / 2];
    const int64_t all = (int64_t)z[0] * z[1], count = all * z[2];
    a = (zn_line_args){ .e = simd_normal(count, 1),
                        .dy = simd_normal(count, 1),
                        .scale = simd_normal(z[2], 1),
                        .mixer = simd_normal(3 * z[2], 1),
                        .n = z[0],
                        .pixels = z[1],
                        .c = z[2],
                        .kind = (zn_line_kind)z[3],
                        .groups = z[4],
                        .unit = size % 2 ? 1 : 0.1f,
                        .eps = 1e-5f };
    if (a.kind != ZN_LINE_PLAIN)
        a.w = simd_normal(a.kind == ZN_LINE_SRIG ? 5 * z[2] : z[2], 1);
    if (a.kind == ZN_LINE_SRIG) {
        float *turned = (float *)simd_normal(6 * zn_line_length(a.c), 1);
        zn_k_line_turn(&(zn_line_turn_args){ .w = a.w, .turned = turned, .c = a.c }, (zn_range){ 0, a.c, NULL });
        a.turned = turned;
        a.b = simd_normal(z[2], 1);
    }
    if (a.groups) {
        a.gamma = simd_normal(z[2], 1);
        a.beta = simd_normal(z[2], 1);
        if (size % 2 && a.c >= 8) {
            float *e = (float *)a.e;
            a.mask = mask_of(all, a.c / 8, PIXELS + size / 2 % 2, false);
            for (int64_t i = 0; i < count; i++)
                e[i] *= a.mask[i / 8];
        }
        line_before(&a, all);
    }
    snprintf(c->text, sizeof c->text, "%dx%d pixels of %d, kind %d, %d groups%s", z[0], z[1], z[2], z[3], z[4],
             a.mask ? ", mask" : "");
    c->args = &a;
    c->scratch = zn_line_scratch(a.c);
    c->tolerance = 2e-5;
    c->units = all;
    if (c->kernel == ZN_SIMD_line && a.groups) { /* r of pruned pixels stays as it was: no case compares it */
        if (!a.mask)
            simd_output(c, &a.r, count);
        simd_output(c, &a.pruned, all);
        simd_output(c, &a.moments, all * 2 * a.groups);
    } else if (c->kernel == ZN_SIMD_line_sums) {
        c->units = zn_line_strips(&a);
        simd_output(c, &a.sums, 2 * (int64_t)a.n * a.c);
    } else {
        simd_output(c, &a.y, count);
    }
    if (c->kernel == ZN_SIMD_line_grad) {
        c->units = zn_line_blocks(all);
        a.lines = (float *)simd_normal(c->units * ZN_LINE_GPU_LINES * a.c, 1);
        simd_output(c, &a.partial, c->units * zn_line_rows(a.kind) * a.c);
    }
}

/* The kernels that need a norm, on the sizes that have one. */
static void line_norm(simd_case *c, int size)
{
    static const int with_norm[] = { 0, 1, 3, 4, 5, 8 };
    line(c, 2 * with_norm[size / 2] + size % 2);
}

/* ---- gated depthwise ---- */

static const int sparse_sizes[][4] = { { 1, 4, 4, 256 }, { 2, 3, 5, 24 },   { 1, 1, 1, 8 },    { 1, 7, 2, 72 },
                                       { 3, 2, 9, 64 },  { 1, 16, 16, 40 }, { 1, 40, 20, 16 }, { 1, 2, 2, 8448 } };

/* Structure `how / 2`, soft and hard, and none. */
enum { HOWS = 2 * STRUCTURES + 1 };

static void sparse(simd_case *c, int size)
{
    static zn_sparse_args a;
    const int *z = sparse_sizes[size / HOWS], how = size % HOWS;
    const int64_t pixels = (int64_t)z[0] * z[1] * z[2], count = pixels * z[3];
    a = (zn_sparse_args){ .x = simd_normal(count, 1),
                          .dy = simd_normal(count, 1),
                          .w = simd_normal(9 * z[3], 1),
                          .mask = how / 2 < STRUCTURES ? mask_of(pixels, z[3] / 8, how / 2, how % 2) : NULL,
                          .n = z[0],
                          .h = z[1],
                          .wide = z[2],
                          .c = z[3] };
    snprintf(c->text, sizeof c->text, "%dx%dx%dx%d, mask %d", z[0], z[1], z[2], z[3], how);
    c->args = &a;
    c->scratch = zn_sparse_scratch(z[1], z[2]);
    c->units = pixels;
    c->tolerance = 2e-6;
    float *turned = (float *)simd_normal(9 * zn_sparse_row(a.c), 1);
    zn_k_sparse_turn(&(zn_sparse_turn_args){ .w = a.w, .turned = turned, .c = a.c }, (zn_range){ 0, a.c, NULL });
    a.turned = turned;
    if (a.mask) {
        uint64_t *open = (uint64_t *)simd_normal(2 * pixels * zn_sparse_words(a.c), 1);
        zn_k_sparse_look(&(zn_sparse_look_args){ .mask = a.mask, .open = open, .c = a.c },
                         (zn_range){ 0, pixels, NULL });
        a.open = open;
    }
    if (c->kernel == ZN_SIMD_sparse_depthwise_weight_grad)
        c->units = z[0] * zn_sparse_strips(&a);
    if (c->kernel == ZN_SIMD_sparse_depthwise_weight_grad)
        simd_output(c, &a.partial, (int64_t)z[0] * 9 * z[3]);
    else
        simd_output(c, &a.y, count);
}

static void turn(simd_case *c, int size)
{
    static zn_sparse_turn_args a;
    a = (zn_sparse_turn_args){ .w = simd_normal(9 * (8 + 8 * size), 1), .c = 8 + 8 * size };
    snprintf(c->text, sizeof c->text, "%d channels", a.c);
    c->args = &a;
    c->units = a.c;
    simd_output(c, &a.turned, 9 * zn_sparse_row(a.c));
}

/* ---- block gates ---- */

static const int gate_sizes[][2] = { { 1, 8 }, { 5, 40 }, { 1100, 16 }, { 30, 256 } };

static void gates(simd_case *c, int size)
{
    static zn_gate_args a;
    const int *z = gate_sizes[size / 3], blocks = z[1] / 8;
    const int64_t count = (int64_t)z[0] * z[1];
    const bool apply = c->kernel == ZN_SIMD_gate_apply || c->kernel == ZN_SIMD_gate_apply_mask_grad;
    a = (zn_gate_args){ .x = simd_normal(count, 0.5f),
                        .dy = simd_normal(count, 1),
                        .w = simd_normal(blocks, 1),
                        .v = simd_normal(blocks, 1),
                        .dm = simd_normal((int64_t)z[0] * blocks, 1),
                        .eps = size % 2 ? simd_normal((int64_t)z[0] * blocks, 1) : NULL,
                        .mask = apply ? mask_of(z[0], blocks, BLOCKS, true) : NULL,
                        .pixels = z[0],
                        .c = z[1],
                        .temperature = 0.3f,
                        .mode = (zn_gate_mode)(size % 3) };
    snprintf(c->text, sizeof c->text, "%d pixels of %d, mode %d", z[0], z[1], size % 3);
    c->args = &a;
    c->tolerance = 3e-6;
    c->units = z[0];
    if (c->kernel == ZN_SIMD_gate_mask_param_grad) {
        c->units = (z[0] + ZN_MIX_BLOCK - 1) / ZN_MIX_BLOCK;
        simd_output(c, &a.partial, c->units * 2 * blocks);
    } else {
        simd_output(c, &a.y,
                    c->kernel == ZN_SIMD_gate_mask || c->kernel == ZN_SIMD_gate_apply_mask_grad ? (int64_t)z[0] * blocks
                                                                                                : count);
    }
}

#define SIZES(list) (int)(sizeof(list) / sizeof *(list))
const simd_family simd_prune_families[] = {
    { dense, ZN_SIMD_dense, SIZES(dense_sizes) },
    { dense, ZN_SIMD_dense_grad, SIZES(dense_sizes) },
    { dense, ZN_SIMD_dense_weight_grad, SIZES(dense_sizes) },
    { line, ZN_SIMD_line, 2 * SIZES(line_sizes) },
    { line, ZN_SIMD_line_grad, 2 * SIZES(line_sizes) },
    { line_norm, ZN_SIMD_line_norm, 12 },
    { line_norm, ZN_SIMD_line_sums, 12 },
    { turn, ZN_SIMD_sparse_turn, 3 },
    { sparse, ZN_SIMD_sparse_depthwise, SIZES(sparse_sizes) * HOWS },
    { sparse, ZN_SIMD_sparse_depthwise_grad, SIZES(sparse_sizes) * HOWS },
    { sparse, ZN_SIMD_sparse_depthwise_weight_grad, SIZES(sparse_sizes) * HOWS },
    { gates, ZN_SIMD_gate_mask, 3 * SIZES(gate_sizes) },
    { gates, ZN_SIMD_gate_mask_grad, 3 * SIZES(gate_sizes) },
    { gates, ZN_SIMD_gate_mask_param_grad, 3 * SIZES(gate_sizes) },
    { gates, ZN_SIMD_gate_apply, 3 * SIZES(gate_sizes) },
    { gates, ZN_SIMD_gate_apply_mask_grad, 3 * SIZES(gate_sizes) },
    { NULL, 0, 0 },
};

/* Cases of check_simd.c: what diffusion networks add, group norm, SiLU and attention. */
#include "simd_case.h"

#include "kernels/attention.h"
#include "kernels/narrow.h"
#include "kernels/norm.h"
#include "kernels/simd.h"

#include <stdio.h>
#include <string.h>

#define SIZES(list) (int)(sizeof(list) / sizeof *(list))

static const int counts[] = { 1, 3, 16, 37, 1000 };

static void unary(simd_case *c, int size)
{
    static zn_unary_args a;
    const int64_t n = counts[size];
    a = (zn_unary_args){ .x = simd_normal(n, 8), .dy = simd_normal(n, 1) };
    snprintf(c->text, sizeof c->text, "%lld values", (long long)n);
    c->args = &a;
    c->units = n;
    simd_output(c, &a.y, n);
}

/* Exact: every pair of results as the bits of a float. */
static void widen(simd_case *c, int size)
{
    static zn_widen_args a;
    const int64_t n = counts[size];
    a = (zn_widen_args){ .x = (const uint16_t *)simd_normal((n + 1) / 2, 8) };
    snprintf(c->text, sizeof c->text, "%lld values", (long long)n);
    c->args = &a;
    c->units = n;
    c->tolerance = 0;
    simd_output(c, &a.y, n);
}

static void round_to(simd_case *c, int size)
{
    static zn_round_args a;
    const int64_t n = 2 * (int64_t)counts[size];
    a = (zn_round_args){ .x = simd_normal(n, 8) };
    snprintf(c->text, sizeof c->text, "%lld values", (long long)n);
    c->args = &a;
    c->units = n;
    c->tolerance = 0;
    simd_output(c, (float **)&a.y, n / 2);
}

static const int norm_sizes[][3] = { /* maps, pixels, channels */
                                     { 1, 1, 2 },
                                     { 2, 7, 5 },
                                     { 3, 100, 32 },
                                     { 1, 700, 67 },
                                     { 2, 9, 600 }
};

static void norm(simd_case *c, int size)
{
    static zn_norm_args a;
    const int *z = norm_sizes[size % SIZES(norm_sizes)], act = size / SIZES(norm_sizes);
    const int64_t count = (int64_t)z[0] * z[1] * z[2];
    a = (zn_norm_args){ .x = simd_normal(count, 2),
                        .dy = simd_normal(count, 1),
                        .table = (float *)simd_normal((int64_t)z[0] * 3 * z[2], 1),
                        .n = z[0],
                        .pixels = z[1],
                        .c = z[2],
                        .groups = 1,
                        .act = (zn_activation)act };
    snprintf(c->text, sizeof c->text, "%d maps of %d pixels of %d, activation %d", z[0], z[1], z[2], act);
    c->args = &a;
    c->tolerance = 3e-6;
    if (c->kernel == ZN_SIMD_norm_sums || c->kernel == ZN_SIMD_norm_grad_sums) {
        c->units = a.n * zn_norm_blocks(&a);
        simd_output(c, &a.partial, c->units * 2 * a.c);
    } else {
        c->units = a.n * a.pixels;
        simd_output(c, &a.y, count);
    }
}

static const int attention_sizes[][6] = { /* samples, heads, rows, width, heads that share keys, keys not queried */
                                          { 1, 1, 1, 1, 1, 0 },      { 2, 1, 5, 8, 1, 0 },    { 1, 3, 37, 20, 1, 0 },
                                          { 1, 2, 64, 48, 1, 0 },    { 2, 2, 16, 7, 1, 0 },   { 1, 4, 21, 12, 2, 3 },
                                          { 2, 6, 35, 16, 3, 0 },    { 2, 2, 17, 24, 2, 40 }, { 1, 1, 300, 33, 1, 0 },
                                          { 1, 2, 1030, 6, 2, 130 }, { 1, 1, 1100, 56, 1, 5 }
};

/* Arguments for one of the sizes above, without data, and how many numbers queries and keys have. */
static zn_attention_args attention_of(const int *z, int64_t *count, int64_t *shared)
{
    const int64_t wide = (int64_t)z[1] * z[3], narrow = wide / z[4], keys = z[2] + z[5];
    const zn_rows one = { NULL, z[2] * wide, z[3], wide }, key = { NULL, keys * narrow, z[3], narrow };
    *count = z[0] * z[2] * wide;
    *shared = z[0] * keys * narrow;
    return (zn_attention_args){ .q = one,
                                .k = key,
                                .v = key,
                                .y = one,
                                .dq = one,
                                .dk = key,
                                .dv = key,
                                .queries = z[2],
                                .keys = keys,
                                .heads = z[1],
                                .width = z[3],
                                .share = z[4] };
}

/* Every second size is causal. */
static void attention(simd_case *c, int size)
{
    static zn_attention_args a;
    const int *z = attention_sizes[size];
    int64_t count, shared;
    a = attention_of(z, &count, &shared);
    a.causal = size % 2;
    a.scale = z[3] < 50 ? 0.5f : 0.1f;
    a.q.data = (float *)simd_normal(count, 1);
    a.k.data = (float *)simd_normal(shared, 1);
    a.v.data = (float *)simd_normal(shared, 1);
    snprintf(c->text, sizeof c->text, "%d samples, %d heads by %d, %d rows of %d", z[0], z[1], z[4], z[2], z[3]);
    c->args = &a;
    c->tolerance = 3e-6;
    if (c->kernel == ZN_SIMD_attention) {
        c->units = z[0] * z[1] * zn_attention_blocks(&a);
        c->scratch = zn_attention_scratch(&a);
        simd_output(c, &a.y.data, count);
        return;
    }
    a.y.data = (float *)simd_normal(count, 1);
    a.stats = (float *)simd_normal(zn_attention_stats(&a, z[0]), 1);
    c->units = z[0] * zn_attention_groups(&a);
    c->scratch = zn_attention_grad_scratch(&a);
    simd_output(c, &a.dq.data, count);
    simd_output(c, &a.dk.data, shared);
    simd_output(c, &a.dv.data, shared);
}

static const int bf16_sizes[][6] = { { 2, 2, 37, 64, 1, 0 }, { 1, 2, 96, 96, 2, 70 }, { 1, 1, 1030, 128, 1, 3 } };

/* Rounds to bf16 towards zero. */
static void shorten(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0xffff0000u;
        memcpy(x + i, &bits, sizeof bits);
    }
}

/* Inputs are numbers of bf16, so only the weights are rounded, which a build may do or not. */
static void attention_bf16(simd_case *c, int size)
{
    static zn_attention_args a;
    const int *z = bf16_sizes[size];
    int64_t count, shared;
    a = attention_of(z, &count, &shared);
    a.scale = 0.1f;
    a.math = ZN_PRECISION_BF16;
    float **const inputs[] = { &a.q.data, &a.k.data, &a.v.data };
    for (int i = 0; i < 3; i++) {
        *inputs[i] = (float *)simd_normal(i ? shared : count, 1);
        shorten(*inputs[i], i ? shared : count);
    }
    snprintf(c->text, sizeof c->text, "%d samples, %d heads by %d, %d rows of %d, bf16", z[0], z[1], z[4], z[2], z[3]);
    c->args = &a;
    c->units = z[0] * z[1] * zn_attention_blocks(&a);
    c->scratch = zn_attention_scratch(&a);
    c->tolerance = 3e-3;
    simd_output(c, &a.y.data, count);
}

const simd_family simd_diffusion_families[] = {
    { widen, ZN_SIMD_widen, SIZES(counts) },
    { round_to, ZN_SIMD_round, SIZES(counts) },
    { unary, ZN_SIMD_silu, SIZES(counts) },
    { unary, ZN_SIMD_silu_grad, SIZES(counts) },
    { norm, ZN_SIMD_norm_sums, SIZES(norm_sizes) },
    { norm, ZN_SIMD_norm_apply, 3 * SIZES(norm_sizes) },
    { norm, ZN_SIMD_norm_grad_sums, SIZES(norm_sizes) },
    { norm, ZN_SIMD_norm_grad, SIZES(norm_sizes) },
    { attention, ZN_SIMD_attention, SIZES(attention_sizes) },
    { attention_bf16, ZN_SIMD_attention, SIZES(bf16_sizes) },
    { attention, ZN_SIMD_attention_grad, SIZES(attention_sizes) },
    { NULL, 0, 0 },
};

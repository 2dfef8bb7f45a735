/* Cases of check_simd.c: what diffusion networks add, group norm, SiLU, attention and products with packed weights. */
#include "simd_case.h"

#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "kernels/matrix.h"
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

/* Every second size is causal. */
static void attention(simd_case *c, int size)
{
    static zn_attention_args a;
    const int *z = attention_sizes[size];
    const int64_t wide = (int64_t)z[1] * z[3], narrow = wide / z[4], keys = z[2] + z[5];
    const int64_t count = z[0] * z[2] * wide, shared = z[0] * keys * narrow;
    const zn_rows one = { NULL, z[2] * wide, z[3], wide }, key = { NULL, keys * narrow, z[3], narrow };
    a = (zn_attention_args){ .q = one,
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
                             .share = z[4],
                             .causal = size % 2,
                             .scale = z[3] < 50 ? 0.5f : 0.1f };
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
    c->units = z[0] * zn_attention_groups(&a);
    c->scratch = zn_attention_grad_scratch(&a);
    simd_output(c, &a.dq.data, count);
    simd_output(c, &a.dk.data, shared);
    simd_output(c, &a.dv.data, shared);
}

/* rows, inputs, outputs, and how the weights are packed: a dtype, or ZN_DTYPE_COUNT for MLX codes of 4 bits */
static const int matrix_sizes[][4] = { { 1, 3, 1, ZN_F32 },           { 5, 520, 37, ZN_F32 },
                                       { 7, 70, 130, ZN_BF16 },       { 50, 544, 300, ZN_Q4_0 },
                                       { 3, 1056, 20, ZN_Q8_0 },      { 1010, 32, 9, ZN_Q4_1 },
                                       { 2, 768, 129, ZN_Q6_K },      { 9, 608, 40, ZN_DTYPE_COUNT },
                                       { 4, 96, 140, ZN_DTYPE_COUNT } };

/* Codes are any bytes; scales are bfloat16 or float16 near 1 written over them. */
static zn_packed packed_case(int64_t in, int64_t out, int dtype)
{
    enum { GROUP = 32 };
    static uint8_t codes[1 << 18], scales[1 << 16];
    const bool mlx = dtype == ZN_DTYPE_COUNT;
    const size_t block = mlx ? 2 : zn_dtype_block((zn_dtype)dtype), size = mlx ? 1 : zn_dtype_size((zn_dtype)dtype);
    const size_t row = (size_t)in / block * size;
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof scales; i++)
        scales[i] = (uint8_t)(i % 2 ? 0x3c : i * 37);
    for (size_t at = 0; !mlx && block > 1 && at + size <= row * (size_t)out; at += size) {
        const size_t d = dtype == ZN_Q6_K ? 208 : 0; /* the scale of a block; Q4_1 has its minimum behind it */
        memcpy(codes + at + d, &(uint16_t){ 0x2e66 }, 2);
        if (dtype == ZN_Q4_1)
            memcpy(codes + at + 2, &(uint16_t){ 0xb000 }, 2);
    }
    for (size_t at = 0; dtype == ZN_BF16 && at < row * (size_t)out; at += 2)
        codes[at + 1] = (uint8_t)(codes[at + 1] & 0x81) | 0x3e;
    return (zn_packed){ .data = codes,
                        .row_bytes = row,
                        .dtype = (zn_dtype)dtype,
                        .form = { mlx ? 4 : 0, GROUP },
                        .scales = scales,
                        .biases = scales + (size_t)(in / GROUP * out) * 2,
                        .scale_dtype = ZN_F16,
                        .bias_dtype = ZN_F16,
                        .groups = (size_t)in / GROUP };
}

static void matrix(simd_case *c, int size)
{
    static zn_matrix_args a;
    const int *z = matrix_sizes[size];
    a = (zn_matrix_args){ .x = simd_normal((int64_t)z[0] * z[1], 1),
                          .bias = size % 2 ? simd_normal(z[2], 1) : NULL,
                          .rows = z[0],
                          .in = z[1],
                          .out = z[2] };
    a.w = z[3] == ZN_F32 ? zn_packed_floats(simd_normal((int64_t)z[1] * z[2], 1), z[1]) : packed_case(z[1], z[2], z[3]);
    snprintf(c->text, sizeof c->text, "%d rows %d->%d of %s", z[0], z[1], z[2],
             z[3] == ZN_DTYPE_COUNT ? "MLX" : zn_dtype_name((zn_dtype)z[3]));
    c->args = &a;
    c->units = zn_matrix_units(&a);
    c->scratch = ZN_MATRIX_SCRATCH;
    c->tolerance = 3e-6;
    simd_output(c, &a.y, (int64_t)z[0] * z[2]);
}

const simd_family simd_diffusion_families[] = {
    { unary, ZN_SIMD_silu, SIZES(counts) },
    { unary, ZN_SIMD_silu_grad, SIZES(counts) },
    { norm, ZN_SIMD_norm_sums, SIZES(norm_sizes) },
    { norm, ZN_SIMD_norm_apply, 3 * SIZES(norm_sizes) },
    { norm, ZN_SIMD_norm_grad_sums, SIZES(norm_sizes) },
    { norm, ZN_SIMD_norm_grad, SIZES(norm_sizes) },
    { attention, ZN_SIMD_attention, SIZES(attention_sizes) },
    { attention, ZN_SIMD_attention_grad, SIZES(attention_sizes) },
    { matrix, ZN_SIMD_matrix, SIZES(matrix_sizes) },
    { NULL, 0, 0 },
};

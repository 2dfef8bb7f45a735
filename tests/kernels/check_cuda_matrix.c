/* The product with weights in their file format on a GPU against the scalar one: every format, full precision and 16
 * bits, maps of floats and of 16 bits. */
#include "cuda_case.h"

#include "base/convert.h"
#include "kernels/matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zn_ref_matrix(const void *matrix_args, zn_range units);

/* How weights are stored: a dtype, or MLX codes of so many bits in groups. group of int8: how many inputs were rotated
 * together. */
typedef struct format {
    int dtype, bits, group;
} format;

static size_t row_bytes(format f, int in)
{
    return f.bits ? (size_t)(in * f.bits / 8)
                  : (size_t)in / zn_dtype_block((zn_dtype)f.dtype) * zn_dtype_size((zn_dtype)f.dtype);
}

/* Any codes; numbers of F16 in a block are near 0.1, the first one or at d, and the one after it. */
static void fill_blocks(uint8_t *to, format f, size_t bytes)
{
    static const int scale_at[ZN_DTYPE_COUNT] = { [ZN_Q2_K] = 80, [ZN_Q3_K] = 108, [ZN_Q6_K] = 208 };
    const size_t size = zn_dtype_size((zn_dtype)f.dtype);
    const bool minimum =
        f.dtype == ZN_Q4_1 || f.dtype == ZN_Q5_1 || f.dtype == ZN_Q2_K || f.dtype == ZN_Q4_K || f.dtype == ZN_Q5_K;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t at = 0; at + size <= bytes && !f.bits && f.dtype >= ZN_Q4_0; at += size) {
        memcpy(to + at + scale_at[f.dtype], &(uint16_t){ 0x2e66 }, 2);
        if (minimum)
            memcpy(to + at + scale_at[f.dtype] + 2, &(uint16_t){ 0xb000 }, 2);
    }
}

static void fill(uint8_t *to, format f, zn_rng *rng, int64_t count, size_t bytes)
{
    float *numbers = fenced_new(count, false);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)zn_rng_normal(rng);
    if (!f.bits && zn_dtype_is_float((zn_dtype)f.dtype))
        zn_from_f32(to, (zn_dtype)f.dtype, numbers, (size_t)count);
    else
        fill_blocks(to, f, bytes);
    fenced_free(numbers);
}

typedef struct product {
    int64_t rows;
    int in, out;
    bool bias;
    zn_type type, x_type, y_type;
    format format;
} product;

static const char *name_of(const product *z)
{
    static const char *const types[] = { "f32", "bf16", "f16" };
    static char text[96];
    snprintf(text, sizeof text, "matrix %d rows %d->%d %s%d/%d, %s, %s to %s", (int)z->rows, z->in, z->out,
             z->format.bits ? "MLX " : zn_dtype_name((zn_dtype)z->format.dtype), z->format.bits, z->format.group,
             types[z->type], types[z->x_type], types[z->y_type]);
    return text;
}

static void check(product z)
{
    static const double allowed[] = { 2e-6, 8e-3, 1e-3 };
    zn_rng rng = zn_rng_new(40);
    const size_t bytes = row_bytes(z.format, z.in) * (size_t)z.out;
    const int64_t groups = z.format.bits ? (int64_t)z.in / z.format.group * z.out : z.out;
    uint8_t *codes = calloc(bytes + 4, 1);
    fill(codes, z.format, &rng, (int64_t)z.in * z.out, bytes);
    float *stored = cuda_shared_copy((float *)(void *)codes, (int64_t)(bytes + 3) / 4);
    float *scales = cuda_shared_normal(&rng, groups, 0.1f), *biases = cuda_shared_normal(&rng, groups, 1);
    float *x = fenced_new(z.rows * z.in, false), *b = cuda_shared_normal(&rng, z.out, 1);
    for (int64_t i = 0; i < z.rows * z.in; i++)
        x[i] = (float)zn_rng_normal(&rng);
    float *map = cuda_map_new(x, z.rows * z.in, z.x_type), *y = cuda_result_new(z.rows * z.out);
    float *want = fenced_new(z.rows * z.out, false);
    const bool scaled = z.format.bits || z.format.dtype == ZN_I8 || z.format.dtype == ZN_F8_E4M3;
    zn_matrix_args a = { .x = x,
                         .w = { .data = (const uint8_t *)stored,
                                .row_bytes = row_bytes(z.format, z.in),
                                .dtype = (zn_dtype)z.format.dtype,
                                .form = { z.format.bits, z.format.group },
                                .scales = scaled ? (const uint8_t *)scales : NULL,
                                .biases = z.format.bits ? (const uint8_t *)biases : NULL,
                                .scale_dtype = ZN_F32,
                                .bias_dtype = ZN_F32,
                                .groups = z.format.bits ? (size_t)(z.in / z.format.group) : 1,
                                .rotated = z.format.bits ? 0 : z.format.group },
                         .bias = z.bias ? b : NULL,
                         .y = want,
                         .rows = z.rows,
                         .in = z.in,
                         .out = z.out };
    cuda_reference(zn_ref_matrix, zn_matrix_units(&a), &a, ZN_MATRIX_SCRATCH);
    a.type = z.type;
    a.x_type = z.x_type;
    a.y_type = z.y_type;
    a.x = map;
    a.y = y;
    a.shared = cuda_shared_new((int64_t)(zn_matrix_shared(&a) + 3) / 4, 0);
    cuda_start(zn_k_matrix, zn_matrix_units(&a), &a);
    float *result = z.y_type == ZN_TYPE_F32 ? y : cuda_map_fetch(y, z.rows * z.out, z.y_type);
    cuda_compare(name_of(&z), result, want, z.rows * z.out, allowed[z.type]);
    if (result != y)
        cuda_result_free(result);
    float *const all[] = { stored, scales, biases, b, map, a.shared };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    fenced_free(x);
    fenced_free(want);
    free(codes);
}

void cuda_check_matrix(void)
{
#define F32  ZN_TYPE_F32
#define BF16 ZN_TYPE_BF16
#define F16  ZN_TYPE_F16
    static const product cases[] = {
        { 1, 3, 1, false, F32, F32, F32, { ZN_F32, 0, 0 } },
        { 5, 130, 37, true, F32, F32, F32, { ZN_F32, 0, 0 } },
        { 70, 64, 130, true, F32, F32, F32, { ZN_F32, 0, 0 } },
        { 3, 70, 9, true, F32, F32, F32, { ZN_BF16, 0, 0 } },
        { 3, 64, 9, false, BF16, F32, F32, { ZN_BF16, 0, 0 } }, /* the weights are multiplied where they are */
        { 35, 88, 66, true, BF16, BF16, BF16, { ZN_BF16, 0, 0 } },
        { 5, 70, 9, true, BF16, BF16, F32, { ZN_BF16, 0, 0 } },
        { 4, 40, 12, true, F16, F16, F16, { ZN_F16, 0, 0 } },
        { 4, 43, 12, true, F16, F32, F16, { ZN_F64, 0, 0 } },
        { 3, 72, 5, true, BF16, F32, BF16, { ZN_F32, 0, 0 } },
    };
    static const format formats[] = {
        { ZN_F8_E4M3, 0, 0 }, { ZN_F8_E5M2, 0, 0 }, { ZN_Q4_0, 0, 0 }, { ZN_Q4_1, 0, 0 }, { ZN_Q5_0, 0, 0 },
        { ZN_Q5_1, 0, 0 },    { ZN_Q8_0, 0, 0 },    { ZN_Q2_K, 0, 0 }, { ZN_Q3_K, 0, 0 }, { ZN_Q4_K, 0, 0 },
        { ZN_Q5_K, 0, 0 },    { ZN_Q6_K, 0, 0 },    { 0, 2, 32 },      { 0, 3, 64 },      { 0, 4, 64 },
        { 0, 5, 32 },         { 0, 6, 64 },         { 0, 8, 128 },     { ZN_I8, 0, 16 },  { ZN_I8, 0, 256 },
        { ZN_I16, 0, 0 },     { ZN_BOOL, 0, 0 },
    };
    if (!strstr("matrix", cuda_filter))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i]);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        check((product){ 2, 512, 5, false, F32, F32, F32, formats[i] });
        check((product){ 3, 256, 6, true, BF16, F32, F32, formats[i] });
    }
    if (cuda_is_emulated)
        return;
    check((product){ 1010, 520, 1100, true, F32, F32, F32, { ZN_F32, 0, 0 } });
    check((product){ 1010, 520, 1100, true, BF16, BF16, BF16, { ZN_BF16, 0, 0 } });
    /* these are cuBLASLt's, if it is there: what is printed at the end says so */
    check((product){ 300, 512, 768, true, BF16, F32, F32, { ZN_BF16, 0, 0 } });
    check((product){ 300, 512, 768, false, F16, F16, F16, { ZN_F16, 0, 0 } });
    check((product){ 1030, 3840, 520, false, BF16, BF16, BF16, { ZN_Q4_0, 0, 0 } });
    check((product){ 100, 2560, 4096, false, BF16, F32, F32, { ZN_Q6_K, 0, 0 } });
}

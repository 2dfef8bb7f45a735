/* Cases of the products with packed weights. */
#include "simd_case.h"

#include "kernels/matrix.h"
#include "kernels/matrix_bf16.h"
#include "kernels/matrix_i8.h"
#include "kernels/simd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void zn_ref_matrix_codes(const void *args, zn_range rows);
void zn_ref_matrix_runs(const void *args, zn_range panels);

#define SIZES(a) ((int)(sizeof(a) / sizeof *(a)))

/* A product, and how its weights are packed: a dtype, or MLX codes of so many bits in groups. */
typedef struct product {
    int rows, in, out, dtype, bits, group; /* group of int8: how many inputs were rotated together */
} product;

static const product sizes[] = {
    { 1, 3, 1, ZN_F32, 0, 0 },       { 5, 520, 37, ZN_F32, 0, 0 },   { 7, 70, 130, ZN_BF16, 0, 0 },
    { 50, 544, 300, ZN_Q4_0, 0, 0 }, { 3, 1056, 20, ZN_Q8_0, 0, 0 }, { 1540, 32, 9, ZN_Q4_1, 0, 0 },
    { 2, 768, 129, ZN_Q6_K, 0, 0 },  { 9, 608, 40, 0, 4, 32 },       { 4, 96, 140, 0, 4, 32 },
};
/* Every format, whole and broken tiles, one piece of the depth and several, and two blocks of rows; some have the 64
 * rows that AMX is used for. Then few rows on AMX: one tile of rows, several, and more than its scratch holds. The
 * last three: more inputs than the scratch of SDOT holds for many rows, and more sums than VNNI computes at once. */
static const product sizes_i8[] = {
    { 1, 32, 1, ZN_Q4_0, 0, 0 },     { 7, 544, 70, ZN_Q4_0, 0, 0 },   { 1540, 32, 5, ZN_Q4_0, 0, 0 },
    { 77, 96, 33, ZN_Q4_1, 0, 0 },   { 5, 160, 64, ZN_Q5_0, 0, 0 },   { 6, 64, 65, ZN_Q5_1, 0, 0 },
    { 72, 576, 129, ZN_Q8_0, 0, 0 }, { 3, 768, 40, ZN_Q4_K, 0, 0 },   { 11, 256, 17, ZN_Q5_K, 0, 0 },
    { 66, 768, 20, ZN_Q6_K, 0, 0 },  { 67, 608, 40, 0, 4, 32 },       { 4, 640, 100, 0, 4, 64 },
    { 2, 768, 30, 0, 8, 128 },       { 8, 96, 9, 0, 2, 32 },          { 2, 96, 9, 0, 3, 32 },
    { 3, 128, 12, 0, 5, 64 },        { 8, 544, 35, ZN_I8, 0, 16 },    { 3, 768, 70, ZN_I8, 0, 256 },
    { 65, 128, 12, 0, 6, 64 },       { 11, 256, 80, ZN_Q8_0, 0, 0 },  { 16, 384, 64, ZN_Q4_0, 0, 0 },
    { 33, 128, 16, ZN_Q8_0, 0, 0 },  { 63, 128, 48, ZN_Q4_0, 0, 0 },  { 17, 14336, 16, ZN_Q8_0, 0, 0 },
    { 52, 4672, 37, ZN_Q4_0, 0, 0 }, { 49, 4128, 16, ZN_Q8_0, 0, 0 }, { 437, 544, 261, ZN_Q8_0, 0, 0 },
};

/* Every way to unpack weights, odd numbers of panels and outputs, padded inputs, and two blocks of rows. */
static const product sizes_bf16[] = {
    { 1, 3, 1, ZN_BF16, 0, 0 },       { 33, 544, 70, ZN_Q4_0, 0, 0 },  { 1540, 32, 5, ZN_Q4_0, 0, 0 },
    { 13, 96, 33, ZN_Q4_1, 0, 0 },    { 40, 576, 129, ZN_Q8_0, 0, 0 }, { 3, 768, 40, ZN_Q4_K, 0, 0 },
    { 50, 1280, 20, ZN_Q6_K, 0, 0 },  { 12, 608, 40, 0, 4, 32 },       { 4, 640, 100, 0, 4, 64 },
    { 2, 768, 30, 0, 8, 128 },        { 3, 768, 70, ZN_I8, 0, 256 },   { 18, 309, 45, ZN_BF16, 0, 0 },
    { 25, 1088, 131, ZN_Q8_0, 0, 0 },
};

static const char *name_of(const product *z)
{
    static char text[32];
    snprintf(text, sizeof text, "MLX %d/%d", z->bits, z->group);
    return z->bits ? text : zn_dtype_name((zn_dtype)z->dtype);
}

/* Codes are any bytes; scales are bfloat16 or float16 near 1 written over them. */
static zn_packed packed_case(const product *z)
{
    static uint8_t codes[1 << 18], scales[1 << 16];
    const int dtype = z->dtype, group = z->group ? z->group : 32;
    const size_t block = zn_dtype_block((zn_dtype)dtype), size = zn_dtype_size((zn_dtype)dtype);
    const size_t row = z->bits ? (size_t)(z->in * z->bits / 8) : (size_t)z->in / block * size;
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof scales; i++)
        scales[i] = (uint8_t)(i % 2 ? 0x3c : i * 37);
    for (size_t at = 0; !z->bits && block > 1 && at + size <= row * (size_t)z->out; at += size) {
        const size_t d = dtype == ZN_Q6_K ? 208 : 0; /* the scale of a block; some have a minimum after it */
        memcpy(codes + at + d, &(uint16_t){ 0x2e66 }, 2);
        if (dtype == ZN_Q4_1 || dtype == ZN_Q5_1 || dtype == ZN_Q4_K || dtype == ZN_Q5_K)
            memcpy(codes + at + 2, &(uint16_t){ 0xb000 }, 2);
    }
    for (size_t at = 0; !z->bits && dtype == ZN_BF16 && at < row * (size_t)z->out; at += 2)
        codes[at + 1] = (uint8_t)(codes[at + 1] & 0x81) | 0x3e;
    return (zn_packed){ .data = codes,
                        .row_bytes = row,
                        .dtype = (zn_dtype)dtype,
                        .form = { z->bits, group },
                        .scales = z->bits || dtype == ZN_I8 ? scales : NULL,
                        .biases = scales + (size_t)(z->in / group * z->out) * 2,
                        .scale_dtype = ZN_F16,
                        .bias_dtype = ZN_F16,
                        .groups = z->bits ? (size_t)(z->in / group) : 1,
                        .rotated = z->bits ? 0 : z->group };
}

static void matrix(simd_case *c, int index)
{
    static zn_matrix_args a;
    const product *z = &sizes[index];
    a = (zn_matrix_args){ .x = simd_normal((int64_t)z->rows * z->in, 1),
                          .bias = index % 2 ? simd_normal(z->out, 1) : NULL,
                          .rows = z->rows,
                          .in = z->in,
                          .out = z->out };
    a.w = !z->bits && z->dtype == ZN_F32 ? zn_packed_floats(simd_normal((int64_t)z->in * z->out, 1), z->in)
                                         : packed_case(z);
    snprintf(c->text, sizeof c->text, "%d rows %d->%d of %s", z->rows, z->in, z->out, name_of(z));
    c->args = &a;
    c->units = zn_matrix_units(&a);
    c->scratch = ZN_MATRIX_SCRATCH;
    c->tolerance = 3e-6;
    simd_output(c, &a.y, (int64_t)z->rows * z->out);
}

enum { MOST = 1 << 18 };

/* Rows with a group of zeros, and one with tiny values. */
static const float *some_rows(int64_t count)
{
    static float x[MOST];
    memcpy(x, simd_normal(count, 1), sizeof *x * (size_t)count);
    for (int i = 0; i < ZN_I8_GROUP; i++)
        x[count - 1 - i] = (float)i * 1e-36f;
    if (count > ZN_I8_GROUP)
        memset(x, 0, sizeof *x * ZN_I8_GROUP);
    return x;
}

static void matrix_i8(simd_case *c, int index)
{
    static zn_matrix_i8_args a;
    static float block[MOST];
    const product *z = &sizes_i8[index];
    a = (zn_matrix_i8_args){ .x = zn_i8_rows_at(block, z->rows, z->in),
                             .w = packed_case(z),
                             .rows = z->rows,
                             .in = z->in,
                             .out = z->out,
                             .few = z->rows <= ZN_I8_FEW || z->rows == 33 /* of a batch */ };
    const zn_matrix_codes_args codes = { .x = some_rows((int64_t)z->rows * z->in),
                                         .q = a.x,
                                         .in = z->in,
                                         .rotated = a.w.rotated,
                                         .centred = zn_matrix_i8_centred(&a.w) };
    zn_ref_matrix_codes(&codes, (zn_range){ 0, z->rows, NULL });
    snprintf(c->text, sizeof c->text, "%d rows %d->%d of %s", z->rows, z->in, z->out, name_of(z));
    c->args = &a;
    c->units = zn_matrix_i8_units(&a);
    c->scratch = ZN_I8_SCRATCH;
    c->tolerance = 3e-6;
    simd_output(c, &a.y, (int64_t)z->rows * z->out);
}

/* rows, inputs, how many of them are rotated together, and whether groups are centred; the first three have values that
 * are not finite, and a group of zeros */
static const int code_sizes[][4] = { { 2, 32, 0, 0 },    { 3, 32, 0, 1 },   { 3, 512, 0, 1 },   { 1, 32, 0, 0 },
                                     { 9, 96, 0, 0 },    { 3, 1056, 0, 1 }, { 3, 1056, 16, 0 }, { 2, 512, 256, 0 },
                                     { 2, 512, 256, 1 }, { 1, 1024, 0, 0 } };

/* The codes, as floats of any bits, must be the same in every build. */
static void codes(simd_case *c, int index)
{
    static zn_matrix_codes_args a;
    const int rows = code_sizes[index][0], in = code_sizes[index][1], rotated = code_sizes[index][2];
    float *x = (float *)(uintptr_t)some_rows((int64_t)rows * in);
    if (index < 3) {
        memset(x + ZN_I8_GROUP, 0, sizeof *x * ZN_I8_GROUP);
        x[ZN_I8_GROUP] = -0.0f;
        x[0] = NAN;
        x[rows * in - 1] = -INFINITY;
    }
    a = (zn_matrix_codes_args){ .x = x, .in = in, .rotated = rotated, .centred = code_sizes[index][3] };
    snprintf(c->text, sizeof c->text, "%d rows of %d, groups of %d rotated%s", rows, in, rotated,
             a.centred ? ", centred" : "");
    c->args = &a;
    c->units = rows;
    simd_output(c, &a.q.scales, rows * in / ZN_I8_GROUP);
    simd_output(c, &a.q.sums, rows * in / ZN_I8_GROUP);
    simd_output(c, (float **)(void *)&a.q.codes, rows * in / (int64_t)sizeof(float));
}

static void matrix_bf16(simd_case *c, int index)
{
    static zn_matrix_bf16_args a;
    static uint16_t runs[2 * MOST];
    const product *z = &sizes_bf16[index];
    a = (zn_matrix_bf16_args){ .x = runs, .w = packed_case(z), .rows = z->rows, .in = z->in, .out = z->out };
    const zn_matrix_runs_args x = { .x = simd_normal((int64_t)z->rows * z->in, 1),
                                    .runs = runs,
                                    .rows = z->rows,
                                    .in = z->in,
                                    .rotated = a.w.rotated };
    zn_ref_matrix_runs(&x, (zn_range){ 0, zn_matrix_panels(z->rows), NULL });
    snprintf(c->text, sizeof c->text, "%d rows %d->%d of %s", z->rows, z->in, z->out, name_of(z));
    c->args = &a;
    c->units = zn_matrix_bf16_units(&a);
    c->scratch = ZN_BF16_SCRATCH;
    c->tolerance = 3e-6;
    simd_output(c, &a.y, (int64_t)z->rows * z->out);
}

/* rows, inputs, how many of them are rotated together; the first two have values that are not finite */
static const int run_sizes[][3] = { { 2, 32, 0 },  { 3, 33, 0 },   { 1, 1, 0 },
                                    { 16, 96, 0 }, { 35, 300, 0 }, { 17, 512, 256 } };

/* The runs, as floats of any bits, must be the same in every build. */
static void runs(simd_case *c, int index)
{
    static zn_matrix_runs_args a;
    const int rows = run_sizes[index][0], in = run_sizes[index][1], rotated = run_sizes[index][2];
    static float x[MOST];
    memcpy(x, simd_normal((int64_t)rows * in, 1), sizeof *x * (size_t)(rows * in));
    if (index < 2) {
        x[0] = NAN;
        x[rows * in - 1] = -INFINITY;
    }
    a = (zn_matrix_runs_args){ .x = x, .rows = rows, .in = in, .rotated = rotated };
    snprintf(c->text, sizeof c->text, "%d rows of %d, groups of %d rotated", rows, in, rotated);
    c->args = &a;
    c->units = zn_matrix_panels(rows);
    simd_output(c, (float **)(void *)&a.runs, (int64_t)(zn_matrix_runs_bytes(rows, in) / sizeof(float)));
}

const simd_family simd_matrix_families[] = {
    { matrix, ZN_SIMD_matrix, SIZES(sizes) },
    { codes, ZN_SIMD_matrix_codes, SIZES(code_sizes) },
    { matrix_i8, ZN_SIMD_matrix_i8, SIZES(sizes_i8) },
    { runs, ZN_SIMD_matrix_runs, SIZES(run_sizes) },
    { matrix_bf16, ZN_SIMD_matrix_bf16, SIZES(sizes_bf16) },
    { NULL, 0, 0 },
};

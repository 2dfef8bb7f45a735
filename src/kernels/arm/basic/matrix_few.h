/* The product in 8-bit integers of few rows, for the common formats, with SDOT by element: a lane has one of at most 16
 * rows, so rows are transposed, once for many outputs, and weights are multiplied as they lie in the file. Filling a
 * panel would cost more than multiplying it with so few rows does. */
#ifndef ZN_ARM_MATRIX_FEW_H
#define ZN_ARM_MATRIX_FEW_H

#include "kernels/simd/basic/matrix_i8.h"

enum {
    FEW_VECTORS = ZN_I8_FEW / VEC_LANES, /* at most */
    FEW_OUTPUTS = 2                      /* multiplied together: 8 dots, 8 sums, 4 vectors of weights */
};

/* Rows in the scratch: vectors of four, by steps of four inputs and by groups. Those that are not there repeat the last
 * one. */
typedef struct few_rows {
    int vectors;
    int8_t *codes;        /* [step][vector][16] */
    float *scales, *sums; /* [group][vector][4] */
} few_rows;

static inline few_rows few_rows_at(void *memory, int in, int rows)
{
    const int vectors = (rows + VEC_LANES - 1) / VEC_LANES, floats = in / ZN_I8_GROUP * vectors * VEC_LANES;
    float *scales = memory;
    return (few_rows){ vectors, (int8_t *)(scales + 2 * floats), scales, scales + floats };
}

static bool uses_few(const zn_matrix_i8_args *a)
{
    const size_t bytes = ZN_I8_FEW * ((size_t)a->in + 2 * sizeof(float) * (size_t)(a->in / ZN_I8_GROUP));
    return a->few && !a->w.form.bits && (a->w.dtype == ZN_Q4_0 || a->w.dtype == ZN_Q8_0) && bytes <= ZN_I8_SCRATCH;
}

static void order_few(const zn_matrix_i8_args *a, int64_t row, int rows, const few_rows *to)
{
    const int groups = a->in / ZN_I8_GROUP, width = to->vectors * VEC_LANES;
    for (int r = 0; r < width; r++) {
        const int64_t at = (row + zn_least(r, rows - 1)) * groups;
        for (int g = 0; g < groups; g++) {
            to->scales[g * width + r] = a->x.scales[at + g];
            to->sums[g * width + r] = a->x.sums[at + g];
        }
    }
    for (int v = 0; v < to->vectors; v++) {
        const uint8_t *line[VEC_LANES];
        for (int i = 0; i < VEC_LANES; i++)
            line[i] = a->x.codes + (row + zn_least(v * VEC_LANES + i, rows - 1)) * a->in;
        for (int k = 0; k < a->in; k += 16) {
            ivec words[4];
            transpose(line, k, words);
            for (int i = 0; i < 4; i++)
                memcpy(to->codes + ((k / 4 + i) * to->vectors + v) * 16, &words[i], sizeof words[i]);
        }
    }
}

/* dots[output][vector]: the sums of a group. x: its first step. w: [output][half of the group]. */
VEC_INLINE void few_dots(const int vectors, const int8_t *x, int8x16_t w[FEW_OUTPUTS][2],
                         vec dots[FEW_OUTPUTS][FEW_VECTORS])
{
    ivec all[FEW_OUTPUTS][FEW_VECTORS];
#pragma GCC unroll 2
    for (int c = 0; c < FEW_OUTPUTS; c++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            all[c][v] = vreinterpretq_s32_f32(vec_splat(DOT_START));
#define STEP(k)                                                                                                        \
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                                          \
    {                                                                                                                  \
        const int8x16_t rows = vld1q_s8(x + ((4 * half + (k)) * vectors + v) * 16);                                    \
        _Pragma("GCC unroll 2") for (int c = 0; c < FEW_OUTPUTS; c++) all[c][v] =                                      \
            vdotq_laneq_s32(all[c][v], rows, w[c][half], k);                                                           \
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
    }
#undef STEP
#pragma GCC unroll 2
    for (int c = 0; c < FEW_OUTPUTS; c++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            dots[c][v] = vreinterpretq_f32_s32(all[c][v]) - vec_splat(DOT_START);
}

/* The sums of the codes of two outputs in the first two lanes. */
VEC_INLINE vec few_totals(int8x16_t w[FEW_OUTPUTS][2])
{
    const int32x4_t zero = vdupq_n_s32(0);
    const int8x16_t ones = vdupq_n_s8(1);
    int32x4_t sum[FEW_OUTPUTS];
    for (int c = 0; c < FEW_OUTPUTS; c++)
        sum[c] = vdotq_s32(vdotq_s32(zero, w[c][0], ones), w[c][1], ones);
    const int32x4_t pairs = vpaddq_s32(sum[0], sum[1]);
    return dot_to_vec(vpaddq_s32(pairs, pairs));
}

/* Two outputs, whose weights begin at line[]. bytes: Q8_0, else Q4_0. */
VEC_INLINE void few_outputs(const int vectors, const bool bytes, const uint8_t *const line[FEW_OUTPUTS], int groups,
                            const few_rows *x, vec y[FEW_OUTPUTS][FEW_VECTORS])
{
    enum { AHEAD = 1024 };
    vec sums[FEW_OUTPUTS][FEW_VECTORS];   /* in registers: y might be what x is */
    const int64_t size = bytes ? 34 : 18; /* of a block: its scale, then codes */
#pragma GCC unroll 2
    for (int c = 0; c < FEW_OUTPUTS; c++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[c][v] = vec_splat(0);
    for (int g = 0; g < groups; g++) {
        int8x16_t w[FEW_OUTPUTS][2];
        vec dots[FEW_OUTPUTS][FEW_VECTORS], totals = vec_splat(0);
#pragma GCC unroll 2
        for (int c = 0; c < FEW_OUTPUTS; c++) {
            const uint8_t *p = line[c] + size * g;
            __builtin_prefetch(p + AHEAD, 0, 0);
            if (bytes) {
                w[c][0] = vld1q_s8((const int8_t *)p + 2);
                w[c][1] = vld1q_s8((const int8_t *)p + 18);
            } else {
                const uint8x16_t both = vld1q_u8(p + 2), eight = vdupq_n_u8(8);
                w[c][0] = vreinterpretq_s8_u8(vsubq_u8(vandq_u8(both, vdupq_n_u8(15)), eight));
                w[c][1] = vreinterpretq_s8_u8(vsubq_u8(vshrq_n_u8(both, 4), eight));
            }
        }
        if (bytes)
            totals = few_totals(w);
        few_dots(vectors, x->codes + (int64_t)g * STEPS * vectors * 16, w, dots);
#pragma GCC unroll 2
        for (int c = 0; c < FEW_OUTPUTS; c++) {
            const float s = half_at(line[c] + size * g);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const int at = (g * vectors + v) * VEC_LANES;
                vec sum = dots[c][v] * vec_load(x->scales + at);
                if (bytes)
                    sum = vec_fma(vec_load(x->sums + at), vec_splat(totals[c]), sum);
                sums[c][v] = vec_fma(sum, vec_splat(s), sums[c][v]);
            }
        }
    }
#pragma GCC unroll 2
    for (int c = 0; c < FEW_OUTPUTS; c++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            y[c][v] = sums[c][v];
}

#define FEW(vectors)                                                                                                   \
    static void few_##vectors(const zn_matrix_i8_args *a, const uint8_t *const line[FEW_OUTPUTS], const few_rows *x,   \
                              vec sums[FEW_OUTPUTS][FEW_VECTORS])                                                      \
    {                                                                                                                  \
        if (a->w.dtype == ZN_Q8_0)                                                                                     \
            few_outputs(vectors, true, line, a->in / ZN_I8_GROUP, x, sums);                                            \
        else                                                                                                           \
            few_outputs(vectors, false, line, a->in / ZN_I8_GROUP, x, sums);                                           \
    }
FEW(1)
FEW(2)
FEW(3)
FEW(4)
#undef FEW

/* Outputs [column,column+columns) of some rows. */
static void multiply_few(const zn_matrix_i8_args *a, int64_t row, int rows, int column, int columns, const few_rows *x)
{
    typedef void (*few_fn)(const zn_matrix_i8_args *, const uint8_t *const *, const few_rows *, vec(*)[FEW_VECTORS]);
    static const few_fn run[FEW_VECTORS] = { few_1, few_2, few_3, few_4 };
    for (int c = column; c < column + columns; c += FEW_OUTPUTS) {
        const int next = (int)zn_least(c + 1, column + columns - 1);
        const uint8_t *line[FEW_OUTPUTS] = { packed_at(&a->w, c, 0), packed_at(&a->w, next, 0) };
        vec sums[FEW_OUTPUTS][FEW_VECTORS];
        run[x->vectors - 1](a, line, x, sums);
        for (int r = 0; r < rows; r++) {
            float *y = a->y + (row + r) * a->out;
            y[next] = sums[1][r / VEC_LANES][r % VEC_LANES];
            y[c] = sums[0][r / VEC_LANES][r % VEC_LANES];
        }
    }
}

static void matrix_few(const zn_matrix_i8_args *a, zn_range r)
{
    const int64_t strips = zn_matrix_i8_strips(a);
    for (int64_t u = r.begin, end; u < r.end; u = end) {
        const int64_t first = u / strips * ZN_I8_ROWS, last = zn_least(first + ZN_I8_ROWS, a->rows);
        end = zn_least(r.end, (u / strips + 1) * strips);
        const int column = (int)(u % strips) * STRIP;
        const int columns = (int)zn_least((end - u) * STRIP, a->out - column);
        for (int64_t row = first; row < last; row += ZN_I8_FEW) {
            const int rows = (int)zn_least(ZN_I8_FEW, last - row);
            const few_rows x = few_rows_at(r.scratch, a->in, rows);
            order_few(a, row, rows, &x);
            multiply_few(a, row, rows, column, columns, &x);
        }
    }
}

#endif

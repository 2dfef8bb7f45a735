/* Transforms of Winograd's convolution with 8-point tiles: points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity.
 *
 *     Y = A' [ (G g G') . (B' d B) ] A
 *
 * The input transform B' is the same for 6 outputs of 3 taps and for 7 outputs of 2 taps; only A' and G differ. Vectors
 * run over channels, so every function here is written for one position and does VEC_LANES channels of it. */
#ifndef ZN_WINOGRAD_H
#define ZN_WINOGRAD_H

#include "kernels/simd/vec.h"

#include <stdbool.h>
#include <stddef.h>

/* o = B' d: the coefficients are those of the polynomials prod (x - p) over all points but one. */
VEC_INLINE void winograd_input(const vec d[8], vec o[8])
{
    const vec k525 = vec_splat(5.25f), k425 = vec_splat(4.25f), k125 = vec_splat(1.25f), k25 = vec_splat(2.5f);
    const vec k4 = vec_splat(4), k5 = vec_splat(5), k2 = vec_splat(2), half = vec_splat(0.5f),
              quarter = vec_splat(0.25f);
    o[0] = vec_fma(k525, d[4] - d[2], d[0] - d[6]);
    o[7] = vec_fma(k525, d[3] - d[5], d[7] - d[1]);
    const vec even1 = vec_fms(k425, d[4], d[2] + d[6]), odd1 = vec_fms(k425, d[3], d[1] + d[5]);
    o[1] = even1 + odd1;
    o[2] = even1 - odd1;
    const vec even2 = vec_fma(quarter, d[2], vec_fms(k125, d[4], d[6]));
    const vec odd2 = vec_fma(half, d[1], vec_fms(k25, d[3], k2 * d[5]));
    o[3] = even2 + odd2;
    o[4] = even2 - odd2;
    const vec even3 = vec_fma(k4, d[2], vec_fms(k5, d[4], d[6]));
    const vec odd3 = vec_fma(k2, d[1], vec_fms(k25, d[3], half * d[5]));
    o[5] = even3 + odd3;
    o[6] = even3 - odd3;
}

/* o = A' m: output j is the sum of m[i] * point_i^j; infinity counts for the last one. outputs is 6 or 7, a constant.
 */
VEC_INLINE void winograd_output(const int outputs, const vec m[8], vec o[7])
{
    const vec s1 = m[1] + m[2], d1 = m[1] - m[2];
    const vec s2 = m[3] + m[4], d2 = m[3] - m[4];
    const vec s3 = m[5] + m[6], d3 = m[5] - m[6];
    o[0] = m[0] + s1 + (s2 + s3);
    o[1] = vec_fma(vec_splat(2), d2, vec_fma(vec_splat(1.0f / 2), d3, d1));
    o[2] = vec_fma(vec_splat(4), s2, vec_fma(vec_splat(1.0f / 4), s3, s1));
    o[3] = vec_fma(vec_splat(8), d2, vec_fma(vec_splat(1.0f / 8), d3, d1));
    o[4] = vec_fma(vec_splat(16), s2, vec_fma(vec_splat(1.0f / 16), s3, s1));
    const vec o5 = vec_fma(vec_splat(32), d2, vec_fma(vec_splat(1.0f / 32), d3, d1));
    if (outputs == 6) {
        o[5] = o5 + m[7];
    } else {
        o[5] = o5;
        o[6] = vec_fma(vec_splat(64), s2, vec_fma(vec_splat(1.0f / 64), s3, s1 + m[7]));
    }
}

/* Vectors a step handles together. Two on NEON: scattered 16-byte stores cost a Neoverse-V1 1.3 cycles each, pairs 1.0.
 */
enum { WINOGRAD_WIDE = VEC_REGISTERS == 32 && VEC_LANES == 4 ? 2 : 1 };

VEC_INLINE void winograd_store(const int wide, float *p, vec a, vec b)
{
    if (wide == 2)
        vec_store_pair(p, a, b);
    else
        vec_store(p, a);
}

VEC_INLINE void winograd_input_row_step(const int wide, const float *x, int64_t step, int padded, float *half)
{
    vec o[2][8];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            d[i] = vec_load(x + i * step + k * VEC_LANES);
        winograd_input(d, o[k]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        winograd_store(wide, half + i * padded, o[0][i], o[wide - 1][i]);
}

/* One row of an input tile: 8 pixels, `step` floats apart, into half[8][padded], missing channels zero. `ahead` is the
 * row to come, fetched a little at every step: in one burst it would fill the queues of the cache and stop everything.
 */
VEC_INLINE void winograd_input_row(const float *x, int64_t step, int channels, int padded, float *half,
                                   const float *ahead)
{
    int c = 0;
    for (; c + WINOGRAD_WIDE * VEC_LANES <= channels; c += WINOGRAD_WIDE * VEC_LANES) {
#pragma GCC unroll 8
        for (int i = 0; i < 8 * WINOGRAD_WIDE * VEC_LANES; i += 16)
            __builtin_prefetch(ahead + 8 * c + i);
        winograd_input_row_step(WINOGRAD_WIDE, x + c, step, padded, half + c);
    }
    for (; c + VEC_LANES <= channels; c += VEC_LANES)
        winograd_input_row_step(1, x + c, step, padded, half + c);
    if (c < channels) {
        vec d[8], o[8];
        for (int i = 0; i < 8; i++)
            d[i] = vec_load_part(x + i * step + c, channels - c);
        winograd_input(d, o);
        for (int i = 0; i < 8; i++)
            vec_store(half + i * padded + c, o[i]);
        c += VEC_LANES;
    }
    for (; c < padded; c += VEC_LANES)
        for (int i = 0; i < 8; i++)
            vec_store(half + i * padded + c, vec_splat(0));
}

VEC_INLINE void winograd_input_column_step(const int wide, const float *const rows[8], int at, float *v, int64_t slot)
{
    vec o[2][8];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            d[r] = vec_load(rows[r] + at + k * VEC_LANES);
        winograd_input(d, o[k]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        winograd_store(wide, v + r * 8 * slot, o[0][r], o[wide - 1][r]);
}

/* One column of the tile, `at` in each of its rows, into 8 slots of V eight frequencies apart. */
VEC_INLINE void winograd_input_column(const float *const rows[8], int at, int padded, float *v, int64_t slot)
{
    const float *const local[8] = { rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7] };
    int c = 0;
    for (; c + WINOGRAD_WIDE * VEC_LANES <= padded; c += WINOGRAD_WIDE * VEC_LANES)
        winograd_input_column_step(WINOGRAD_WIDE, local, at + c, v + c, slot);
    for (; c < padded; c += VEC_LANES)
        winograd_input_column_step(1, local, at + c, v + c, slot);
}

VEC_INLINE void winograd_output_column_step(const int wide, const int outputs, const float *m, int64_t slot,
                                            const float *bias, int width, float *half)
{
    vec o[2][7];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            d[r] = vec_load(m + r * 8 * slot + k * VEC_LANES);
        if (bias)
            d[1] = d[1] + vec_load(bias + k * VEC_LANES);
        winograd_output(outputs, d, o[k]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < outputs; r++)
        winograd_store(wide, half + r * 8 * width, o[0][r], o[wide - 1][r]);
}

/* One column of M, 8 slots eight frequencies apart, into its column of half[outputs][8][width]. bias, for column 1
 * only: the frequency (1,1) is that of the points 1, whose powers are all 1, so what is added there reaches every
 * output alike. */
VEC_INLINE void winograd_output_column(const int outputs, const float *m, int64_t slot, const float *bias, int width,
                                       float *half)
{
    int c = 0;
    for (; c + WINOGRAD_WIDE * VEC_LANES <= width; c += WINOGRAD_WIDE * VEC_LANES)
        winograd_output_column_step(WINOGRAD_WIDE, outputs, m + c, slot, bias ? bias + c : NULL, width, half + c);
    for (; c < width; c += VEC_LANES)
        winograd_output_column_step(1, outputs, m + c, slot, bias ? bias + c : NULL, width, half + c);
}

/* Where a row of outputs goes and what is added on the way. */
typedef struct winograd_row {
    float *y;
    const float *residual; /* like y, or NULL */
    bool relu;
    int64_t step; /* floats from one output pixel to the next */
    int channels;
    int first, end; /* outputs that lie in the image */
} winograd_row;

/* `wide` whole vectors of channels at c; with !whole only some outputs are in the image. */
VEC_INLINE void winograd_output_row_step(const int wide, const int outputs, const bool whole, const bool residual,
                                         const float *half, int width, const winograd_row *t, int c)
{
    const vec floor = vec_splat(t->relu ? 0 : -__builtin_inff());
    vec o[2][7];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            d[i] = vec_load(half + i * width + c + k * VEC_LANES);
        winograd_output(outputs, d, o[k]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < outputs; i++)
        if (whole || (i >= t->first && i < t->end)) {
            const int64_t at = i * t->step + c;
#pragma GCC unroll 2
            for (int k = 0; k < wide; k++)
                o[k][i] =
                    vec_max(residual ? (vec)(o[k][i] + vec_load(t->residual + at + k * VEC_LANES)) : o[k][i], floor);
            winograd_store(wide, t->y + at, o[0][i], o[wide - 1][i]);
        }
}

/* The last channels of a row, less than a vector. */
VEC_INLINE void winograd_output_row_rest(const int outputs, const float *half, int width, const winograd_row *t, int c)
{
    const int lanes = t->channels - c;
    const vec floor = vec_splat(t->relu ? 0 : -__builtin_inff());
    vec d[8], o[7];
    for (int i = 0; i < 8; i++)
        d[i] = vec_load(half + i * width + c);
    winograd_output(outputs, d, o);
    for (int i = t->first; i < t->end; i++) {
        const int64_t at = i * t->step + c;
        const vec v = t->residual ? (vec)(o[i] + vec_load_part(t->residual + at, lanes)) : o[i];
        vec_store_part(t->y + at, vec_max(v, floor), lanes);
    }
}

VEC_INLINE void winograd_output_row_of(const int outputs, const bool whole, const bool residual, const float *half,
                                       int width, const winograd_row *row)
{
    const winograd_row t = *row;
    int c = 0;
    for (; c + WINOGRAD_WIDE * VEC_LANES <= t.channels; c += WINOGRAD_WIDE * VEC_LANES)
        winograd_output_row_step(WINOGRAD_WIDE, outputs, whole, residual, half, width, &t, c);
    for (; c + VEC_LANES <= t.channels; c += VEC_LANES)
        winograd_output_row_step(1, outputs, whole, residual, half, width, &t, c);
    if (c < t.channels)
        winograd_output_row_rest(outputs, half, width, &t, c);
}

/* One row: half[8][width] to the pixels of y. */
VEC_INLINE void winograd_output_row(const int outputs, const float *half, int width, const winograd_row *row)
{
    if (row->first > 0 || row->end < outputs)
        winograd_output_row_of(outputs, false, row->residual != NULL, half, width, row);
    else if (row->residual)
        winograd_output_row_of(outputs, true, true, half, width, row);
    else
        winograd_output_row_of(outputs, true, false, half, width, row);
}

#endif

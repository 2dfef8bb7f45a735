/* Transforms of the Winograd convolution with 8-point tiles: points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity.
 *
 *     Y = A' [ (G g G') . (B' d B) ] A
 *
 * The input transform B' is the same for 6 outputs of 3 taps and for 7 outputs of 2 taps; only A' and G differ.
 * Vectors run over channels: every function here handles VEC_LANES channels of one position. */
#ifndef ZN_WINOGRAD_H
#define ZN_WINOGRAD_H

#include "kernels/simd/vec.h"

#include <stdbool.h>
#include <stddef.h>

/* Constants of the transforms. NEON multiplies by a lane, so eight of them take two registers (the empty asm keeps
 * the compiler from splitting them up again). Elsewhere each constant is its own vector, in a register or in memory. */
#if defined(__ARM_NEON)
typedef struct winograd_constants {
    vec a, b;
} winograd_constants;

VEC_INLINE winograd_constants winograd_constants_load(const float table[8])
{
    winograd_constants k = { vec_load(table), vec_load(table + 4) };
    __asm__("" : "+w"(k.a), "+w"(k.b));
    return k;
}
#define LANE_a0                    k->a, 0
#define LANE_a1                    k->a, 1
#define LANE_a2                    k->a, 2
#define LANE_a3                    k->a, 3
#define LANE_b0                    k->b, 0
#define LANE_b1                    k->b, 1
#define LANE_b2                    k->b, 2
#define LANE_b3                    k->b, 3
#define FMA_LANE(from, lane, x, c) vfmaq_laneq_f32((c), (x), (from), (lane))
#define FMS_LANE(from, lane, x, c) vfmsq_laneq_f32((c), (x), (from), (lane))
#define EXPAND(macro, ...)         macro(__VA_ARGS__)
#define FMA(at, value, x, c)       EXPAND(FMA_LANE, LANE_##at, x, c)
#define FMS(at, value, x, c)       EXPAND(FMS_LANE, LANE_##at, x, c)
#else
typedef struct winograd_constants {
    int none;
} winograd_constants;

VEC_INLINE winograd_constants winograd_constants_load(const float table[8])
{
    (void)table;
    return (winograd_constants){ 0 };
}
#define FMA(at, value, x, c) vec_fma(vec_splat(value), (x), (c))
#define FMS(at, value, x, c) vec_fms(vec_splat(value), (x), (c))
#endif

/* FMA(at, value, x, c) is c + value * x, where `at` is the position of value in the table; FMS subtracts. */
static const float winograd_input_table[8] = { 5.25f, 4.25f, 0.5f, 1.25f, 5, 4, 0.25f, 2.5f };
static const float winograd_output_table[8] = { 4, 0.25f, 2, 0.5f, 8, 0.125f, 16, 0.0625f };

/* o = B' d: the coefficients are those of the polynomials prod (x - p) over all points except one. */
VEC_INLINE void winograd_input(const winograd_constants *k, const vec d[8], vec o[8])
{
    (void)k;
    o[0] = FMA(a0, 5.25f, d[4] - d[2], d[0] - d[6]);
    o[7] = FMA(a0, 5.25f, d[3] - d[5], d[7] - d[1]);
    const vec even1 = FMS(a1, 4.25f, d[4], d[2] + d[6]), odd1 = FMS(a1, 4.25f, d[3], d[1] + d[5]);
    o[1] = even1 + odd1;
    o[2] = even1 - odd1;
#if defined(__ARM_NEON) /* four more operations, but a Neoverse-V1 adds at twice the rate of multiply-add chains */
    const vec d4 = vmulq_laneq_f32(d[4], k->a, 3), d3 = vmulq_laneq_f32(d[3], k->b, 3);
    const vec even2 = FMA(b2, 0.25f, d[2], d[6] - d4), odd2 = FMA(a2, 0.5f, d[1], d[5] + d[5] - d3);
    const vec even3 = FMA(b1, 4, d[2] - d4, d[6]), odd3 = FMA(a2, 0.5f, d[5], d[1] + d[1] - d3);
    o[3] = even2 + odd2;
    o[4] = even2 - odd2;
    o[5] = even3 + odd3;
    o[6] = even3 - odd3;
#else
    const vec even2 = FMA(b2, 0.25f, d[2], FMS(a3, 1.25f, d[4], d[6]));
    const vec odd2 = FMA(b1, 4, d[5], FMS(b0, 5, d[3], d[1])); /* twice its value */
    o[3] = FMA(a2, 0.5f, odd2, even2);
    o[4] = FMS(a2, 0.5f, odd2, even2);
    const vec even3 = FMA(b1, 4, d[2], FMS(b0, 5, d[4], d[6]));
    const vec odd3 = FMA(b1, 4, d[1], FMS(b0, 5, d[3], d[5])); /* likewise */
    o[5] = FMA(a2, 0.5f, odd3, even3);
    o[6] = FMS(a2, 0.5f, odd3, even3);
#endif
}

/* o = A' m: output j is the sum of m[i] * point_i^j; infinity only contributes to the last output. outputs is 6 or
 * 7, a compile-time constant. The frequencies of 2 and -2 are given multiplied by 4, those of 1/2 and -1/2 divided
 * by 4: then three of the sums need no factors. */
VEC_INLINE void winograd_output(const winograd_constants *k, const int outputs, const vec m[8], vec o[7])
{
    const vec s1 = m[1] + m[2], d1 = m[1] - m[2];
    const vec s2 = m[3] + m[4], d2 = m[3] - m[4];
    const vec s3 = m[5] + m[6], d3 = m[5] - m[6];
    (void)k;
    o[0] = FMA(a1, 0.25f, s2, FMA(a0, 4, s3, m[0] + s1));
    o[1] = FMA(a3, 0.5f, d2, FMA(a2, 2, d3, d1));
    o[2] = s1 + (s2 + s3);
    o[3] = FMA(a2, 2, d2, FMA(a3, 0.5f, d3, d1));
    o[4] = FMA(a0, 4, s2, FMA(a1, 0.25f, s3, s1));
    if (outputs == 6) {
        o[5] = FMA(b0, 8, d2, FMA(b1, 0.125f, d3, d1 + m[7]));
    } else {
        o[5] = FMA(b0, 8, d2, FMA(b1, 0.125f, d3, d1));
        o[6] = FMA(b2, 16, s2, FMA(b3, 0.0625f, s3, s1 + m[7]));
    }
}

/* Vectors handled together in a step. Two on NEON: scattered 16-byte stores cost a Neoverse-V1 1.3 cycles each,
 * pairs 1.0. */
enum { WINOGRAD_WIDE = VEC_REGISTERS == 32 && VEC_LANES == 4 ? 2 : 1, WINOGRAD_STEP = WINOGRAD_WIDE * VEC_LANES };

VEC_INLINE void winograd_store(const int wide, float *p, vec a, vec b)
{
    if (wide == 2)
        vec_store_pair(p, a, b);
    else
        vec_store(p, a);
}

VEC_INLINE void winograd_input_row_step(const int wide, const winograd_constants *constants, const float *x,
                                        int64_t step, int padded, float *half)
{
    vec o[2][8];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            d[i] = vec_load(x + i * step + k * VEC_LANES);
        winograd_input(constants, d, o[k]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        winograd_store(wide, half + i * padded, o[0][i], o[wide - 1][i]);
}

/* One row of an input tile: 8 pixels, `step` floats apart, into half[8][padded]; missing channels are zero. `ahead`
 * is the next row. A few of its cache lines are prefetched in every step: one burst would fill the queues of the
 * cache and stall everything. */
VEC_INLINE void winograd_input_row(const float *x, int64_t step, int channels, int padded, float *half,
                                   const float *ahead)
{
    const winograd_constants constants = winograd_constants_load(winograd_input_table);
    int c = 0;
    for (; c + WINOGRAD_STEP <= channels; c += WINOGRAD_STEP) {
        const float *next = ahead + c + c / WINOGRAD_STEP % (16 / WINOGRAD_STEP) * (WINOGRAD_STEP / 2) * step;
#pragma GCC unroll 8
        for (int i = 0; i < WINOGRAD_STEP / 2; i++)
            __builtin_prefetch(next + i * step);
        winograd_input_row_step(WINOGRAD_WIDE, &constants, x + c, step, padded, half + c);
    }
    for (; c + VEC_LANES <= channels; c += VEC_LANES)
        winograd_input_row_step(1, &constants, x + c, step, padded, half + c);
    if (c < channels) {
        vec d[8], o[8];
        for (int i = 0; i < 8; i++)
            d[i] = vec_load_part(x + i * step + c, channels - c);
        winograd_input(&constants, d, o);
        for (int i = 0; i < 8; i++)
            vec_store(half + i * padded + c, o[i]);
        c += VEC_LANES;
    }
    for (; c < padded; c += VEC_LANES)
        for (int i = 0; i < 8; i++)
            vec_store(half + i * padded + c, vec_splat(0));
}

VEC_INLINE void winograd_input_column_step(const int wide, const winograd_constants *constants,
                                           const float *const rows[8], int at, float *v, int64_t slot)
{
    vec o[2][8];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            d[r] = vec_load(rows[r] + at + k * VEC_LANES);
        winograd_input(constants, d, o[k]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        winograd_store(wide, v + r * 8 * slot, o[0][r], o[wide - 1][r]);
}

/* One column of the tile, at offset `at` in each of its rows, into 8 slots of V eight frequencies apart. */
VEC_INLINE void winograd_input_column(const float *const rows[8], int at, int padded, float *v, int64_t slot)
{
    const winograd_constants constants = winograd_constants_load(winograd_input_table);
    const float *const local[8] = { rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7] };
    int c = 0;
    for (; c + WINOGRAD_STEP <= padded; c += WINOGRAD_STEP)
        winograd_input_column_step(WINOGRAD_WIDE, &constants, local, at + c, v + c, slot);
    for (; c < padded; c += VEC_LANES)
        winograd_input_column_step(1, &constants, local, at + c, v + c, slot);
}

VEC_INLINE void winograd_output_column_step(const int wide, const winograd_constants *constants, const int outputs,
                                            const float *m, int64_t slot, const float *bias, int width, float *half,
                                            const float *ahead)
{
    vec o[2][7];
    if (wide > 1) /* half of the cache lines in a step of half a line */
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            __builtin_prefetch(ahead + r * 8 * slot);
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            d[r] = vec_load(m + r * 8 * slot + k * VEC_LANES);
        if (bias)
            d[1] = d[1] + vec_load(bias + k * VEC_LANES);
        winograd_output(constants, outputs, d, o[k]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < outputs; r++)
        winograd_store(wide, half + r * 8 * width, o[0][r], o[wide - 1][r]);
}

/* One column of M, 8 slots eight frequencies apart, into its column of half[outputs][8][width]. bias is for column 1
 * only: frequency (1,1) belongs to the points 1, whose powers are all 1, so a value added there is added to every
 * output. `ahead` is the next column. */
VEC_INLINE void winograd_output_column(const int outputs, const float *m, int64_t slot, const float *bias, int width,
                                       float *half, const float *ahead)
{
    const winograd_constants constants = winograd_constants_load(winograd_output_table);
    int c = 0;
    for (; c + WINOGRAD_STEP <= width; c += WINOGRAD_STEP)
        winograd_output_column_step(WINOGRAD_WIDE, &constants, outputs, m + c, slot, bias ? bias + c : NULL, width,
                                    half + c, ahead + c + (c / 8 % 2) * 32 * slot);
    for (; c < width; c += VEC_LANES)
        winograd_output_column_step(1, &constants, outputs, m + c, slot, bias ? bias + c : NULL, width, half + c,
                                    ahead);
}

/* Destination of a row of outputs, and what is added to it. */
typedef struct winograd_row {
    float *y;
    const float *residual; /* shaped like y, or NULL */
    bool relu;
    int64_t step; /* floats from one output pixel to the next */
    int channels;
    int first, end; /* outputs inside the image */
} winograd_row;

/* `wide` whole vectors of channels at c; with !whole only some outputs are inside the image. */
VEC_INLINE void winograd_output_row_step(const int wide, const winograd_constants *constants, const int outputs,
                                         const bool whole, const bool residual, const float *half, int width,
                                         const winograd_row *t, int c)
{
    const vec floor = vec_splat(t->relu ? 0 : -__builtin_inff());
    vec o[2][7];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec d[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            d[i] = vec_load(half + i * width + c + k * VEC_LANES);
        winograd_output(constants, outputs, d, o[k]);
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

/* The last channels of a row, fewer than a vector. */
VEC_INLINE void winograd_output_row_rest(const winograd_constants *constants, const int outputs, const float *half,
                                         int width, const winograd_row *t, int c)
{
    const int lanes = t->channels - c;
    const vec floor = vec_splat(t->relu ? 0 : -__builtin_inff());
    vec d[8], o[7];
    for (int i = 0; i < 8; i++)
        d[i] = vec_load(half + i * width + c);
    winograd_output(constants, outputs, d, o);
    for (int i = t->first; i < t->end; i++) {
        const int64_t at = i * t->step + c;
        const vec v = t->residual ? (vec)(o[i] + vec_load_part(t->residual + at, lanes)) : o[i];
        vec_store_part(t->y + at, vec_max(v, floor), lanes);
    }
}

VEC_INLINE void winograd_output_row_of(const int outputs, const bool whole, const bool residual, const float *half,
                                       int width, const winograd_row *row)
{
    const winograd_constants constants = winograd_constants_load(winograd_output_table);
    const winograd_row t = *row;
    int c = 0;
    for (; c + WINOGRAD_STEP <= t.channels; c += WINOGRAD_STEP)
        winograd_output_row_step(WINOGRAD_WIDE, &constants, outputs, whole, residual, half, width, &t, c);
    for (; c + VEC_LANES <= t.channels; c += VEC_LANES)
        winograd_output_row_step(1, &constants, outputs, whole, residual, half, width, &t, c);
    if (c < t.channels)
        winograd_output_row_rest(&constants, outputs, half, width, &t, c);
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

#undef LANE_a0
#undef LANE_a1
#undef LANE_a2
#undef LANE_a3
#undef LANE_b0
#undef LANE_b1
#undef LANE_b2
#undef LANE_b3
#undef FMA_LANE
#undef FMS_LANE
#undef EXPAND
#undef FMA
#undef FMS

#endif

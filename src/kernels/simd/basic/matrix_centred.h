/* quantise_group of kernels/i8_group.h for centred groups, as many at once as a vector has lanes: a lane has a group,
 * so nothing is summed across lanes. Every step is that of quantise_centred, in the same order, so it has the same
 * bits. Sums of codes and of their squares are exact as floats: 32 * 32 * 127^2 is below 2^24. */
#ifndef ZN_SIMD_MATRIX_CENTRED_H
#define ZN_SIMD_MATRIX_CENTRED_H

#include "kernels/i8_group.h"
#include "kernels/simd/basic/matrix_turn.h"
#include "kernels/simd/vec_math.h"

/* The elements of the groups, [element][group]; element 8v + l is x[v][l] of quantise_centred. */
typedef struct turned {
    vec x[ZN_I8_GROUP];
} turned;

VEC_INLINE turned turn_groups(const float *values)
{
    turned t;
    const uint8_t *line[VEC_LANES];
    for (int c = 0; c < VEC_LANES; c++)
        line[c] = (const uint8_t *)(values + c * ZN_I8_GROUP);
    for (int i = 0; i < ZN_I8_GROUP; i += 4) {
        ivec words[4];
        transpose(line, i * (int)sizeof(float), words);
        memcpy(&t.x[i], words, sizeof words);
    }
    return t;
}

/* x < low ? x : low, and x > high ? x : high: the first of two zeros stays, which vminq_f32 does not do. */
#if defined(__ARM_NEON)
VEC_INLINE vec lower(vec x, vec low) { return vec_select(vec_greater(low, x), x, low); }
VEC_INLINE vec higher(vec x, vec high) { return vec_select(vec_greater(x, high), x, high); }
#else
VEC_INLINE vec lower(vec x, vec low) { return vec_min(low, x); }
VEC_INLINE vec higher(vec x, vec high) { return vec_max(high, x); }
#endif

VEC_INLINE vec middle_of(const turned *t)
{
    vec bottom = t->x[0], top = t->x[0];
#pragma GCC unroll 8
    for (int l = 0; l < GROUP_LANES; l++) {
        vec low = t->x[l], high = t->x[l];
#pragma GCC unroll 4
        for (int v = 1; v < GROUP_VECTORS; v++) {
            low = lower(t->x[v * GROUP_LANES + l], low);
            high = higher(t->x[v * GROUP_LANES + l], high);
        }
        bottom = l ? lower(low, bottom) : low;
        top = l ? higher(high, top) : high;
    }
    bottom *= 0.5f;
    top *= 0.5f;
    return bottom + top;
}

/* Largest magnitude, compared as integers. */
VEC_INLINE vec largest_of(const turned *t)
{
    veci top = veci_splat(0);
#pragma GCC unroll 32
    for (int i = 0; i < ZN_I8_GROUP; i++) {
        const veci magnitude = vec_bits(vec_abs(t->x[i])), more = magnitude > top;
        top = (magnitude & more) | (top & ~more);
    }
    return vec_of_bits(top);
}

/* group_sum of four elements of each of eight lanes that were added up as it does. */
VEC_INLINE vec sum_of(const vec all[GROUP_LANES])
{
    return ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
}

/* The sum of the squared errors with a divisor, times its square. */
VEC_INLINE vec errors_of(const turned *t, vec divisor)
{
    const vec inverse = 127.0f / divisor, rounder = vec_splat(0x1.8p23f);
    vec all[GROUP_LANES];
#pragma GCC unroll 8
    for (int l = 0; l < GROUP_LANES; l++) {
        vec error[GROUP_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) {
            const vec scaled = t->x[v * GROUP_LANES + l] * inverse, large = scaled + rounder;
            const vec rounded = large - rounder;
            error[v] = scaled - rounded;
            error[v] *= error[v];
        }
        all[l] = (error[0] + error[2]) + (error[1] + error[3]);
    }
    return sum_of(all) * divisor * divisor;
}

/* Four codes of every group, from the floats that were rounded by adding 1.5 * 2^23: their low bytes are the codes. */
VEC_INLINE veci four_codes(const vec large[4])
{
    veci four = veci_splat(0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        four |= ((vec_bits(large[i]) + ZN_I8_SHIFT) & 255) << (8 * i);
    return four;
}

static void quantise_centred_lanes(const float *values, uint8_t *codes, float *scales, float *centres)
{
    turned t = turn_groups(values);
    const vec middle = middle_of(&t), rounder = vec_splat(0x1.8p23f);
    for (int i = 0; i < ZN_I8_GROUP; i++)
        t.x[i] -= middle;
    const vec largest = largest_of(&t), least = vec_splat(ZN_I8_LEAST);
    const veci small = vec_greater(least, largest), coded = ~small & vec_greater(vec_splat(INFINITY), largest);
    for (int i = 0; i < ZN_I8_GROUP; i++)
        t.x[i] = vec_where(coded, t.x[i]);
    const vec most = vec_select(coded, largest, vec_splat(1)), grown = most * 0.008f, wider = most + grown;
    const vec divisor = vec_select(vec_greater(errors_of(&t, most), errors_of(&t, wider)), wider, most);
    const vec inverse = 127.0f / divisor;
    vec large[ZN_I8_GROUP], all[GROUP_LANES], products[GROUP_LANES], total = vec_splat(0), squares = vec_splat(0);
#pragma GCC unroll 8
    for (int l = 0; l < GROUP_LANES; l++) {
        vec x[GROUP_VECTORS], product[GROUP_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) {
            const int i = v * GROUP_LANES + l;
            x[v] = t.x[i];
            const vec scaled = x[v] * inverse;
            large[i] = scaled + rounder;
            const vec code = large[i] - rounder;
            product[v] = x[v] * code;
            squares = vec_fma(code, code, squares);
            total += code;
        }
        all[l] = (x[0] + x[2]) + (x[1] + x[3]);
        products[l] = (product[0] + product[2]) + (product[1] + product[3]);
    }
    const vec apart = squares * (float)ZN_I8_GROUP - total * total;
    const vec sum = sum_of(all), product = sum_of(products) * (float)ZN_I8_GROUP, less = sum * total;
    const vec slope = (product - less) / apart, line = slope * total;
    const vec centre = middle + (sum - line) / (float)ZN_I8_GROUP, none = vec_splat(NAN);
    vec_store(scales, vec_select(coded, slope, vec_select(small, vec_splat(0), none)));
    vec_store(centres, vec_select(coded, centre, vec_select(small, middle, none)));
    int32_t words[ZN_I8_GROUP / 4][VEC_LANES];
    for (int k = 0; k < ZN_I8_GROUP / 4; k++) {
        const veci four = four_codes(large + 4 * k);
        memcpy(words[k], &four, sizeof four);
    }
    for (int c = 0; c < VEC_LANES; c++)
        for (int k = 0; k < ZN_I8_GROUP / 4; k++)
            memcpy(codes + c * ZN_I8_GROUP + 4 * k, &words[k][c], sizeof words[k][c]);
}

#endif

/* Quantises a group of values to 8 bits (kernels/matrix_i8.h), with the same bits in every build: sums run in a fixed
 * order, and no expression has a product and a sum that compilers could fuse.
 *
 *     quantise_group(x, false, codes, &scale, &sum);       x = scale * code; sum = scale * (sum of codes)
 *     quantise_group(x, true, codes, &scale, &centre);     x = centre + scale * code
 *
 * codes are stored as kernels/matrix_i8.h says, plus ZN_I8_SHIFT. */
#ifndef ZN_KERNELS_I8_GROUP_H
#define ZN_KERNELS_I8_GROUP_H

#include "kernels/matrix_i8.h"

#include <math.h>
#include <string.h>

/* A quarter of a group; a compiler splits it further where vectors are shorter. */
typedef float group_floats __attribute__((vector_size(32)));
typedef int32_t group_ints __attribute__((vector_size(32)));
typedef uint8_t group_bytes __attribute__((vector_size(8)));
enum { GROUP_LANES = 8, GROUP_VECTORS = ZN_I8_GROUP / GROUP_LANES };
#define GROUP_EACH for (int v = 0; v < GROUP_VECTORS; v++)

static inline void group_select(const group_ints *mask, const group_floats *yes, group_floats *no)
{
    *no = (group_floats)((*mask & (group_ints)*yes) | (~*mask & (group_ints)*no));
}

static inline float group_sum(const group_floats *x)
{
    const group_floats even = x[0] + x[2], odd = x[1] + x[3], all = even + odd;
    return ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
}

static inline int32_t group_total(const group_ints *x)
{
    const group_ints all = (x[0] + x[1]) + (x[2] + x[3]);
    return all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
}

/* Largest magnitude; not finite if a value is not. As integers, NaN and infinity are above all other magnitudes. */
static inline float group_largest(const float *x)
{
    uint32_t bits[ZN_I8_GROUP], top = 0;
    float value;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < ZN_I8_GROUP; i++) {
        const uint32_t magnitude = bits[i] & 0x7fffffffu;
        top = magnitude > top ? magnitude : top;
    }
    memcpy(&value, &top, sizeof value);
    return value;
}

/* Half the sum of the extremes; any value if one is not finite. */
static inline float group_middle(const group_floats *x)
{
    group_floats low = x[0], high = x[0];
    GROUP_EACH
    {
        const group_ints less = x[v]<low, more = x[v]> high;
        group_select(&less, &x[v], &low);
        group_select(&more, &x[v], &high);
    }
    float bottom = low[0], top = high[0];
    for (int l = 1; l < GROUP_LANES; l++) {
        bottom = low[l] < bottom ? low[l] : bottom;
        top = high[l] > top ? high[l] : top;
    }
    bottom *= 0.5f;
    top *= 0.5f;
    return bottom + top;
}

/* rounded = x * inverse as integers, error = what is rounded off. Numbers next to 1.5 * 2^23 have no fraction. */
static inline void group_round(const group_floats *x, float inverse, group_floats *rounded, group_floats *error)
{
    const float rounder = 0x1.8p23f;
    GROUP_EACH
    {
        const group_floats scaled = x[v] * inverse;
        const group_floats large = scaled + rounder;
        rounded[v] = large - rounder;
        error[v] = scaled - rounded[v];
    }
}

/* The divisor with the smaller sum of squared errors: `most`, or a slightly larger one. */
static inline float group_best_divisor(const group_floats *x, float most)
{
    float best = most, least = INFINITY;
    for (int k = 0; k < 2; k++) { /* more gain little */
        const float grown = 0.008f * (float)k * most, divisor = most + grown;
        group_floats rounded[GROUP_VECTORS], error[GROUP_VECTORS];
        group_round(x, 127 / divisor, rounded, error);
        GROUP_EACH error[v] *= error[v];
        const float sum = group_sum(error) * divisor * divisor;
        best = sum < least ? divisor : best;
        least = sum < least ? sum : least;
    }
    return best;
}

/* Fits x = *centre + *scale * code by least squares: changes both. x: without the centre. */
static inline void group_fit(const group_floats *x, const group_ints *codes, float *scale, float *centre)
{
    group_floats products[GROUP_VECTORS];
    group_ints squares[GROUP_VECTORS];
    GROUP_EACH
    {
        products[v] = x[v] * __builtin_convertvector(codes[v], group_floats);
        squares[v] = codes[v] * codes[v];
    }
    const int32_t total = group_total(codes), apart = ZN_I8_GROUP * group_total(squares) - total * total;
    const float sum = group_sum(x), all = group_sum(products) * ZN_I8_GROUP, less = sum * (float)total;
    const float slope = (all - less) / (float)apart, line = slope * (float)total;
    *scale = slope;
    *centre += (sum - line) / ZN_I8_GROUP;
}

/* The codes of a group whose values have a largest magnitude `most` that is too small or not finite; else false. */
static inline bool group_has_no_codes(float most, float middle, uint8_t *codes, float *scale, float *sum)
{
    if (most >= ZN_I8_LEAST && most < INFINITY)
        return false;
    memset(codes, ZN_I8_SHIFT, ZN_I8_GROUP);
    *scale = most < ZN_I8_LEAST ? 0 : NAN;
    *sum = most < ZN_I8_LEAST ? middle : NAN;
    return true;
}

static inline void quantise_centred(const float *values, uint8_t *codes, float *scale, float *centre)
{
    group_floats x[GROUP_VECTORS], rounded[GROUP_VECTORS], error[GROUP_VECTORS];
    group_ints whole[GROUP_VECTORS];
    memcpy(x, values, sizeof x);
    const float middle = group_middle(x);
    GROUP_EACH x[v] -= middle;
    const float most = group_largest((const float *)(const void *)x);
    if (group_has_no_codes(most, middle, codes, scale, centre))
        return;
    group_round(x, 127 / group_best_divisor(x, most), rounded, error);
    GROUP_EACH
    {
        whole[v] = __builtin_convertvector(rounded[v], group_ints);
        const group_bytes bytes = __builtin_convertvector(whole[v] + ZN_I8_SHIFT, group_bytes);
        memcpy(codes + v * GROUP_LANES, &bytes, sizeof bytes);
    }
    *centre = middle;
    group_fit(x, whole, scale, centre);
}

/* Plain loops, which compilers turn into vectors. */
static inline void quantise_plain(const float *x, uint8_t *codes, float *scale, float *sum)
{
    const float most = group_largest(x), rounder = 0x1.8p23f;
    int32_t rounded[ZN_I8_GROUP], total = 0;
    if (group_has_no_codes(most, 0, codes, scale, sum))
        return;
    const float inverse = 127 / most;
    for (int i = 0; i < ZN_I8_GROUP; i++) {
        const float scaled = x[i] * inverse;
        rounded[i] = (int32_t)(scaled + rounder - rounder);
    }
    for (int i = 0; i < ZN_I8_GROUP; i++) {
        codes[i] = (uint8_t)(rounded[i] + ZN_I8_SHIFT);
        total += rounded[i];
    }
    *scale = most / 127;
    *sum = *scale * (float)total;
}

static inline void quantise_group(const float *x, bool centred, uint8_t *codes, float *scale, float *sum)
{
    if (centred)
        quantise_centred(x, codes, scale, sum);
    else
        quantise_plain(x, codes, scale, sum);
}

#undef GROUP_EACH
#endif

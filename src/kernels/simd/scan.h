/* What the scan and its gradient share: a block of channels as vectors, softplus, and powers of two. Rates are in
 * powers of two, so that a decay is 2^(delta rate). */
#ifndef ZN_SIMD_SCAN_H
#define ZN_SIMD_SCAN_H

#include "kernels/scan.h"
#include "kernels/simd/vec_math.h"

#include <math.h>

/* Vectors of a block; states that go side by side. */
enum { SCAN_V = ZN_SCAN_BLOCK / VEC_LANES, SCAN_U = 4 };
#define SCAN_EACH_VECTOR _Pragma("GCC unroll 4") for (int v = 0; v < SCAN_V; v++)
#define SCAN_EACH(count) _Pragma("GCC unroll 4") for (int u = 0; u < (count); u++)

/* `count` of a block's channels, zero behind them. */
VEC_INLINE vec block_load(const float *p, int v, int count)
{
    const int n = count - v * VEC_LANES;
    return n >= VEC_LANES ? vec_load(p + v * VEC_LANES) : n > 0 ? vec_load_part(p + v * VEC_LANES, n) : vec_splat(0);
}

VEC_INLINE void block_store(float *p, int v, int count, vec x)
{
    const int n = count - v * VEC_LANES;
    if (n >= VEC_LANES)
        vec_store(p + v * VEC_LANES, x);
    else if (n > 0)
        vec_store_part(p + v * VEC_LANES, x, n);
}

/* 2^x of `count` vectors (a constant) of x <= 0, down to 2^-125, to 2e-7; near 0, where errors would add up over many
 * tokens, to rounding: the first two coefficients are those of the series. 2^n is made by shifting n + 127 out of the
 * sum with `shift`. No sum begins with a constant, which a multiply-add would overwrite. A NaN gives NaN. */
VEC_INLINE void vec_power2(const int count, vec *x)
{
    static const float p[] = { 6.931471825e-01f, 2.402228198e-01f, 5.550558342e-02f, 9.669691607e-03f,
                               1.330060613e-03f };
    const vec shift = vec_splat(12582912.0f + 127); /* 1.5 * 2^23: rounds to whole numbers */
    vec n[SCAN_U], s[SCAN_U], t[SCAN_U], square[SCAN_U];
    SCAN_EACH(count) x[u] = vec_max(x[u], vec_splat(-125));
    SCAN_EACH(count) n[u] = x[u] + shift;
    SCAN_EACH(count) x[u] = x[u] - (n[u] - shift);
    SCAN_EACH(count) square[u] = x[u] * x[u];
    SCAN_EACH(count) s[u] = vec_splat(p[2]) * x[u];
    SCAN_EACH(count) t[u] = vec_splat(p[4]) * x[u];
    SCAN_EACH(count) s[u] = vec_fma(vec_splat(p[3]), square[u], s[u]);
    SCAN_EACH(count) s[u] = vec_fma(t[u], square[u], s[u]);
    SCAN_EACH(count) x[u] = vec_splat(p[0]) * x[u];
    SCAN_EACH(count) x[u] = vec_fma(vec_splat(p[1]), square[u], x[u]);
    SCAN_EACH(count) x[u] = vec_fma(s[u], square[u], x[u]);
    SCAN_EACH(count) n[u] = vec_of_bits(vec_bits(n[u]) << 23);
    SCAN_EACH(count) x[u] = vec_fma(n[u], x[u], n[u]);
}

/* softplus(x) = max(x, 0) + log(1 + e), e = exp(-|x|), and its slope. log(1 + e) = 2 artanh(e / (2 + e)). */
VEC_INLINE vec vec_softplus(vec x, vec *slope)
{
    static const float p[] = { 2.817833263e-01f, 2.796060759e-01f, 4.002490953e-01f, 6.666631471e-01f, 2 };
    const vec one = vec_splat(1), e = vec_exp_negative(vec_of_bits(vec_bits(x) | (veci)veci_splat(INT32_MIN)));
    const vec s = e / (one + one + e), square = s * s, part = one / (one + e);
    vec q = vec_splat(p[0]);
#pragma GCC unroll 4
    for (int i = 1; i < 5; i++)
        q = vec_fma(q, square, vec_splat(p[i]));
    *slope = vec_select(vec_greater(x, vec_splat(0)), part, e * part);
    const vec sum = vec_fma(q, s, vec_max(x, vec_splat(0)));
    return vec_select(vec_greater(x, vec_splat(20)), x, sum);
}

/* Where a block's channels begin, and how many there are. */
VEC_INLINE int64_t channel_of(int64_t block) { return block * ZN_SCAN_BLOCK; }
VEC_INLINE int width_of(const zn_scan_args *a, int64_t block)
{
    const int64_t left = a->channels - channel_of(block);
    return left < ZN_SCAN_BLOCK ? (int)left : ZN_SCAN_BLOCK;
}

/* -exp(a_log) log2(e) of a block, as a cell. */
static inline void rates_of(const zn_scan_args *a, int64_t block, float *cell)
{
    const int width = width_of(a, block);
    const float *from = a->a_log + channel_of(block) * a->states;
    for (int i = 0; i < a->states; i++)
        for (int k = 0; k < ZN_SCAN_BLOCK; k++)
            cell[i * ZN_SCAN_BLOCK + k] = k < width ? -1.44269504f * expf(from[(int64_t)k * a->states + i]) : 0;
}

VEC_INLINE int64_t end_of(const zn_scan_args *a, int64_t chunk)
{
    const int64_t end = chunk * ZN_SCAN_CHUNK;
    return end < a->length ? end : a->length;
}

#endif

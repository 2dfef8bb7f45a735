/* Shared by the scan and its gradient: a block of channels as vectors, softplus, and powers of two. Rates are for
 * base two, so that a decay is 2^(delta rate). */
#ifndef ZN_SIMD_SCAN_H
#define ZN_SIMD_SCAN_H

#include "kernels/scan.h"
#include "kernels/simd/vec_math.h"

#include <math.h>

/* Vectors per block; states, and tokens, computed side by side. */
enum {
    SCAN_V = ZN_SCAN_BLOCK / VEC_LANES,
    SCAN_U = 4,
    SCAN_T = VEC_REGISTERS >= 32 ? 2 : 1,
    SCAN_CHAINS = SCAN_U * SCAN_T
};
#define SCAN_EACH_VECTOR _Pragma("GCC unroll 4") for (int v = 0; v < SCAN_V; v++)
#define SCAN_EACH(count) _Pragma("GCC unroll 8") for (int u = 0; u < (count); u++)

/* Loads `count` of a block's channels, followed by zeros. */
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

/* A constant that a multiply-add will overwrite. On ARM it is loaded each time: copying a register would take the
 * issue slot of an addition, while loads have their own slots. */
VEC_INLINE vec vec_fresh(const float p[4])
{
#if defined(__aarch64__)
    vec v;
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const float(*)[4])p));
    return v;
#else
    return vec_splat(p[0]);
#endif
}

/* 2^x of `count` vectors (a compile-time constant) of x <= 0, down to 2^-125, accurate to 2e-7. Near 0, where errors
 * would accumulate over many tokens, it is accurate to rounding: the first two coefficients are those of the series.
 * 2^n is computed by shifting n + 127 out of the sum with `shift`. A NaN gives NaN. */
VEC_INLINE void vec_power2(const int count, vec *x)
{
#define FOUR(c)                                                                                                        \
    {                                                                                                                  \
        c, c, c, c                                                                                                     \
    }
    static const float p[][4] = { FOUR(9.669691607e-03f), FOUR(5.550558342e-02f), FOUR(2.402228198e-01f),
                                  FOUR(6.931471825e-01f) };
#undef FOUR
    const vec shift = vec_splat(12582912.0f + 127); /* 1.5 * 2^23: rounds to integers */
    vec n[SCAN_CHAINS], s[SCAN_CHAINS];
    SCAN_EACH(count) x[u] = vec_max(x[u], vec_splat(-125));
    SCAN_EACH(count) n[u] = x[u] + shift;
    SCAN_EACH(count) x[u] = x[u] - (n[u] - shift);
    SCAN_EACH(count) s[u] = vec_fma(vec_splat(1.330060613e-03f), x[u], vec_fresh(p[0]));
#pragma GCC unroll 3
    for (int i = 1; i < 4; i++)
        SCAN_EACH(count) s[u] = vec_fma(s[u], x[u], vec_fresh(p[i]));
    SCAN_EACH(count) x[u] = s[u] * x[u];
    SCAN_EACH(count) n[u] = vec_of_bits(vec_bits(n[u]) << 23);
    SCAN_EACH(count) x[u] = vec_fma(n[u], x[u], n[u]);
}

/* x = softplus(x) = max(x, 0) + log(1 + e), e = exp(-|x|), of a block, and its slope. log(1 + e) is 2 artanh(e / (2
 * + e)). Each vector is one long dependency chain, so they are computed side by side. */
VEC_INLINE void softplus(vec x[SCAN_V], vec slope[SCAN_V])
{
    static const float p[] = { 2.817833263e-01f, 2.796060759e-01f, 4.002490953e-01f, 6.666631471e-01f, 2 };
    const vec one = vec_splat(1), two = vec_splat(2);
    vec e[SCAN_V], s[SCAN_V], square[SCAN_V], q[SCAN_V];
    SCAN_EACH_VECTOR e[v] = vec_of_bits(vec_bits(x[v]) | (veci)veci_splat(INT32_MIN));
    vec_exp_vectors(SCAN_V, e);
    SCAN_EACH_VECTOR s[v] = e[v] / (two + e[v]);
    SCAN_EACH_VECTOR square[v] = s[v] * s[v];
    SCAN_EACH_VECTOR q[v] = vec_splat(p[0]);
#pragma GCC unroll 4
    for (int i = 1; i < 5; i++)
        SCAN_EACH_VECTOR q[v] = vec_fma(q[v], square[v], vec_splat(p[i]));
    SCAN_EACH_VECTOR square[v] = one / (one + e[v]);
    SCAN_EACH_VECTOR slope[v] = vec_select(vec_greater(x[v], vec_splat(0)), square[v], e[v] * square[v]);
    SCAN_EACH_VECTOR q[v] = vec_fma(q[v], s[v], vec_max(x[v], vec_splat(0)));
    SCAN_EACH_VECTOR x[v] = vec_select(vec_greater(x[v], vec_splat(20)), x[v], q[v]);
}

/* decay[k * count + u] = 2^(delta[k] rate[u]) for `steps` tokens and `count` states (compile-time constants). */
VEC_INLINE void decays_of(const int steps, const int count, const float *delta, const vec *rate, vec *decay)
{
#pragma GCC unroll 2
    for (int k = 0; k < steps; k++) {
        const vec d = vec_load(delta + k * ZN_SCAN_BLOCK);
        SCAN_EACH(count) decay[k * count + u] = d * rate[u];
    }
    vec_power2(steps * count, decay);
}

/* The first channel of a block, and the number of its channels. */
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
    const int64_t end = chunk * zn_scan_chunk(a);
    return end < a->length ? end : a->length;
}

#endif

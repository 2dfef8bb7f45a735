/* GELU in its exact form, x Phi(x). With a = |x|, the smaller tail of the normal distribution is h = 2^(-a q(a)) / 2,
 * q a polynomial fitted to 0..10 so that x Phi(x) is right to 2e-8; what remains is rounding. Every step is one long
 * chain, so four vectors go through it side by side. */
#ifndef ZN_SIMD_GELU_H
#define ZN_SIMD_GELU_H

#include "kernels/simd/vec_math.h"

enum { GELU_U = 4, GELU_BLOCK = GELU_U * VEC_LANES };
#define GELU_EACH _Pragma("GCC unroll 4") for (int u = 0; u < GELU_U; u++)

/* a = -|x|, at least -10, and the tail h beyond it: 2^n times a polynomial on half an octave to either side, n added to
 * the exponent. */
VEC_INLINE void tail(const vec x[GELU_U], vec a[GELU_U], vec h[GELU_U])
{
    static const float q[] = { 1.978430468e-06f,  -2.976340111e-05f, 1.438878719e-04f, 2.299177948e-04f,
                               -7.171302344e-03f, 5.256011775e-02f,  4.591911411e-01f, 1.151106626e+00f };
    static const float half_power[] = {
        7.701765197e-05f, 6.666779073e-04f, 4.809064554e-03f, 2.775205433e-02f, 1.201132535e-01f, 3.465735903e-01f, 0.5f
    };
    const vec shift = vec_splat(12582912.0f); /* 1.5 * 2^23: rounds to whole numbers */
    vec n[GELU_U], f[GELU_U];
    GELU_EACH a[u] = vec_max(vec_of_bits(vec_bits(x[u]) | (veci)veci_splat(INT32_MIN)), vec_splat(-10));
    GELU_EACH f[u] = vec_splat(q[0]);
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        GELU_EACH f[u] = vec_fms(f[u], a[u], vec_splat(q[i]));
    GELU_EACH f[u] = f[u] * a[u];
    GELU_EACH n[u] = f[u] + shift;
    GELU_EACH f[u] = f[u] - (n[u] - shift);
    GELU_EACH h[u] = vec_splat(half_power[0]);
#pragma GCC unroll 6
    for (int i = 1; i < 7; i++)
        GELU_EACH h[u] = vec_fma(h[u], f[u], vec_splat(half_power[i]));
    GELU_EACH h[u] = vec_of_bits(vec_bits(h[u]) + (vec_bits(n[u]) << 23));
}

/* p = Phi(x) */
VEC_INLINE void normal(const vec x[GELU_U], vec p[GELU_U])
{
    vec a[GELU_U];
    tail(x, a, p);
    GELU_EACH p[u] = vec_select(vec_greater(x[u], vec_splat(0)), vec_splat(1) - p[u], p[u]);
    GELU_EACH p[u] = vec_fma(a[u], vec_splat(0), p[u]); /* a NaN stays NaN */
}

/* x Phi(x) = max(x, 0) - |x| h */
VEC_INLINE void gelu(vec x[GELU_U])
{
    vec a[GELU_U], h[GELU_U];
    tail(x, a, h);
    GELU_EACH x[u] = vec_fma(a[u], h[u], vec_max(x[u], vec_splat(0)));
}

#endif

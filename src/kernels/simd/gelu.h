/* GELU in its exact form, x Phi(x). With a = |x|, the smaller tail of the normal distribution is h = exp(-a q(a)) / 2,
 * q a polynomial fitted to 0..10 so that x Phi(x) is right to 2e-8; what remains is rounding. Every step is one long
 * chain, so four vectors go through it side by side. */
#ifndef ZN_SIMD_GELU_H
#define ZN_SIMD_GELU_H

#include "kernels/simd/vec_math.h"

enum { GELU_U = 4, GELU_BLOCK = GELU_U * VEC_LANES };
#define GELU_EACH _Pragma("GCC unroll 4") for (int u = 0; u < GELU_U; u++)

/* p = Phi(x) */
VEC_INLINE void normal(const vec x[GELU_U], vec p[GELU_U])
{
    static const float q[] = { 1.371343500977673e-06f,  -2.0630417566280812e-05f, 9.973547275876626e-05f,
                               1.5936687123030424e-04f, -4.970768000930548e-03f,  3.6431897431612015e-02f,
                               3.1828704476356506e-01f, 7.97886312007904e-01f };
    vec a[GELU_U]; /* -|x| */
    GELU_EACH a[u] = vec_max(vec_splat(0) - vec_abs(x[u]), vec_splat(-10));
    GELU_EACH p[u] = vec_splat(q[0]);
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        GELU_EACH p[u] = vec_fms(p[u], a[u], vec_splat(q[i]));
    GELU_EACH a[u] = p[u] * a[u];
    vec_exp_vectors(GELU_U, a);
    GELU_EACH a[u] = vec_splat(0.5f) * a[u];
    GELU_EACH p[u] = vec_select(vec_greater(x[u], vec_splat(0)), vec_splat(1) - a[u], a[u]);
}

VEC_INLINE void gelu(vec x[GELU_U])
{
    vec p[GELU_U];
    normal(x, p);
    GELU_EACH x[u] = x[u] * p[u];
}

#endif

/* GELU in its exact form, x Phi(x). With a = |x|, the smaller tail of the normal distribution is h = 2^(-a q(a)) / 2,
 * q a polynomial fitted to 0..10 so that x Phi(x) is right to 2e-8; what remains is rounding. Every step is one long
 * chain, so four vectors go through it side by side. */
#ifndef ZN_SIMD_GELU_H
#define ZN_SIMD_GELU_H

#include "kernels/simd/vec_math.h"

enum { GELU_U = 4, GELU_BLOCK = GELU_U * VEC_LANES };
#define GELU_EACH _Pragma("GCC unroll 4") for (int u = 0; u < GELU_U; u++)

/* GELU of `lines` lines of 16 floats that lie one behind the other, to lines `step` floats apart. In gelu.c, whose
 * compiler flags suit it. */
enum { GELU_LINE = 16 };
void ZN_KERNEL(gelu_lines)(const float *x, int64_t lines, float *y, int64_t step);

/* s = p[0] x + p[1] x^2: no sum begins with a constant, which a multiply-add would overwrite. And p[0] + p[1] x. */
#define GELU_CURVE(s, p, x)    GELU_EACH s[u] = vec_fma(vec_splat((p)[1]), square[u], vec_splat((p)[0]) * x[u])
#define GELU_STRAIGHT(s, p, x) GELU_EACH s[u] = vec_fma(vec_splat((p)[1]), x[u], vec_splat((p)[0]))

/* a = -|x|, at least -10, and the tail h beyond it: 2^n times a polynomial on half an octave to either side, n added to
 * the exponent. Both polynomials in pairs of pairs, since one chain of multiply-adds would take twice as long. */
VEC_INLINE void tail(const vec x[GELU_U], vec a[GELU_U], vec h[GELU_U])
{
    static const float q[] = { 1.151106626e+00f, -4.591911411e-01f, 5.256011775e-02f,  7.171302344e-03f,
                               2.299177948e-04f, -1.438878719e-04f, -2.976340111e-05f, -1.978430468e-06f };
    static const float half_power[] = {
        0.5f, 3.465735903e-01f, 1.201132535e-01f, 2.775205433e-02f, 4.809064554e-03f, 6.666779073e-04f, 7.701765197e-05f
    };
    const vec shift = vec_splat(12582912.0f); /* 1.5 * 2^23: rounds to whole numbers */
    vec n[GELU_U], f[GELU_U], s[GELU_U], t[GELU_U], square[GELU_U];
    GELU_EACH a[u] = vec_max(vec_of_bits(vec_bits(x[u]) | (veci)veci_splat(INT32_MIN)), vec_splat(-10));
    GELU_EACH square[u] = a[u] * a[u];
    GELU_CURVE(f, q, a);
    GELU_CURVE(s, q + 2, a);
    GELU_CURVE(h, q + 4, a);
    GELU_CURVE(t, q + 6, a);
    GELU_EACH f[u] = vec_fma(s[u], square[u], f[u]);
    GELU_EACH h[u] = vec_fma(t[u], square[u], h[u]);
    GELU_EACH square[u] = square[u] * square[u];
    GELU_EACH f[u] = vec_fma(h[u], square[u], f[u]);
    GELU_EACH n[u] = f[u] + shift;
    GELU_EACH f[u] = f[u] - (n[u] - shift);
    GELU_EACH square[u] = f[u] * f[u];
    GELU_STRAIGHT(h, half_power, f);
    GELU_STRAIGHT(s, half_power + 2, f);
    GELU_STRAIGHT(t, half_power + 4, f);
    GELU_EACH h[u] = vec_fma(s[u], square[u], h[u]);
    GELU_EACH t[u] = vec_fma(vec_splat(half_power[6]), square[u], t[u]);
    GELU_EACH square[u] = square[u] * square[u];
    GELU_EACH h[u] = vec_fma(t[u], square[u], h[u]);
    GELU_EACH h[u] = vec_of_bits(vec_bits(h[u]) + (vec_bits(n[u]) << 23));
}
#undef GELU_CURVE
#undef GELU_STRAIGHT

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

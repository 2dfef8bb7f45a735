/* GELU in its exact form, x Phi(x). The smaller tail h of the normal distribution is the eighth power of a polynomial
 * of degree eight, fitted to |x| <= 6.4 so that x Phi(x) is right to 6e-9 (beyond, |x| h stays at 6e-10); what remains
 * is rounding, 2e-8 in the mean and 1.7e-7 at most. Every step is one long chain, so four vectors go through it side by
 * side. */
#ifndef ZN_SIMD_GELU_H
#define ZN_SIMD_GELU_H

#include "kernels/simd/vec_math.h"

enum { GELU_U = 4, GELU_BLOCK = GELU_U * VEC_LANES };
#define GELU_EACH _Pragma("GCC unroll 4") for (int u = 0; u < GELU_U; u++)

/* GELU of `lines` lines of 16 floats that lie one behind the other, to lines `step` floats apart. In
 * activation.c, whose compiler flags suit it. */
enum { GELU_LINE = 16 };
void ZN_KERNEL(gelu_lines)(const float *x, int64_t lines, float *y, int64_t step);

#define GELU_SCALE 0.156874239f

/* a = |x| / 6.37, at most 1, and p with a p^2 = |x| h. The last term of the polynomial for 1.15 sqrt[8](h) is the
 * product of a line and three parabolas with no roots nearby: additions and products run at twice the rate of
 * multiply-adds that continue no sum. */
VEC_INLINE void tail(const vec x[GELU_U], vec a[GELU_U], vec p[GELU_U])
{
    vec square[GELU_U], q[GELU_U];
    GELU_EACH a[u] = vec_min(vec_abs(x[u] * vec_splat(GELU_SCALE)), vec_splat(1.004f));
    GELU_EACH square[u] = a[u] * a[u];
    GELU_EACH p[u] = vec_fma(vec_splat(-3.16039515f), a[u], square[u] + vec_splat(2.62016869f));
    GELU_EACH q[u] = vec_fma(vec_splat(-2.12663913f), a[u], square[u] + vec_splat(1.88109231f));
    GELU_EACH p[u] = p[u] * q[u];
    GELU_EACH q[u] = vec_fma(vec_splat(0.743139088f), a[u], square[u] + vec_splat(0.270354807f));
    GELU_EACH square[u] = (a[u] + vec_splat(0.551508009f)) * a[u];
    GELU_EACH q[u] = q[u] * square[u];
    GELU_EACH p[u] = vec_fms(p[u], q[u], vec_splat(1.15591872f));
    GELU_EACH p[u] = p[u] * p[u];
    GELU_EACH p[u] = p[u] * p[u];
}

/* p = Phi(x) */
VEC_INLINE void normal(const vec x[GELU_U], vec p[GELU_U])
{
    vec a[GELU_U];
    tail(x, a, p);
    GELU_EACH p[u] = p[u] * p[u] * vec_splat(GELU_SCALE);
    GELU_EACH p[u] = vec_select(vec_greater(x[u], vec_splat(0)), vec_splat(1) - p[u], p[u]);
}

/* x Phi(x) = max(x, 0) - |x| h */
VEC_INLINE void gelu(vec x[GELU_U])
{
    vec a[GELU_U], p[GELU_U];
    tail(x, a, p);
    GELU_EACH x[u] = vec_fms(a[u] * p[u], p[u], vec_max(x[u], vec_splat(0)));
}

#endif

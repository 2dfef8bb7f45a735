/* GELU in its exact form, x Phi(x). The smaller tail h of the normal distribution is the eighth power of a
 * polynomial of degree eight. It is fitted to |x| <= 6 so that x Phi(x) is accurate to 4e-9 (beyond, |x| h stays at
 * 7e-9). The rest is rounding: 3e-8 on average and at most 1.7e-7 for |x| < 4. Every step is one long dependency
 * chain, so four vectors are computed side by side. */
#ifndef ZN_SIMD_GELU_H
#define ZN_SIMD_GELU_H

#include "kernels/simd/vec_math.h"

enum { GELU_U = 4, GELU_BLOCK = GELU_U * VEC_LANES };
#define GELU_EACH _Pragma("GCC unroll 4") for (int u = 0; u < GELU_U; u++)

/* Lines of 16 floats: a row of x has `lines` consecutive lines; in a row of y they are y_step floats apart. */
enum { GELU_LINE = 16 };
typedef struct gelu_walk {
    const float *x;
    float *y;
    int64_t lines, rows, y_step, x_row, y_row; /* the last two: floats from one row to the next */
} gelu_walk;

/* GELU of all lines. A microkernel (see CMakeLists.txt): basic/gelu_lines.c, in simd/ or in the folder of the ISA. */
void ZN_KERNEL(gelu_lines)(const gelu_walk *w);

/* The coefficients of the polynomial, and the upper limit of |x|. */
#define GELU_C0   0.917003989f
#define GELU_C1   -0.0914574116f
#define GELU_C2   -0.0319280773f
#define GELU_C3   -0.000671955699f
#define GELU_C4   0.00150436233f
#define GELU_C5   3.42950298e-05f
#define GELU_C6   -6.02576365e-05f
#define GELU_C7   7.47955346e-06f
#define GELU_C8   -2.95881932e-07f
#define GELU_MOST 6.0f

/* a = |x|, clamped to GELU_MOST, and p with p^2 = h. */
VEC_INLINE void tail(const vec x[GELU_U], vec a[GELU_U], vec p[GELU_U])
{
    static const float c[] = { GELU_C0, GELU_C1, GELU_C2, GELU_C3, GELU_C4, GELU_C5, GELU_C6, GELU_C7, GELU_C8 };
    GELU_EACH a[u] = vec_min(vec_abs(x[u]), vec_splat(GELU_MOST));
    GELU_EACH p[u] = vec_splat(c[8]);
#pragma GCC unroll 8
    for (int k = 7; k >= 0; k--)
        GELU_EACH p[u] = vec_fma(p[u], a[u], vec_splat(c[k]));
    GELU_EACH p[u] = p[u] * p[u];
    GELU_EACH p[u] = p[u] * p[u];
}

/* p = Phi(x) */
VEC_INLINE void normal(const vec x[GELU_U], vec p[GELU_U])
{
    vec a[GELU_U];
    tail(x, a, p);
    GELU_EACH p[u] = p[u] * p[u];
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

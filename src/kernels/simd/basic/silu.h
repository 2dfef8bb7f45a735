/* The logistic function and SiLU on several vectors side by side, to hide the latency of each one's dependency
 * chain. */
#ifndef ZN_SIMD_SILU_H
#define ZN_SIMD_SILU_H

#include "kernels/simd/vec_math.h"

enum { SILU_U = 4, SILU_BLOCK = SILU_U * VEC_LANES };
#define SILU_EACH _Pragma("GCC unroll 4") for (int u = 0; u < SILU_U; u++)

/* s = 1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow. A NaN gives NaN. */
VEC_INLINE void logistic(const vec x[SILU_U], vec s[SILU_U])
{
    vec e[SILU_U];
    SILU_EACH e[u] = vec_of_bits(vec_bits(x[u]) | (veci)veci_splat(INT32_MIN));
    vec_exp_vectors(SILU_U, e);
    SILU_EACH s[u] = vec_select(vec_greater(x[u], vec_splat(0)), vec_splat(1), e[u]) / (vec_splat(1) + e[u]);
}

VEC_INLINE void silu(vec x[SILU_U])
{
    vec s[SILU_U];
    logistic(x, s);
    SILU_EACH x[u] = x[u] * s[u];
}

#endif

/* 1 / sqrt(mean of squares + eps) of a few pixels at a time. */
#ifndef ZN_SIMD_RMS_H
#define ZN_SIMD_RMS_H

#include "kernels/simd/lanes.h"
#include "kernels/simd/vec_math.h"

#include <stdbool.h>

/* Sum of squares, as two independent sums to hide latency. */
VEC_INLINE float squares(const float *x, int c)
{
    vec even = vec_splat(0), odd = even;
    int k = 0;
    for (; k + 2 * VEC_LANES <= c; k += 2 * VEC_LANES) {
        const vec a = vec_load(x + k), b = vec_load(x + k + VEC_LANES);
        even = vec_fma(a, a, even);
        odd = vec_fma(b, b, odd);
    }
    for (; k < c; k += VEC_LANES) {
        const vec a = load(x + k, c - k < VEC_LANES ? c - k : VEC_LANES);
        even = vec_fma(a, a, even);
    }
    return vec_sum(even + odd);
}

#if defined(__ARM_NEON)
/* Four pixels at once, each summed in the order of squares(). */
VEC_INLINE void squares_of_four(const float *x, int c, float sum[4])
{
    vec even[4], odd[4];
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        even[t] = odd[t] = vec_splat(0);
    for (int k = 0; k < c; k += 2 * VEC_LANES)
#pragma GCC unroll 4
        for (int t = 0; t < 4; t++) {
            const vec a = vec_load(x + t * c + k), b = vec_load(x + t * c + k + VEC_LANES);
            even[t] = vec_fma(a, a, even[t]);
            odd[t] = vec_fma(b, b, odd[t]);
        }
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        even[t] = even[t] + odd[t];
    vec_store(sum, vpaddq_f32(vpaddq_f32(even[0], even[1]), vpaddq_f32(even[2], even[3])));
}
#endif

/* 1 / sqrt(sum / c + eps); division by a power of two is a multiplication. */
VEC_INLINE vec inverse_root(vec sum, int c, float eps)
{
    const vec mean = c & (c - 1) ? sum / vec_splat((float)c) : sum * vec_splat(1 / (float)c);
    return vec_splat(1) / vec_sqrt(mean + vec_splat(eps));
}

/* For `count` pixels, at most the lanes of a vector: a root and a division take as long as a pixel of few channels. */
VEC_INLINE void inverse_rms(const float *x, int c, float eps, int count, float *s)
{
    float sum[VEC_LANES] = { 0 };
#if defined(__ARM_NEON)
    const bool four = count == 4 && c % (2 * VEC_LANES) == 0;
    if (four)
        squares_of_four(x, c, sum);
#else
    const bool four = false;
#endif
    for (int t = 0; t < count && !four; t++)
        sum[t] = squares(x + (int64_t)t * c, c);
    vec_store(s, inverse_root(vec_load(sum), c, eps));
}

#endif

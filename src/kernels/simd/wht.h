/* Walsh-Hadamard steps on rows of vectors: butterflies over 2, 4 or 8 rows held in registers. Steps of a transform
 * commute, so a long one is done in any order of such passes. */
#ifndef ZN_SIMD_WHT_H
#define ZN_SIMD_WHT_H

#include "kernels/simd/vec.h"

/* All of the transform over radix (2, 4 or 8, a constant) values. */
VEC_INLINE void wht_registers(const int radix, vec v[8])
{
#pragma GCC unroll 3
    for (int len = 1; len < radix; len *= 2)
#pragma GCC unroll 8
        for (int i = 0; i < radix; i++)
            if (!(i & len)) {
                const vec a = v[i], b = v[i + len];
                v[i] = a + b;
                v[i + len] = a - b;
            }
}

/* One pass over rows x[i * stride], i < n, at distance len: radix * len divides n. width: floats, whole vectors. */
VEC_INLINE void wht_pass(const int radix, float *x, int64_t n, int64_t len, int64_t width, int64_t stride)
{
    for (int64_t i = 0; i < n; i += radix * len)
        for (int64_t k = i; k < i + len; k++)
            for (int64_t c = 0; c < width; c += VEC_LANES) {
                float *at = x + k * stride + c;
                vec v[8];
#pragma GCC unroll 8
                for (int j = 0; j < radix; j++)
                    v[j] = vec_load(at + j * len * stride);
                wht_registers(radix, v);
#pragma GCC unroll 8
                for (int j = 0; j < radix; j++)
                    vec_store(at + j * len * stride, v[j]);
            }
}

/* The steps at distances len, 2 len, ... below n. */
static inline void wht_rows_from(float *x, int64_t n, int64_t len, int64_t width, int64_t stride)
{
    for (; len * 8 <= n; len *= 8)
        wht_pass(8, x, n, len, width, stride);
    if (len * 4 <= n) {
        wht_pass(4, x, n, len, width, stride);
        len *= 4;
    }
    if (len * 2 <= n)
        wht_pass(2, x, n, len, width, stride);
}

#endif

/* One Walsh-Hadamard transform over contiguous floats. The head processes groups of eight vectors: the steps inside
 * a vector and those between the eight, directly from the input. The remaining steps are passes of wht.h. */
#ifndef ZN_SIMD_WHT_LINE_H
#define ZN_SIMD_WHT_LINE_H

#include "kernels/simd/spectral/wht.h"

enum { WHT_HEAD = 8 * VEC_LANES }; /* the minimum length */

/* Swaps lanes whose indices differ in bit d. */
VEC_INLINE vec wht_swap(const int d, vec v)
{
#if defined(__AVX512F__)
    return d == 1   ? _mm512_permute_ps(v, 0xb1)
           : d == 2 ? _mm512_permute_ps(v, 0x4e)
           : d == 4 ? _mm512_shuffle_f32x4(v, v, 0xb1)
                    : _mm512_shuffle_f32x4(v, v, 0x4e);
#elif defined(__AVX2__)
    return d == 1 ? _mm256_permute_ps(v, 0xb1) : d == 2 ? _mm256_permute_ps(v, 0x4e) : _mm256_permute2f128_ps(v, v, 1);
#elif defined(__SSE2__)
    return d == 1 ? _mm_shuffle_ps(v, v, 0xb1) : _mm_shuffle_ps(v, v, 0x4e);
#elif defined(__ARM_NEON)
    return d == 1 ? vrev64q_f32(v) : vextq_f32(v, v, 2);
#else
    return d == 1 ? (vec){ v[1], v[0], v[3], v[2] } : (vec){ v[2], v[3], v[0], v[1] };
#endif
}

/* +1 where bit d of the lane index is clear, otherwise -1. */
VEC_INLINE vec wht_signs(const int d)
{
    float s[VEC_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < VEC_LANES; i++)
        s[i] = i & d ? -1.0f : 1.0f;
    return vec_load(s);
}

/* The steps at distances 1 .. 4 * VEC_LANES of eight neighbouring vectors. */
VEC_INLINE void wht_head(vec v[8])
{
#pragma GCC unroll 4
    for (int d = 1; d < VEC_LANES; d *= 2) {
        const vec signs = wht_signs(d);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            v[i] = vec_fma(v[i], signs, wht_swap(d, v[i])); /* exact: the product is v or -v */
    }
    wht_registers(8, v);
}

/* The steps after the head. */
static inline void wht_rest(float *x, int64_t n) { wht_rows_from(x, n / WHT_HEAD, 1, WHT_HEAD, WHT_HEAD); }

#endif

/* Selection, sums and the exponential function on vec. Multiply-adds are written as vec_fma, so that a lane gets the
 * same bits wherever a function is inlined. */
#ifndef ZN_VEC_MATH_H
#define ZN_VEC_MATH_H

#include "kernels/simd/quad.h"

typedef int32_t veci __attribute__((vector_size(4 * VEC_LANES)));

VEC_INLINE veci vec_bits(vec v)
{
    veci i;
    memcpy(&i, &v, sizeof i);
    return i;
}

VEC_INLINE vec vec_of_bits(veci i)
{
    vec v;
    memcpy(&v, &i, sizeof v);
    return v;
}

VEC_INLINE veci veci_splat(int32_t i) { return vec_bits(vec_splat(0)) + i; }

VEC_INLINE vec vec_abs(vec v) { return vec_of_bits(vec_bits(v) & 0x7fffffff); }

/* The sign of `sign` on the non-negative v. */
VEC_INLINE vec vec_with_sign(vec v, vec sign)
{
    return vec_of_bits(vec_bits(v) | (vec_bits(sign) & (veci)veci_splat(INT32_MIN)));
}

/* All bits of a lane set where a > b. */
VEC_INLINE veci vec_greater(vec a, vec b)
{
#if defined(__AVX512F__)
    return (veci)_mm512_movm_epi32(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ));
#elif defined(__AVX2__)
    return (veci)_mm256_cmp_ps(a, b, _CMP_GT_OQ);
#elif defined(__SSE2__)
    return (veci)_mm_cmpgt_ps(a, b);
#elif defined(__ARM_NEON)
    return (veci)vcgtq_f32(a, b);
#else
    return (veci)(a > b);
#endif
}

/* All bits of a lane set where v is not 0. */
VEC_INLINE veci vec_nonzero(vec v) { return (vec_bits(v) & 0x7fffffff) != 0; }

/* a where the mask is set, otherwise b. */
VEC_INLINE vec vec_select(veci mask, vec a, vec b) { return vec_of_bits((vec_bits(a) & mask) | (vec_bits(b) & ~mask)); }

/* a where the mask is set, otherwise +0. */
VEC_INLINE vec vec_where(veci mask, vec a) { return vec_of_bits(vec_bits(a) & mask); }

VEC_INLINE vec vec_min(vec a, vec b)
{
#if defined(__AVX512F__)
    return _mm512_min_ps(b, a);
#elif defined(__AVX2__)
    return _mm256_min_ps(b, a);
#elif defined(__SSE2__)
    return _mm_min_ps(b, a);
#elif defined(__ARM_NEON)
    return vminq_f32(a, b);
#else
    return vec_select(vec_greater(a, b), b, a);
#endif
}

VEC_INLINE vec vec_sqrt(vec v)
{
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(v);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
    return _mm_sqrt_ps(v);
#elif defined(__ARM_NEON)
    return vsqrtq_f32(v);
#else
    for (int i = 0; i < VEC_LANES; i++)
        v[i] = __builtin_sqrtf(v[i]);
    return v;
#endif
}

/* The sum of the lanes: adds halves recursively, for any number of lanes. */
VEC_INLINE float vec_sum(vec v)
{
#if defined(__ARM_NEON)
    return vaddvq_f32(v);
#elif defined(__AVX512F__)
    return _mm512_reduce_add_ps(v);
#else
    float t[VEC_LANES];
    vec_store(t, v);
    for (int half = VEC_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] += t[i + half];
    return t[0];
#endif
}

/* to[j * step + i] = i-th source[j] for i, j < 4. */
VEC_INLINE void transpose4(float *to, int64_t step, const float *a, const float *b, const float *c, const float *d)
{
    quad v[4] = { quad_load(a), quad_load(b), quad_load(c), quad_load(d) };
    quad_transpose(v);
    quad_store(to, v[0]);
    quad_store(to + step, v[1]);
    quad_store(to + 2 * step, v[2]);
    quad_store(to + 3 * step, v[3]);
}

/* to[4j + i] = i-th source[j] for j < 4, and the inverse. */
VEC_INLINE void interleave4(float *to, const float *a, const float *b, const float *c, const float *d)
{
#if defined(__ARM_NEON)
    const float32x4x4_t v = { { vld1q_f32(a), vld1q_f32(b), vld1q_f32(c), vld1q_f32(d) } };
    vst4q_f32(to, v);
#else
    transpose4(to, 4, a, b, c, d);
#endif
}

VEC_INLINE void deinterleave4(float *a, float *b, float *c, float *d, const float *from)
{
#if defined(__ARM_NEON)
    const float32x4_t p = vld1q_f32(from), q = vld1q_f32(from + 4), r = vld1q_f32(from + 8), s = vld1q_f32(from + 12);
    const float32x4_t even = vuzp1q_f32(p, q), odd = vuzp2q_f32(p, q), even2 = vuzp1q_f32(r, s),
                      odd2 = vuzp2q_f32(r, s);
    vst1q_f32(a, vuzp1q_f32(even, even2));
    vst1q_f32(b, vuzp1q_f32(odd, odd2));
    vst1q_f32(c, vuzp2q_f32(even, even2));
    vst1q_f32(d, vuzp2q_f32(odd, odd2));
#else
    quad v[4] = { quad_load(from), quad_load(from + 4), quad_load(from + 8), quad_load(from + 12) };
    quad_transpose(v);
    quad_store(a, v[0]);
    quad_store(b, v[1]);
    quad_store(c, v[2]);
    quad_store(d, v[3]);
#endif
}

/* to[groups][n] = from[n][groups]. */
static inline void part(float *to, const float *from, int n, int groups)
{
    int j = 0;
    if (groups == 4)
        for (; j + 4 <= n; j += 4)
            deinterleave4(to + j, to + n + j, to + 2 * n + j, to + 3 * n + j, from + 4 * j);
    for (; j < n; j++)
        for (int g = 0; g < groups; g++)
            to[g * n + j] = from[j * groups + g];
}

/* v = exp(v) for `count` vectors (a compile-time constant) of v <= 0 (below -87 it stays at 1.6e-38), with a
 * relative error of about 1e-7: 2^n times a polynomial on half an octave to either side. A NaN gives NaN. Each
 * vector is one long dependency chain: several side by side take hardly longer than one. */
VEC_INLINE void vec_exp_vectors(const int count, vec *v)
{
    static const float taylor[] = { 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1 };
    const vec shift = vec_splat(12582912.0f); /* 1.5 * 2^23: rounds to integers */
    vec n[4], p[4];
#define EACH _Pragma("GCC unroll 4") for (int u = 0; u < count; u++)
    EACH v[u] = vec_max(v[u], vec_splat(-87.0f));
    EACH n[u] = vec_fma(v[u], vec_splat(1.44269504f), shift);
    EACH v[u] = vec_fms(n[u] - shift, vec_splat(0.693359375f), v[u]);
    EACH v[u] = vec_fms(n[u] - shift, vec_splat(-2.12194440e-4f), v[u]);
    EACH p[u] = vec_splat(taylor[0]);
#pragma GCC unroll 6
    for (int i = 1; i < 7; i++)
        EACH p[u] = vec_fma(p[u], v[u], vec_splat(taylor[i]));
    EACH v[u] = p[u] * vec_of_bits((vec_bits(n[u]) - vec_bits(shift) + 127) << 23);
#undef EACH
}

VEC_INLINE vec vec_exp_negative(vec v)
{
    vec_exp_vectors(1, &v);
    return v;
}

#endif

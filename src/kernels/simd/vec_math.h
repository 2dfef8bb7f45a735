/* Choices, sums and the exponential function on vec. Multiply-adds are spelled vec_fma, so that the same lane gets the
 * same bits wherever a function is inlined. */
#ifndef ZN_VEC_MATH_H
#define ZN_VEC_MATH_H

#include "kernels/simd/vec.h"

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
#else
    return (veci)vcgtq_f32(a, b);
#endif
}

/* a where the mask is set, else b. */
VEC_INLINE vec vec_select(veci mask, vec a, vec b) { return vec_of_bits((vec_bits(a) & mask) | (vec_bits(b) & ~mask)); }

/* a where the mask is set, else +0. */
VEC_INLINE vec vec_where(veci mask, vec a) { return vec_of_bits(vec_bits(a) & mask); }

VEC_INLINE vec vec_min(vec a, vec b)
{
#if defined(__AVX512F__)
    return _mm512_min_ps(b, a);
#elif defined(__AVX2__)
    return _mm256_min_ps(b, a);
#elif defined(__SSE2__)
    return _mm_min_ps(b, a);
#else
    return vminq_f32(a, b);
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
#else
    return vsqrtq_f32(v);
#endif
}

/* The sum of the lanes: halves are added to halves, whatever the number of lanes. */
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

/* to[4j + i] = from[i * step + j] for j < 4, and the way back. */
VEC_INLINE void interleave4(float *to, const float *from, int64_t step)
{
#if defined(__ARM_NEON)
    const float32x4x4_t v = { { vld1q_f32(from), vld1q_f32(from + step), vld1q_f32(from + 2 * step),
                                vld1q_f32(from + 3 * step) } };
    vst4q_f32(to, v);
#else
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + step), c = _mm_loadu_ps(from + 2 * step),
           d = _mm_loadu_ps(from + 3 * step);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + 4, b);
    _mm_storeu_ps(to + 8, c);
    _mm_storeu_ps(to + 12, d);
#endif
}

VEC_INLINE void deinterleave4(float *to, int64_t step, const float *from)
{
#if defined(__ARM_NEON)
    const float32x4x4_t v = vld4q_f32(from);
    vst1q_f32(to, v.val[0]);
    vst1q_f32(to + step, v.val[1]);
    vst1q_f32(to + 2 * step, v.val[2]);
    vst1q_f32(to + 3 * step, v.val[3]);
#else
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + 4), c = _mm_loadu_ps(from + 8), d = _mm_loadu_ps(from + 12);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + step, b);
    _mm_storeu_ps(to + 2 * step, c);
    _mm_storeu_ps(to + 3 * step, d);
#endif
}

/* exp(v) for v <= 0 (below -87 it stays at 1.6e-38), to about 1e-7 of the result: 2^n times a polynomial on half an
 * octave to either side. A NaN gives NaN. */
VEC_INLINE vec vec_exp_negative(vec v)
{
    const vec low = vec_splat(-87.0f), shift = vec_splat(12582912.0f); /* 1.5 * 2^23: rounds to whole numbers */
    v = vec_max(v, low);
    const vec n = vec_fma(v, vec_splat(1.44269504f), shift), whole = n - shift;
    vec r = vec_fms(whole, vec_splat(0.693359375f), v);
    r = vec_fms(whole, vec_splat(-2.12194440e-4f), r);
    vec p = vec_splat(1.0f / 720);
    p = vec_fma(p, r, vec_splat(1.0f / 120));
    p = vec_fma(p, r, vec_splat(1.0f / 24));
    p = vec_fma(p, r, vec_splat(1.0f / 6));
    p = vec_fma(p, r, vec_splat(0.5f));
    p = vec_fma(p, r, vec_splat(1));
    p = vec_fma(p, r, vec_splat(1));
    const vec power = vec_of_bits((vec_bits(n) - vec_bits(shift) + 127) << 23);
    return p * power;
}

#endif

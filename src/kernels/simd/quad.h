/* quad: four floats, the same on every ISA, for operations that are four wide regardless of the vector width. */
#ifndef ZN_QUAD_H
#define ZN_QUAD_H

#include "kernels/simd/vec.h"

#if defined(__ARM_NEON)
typedef float32x4_t quad;
VEC_INLINE quad quad_load(const float *p) { return vld1q_f32(p); }
VEC_INLINE void quad_store(float *p, quad v) { vst1q_f32(p, v); }
VEC_INLINE quad quad_splat(float f) { return vdupq_n_f32(f); }
VEC_INLINE quad quad_abs(quad v) { return vabsq_f32(v); }
VEC_INLINE quad quad_max(quad v, quad floor) { return vmaxq_f32(v, floor); }
#elif defined(__SSE2__)
typedef __m128 quad;
VEC_INLINE quad quad_load(const float *p) { return _mm_loadu_ps(p); }
VEC_INLINE void quad_store(float *p, quad v) { _mm_storeu_ps(p, v); }
VEC_INLINE quad quad_splat(float f) { return _mm_set1_ps(f); }
VEC_INLINE quad quad_abs(quad v) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), v); }
VEC_INLINE quad quad_max(quad v, quad floor) { return _mm_max_ps(floor, v); } /* a NaN in v stays */
#else
typedef vec quad;
VEC_INLINE quad quad_load(const float *p) { return vec_load(p); }
VEC_INLINE void quad_store(float *p, quad v) { vec_store(p, v); }
VEC_INLINE quad quad_splat(float f) { return vec_splat(f); }
VEC_INLINE quad quad_abs(quad v) { return (quad)((vec_mask)v & 0x7fffffff); }
VEC_INLINE quad quad_max(quad v, quad floor) { return vec_max(v, floor); }
#endif

/* Transposes: swaps lane i of v[j] and lane j of v[i]. */
VEC_INLINE void quad_transpose(quad v[4])
{
#if defined(__ARM_NEON)
    const quad a = vzip1q_f32(v[0], v[2]), b = vzip2q_f32(v[0], v[2]), c = vzip1q_f32(v[1], v[3]),
               d = vzip2q_f32(v[1], v[3]);
    v[0] = vzip1q_f32(a, c);
    v[1] = vzip2q_f32(a, c);
    v[2] = vzip1q_f32(b, d);
    v[3] = vzip2q_f32(b, d);
#elif defined(__SSE2__)
    _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
#else
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            const float other = v[i][j];
            v[i][j] = v[j][i];
            v[j][i] = other;
        }
#endif
}

/* (v[0] + v[2]) + (v[1] + v[3]); on NEON (v[0] + v[1]) + (v[2] + v[3]), which is one instruction there. */
VEC_INLINE float quad_sum(quad v)
{
#if defined(__ARM_NEON)
    return vaddvq_f32(v);
#elif defined(__SSE2__)
    const quad pairs = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

#endif

/* vec: the widest float vector of this build, with the same functions for every ISA. Each source in simd/ is
 * compiled once per ISA of the target; ZN_KERNEL(name) gives its symbols the ISA's suffix.
 *
 * Everything is static inline: the linker could otherwise use a shared inline function of the AVX-512 build on an
 * old CPU. vec_fma is the fused instruction if the ISA has one, so the same source gives the same bits however the
 * compiler arranges it. */
#ifndef ZN_VEC_H
#define ZN_VEC_H

#include "base/cpu.h"

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define ZN_ISA_NAME     "avx512"
#define ZN_KERNEL(name) zn_##name##_avx512
#define VEC_REGISTERS   32
enum { VEC_LANES = 16, VEC_CPU = ZN_CPU_AVX512 };
typedef __m512 vec;
#elif defined(__AVX2__)
#include <immintrin.h>
#define ZN_ISA_NAME     "avx2"
#define ZN_KERNEL(name) zn_##name##_avx2
#define VEC_REGISTERS   16
enum { VEC_LANES = 8, VEC_CPU = ZN_CPU_AVX2 };
typedef __m256 vec;
#elif defined(__SSE2__)
#include <immintrin.h>
#define ZN_ISA_NAME     "sse2"
#define ZN_KERNEL(name) zn_##name##_sse2
#define VEC_REGISTERS   16
enum { VEC_LANES = 4, VEC_CPU = 0 };
typedef __m128 vec;
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#define ZN_ISA_NAME     "neon"
#define ZN_KERNEL(name) zn_##name##_neon
#define VEC_REGISTERS   32
enum { VEC_LANES = 4, VEC_CPU = ZN_CPU_NEON };
typedef float32x4_t vec;
#else /* 16-byte GNU vectors, which compilers map to what the target has */
#define ZN_ISA_NAME     "generic"
#define ZN_KERNEL(name) zn_##name##_generic
#define VEC_REGISTERS   16
enum { VEC_LANES = 4, VEC_CPU = 0 };
typedef float vec __attribute__((vector_size(16)));
typedef int32_t vec_mask __attribute__((vector_size(16)));
#endif

#define VEC_INLINE static inline __attribute__((always_inline))

/* Whole vectors; no alignment needed. */
VEC_INLINE vec vec_load(const float *p)
{
#if defined(__AVX512F__)
    return _mm512_loadu_ps(p);
#elif defined(__AVX2__)
    return _mm256_loadu_ps(p);
#elif defined(__SSE2__)
    return _mm_loadu_ps(p);
#elif defined(__ARM_NEON)
    return vld1q_f32(p);
#else
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
#endif
}

VEC_INLINE void vec_store(float *p, vec v)
{
#if defined(__AVX512F__)
    _mm512_storeu_ps(p, v);
#elif defined(__AVX2__)
    _mm256_storeu_ps(p, v);
#elif defined(__SSE2__)
    _mm_storeu_ps(p, v);
#elif defined(__ARM_NEON)
    vst1q_f32(p, v);
#else
    memcpy(p, &v, sizeof v);
#endif
}

/* Stores two neighbours in one instruction if there is one: compilers emit two stores if the address has an index. */
VEC_INLINE void vec_store_pair(float *p, vec a, vec b)
{
#if defined(__aarch64__)
    __asm__("stp %q1, %q2, [%3]" : "=m"(*(float(*)[8])p) : "w"(a), "w"(b), "r"(p));
#else
    vec_store(p, a);
    vec_store(p + VEC_LANES, b);
#endif
}

VEC_INLINE vec vec_splat(float f)
{
#if defined(__AVX512F__)
    return _mm512_set1_ps(f);
#elif defined(__AVX2__)
    return _mm256_set1_ps(f);
#elif defined(__SSE2__)
    return _mm_set1_ps(f);
#elif defined(__ARM_NEON)
    return vdupq_n_f32(f);
#else
    return (vec){ f, f, f, f };
#endif
}

/* The first n lanes, 0 < n <= VEC_LANES. A partial load sets the others to zero and does not access memory past n. */
VEC_INLINE vec vec_load_part(const float *p, int n)
{
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
    float t[VEC_LANES] = { 0 }; /* a masked load reads past n under qemu, though not on a CPU */
    for (int i = 0; i < n; i++)
        t[i] = p[i];
    return vec_load(t);
#else
    vec v = vec_splat(0);
    v[0] = p[0];
    if (n > 1)
        v[1] = p[1];
    if (n > 2)
        v[2] = p[2];
    if (n > 3)
        v[3] = p[3];
    return v;
#endif
}

VEC_INLINE void vec_store_part(float *p, vec v, int n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
#elif defined(__AVX2__)
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane), v);
#else
    p[0] = v[0];
    if (n > 1)
        p[1] = v[1];
    if (n > 2)
        p[2] = v[2];
    if (n > 3)
        p[3] = v[3];
#endif
}

/* c + a * b, rounded once if the ISA supports it (SSE2 does not). */
VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__SSE2__)
    return _mm_add_ps(_mm_mul_ps(a, b), c);
#elif defined(__ARM_NEON)
    return vfmaq_f32(c, a, b);
#else
    vec sum = c + a * b;
#if defined(__FP_FAST_FMAF)
    for (int i = 0; i < VEC_LANES; i++)
        sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
#endif
    return sum;
#endif
}

/* c - a * b */
VEC_INLINE vec vec_fms(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return _mm512_fnmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fnmadd_ps(a, b, c);
#elif defined(__SSE2__)
    return _mm_sub_ps(c, _mm_mul_ps(a, b));
#elif defined(__ARM_NEON)
    return vfmsq_f32(c, a, b);
#else
    return vec_fma(-a, b, c);
#endif
}

/* max(v, floor); a NaN in v stays NaN (in that case x86 returns its second operand). */
VEC_INLINE vec vec_max(vec v, vec floor)
{
#if defined(__AVX512F__)
    return _mm512_max_ps(floor, v);
#elif defined(__AVX2__)
    return _mm256_max_ps(floor, v);
#elif defined(__SSE2__)
    return _mm_max_ps(floor, v);
#elif defined(__ARM_NEON)
    return vmaxq_f32(v, floor);
#else
    const vec_mask below = floor > v;
    return (vec)(((vec_mask)floor & below) | ((vec_mask)v & ~below));
#endif
}

/* VEC_STEP multipliers are used at once: on NEON as lanes of one loaded vector, c + b * a[lane]; elsewhere a
 * multiplier is broadcast from memory (vec_splat), at no extra cost. */
#if defined(__ARM_NEON)
enum { VEC_STEP = 4 };
typedef float32x4_t vec_multipliers;
VEC_INLINE vec_multipliers vec_load_multipliers(const float *p) { return vld1q_f32(p); }
#define vec_fma_lane(a, lane, b, c) vfmaq_laneq_f32((c), (b), (a), (lane))
#else
enum { VEC_STEP = 1 };
#endif

#define VEC_ROUND(n) (((n) + VEC_LANES - 1) / VEC_LANES * VEC_LANES)

#endif

/* Converts fp32 to bf16, rounding to nearest even, and back; NaN stays NaN. */
#ifndef ZN_KERNELS_X86_BF16_H
#define ZN_KERNELS_X86_BF16_H

#include "kernels/simd/vec.h"

#include <stdint.h>
#include <string.h>

static inline uint16_t bf16_round(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* quiet NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_value(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#if defined(__AVX512BF16__) && !defined(ZN_AMX_EMULATE)
#include <immintrin.h>

static inline __m256i bf16_from_16(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

static inline void bf16_from(const float *x, int64_t n, uint16_t *to)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i)));
    for (; i < n; i += 16) {
        const __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        _mm256_mask_storeu_epi16(to + i, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i)));
    }
}

/* A vector of n numbers, the others 0; and back. */
static inline vec bf16_load(const uint16_t *x, int n)
{
    const __mmask16 mask = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x)), 16));
}

static inline void bf16_store(uint16_t *y, vec v, int n)
{
    const __mmask16 mask = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
    _mm256_mask_storeu_epi16(y, mask, (__m256i)_mm512_cvtneps_pbh(v));
}

/* Two vectors to a cache line, past the caches; other threads may read them after bf16_stream_end. */
static inline void bf16_stream(uint16_t *y, vec a, vec b)
{
    _mm512_stream_si512((__m512i *)(void *)y, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

static inline void bf16_stream_end(void) { _mm_sfence(); }
#else
static inline void bf16_from(const float *x, int64_t n, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_round(x[i]);
}

#if defined(__AVX512F__)
#include <immintrin.h>

static inline __m256i bf16_from_16(__m512 x)
{
    float values[16];
    uint16_t rounded[16];
    _mm512_storeu_ps(values, x);
    bf16_from(values, 16, rounded);
    return _mm256_loadu_si256((const __m256i *)(const void *)rounded);
}
#endif
static inline vec bf16_load(const uint16_t *x, int n)
{
    float wide[VEC_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        wide[i] = bf16_value(x[i]);
    return vec_load(wide);
}

static inline void bf16_store(uint16_t *y, vec v, int n)
{
    float wide[VEC_LANES];
    vec_store(wide, v);
    bf16_from(wide, n, y);
}

static inline void bf16_stream(uint16_t *y, vec a, vec b)
{
    bf16_store(y, a, VEC_LANES);
    bf16_store(y + VEC_LANES, b, VEC_LANES);
}

static inline void bf16_stream_end(void) {}
#endif

/* What rounding leaves of n numbers, rounded too: x = high + low to 16 bits. 0 where high is not finite. */
static inline void bf16_low(const float *x, const uint16_t *high, int64_t n, uint16_t *to)
{
    typedef int32_t whole __attribute__((vector_size(sizeof(vec))));
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        const int count = n - i < VEC_LANES ? (int)(n - i) : VEC_LANES;
        const vec rest =
            (count < VEC_LANES ? vec_load_part(x + i, count) : vec_load(x + i)) - bf16_load(high + i, count);
        const whole finite = (whole)(rest - rest == vec_splat(0));
        bf16_store(to + i, (vec)((whole)rest & finite), count);
    }
}

#endif

/* fp32 numbers as one bf16 (8 significant bits) or the sum of two (16 bits): x = high + low + about 2^-17 x. Rounding
 * is to nearest even. NaN stays NaN; of an infinity the low part is NaN, so that two-part products of it are NaN. */
#ifndef ZN_KERNELS_X86_BF16_H
#define ZN_KERNELS_X86_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t bf16_round(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN, quiet */
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

/* 16 numbers; the last lanes zero where the mask is. */
static inline void bf16_split_part(const float *x, __mmask16 mask, uint16_t *high, uint16_t *low)
{
    const __m512 v = _mm512_maskz_loadu_ps(mask, x);
    const __m256i h = (__m256i)_mm512_cvtneps_pbh(v);
    _mm256_mask_storeu_epi16(high, mask, h);
    if (low) {
        const __m512 back = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
        _mm256_mask_storeu_epi16(low, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_sub_ps(v, back)));
    }
}

/* high[n], and low[n] unless NULL, of x[n]. */
static inline void bf16_split(const float *x, int64_t n, uint16_t *high, uint16_t *low)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512 v0 = _mm512_loadu_ps(x + i), v1 = _mm512_loadu_ps(x + i + 16);
        const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(v1, v0);
        _mm512_storeu_si512(high + i, h);
        if (low) {
            const __m512i h0 = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(h));
            const __m512i h1 = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(h, 1));
            const __m512 l0 = _mm512_sub_ps(v0, _mm512_castsi512_ps(_mm512_slli_epi32(h0, 16)));
            const __m512 l1 = _mm512_sub_ps(v1, _mm512_castsi512_ps(_mm512_slli_epi32(h1, 16)));
            _mm512_storeu_si512(low + i, (__m512i)_mm512_cvtne2ps_pbh(l1, l0));
        }
    }
    for (; i < n; i += 16) {
        const __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        bf16_split_part(x + i, mask, high + i, low ? low + i : 0);
    }
}
#else
/* high[n], and low[n] unless NULL, of x[n]. */
static inline void bf16_split(const float *x, int64_t n, uint16_t *high, uint16_t *low)
{
    for (int64_t i = 0; i < n; i++) {
        high[i] = bf16_round(x[i]);
        if (low)
            low[i] = bf16_round(x[i] - bf16_value(high[i]));
    }
}
#endif

#endif

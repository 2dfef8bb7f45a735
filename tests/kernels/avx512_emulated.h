/* Emulates with AVX2 the AVX-512 instructions that src/kernels/simd uses. So its 16-lane builds can be tested on
 * machines and emulators without AVX-512. Included before everything else: a file compiled with it is an AVX-512 build
 * that runs on AVX2. */
#ifndef ZN_AVX512_EMULATED_H
#define ZN_AVX512_EMULATED_H

#include "base/cpu.h"

#include <immintrin.h>
#include <string.h>

#define __AVX512F__   1
#define ZN_CPU_AVX512 ZN_CPU_AVX2 /* the CPU flag that its tables require */

typedef union emulated {
    __m512 whole;
    __m256 half[2];
    __m128 quarter[4];
    float lane[16];
} emulated;

#define EMULATED static inline __attribute__((always_inline))

/* emulated_NAME with up to three vectors: the AVX2 instruction NAME on each half. type: of the result, a union. */
#define BY_HALVES(type, name, parameters, arguments)                                                                   \
    EMULATED __typeof__(((type *)0)->whole) emulated_##name parameters                                                 \
    {                                                                                                                  \
        type r;                                                                                                        \
        for (int i = 0; i < 2; i++)                                                                                    \
            r.half[i] = _mm256_##name arguments;                                                                       \
        return r.whole;                                                                                                \
    }
#define HALF(v)       HALF_OF(v, i)
#define HALF_OF(v, i) (((emulated){ .whole = (v) }).half[i])
BY_HALVES(emulated, set1_ps, (float f), (f))
BY_HALVES(emulated, fmadd_ps, (__m512 a, __m512 b, __m512 c), (HALF(a), HALF(b), HALF(c)))
BY_HALVES(emulated, fnmadd_ps, (__m512 a, __m512 b, __m512 c), (HALF(a), HALF(b), HALF(c)))
BY_HALVES(emulated, max_ps, (__m512 a, __m512 b), (HALF(a), HALF(b)))
BY_HALVES(emulated, min_ps, (__m512 a, __m512 b), (HALF(a), HALF(b)))
BY_HALVES(emulated, sqrt_ps, (__m512 a), (HALF(a)))

BY_HALVES(emulated, loadu_ps, (const float *p), (p + 8 * i))

/* The same for integers. */
typedef union emulated_bits {
    __m512i whole;
    __m256i half[2];
    __m128i quarter[4];
} emulated_bits;
#define BITS(v) (((emulated_bits){ .whole = (v) }).half[i])
BY_HALVES(emulated_bits, set1_epi8, (char n), (n))
BY_HALVES(emulated_bits, set1_epi16, (short n), (n))
BY_HALVES(emulated_bits, set1_epi32, (int n), (n))
BY_HALVES(emulated_bits, add_epi16, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, add_epi32, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, madd_epi16, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, maddubs_epi16, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, unpacklo_epi32, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, unpackhi_epi32, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, unpacklo_epi64, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, unpackhi_epi64, (__m512i a, __m512i b), (BITS(a), BITS(b)))
BY_HALVES(emulated_bits, loadu_si256, (const void *p), ((const __m256i *)p + i))
BY_HALVES(emulated, cvtepi32_ps, (__m512i a), (BITS(a)))

EMULATED __m512i emulated_insert(__m512i v, __m128i part, int place)
{
    emulated_bits r = { .whole = v };
    r.quarter[place] = part;
    return r.whole;
}

EMULATED __m512 emulated_cvtph_ps(__m256i v)
{
    const emulated r = { .half = { _mm256_cvtph_ps(_mm256_castsi256_si128(v)),
                                   _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)) } };
    return r.whole;
}

EMULATED void emulated_storeu_ps(float *p, __m512 v)
{
    for (int i = 0; i < 2; i++)
        _mm256_storeu_ps(p + 8 * i, HALF(v));
}

/* A mask has a bit for each lane; other lanes are not accessed. The pointers are volatile, because a compiler would
 * turn the loops into masked instructions, which access all lanes under qemu. */
EMULATED __m512 emulated_maskz_loadu(unsigned mask, const volatile float *p)
{
    emulated r;
    for (int i = 0; i < 16; i++)
        r.lane[i] = mask >> i & 1 ? p[i] : 0;
    return r.whole;
}

EMULATED void emulated_mask_storeu(volatile float *p, unsigned mask, __m512 v)
{
    const emulated e = { .whole = v };
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            p[i] = e.lane[i];
}

EMULATED __m512i emulated_movm(unsigned mask)
{
    int lanes[16];
    for (int i = 0; i < 16; i++)
        lanes[i] = mask >> i & 1 ? -1 : 0;
    __m512i r;
    memcpy(&r, lanes, sizeof r);
    return r;
}

EMULATED float emulated_reduce_add(__m512 v)
{
    emulated e = { .whole = v };
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            e.lane[i] += e.lane[i + n];
    return e.lane[0];
}

/* Selects quarters by pairs of bits: two of a, two of b. */
EMULATED __m512 emulated_shuffle_f32x4(__m512 a, __m512 b, int chosen)
{
    const emulated from[2] = { { .whole = a }, { .whole = b } };
    emulated r;
    for (int i = 0; i < 4; i++)
        r.quarter[i] = from[i / 2].quarter[chosen >> 2 * i & 3];
    return r.whole;
}

/* Macros, because the last operand must be a constant. */
#define emulated_permute(v, chosen)                                                                                    \
    (((emulated){ .half = { _mm256_permute_ps(HALF_OF(v, 0), chosen), _mm256_permute_ps(HALF_OF(v, 1), chosen) } })    \
         .whole)
#define COMPARED(a, b, how, i)       ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(HALF_OF(a, i), HALF_OF(b, i), how)))
#define emulated_cmp_mask(a, b, how) (COMPARED(a, b, how, 0) | COMPARED(a, b, how, 1) << 8)

#undef _mm512_permute_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_cmp_ps_mask
#undef _mm512_inserti32x4
#define _mm512_inserti32x4        emulated_insert
#define _mm512_castsi128_si512(v) emulated_insert(emulated_set1_epi8(0), v, 0)
#define _mm512_set1_ps            emulated_set1_ps
#define _mm512_fmadd_ps           emulated_fmadd_ps
#define _mm512_fnmadd_ps          emulated_fnmadd_ps
#define _mm512_max_ps             emulated_max_ps
#define _mm512_min_ps             emulated_min_ps
#define _mm512_sqrt_ps            emulated_sqrt_ps
#define _mm512_loadu_ps           emulated_loadu_ps
#define _mm512_storeu_ps          emulated_storeu_ps
#define _mm512_maskz_loadu_ps     emulated_maskz_loadu
#define _mm512_mask_storeu_ps     emulated_mask_storeu
#define _mm512_movm_epi32         emulated_movm
#define _mm512_reduce_add_ps      emulated_reduce_add
#define _mm512_set1_epi8          emulated_set1_epi8
#define _mm512_set1_epi16         emulated_set1_epi16
#define _mm512_set1_epi32         emulated_set1_epi32
#define _mm512_add_epi16          emulated_add_epi16
#define _mm512_add_epi32          emulated_add_epi32
#define _mm512_madd_epi16         emulated_madd_epi16
#define _mm512_maddubs_epi16      emulated_maddubs_epi16
#define _mm512_loadu_si512        emulated_loadu_si256
#define _mm512_unpacklo_epi32     emulated_unpacklo_epi32
#define _mm512_unpackhi_epi32     emulated_unpackhi_epi32
#define _mm512_unpacklo_epi64     emulated_unpacklo_epi64
#define _mm512_unpackhi_epi64     emulated_unpackhi_epi64
#define _mm512_cvtepi32_ps        emulated_cvtepi32_ps
#define _mm512_cvtph_ps           emulated_cvtph_ps
#define _mm512_permute_ps         emulated_permute
#define _mm512_shuffle_f32x4      emulated_shuffle_f32x4
#define _mm512_cmp_ps_mask        emulated_cmp_mask

#endif

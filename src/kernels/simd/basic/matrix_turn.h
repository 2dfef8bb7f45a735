/* Transposes bytes of as many lines as a vector has lanes: four bytes of each line to a lane. */
#ifndef ZN_SIMD_MATRIX_TURN_H
#define ZN_SIMD_MATRIX_TURN_H

#include "kernels/simd/dot.h"

#if defined(__AVX512F__)
VEC_INLINE ivec load_quad(const uint8_t *const *line, int64_t at, int j)
{
#define PART(i) _mm_loadu_si128((const __m128i *)(const void *)(line[4 * (i) + j] + at))
    ivec v = _mm512_castsi128_si512(PART(0));
    v = _mm512_inserti32x4(v, PART(1), 1);
    v = _mm512_inserti32x4(v, PART(2), 2);
    return _mm512_inserti32x4(v, PART(3), 3);
#undef PART
}
#elif defined(__AVX2__)
VEC_INLINE ivec load_quad(const uint8_t *const *line, int64_t at, int j)
{
    return _mm256_loadu2_m128i((const __m128i *)(const void *)(line[4 + j] + at),
                               (const __m128i *)(const void *)(line[j] + at));
}
#else
VEC_INLINE ivec load_quad(const uint8_t *const *line, int64_t at, int j)
{
    ivec v;
    memcpy(&v, line[j] + at, sizeof v);
    return v;
}
#endif

/* words[i] = bytes [at+4i,at+4i+4) of every lane, i < 4. Part l of a vector that is loaded has the column 4l + j. */
VEC_INLINE void transpose(const uint8_t *const *line, int64_t at, ivec words[4])
{
    const ivec a = load_quad(line, at, 0), b = load_quad(line, at, 1), c = load_quad(line, at, 2),
               d = load_quad(line, at, 3);
#if defined(__AVX2__)
    const ivec ab = DOT_OP(unpacklo_epi32)(a, b), cd = DOT_OP(unpacklo_epi32)(c, d);
    const ivec high_ab = DOT_OP(unpackhi_epi32)(a, b), high_cd = DOT_OP(unpackhi_epi32)(c, d);
    words[0] = DOT_OP(unpacklo_epi64)(ab, cd);
    words[1] = DOT_OP(unpackhi_epi64)(ab, cd);
    words[2] = DOT_OP(unpacklo_epi64)(high_ab, high_cd);
    words[3] = DOT_OP(unpackhi_epi64)(high_ab, high_cd);
#else
    const ivec ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const ivec high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7), high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    words[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    words[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    words[2] = __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5);
    words[3] = __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7);
#endif
}

#endif

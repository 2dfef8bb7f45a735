/* The VNNI instructions on CPUs without them, for the kernels that use them. Included before every file of that build,
 * whose tables then need only AVX-512 or AVX2. The tiles of AMX are emulated by kernels/x86/tile_emulated.h. */
#ifndef ZN_VNNI_EMULATED_H
#define ZN_VNNI_EMULATED_H

#include "base/cpu.h"

#include <immintrin.h>

/* Even and odd bytes apart, as 16-bit integers: x unsigned, w signed. */
#define VNNI_EMULATED(bits, x, w)                                                                                      \
    const __m##bits##i low = _mm##bits##_set1_epi16(255), x_odd = _mm##bits##_srli_epi16(x, 8),                        \
                       w_even = _mm##bits##_srai_epi16(_mm##bits##_slli_epi16(w, 8), 8),                               \
                       w_odd = _mm##bits##_srai_epi16(w, 8)

#if defined(__AVX512F__)
#define __AVX512VNNI__      1
#define ZN_CPU_AVX512VNNI   ZN_CPU_AVX512
#define ZN_CPU_AMX_I8       ZN_CPU_AVX512
#define _mm512_dpbusd_epi32 vnni_emulated
static inline __m512i vnni_emulated(__m512i sum, __m512i x, __m512i w)
{
    VNNI_EMULATED(512, x, w);
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(x, low), w_even);
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, _mm512_madd_epi16(x_odd, w_odd)));
}
#else
#define __AVXVNNI__             1
#define ZN_CPU_AVXVNNI          ZN_CPU_AVX2
#define _mm256_dpbusd_avx_epi32 vnni_emulated
static inline __m256i vnni_emulated(__m256i sum, __m256i x, __m256i w)
{
    VNNI_EMULATED(256, x, w);
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, low), w_even);
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, _mm256_madd_epi16(x_odd, w_odd)));
}
#endif
#endif

/* fp16 multiply-adds on registers only. */
#include "kernels/peak.h"

#include <arm_neon.h>

enum { SUMS = 24, ROUNDS = 20000 };

static void body(const void *args, zn_range r)
{
    (void)args;
    float16x8_t sum[SUMS];
    const float16x8_t a = vdupq_n_f16((float16_t)1), b = vdupq_n_f16((float16_t)0); /* a zero, as in simd/peak.c */
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++) {
        sum[i] = vdupq_n_f16((float16_t)1);
        __asm__("" : "+w"(sum[i])); /* equal sums must not be merged */
    }
    for (int64_t n = 0; n < (r.end - r.begin) * ROUNDS; n++)
#pragma GCC unroll 32
        for (int i = 0; i < SUMS; i++)
            sum[i] = vfmaq_f16(sum[i], a, b);
    volatile float keep = 0;
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++)
        keep = keep + (float)vgetq_lane_f16(sum[i], 0);
}

const zn_peak zn_peak_f16 = { body, 2.0 * SUMS *ROUNDS * 8 };

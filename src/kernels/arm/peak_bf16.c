/* BFMMLA on registers only: each instruction computes a 2x4 by 4x2 product, 32 multiplications and additions. */
#include "kernels/peak.h"

#include <arm_neon.h>

enum { SUMS = 24, ROUNDS = 20000 };

static void body(const void *args, zn_range r)
{
    (void)args;
    float32x4_t sum[SUMS];
    const bfloat16x8_t a = vreinterpretq_bf16_u16(vdupq_n_u16(0x3f80)),
                       b = vreinterpretq_bf16_u16(vdupq_n_u16(0)); /* a zero, as in simd/peak.c */
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++) {
        sum[i] = vdupq_n_f32(1);
        __asm__("" : "+w"(sum[i])); /* equal sums must not be merged */
    }
    for (int64_t n = 0; n < (r.end - r.begin) * ROUNDS; n++)
#pragma GCC unroll 32
        for (int i = 0; i < SUMS; i++)
            sum[i] = vbfmmlaq_f32(sum[i], a, b);
    volatile float keep = 0;
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++)
        keep = keep + vgetq_lane_f32(sum[i], 0);
}

const zn_peak zn_peak_bf16 = { body, 32.0 * SUMS *ROUNDS };

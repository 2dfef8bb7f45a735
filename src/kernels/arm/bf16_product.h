/* The bf16 matrix instruction, with its sum in place: compilers copy sums about in the form of intrinsics, and a copied
 * sum is not forwarded, which halves the rate. */
#ifndef ZN_KERNELS_ARM_BF16_PRODUCT_H
#define ZN_KERNELS_ARM_BF16_PRODUCT_H

#include <arm_neon.h>

/* sum[2][2] += a[2][4] b[2][4]' */
#define BF16_PRODUCT(sum, a, b) __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b))

/* Columns of two sums [2][2], side by side: row 0, row 1. */
static inline float32x4_t bf16_row(float32x4_t a, float32x4_t b, int row)
{
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vreinterpretq_f32_f64(row ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}

#endif

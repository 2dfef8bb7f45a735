/* Two independent vectors side by side: arithmetic on a single one would stall on its own latency, because the
 * scheduler of a Neoverse-V1 does not look far ahead. */
#ifndef ZN_KERNELS_ARM_TWO_H
#define ZN_KERNELS_ARM_TWO_H

#include <arm_neon.h>
#include <stdint.h>

#define ZN_INLINE static inline __attribute__((always_inline))

typedef float32x4x2_t two;

ZN_INLINE two two_of(float32x4_t a, float32x4_t b) { return (two){ { a, b } }; }
ZN_INLINE two two_load(const float *x, int64_t stride) { return two_of(vld1q_f32(x), vld1q_f32(x + stride)); }

ZN_INLINE void two_store(float *y, int64_t stride, two a)
{
    vst1q_f32(y, a.val[0]);
    vst1q_f32(y + stride, a.val[1]);
}

ZN_INLINE two two_add(two a, two b) { return two_of(vaddq_f32(a.val[0], b.val[0]), vaddq_f32(a.val[1], b.val[1])); }

ZN_INLINE two two_sub(two a, two b) { return two_of(vsubq_f32(a.val[0], b.val[0]), vsubq_f32(a.val[1], b.val[1])); }

ZN_INLINE two two_times(two a, float32x4_t k) { return two_of(vmulq_f32(a.val[0], k), vmulq_f32(a.val[1], k)); }

/* a + b k, a - b k */
ZN_INLINE two two_add_times(two a, two b, float32x4_t k)
{
    return two_of(vfmaq_f32(a.val[0], b.val[0], k), vfmaq_f32(a.val[1], b.val[1], k));
}

ZN_INLINE two two_sub_times(two a, two b, float32x4_t k)
{
    return two_of(vfmsq_f32(a.val[0], b.val[0], k), vfmsq_f32(a.val[1], b.val[1], k));
}

/* A factor that stays in a register; otherwise compilers recreate it in every iteration of a loop. */
ZN_INLINE float32x4_t two_factor(float k)
{
    float32x4_t v = vdupq_n_f32(k);
    __asm__("" : "+w"(v));
    return v;
}

#endif

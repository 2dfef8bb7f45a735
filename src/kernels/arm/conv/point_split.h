/* Converts pixels to bf16, or to sums of two bf16, for point_walk.h: two pixels at a time, storing each group of
 * four channels at its position in a block. Memory 4 KB ahead is prefetched into L2 meanwhile; without that,
 * splitting takes up to twice as long. */
#ifndef ZN_KERNELS_ARM_POINT_SPLIT_H
#define ZN_KERNELS_ARM_POINT_SPLIT_H

#include "kernels/arm/two.h"

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

/* Halves of a group in a block of 12 pixels; floats per cache line; prefetch distance in floats. */
enum { ZN_POINT_GROUP = 48 * HALVES, ZN_POINT_LINE = 16, ZN_POINT_AHEAD = 1024 };

/* Four channels of two pixels (or outputs): high parts, and low parts at distance `low` in halves. With low parts,
 * the high parts are rounded as integers, which is faster; a NaN that overflows there stays in the low part. BFMLALT
 * reads the high half of each number in place, so that the remainder needs no mask. gcc 12 would turn the constant
 * into -1 of fp16. */
ZN_INLINE void zn_point_split(float32x4_t p, float32x4_t q, uint16_t *to, int low)
{
    if (HALVES == 1) {
        vst1q_u16(to, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(p), q)));
        return;
    }
    uint16x8_t minus = vdupq_n_u16(0xbf80);
    __asm__("" : "+w"(minus));
    const bfloat16x8_t by = vreinterpretq_bf16_u16(minus);
    const uint32x4_t half = vdupq_n_u32(0x8000);
    const uint32x4_t ph = vaddq_u32(vreinterpretq_u32_f32(p), half), qh = vaddq_u32(vreinterpretq_u32_f32(q), half);
    p = vbfmlaltq_f32(p, vreinterpretq_bf16_u32(ph), by);
    q = vbfmlaltq_f32(q, vreinterpretq_bf16_u32(qh), by);
    vst1q_u16(to, vuzp2q_u16(vreinterpretq_u16_u32(ph), vreinterpretq_u16_u32(qh)));
    vst1q_u16(to + low, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(p), q)));
}

ZN_INLINE void zn_point_fetch(const float *x) { __builtin_prefetch(x + ZN_POINT_AHEAD, 0, 2); }

/* Splits two pixels into their position in a block. */
static void zn_point_split_pixels(const float *p, const float *q, int cin, uint16_t *to)
{
    int k = 0;
    for (; k + ZN_POINT_LINE <= cin; k += ZN_POINT_LINE) {
        zn_point_fetch(p + k);
        zn_point_fetch(q + k);
#pragma GCC unroll 4
        for (int i = 0; i < ZN_POINT_LINE; i += 4, to += ZN_POINT_GROUP)
            zn_point_split(vld1q_f32(p + k + i), vld1q_f32(q + k + i), to, 8);
    }
    for (; k + 4 <= cin; k += 4, to += ZN_POINT_GROUP)
        zn_point_split(vld1q_f32(p + k), vld1q_f32(q + k), to, 8);
    if (k < cin) {
        float rest[2][4] = { { 0 } };
        memcpy(rest[0], p + k, sizeof(float) * (size_t)(cin - k));
        memcpy(rest[1], q + k, sizeof(float) * (size_t)(cin - k));
        zn_point_split(vld1q_f32(rest[0]), vld1q_f32(rest[1]), to, 8);
    }
}

/* v[j] = channel j of the four sub-pixels at x; rows are `line` floats apart, a sub-pixel has c channels. */
ZN_INLINE void zn_point_unshuffle(const float *x, int64_t line, int c, float32x4_t v[4])
{
    const float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + c), d = vld1q_f32(x + line), e = vld1q_f32(x + line + c);
    const float32x4_t ad = vzip1q_f32(a, d), be = vzip1q_f32(b, e), ad2 = vzip2q_f32(a, d), be2 = vzip2q_f32(b, e);
    v[0] = vzip1q_f32(ad, be), v[1] = vzip2q_f32(ad, be), v[2] = vzip1q_f32(ad2, be2), v[3] = vzip2q_f32(ad2, be2);
}

/* Prefetches the cache lines of four sub-pixels. */
ZN_INLINE void zn_point_fetch_shuffled(const float *x, int64_t line, int c)
{
    zn_point_fetch(x);
    zn_point_fetch(x + c);
    zn_point_fetch(x + line);
    zn_point_fetch(x + line + c);
}

/* The same through a pixel unshuffle: a group is one channel of four sub-pixels. */
static void zn_point_split_shuffled(const float *p, const float *q, int64_t line, int cin, uint16_t *to)
{
    for (int k = 0; k < cin / 4; k += 4) {
        float32x4_t v[4], u[4];
        if (k % ZN_POINT_LINE == 0) {
            zn_point_fetch_shuffled(p + k, line, cin / 4);
            zn_point_fetch_shuffled(q + k, line, cin / 4);
        }
        zn_point_unshuffle(p + k, line, cin / 4, v);
        zn_point_unshuffle(q + k, line, cin / 4, u);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, to += ZN_POINT_GROUP)
            zn_point_split(v[i], u[i], to, 8);
    }
}

#endif

/* The two passes of an RMS norm into planes, for AArch64: sums of squares and products, four pixels at a time. A
 * line of each pixel is loaded in order (loads one pixel apart often conflict in one bank of L1) and multiplied soon
 * after it is requested. A plane gets its line in two pairs. The order of instructions matters, so each is its own
 * `asm volatile` (wht_pass.h). */
#ifndef ZN_ARM_HEAD_NORM_H
#define ZN_ARM_HEAD_NORM_H

#include "kernels/arm/pinned.h"
#include "kernels/mix.h"
#include "kernels/simd/sequence/rms.h"

enum { HEAD_PIXELS = 4, HEAD_ACROSS = 4, HEAD_LINE = HEAD_ACROSS * VEC_LANES /* floats; divides c */ };

VEC_INLINE void head_load_line(const float *x, vec v[HEAD_ACROSS])
{
    __asm__ volatile("ldp %q0, %q1, [%2]" : "=w"(v[0]), "=w"(v[1]) : "r"(x));
    __asm__ volatile("ldp %q0, %q1, [%2, 32]" : "=w"(v[2]), "=w"(v[3]) : "r"(x));
}

VEC_INLINE vec head_times(vec v, vec by)
{
    vec result;
    __asm__ volatile("fmul %0.4s, %1.4s, %2.4s" : "=w"(result) : "w"(v), "w"(by));
    return result;
}

/* Adds a line of each pixel to their sums, even and odd vectors separately. */
VEC_INLINE void head_squares_line(const bool first, const float *x, int c, vec sum[HEAD_PIXELS][2])
{
    PINNED_UNROLL for (int t = 0; t < HEAD_PIXELS; t++)
    {
        vec v[HEAD_ACROSS];
        head_load_line(x + t * c, v);
        PINNED_UNROLL for (int u = 0; u < HEAD_ACROSS; u++)
        {
            if (first && u < 2)
                __asm__ volatile("fmul %0.4s, %1.4s, %1.4s" : "=w"(sum[t][u % 2]) : "w"(v[u]));
            else
                __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(sum[t][u % 2]) : "w"(v[u]));
        }
    }
}

/* The sums of squares of c channels of four pixels, each in the order of squares() of simd/sequence/rms.h. */
VEC_INLINE vec head_squares(const float *x, int c)
{
    vec sum[HEAD_PIXELS][2];
    vec_pinned_fence();
    head_squares_line(true, x, c, sum);
    for (int k = HEAD_LINE; k < c; k += HEAD_LINE)
        head_squares_line(false, x + k, c, sum);
    return vpaddq_f32(vpaddq_f32(sum[0][0] + sum[0][1], sum[1][0] + sum[1][1]),
                      vpaddq_f32(sum[2][0] + sum[2][1], sum[3][0] + sum[3][1]));
}

/* Planes of `pixels` pixels (4 or 2): each pixel times its scale, then each channel times its gain. */
VEC_INLINE void head_norm(const int pixels, const float *x, int c, const float *scale, const float *gain, float *to,
                          int64_t plane)
{
    vec by[HEAD_PIXELS];
    PINNED_UNROLL for (int t = 0; t < pixels; t++) by[t] = vec_splat(scale[t]);
    vec_pinned_fence();
    for (int k = 0; k < c; k += HEAD_LINE) {
        vec v[HEAD_PIXELS][HEAD_ACROSS];
        PINNED_UNROLL for (int t = 0; t < pixels; t++)
        {
            head_load_line(x + t * c + k, v[t]);
            PINNED_UNROLL for (int u = 0; u < HEAD_ACROSS; u++) v[t][u] = head_times(v[t][u], by[t]);
        }
        PINNED_UNROLL for (int u = 0; u < HEAD_ACROSS; u++, to += plane)
        {
            const vec g = vec_load_pinned(gain + k, u * VEC_LANES);
            PINNED_UNROLL for (int t = 0; t < pixels; t++) v[t][u] = head_times(v[t][u], g);
            __asm__ volatile("stp %q0, %q1, [%2]" : : "w"(v[0][u]), "w"(v[1][u]), "r"(to));
            if (pixels > 2)
                __asm__ volatile("stp %q0, %q1, [%2, 32]" : : "w"(v[2][u]), "w"(v[3][u]), "r"(to));
        }
    }
    vec_pinned_fence();
}

/* 1 / rms of four pixels or more; the last ones of an odd count are computed twice, here and below. Not inlined,
 * because compilers keep the addresses of two loops in one function on the stack. */
static __attribute__((noinline)) void head_scales(const float *x, int c, float eps, int count, float *scale)
{
    for (int p = 0; p < count; p += HEAD_PIXELS) {
        const int at = p < count - HEAD_PIXELS ? p : count - HEAD_PIXELS;
        vec_store(scale + at, head_squares(x + (int64_t)at * c, c));
    }
    for (int p = 0; p < count; p += VEC_LANES)
        vec_store(scale + p, inverse_root(vec_load(scale + p), c, eps));
}

/* Planes of four pixels or more, at most those of a block and their neighbours. First computes the scales of all
 * pixels, because the roots have long latencies. */
static __attribute__((noinline)) void head_norm_row(const float *x, int c, float eps, const float *gain, int count,
                                                    float *to, int64_t plane)
{
    float scale[ZN_GROUPED_PIXELS + 2 + VEC_LANES];
    int p = 0;
    head_scales(x, c, eps, count, scale);
    for (; p + 2 < count; p += HEAD_PIXELS) {
        const int at = p < count - HEAD_PIXELS ? p : count - HEAD_PIXELS;
        head_norm(HEAD_PIXELS, x + (int64_t)at * c, c, scale + at, gain, to + at * VEC_LANES, plane);
    }
    if (p < count)
        head_norm(2, x + (int64_t)(count - 2) * c, c, scale + count - 2, gain, to + (count - 2) * VEC_LANES, plane);
}

#endif

/* The grouped product of a Lite block from sixteen channels to four, for AArch64: six neighbouring pixels by two
 * groups, in the instruction order of reduce_pass.h. Later pixels are prefetched meanwhile, into both caches. */
#ifndef ZN_ARM_REDUCE_PAIR_H
#define ZN_ARM_REDUCE_PAIR_H

#include "kernels/arm/spectral/reduce_pass.h"

enum {
    PAIR_PIXELS = 6,
    PAIR_DEEP = 16,
    PAIR_EARLY = 64 /* best value of reduce_pass.early in long rows */
};

static inline bool pair_does(int groups, int deep, int wide, int64_t pixels)
{
    return groups % 2 == 0 && deep == PAIR_DEEP && wide == 4 && pixels >= PAIR_PIXELS;
}

/* [groups / 2][deep][2 groups][4] from [groups][4][deep]. */
static inline void pair_pack(const reduce_pass *q, const float *w, float *to)
{
    for (int g = 0; g < q->groups; g += 2)
        for (int k = 0; k < PAIR_DEEP; k++)
            for (int o = 0; o < 8; o++)
                *to++ = w[((int64_t)g * 4 + o) * PAIR_DEEP + k];
}

typedef struct pair_block {
    vec sum[2][PAIR_PIXELS], m[2][PAIR_PIXELS], w[2];
} pair_block;

/* Stores to y the sums of pixels p and p + 1 of one group, or of two groups of pixel p. */
VEC_INLINE void pair_store(const bool planes, const reduce_pass *q, const pair_block *s, float *y, const int half,
                           const int p)
{
    const vec two[2] = { s->sum[0][p], s->sum[1][p] };
    if (planes && p % 2 == 0)
        vec_store_two_pinned((char *)(y + half * q->plane), p * (int)sizeof(vec), s->sum[half] + p);
    else if (!planes && half == 0)
        vec_store_two_pinned((char *)(y + p * q->ci), 0, two);
}

/* Products of channels k to k + 3 (a compile-time constant). x: pixels of this block, but at its end already those
 * of the next. Prefetches pixels `far` bytes ahead. Stores the sums of the previous block to y. */
VEC_INLINE void pair_step(const bool planes, const reduce_pass *q, pair_block *s, const int k, const float *w,
                          const float *const x[PAIR_PIXELS], int64_t far, const float *bias, float *y)
{
    const int then = k + 4 < PAIR_DEEP ? k + 4 : 0;
    REDUCE_UNROLL for (int i = 0; i < 8; i++)
    {
        const int half = i % 2, lane = i / 2;
        const vec wi = s->w[half];
        s->w[half] = vec_load_pinned(w, k * 8 + (i + 2) * VEC_LANES);
        REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
        {
            if (k == 0 && lane == 0) {
                pair_store(planes, q, s, y, half, p);
                s->sum[half][p] = vec_load_pinned(bias, half * VEC_LANES);
            }
            vec_fma_pinned(&s->sum[half][p], wi, s->m[half][p], lane);
            if (lane == 3)
                s->m[half][p] = vec_load_pinned(x[p], half * PAIR_DEEP + then);
        }
        if (i < PAIR_PIXELS && k < 8)
            vec_fetch_near_pinned(x[i] + PAIR_PIXELS * q->c + 4 * k, 0);
        else if (i < PAIR_PIXELS)
            __asm__ volatile("prfm pldl2keep, [%0, %1]" : : "r"(x[i] - (k < 12 ? 0 : PAIR_DEEP)), "r"(far));
    }
}

/* All outputs of `pixels` pixels, at least PAIR_PIXELS: the last block may overlap the one before. The weights are
 * followed by two more vectors with any content. */
VEC_INLINE void pair_run(const bool planes, const reduce_pass *q, int64_t pixels)
{
    const int64_t across = planes ? 2 * q->plane : 8, on = planes ? VEC_LANES : q->ci;
    const float *x[PAIR_PIXELS];
    float *y = q->y, *old = y;
    pair_block s;
    vec_pinned_fence();
    REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
    {
        x[p] = q->x + p * q->c;
        s.m[0][p] = vec_load_pinned(x[p], 0);
        s.m[1][p] = vec_load_pinned(x[p], PAIR_DEEP);
        s.sum[0][p] = s.sum[1][p] = vec_splat(0); /* overwritten later */
    }
    for (int64_t left = pixels, move; left > 0; left -= move, y += move * on) {
        const int64_t more = left - PAIR_PIXELS, far = left > q->early ? q->early * q->c * (int64_t)sizeof(float) : 0;
        const float *w = q->w, *b = q->b;
        move = more > 0 && more < PAIR_PIXELS ? more : PAIR_PIXELS;
        REDUCE_UNROLL for (int u = 0; u < 2; u++) s.w[u] = vec_load_pinned(w, u * VEC_LANES);
        for (int g = 0; g < q->groups; g += 2, w += 8 * PAIR_DEEP, b += 8) {
            const int64_t on_x = more > 0 ? move * q->c : 0;
            const int64_t step = g + 2 < q->groups ? 2 * PAIR_DEEP : on_x - (q->groups - 2) * PAIR_DEEP;
            pair_step(planes, q, &s, 0, w, x, far, b, old);
            pair_step(planes, q, &s, 4, w, x, far, b, old);
            pair_step(planes, q, &s, 8, w, x, far, b, old);
            REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++) x[p] += step;
            pair_step(planes, q, &s, 12, w, x, far, b, old);
            old = y + g / 2 * across;
        }
    }
    REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
    {
        pair_store(planes, q, &s, old, 0, p);
        pair_store(planes, q, &s, old, 1, p);
    }
    vec_pinned_fence();
}

static __attribute__((noinline, unused)) void pair_all(const reduce_pass *q, int64_t pixels)
{
    pair_run(false, q, pixels);
}

static __attribute__((noinline, unused)) void pair_planes(const reduce_pass *q, int64_t pixels)
{
    pair_run(true, q, pixels);
}

#endif

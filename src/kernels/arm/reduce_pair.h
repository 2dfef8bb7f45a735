/* The grouped product of a Lite block from sixteen channels to four, for AArch64: six neighbouring pixels by two
 * groups, in order as in reduce_pass.h. Later pixels are fetched meanwhile, into both caches: while a row is
 * transformed, a fetch costs as much as it saves. */
#ifndef ZN_ARM_REDUCE_PAIR_H
#define ZN_ARM_REDUCE_PAIR_H

#include "kernels/arm/reduce_pass.h"

enum {
    PAIR_PIXELS = 6,
    PAIR_DEEP = 16,
    PAIR_EARLY = 4096 /* floats before which x is fetched into the second cache */
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

/* Products of channels k to k + 3 (a constant). x: pixels of this block, but at its end already those of the next. */
VEC_INLINE void pair_step(pair_block *s, const int k, const float *w, const float *const x[PAIR_PIXELS],
                          const float *bias, int64_t c)
{
    const int then = k + 4 < PAIR_DEEP ? k + 4 : 0;
    REDUCE_UNROLL for (int i = 0; i < 8; i++)
    {
        const int half = i % 2, lane = i / 2;
        const vec wi = s->w[half];
        s->w[half] = vec_load_pinned(w, k * 8 + (i + 2) * VEC_LANES);
        REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
        {
            if (k == 0 && lane == 0)
                s->sum[half][p] = vec_load_pinned(bias, half * VEC_LANES);
            vec_fma_pinned(&s->sum[half][p], wi, s->m[half][p], lane);
            if (lane == 3)
                s->m[half][p] = vec_load_pinned(x[p], half * PAIR_DEEP + then);
        }
        if (i < PAIR_PIXELS && k < 8)
            vec_fetch_near_pinned(x[i] + PAIR_PIXELS * c + 4 * k, 0);
        else if (i < PAIR_PIXELS && k < 12)
            vec_fetch_pinned(x[i] + PAIR_EARLY, 0);
        else if (i < PAIR_PIXELS)
            vec_fetch_pinned(x[i] + PAIR_EARLY - PAIR_DEEP, 0);
    }
}

/* All outputs of so many pixels, PAIR_PIXELS at least: the last block may begin within the one before. Behind the
 * weights lie two vectors more, whatever they are. */
static __attribute__((noinline, unused)) void pair_all(const reduce_pass *q, int64_t pixels)
{
    const float *x[PAIR_PIXELS];
    float *y = q->y;
    pair_block s;
    vec_pinned_fence();
    REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
    {
        x[p] = q->x + p * q->c;
        s.m[0][p] = vec_load_pinned(x[p], 0);
        s.m[1][p] = vec_load_pinned(x[p], PAIR_DEEP);
    }
    for (int64_t left = pixels, move; left > 0; left -= move, y += move * q->ci) {
        const int64_t more = left - PAIR_PIXELS;
        const float *w = q->w, *b = q->b;
        move = more > 0 && more < PAIR_PIXELS ? more : PAIR_PIXELS;
        REDUCE_UNROLL for (int u = 0; u < 2; u++) s.w[u] = vec_load_pinned(w, u * VEC_LANES);
        for (int g = 0; g < q->groups; g += 2, w += 8 * PAIR_DEEP, b += 8) {
            const int64_t on = more > 0 ? move * q->c : 0;
            const int64_t step = g + 2 < q->groups ? 2 * PAIR_DEEP : on - (q->groups - 2) * PAIR_DEEP;
            pair_step(&s, 0, w, x, b, q->c);
            pair_step(&s, 4, w, x, b, q->c);
            pair_step(&s, 8, w, x, b, q->c);
            REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++) x[p] += step;
            pair_step(&s, 12, w, x, b, q->c);
            REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++) __asm__ volatile(
                "stp %q0, %q1, [%2]" : : "w"(s.sum[0][p]), "w"(s.sum[1][p]), "r"(y + p * q->ci + g * 4));
        }
    }
    vec_pinned_fence();
}

#endif

/* The grouped product of a Lite block for AArch64: eight neighbouring pixels by eight outputs of a group. Each
 * instruction is an `asm volatile` of its own (wht_pass.h): sums begin with a bias that is loaded, weights and pixels
 * are loaded shortly before their use, since a Neoverse-V1 reads but four registers a cycle that were ready when an
 * instruction came to wait for its turn. The next eight pixels are fetched meanwhile. */
#ifndef ZN_ARM_REDUCE_PASS_H
#define ZN_ARM_REDUCE_PASS_H

#include "kernels/arm/pinned.h"

#include <stdbool.h>

enum { REDUCE_PIXELS = 8, REDUCE_ACROSS = 8, REDUCE_VECTORS = REDUCE_ACROSS / VEC_LANES };
#define REDUCE_UNROLL _Pragma("GCC unroll 16")

typedef struct reduce_pass {
    const float *x, *w, *b; /* w: as reduce_pack leaves it */
    float *y;
    int64_t c, ci;          /* channels of a pixel of x, and of y */
    int groups, deep, wide; /* of one group */
} reduce_pass;

static inline bool reduce_does(int deep, int wide) { return deep % 4 == 0 && wide % REDUCE_ACROSS == 0; }

/* [groups * wide / 8][deep][8] from [groups][wide][deep]. */
static inline void reduce_pack(const reduce_pass *q, const float *w, float *to)
{
    for (int o = 0; o < q->groups * q->wide; o += REDUCE_ACROSS)
        for (int k = 0; k < q->deep; k++)
            for (int i = 0; i < REDUCE_ACROSS; i++)
                *to++ = w[(int64_t)(o + i) * q->deep + k];
}

/* Sums and what is on its way to them. */
typedef struct reduce_block {
    vec sum[REDUCE_VECTORS][REDUCE_PIXELS], m[REDUCE_PIXELS], w[REDUCE_VECTORS];
} reduce_block;

/* Products of four channels of eight pixels, which are there. Weights follow those that are there; `next` are the next
 * pixels, c floats apart. first (a constant): the sums begin with the bias. */
VEC_INLINE void reduce_step(reduce_block *s, const bool first, const float *w, const float *next, int64_t c,
                            const float *bias)
{
    REDUCE_UNROLL for (int lane = 0; lane < 4; lane++)
    {
        vec wl[REDUCE_VECTORS];
        REDUCE_UNROLL for (int u = 0; u < REDUCE_VECTORS; u++)
        {
            wl[u] = s->w[u];
            s->w[u] = vec_load_pinned(w, ((lane + 1) * REDUCE_VECTORS + u) * VEC_LANES);
        }
        REDUCE_UNROLL for (int p = 0; p < REDUCE_PIXELS; p++)
        {
            REDUCE_UNROLL for (int u = 0; u < REDUCE_VECTORS; u++)
            {
                if (first && lane == 0)
                    s->sum[u][p] = vec_load_pinned(bias, u * VEC_LANES);
                vec_fma_pinned(&s->sum[u][p], wl[u], s->m[p], lane);
            }
            if (lane == 3)
                s->m[p] = vec_load_pinned(next + p * c, 0);
        }
    }
}

/* A line of each of eight pixels into the first cache. */
VEC_INLINE void reduce_fetch(const float *x, int64_t c)
{
    REDUCE_UNROLL for (int p = 0; p < REDUCE_PIXELS; p++) __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(x + p * c));
}

/* Eight outputs from weights w on, of channels from x on; the next block's begin at `after`. */
VEC_INLINE void reduce_outputs(const reduce_pass *q, reduce_block *s, const float *x, const float *after,
                               const float *w, const float *bias, float *y)
{
    const int64_t c = q->c;
    reduce_fetch(x + REDUCE_PIXELS * c, c);
    reduce_step(s, true, w, q->deep > 4 ? x + 4 : after, c, bias);
    for (int k = 4; k < q->deep; k += 4) {
        w += 4 * REDUCE_ACROSS;
        x += 4;
        if (k % 16 == 0)
            reduce_fetch(x + REDUCE_PIXELS * c, c);
        reduce_step(s, false, w, k + 4 < q->deep ? x + 4 : after, c, bias);
    }
    REDUCE_UNROLL for (int p = 0; p < REDUCE_PIXELS; p++) __asm__ volatile("stp %q0, %q1, [%2]" : : "w"(s->sum[0][p]),
                                                                           "w"(s->sum[1][p]), "r"(y + p * q->ci));
}

/* All outputs of `eights` eights of pixels. Behind the weights lie two vectors more, whatever they are. */
static __attribute__((noinline, unused)) void reduce_all(const reduce_pass *q, int64_t eights)
{
    const int blocks = q->groups * q->wide / REDUCE_ACROSS, same = q->wide / REDUCE_ACROSS; /* same: of a group */
    const float *x = q->x;
    float *y = q->y;
    reduce_block s;
    vec_pinned_fence();
    REDUCE_UNROLL for (int p = 0; p < REDUCE_PIXELS; p++) s.m[p] = vec_load_pinned(x + p * q->c, 0);
    for (int64_t i = 0; i < eights; i++, x += REDUCE_PIXELS * q->c, y += REDUCE_PIXELS * q->ci) {
        const float *w = q->w;
        REDUCE_UNROLL for (int u = 0; u < REDUCE_VECTORS; u++) s.w[u] = vec_load_pinned(w, u * VEC_LANES);
        for (int block = 0; block < blocks; block++, w += (int64_t)q->deep * REDUCE_ACROSS) {
            const float *after = block + 1 < blocks ? x + (int64_t)((block + 1) / same) * q->deep
                                 : i + 1 < eights   ? x + REDUCE_PIXELS * q->c
                                                    : x;
            reduce_outputs(q, &s, x + (int64_t)(block / same) * q->deep, after, w, q->b + block * REDUCE_ACROSS,
                           y + block * REDUCE_ACROSS);
        }
    }
    vec_pinned_fence();
}

#endif

/* The grouped product of a Lite block for AArch64: eight neighbouring pixels by eight outputs of a group. Each
 * instruction is its own `asm volatile` (wht_pass.h): sums start with a loaded bias, and weights and pixels are
 * loaded shortly before their use, because a Neoverse-V1 reads only four registers per cycle that were ready when an
 * instruction entered the queue. The next eight pixels are prefetched meanwhile. */
#ifndef ZN_ARM_REDUCE_PASS_H
#define ZN_ARM_REDUCE_PASS_H

#include "kernels/arm/pinned.h"

#include <stdbool.h>

enum { REDUCE_PIXELS = 8, REDUCE_ACROSS = 8, REDUCE_VECTORS = REDUCE_ACROSS / VEC_LANES };
#define REDUCE_UNROLL _Pragma("GCC unroll 16")

typedef struct reduce_pass {
    const float *x, *w, *b; /* w: packed by reduce_pack */
    float *y;
    int64_t c, ci;          /* channels per pixel of x, and of y */
    int64_t plane;          /* 0, or y has planes of vectors this many floats apart (plane_line.h) */
    int groups, deep, wide; /* of one group */
    int64_t early;          /* pixels that the caller prefetched into L2; the others are prefetched meanwhile */
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

/* The sums and the operands in flight. */
typedef struct reduce_block {
    vec sum[REDUCE_PIXELS][REDUCE_VECTORS], m[REDUCE_PIXELS], w[REDUCE_VECTORS];
    int64_t pixel[REDUCE_PIXELS]; /* offsets of the pixels of x in bytes */
} reduce_block;

VEC_INLINE void reduce_multiplier(reduce_block *s, const float *x, const int p)
{
    __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(s->m[p]) : "r"(x), "r"(s->pixel[p]));
}

/* Prefetches a line of a pixel into L1 or L2. */
VEC_INLINE void reduce_fetch(const reduce_block *s, const bool near, const float *x, const int p)
{
    if (near)
        __asm__ volatile("prfm pldl1keep, [%0, %1]" : : "r"(x), "r"(s->pixel[p]));
    else
        __asm__ volatile("prfm pldl2keep, [%0, %1]" : : "r"(x), "r"(s->pixel[p]));
}

/* Stores the sums of pixels p and p + 1 to y, in planes or contiguous (a compile-time choice). */
VEC_INLINE void reduce_store(const bool planes, const reduce_pass *q, const reduce_block *s, float *y, const int p)
{
    REDUCE_UNROLL for (int u = 0; u < 2; u++)
    {
        const vec two[2] = { s->sum[p][u], s->sum[p + 1][u] };
        if (planes)
            vec_store_two_pinned((char *)(y + u * q->plane), p * (int)sizeof(vec), two);
        else
            vec_store_two_pinned((char *)(y + (p + u) * q->ci), 0, s->sum[p + u]);
    }
}

/* What a step does besides its products: compile-time constants. */
typedef enum reduce_kind {
    REDUCE_FIRST = 1, /* stores the sums of the previous block, and starts these with the bias */
    REDUCE_NEAR = 2,  /* prefetches a line of each of the next pixels */
    REDUCE_FAR = 4,   /* prefetches pixels far ahead */
    REDUCE_PLANES = 8
} reduce_kind;

/* Products of four channels of eight pixels, which are already loaded. Loads the weights after those already loaded;
 * `next` are the next channels. */
VEC_INLINE void reduce_step(const reduce_pass *q, reduce_block *s, const int kind, const float *w, const float *next,
                            const float *fetch, const float *bias, float *y)
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
            if ((kind & REDUCE_FIRST) && lane == 0 && p % 2 == 0)
                reduce_store(kind & REDUCE_PLANES, q, s, y, p);
            if ((kind & REDUCE_FIRST) && lane == 0)
                vec_load_two_pinned((const char *)bias, 0, s->sum[p]);
            REDUCE_UNROLL for (int u = 0; u < REDUCE_VECTORS; u++) vec_fma_pinned(&s->sum[p][u], wl[u], s->m[p], lane);
            if ((kind & (REDUCE_NEAR | REDUCE_FAR)) && lane == 1)
                reduce_fetch(s, kind & REDUCE_NEAR, fetch, p);
            if (lane == 3)
                reduce_multiplier(s, next, p);
        }
    }
}

/* Eight outputs from weights w, of channels from x; the channels of the next block begin at `after`. Prefetches
 * pixels `far` floats ahead. Stores the sums of the previous block to y. */
VEC_INLINE void reduce_outputs(const int kind, const reduce_pass *q, reduce_block *s, const float *x, int64_t far,
                               const float *after, const float *w, const float *bias, float *y)
{
    const int64_t near = REDUCE_PIXELS * q->c;
    reduce_step(q, s, kind | REDUCE_FIRST | REDUCE_NEAR, w, q->deep > 4 ? x + 4 : after, x + near, bias, y);
    for (int k = 4; k < q->deep; k += 4) {
        w += 4 * REDUCE_ACROSS;
        x += 4;
        const float *next = k + 4 < q->deep ? x + 4 : after;
        if (k % 16 == 0)
            reduce_step(q, s, kind | REDUCE_NEAR, w, next, x + near, bias, y);
        else if (k % 16 == 8)
            reduce_step(q, s, kind | REDUCE_FAR, w, next, x + far, bias, y);
        else
            reduce_step(q, s, kind, w, next, x, bias, y);
    }
}

/* All outputs of `eights` groups of eight pixels. The weights are followed by two more vectors with any content. */
VEC_INLINE void reduce_run(const int kind, const reduce_pass *q, int64_t eights)
{
    const int blocks = q->groups * q->wide / REDUCE_ACROSS, same = q->wide / REDUCE_ACROSS; /* same: blocks per group */
    const int64_t across = kind & REDUCE_PLANES ? REDUCE_VECTORS * q->plane : REDUCE_ACROSS,
                  on = REDUCE_PIXELS * (kind & REDUCE_PLANES ? VEC_LANES : q->ci);
    const float *x = q->x;
    float *y = q->y, *old = y;
    reduce_block s;
    vec_pinned_fence();
    REDUCE_UNROLL for (int p = 0; p < REDUCE_PIXELS; p++)
    {
        s.pixel[p] = p * q->c * (int64_t)sizeof(float);
        __asm__ volatile("" : "+r"(s.pixel[p]));
        reduce_multiplier(&s, x, p);
        REDUCE_UNROLL for (int u = 0; u < REDUCE_VECTORS; u++) s.sum[p][u] = vec_splat(0); /* overwritten later */
    }
    for (int64_t i = 0; i < eights; i++, x += REDUCE_PIXELS * q->c, y += on) {
        const float *w = q->w;
        const int64_t far = i + q->early / REDUCE_PIXELS < eights ? q->early * q->c : 0;
        REDUCE_UNROLL for (int u = 0; u < REDUCE_VECTORS; u++) s.w[u] = vec_load_pinned(w, u * VEC_LANES);
        for (int block = 0; block < blocks; block++, w += (int64_t)q->deep * REDUCE_ACROSS) {
            const float *after = block + 1 < blocks ? x + (int64_t)((block + 1) / same) * q->deep
                                 : i + 1 < eights   ? x + REDUCE_PIXELS * q->c
                                                    : x;
            reduce_outputs(kind, q, &s, x + (int64_t)(block / same) * q->deep, far, after, w,
                           q->b + block * REDUCE_ACROSS, old);
            old = y + block * across;
        }
    }
    REDUCE_UNROLL for (int p = 0; p < REDUCE_PIXELS; p += 2) reduce_store(kind & REDUCE_PLANES, q, &s, old, p);
    vec_pinned_fence();
}

static __attribute__((noinline, unused)) void reduce_all(const reduce_pass *q, int64_t eights)
{
    reduce_run(0, q, eights);
}

static __attribute__((noinline, unused)) void reduce_planes(const reduce_pass *q, int64_t eights)
{
    reduce_run(REDUCE_PLANES, q, eights);
}

#endif

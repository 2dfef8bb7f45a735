/* The expansion of a Lite block for AArch64: four neighbouring pixels by sixteen outputs of a group, a whole line of
 * each. Each instruction is an `asm volatile` of its own (wht_pass.h): x and weights are loaded where they are used,
 * since a Neoverse-V1 reads but four registers a cycle that were ready when an instruction came to wait for its turn.
 * Half of the next block's x is loaded among the last products of a block, and later pixels are fetched meanwhile. */
#ifndef ZN_ARM_EXPAND_PASS_H
#define ZN_ARM_EXPAND_PASS_H

#include "kernels/arm/pinned.h"

#include <stdbool.h>

enum {
    EXPAND_PIXELS = 4,
    EXPAND_ACROSS = 16,
    EXPAND_AHEAD = 2,    /* weights on their way before they are used */
    EXPAND_EARLY = 2048, /* floats before which x is fetched into the second cache */
    EXPAND_BANDS = 4     /* and bands before which t is */
};
#define EXPAND_UNROLL _Pragma("GCC unroll 16")

typedef struct expand_pass {
    const float *t, *w, *b; /* w: [panels of 16 outputs][deep][16] */
    const float *x;
    float *y;
    int64_t ci, c;  /* channels of a pixel of t, and of x and y: whole panels */
    int deep, wide; /* of a group, multiples of 4 and 16 */
    /* 0, or t has only `band` pixels, a multiple of four, before it skips some floats; `first` of them come before. */
    int band, first;
    int64_t skip;
} expand_pass;

/* A block on its way. */
typedef struct expand_block {
    vec sum[EXPAND_PIXELS][4];
    vec x[2][EXPAND_PIXELS]; /* the first half of a block's x */
    vec w[EXPAND_AHEAD];     /* the next weights */
} expand_block;

/* sum = x + b, the first half of x being there. */
VEC_INLINE void expand_begin(expand_block *s, const float *x, int64_t c, const float *b)
{
    EXPAND_UNROLL for (int j = 0; j < 4; j++)
    {
        const vec bj = vec_load_pinned(b, j * VEC_LANES);
        EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++)
        {
            const vec xp = j < 2 ? s->x[j][p] : vec_load_pinned(x + p * c, j * VEC_LANES);
            __asm__ volatile("fadd %0.4s, %1.4s, %2.4s" : "=w"(s->sum[p][j]) : "w"(bj), "w"(xp));
        }
    }
}

/* One step of four channels of t: weights [4][16], of which the first are there; behind them those of `after` are
 * loaded. x: NULL, or where the next block's x lies, of which half is loaded meanwhile (a constant choice). */
VEC_INLINE void expand_step(expand_block *s, const float *t, int64_t ci, const float *w, const float *after,
                            const float *x, int64_t c)
{
    vec m[EXPAND_PIXELS];
    EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++) m[p] = vec_load_pinned(t + p * ci, 0);
    EXPAND_UNROLL for (int k = 0; k < 16; k++)
    {
        const vec wk = s->w[k % EXPAND_AHEAD];
        s->w[k % EXPAND_AHEAD] = k + EXPAND_AHEAD < 16 ? vec_load_pinned(w, (k + EXPAND_AHEAD) * VEC_LANES)
                                                       : vec_load_pinned(after, (k + EXPAND_AHEAD - 16) * VEC_LANES);
        EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++) vec_fma_pinned(&s->sum[p][k % 4], wk, m[p], k / 4);
        if (x && k < 4)
            vec_fetch_pinned(x + EXPAND_EARLY + k * c, 0);
        else if (x && k < 8)
            __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(x + k * c));
        else if (x)
            s->x[k / 4 - 2][k % 4] = vec_load_pinned(x + k % 4 * c, (k / 4 - 2) * VEC_LANES);
    }
}

/* What lies some bands behind four pixels of t: no machine sees that these are next. */
VEC_INLINE void expand_fetch(const expand_pass *q, const float *t)
{
    const int64_t apart = q->skip + q->band * q->ci;
    for (int64_t k = 0; k < EXPAND_PIXELS * q->ci; k += 16) {
        vec_fetch_pinned(t + EXPAND_BANDS * apart + k, 0);
        __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(t + apart + k));
    }
}

/* y = x + b + t w for `fours` fours of pixels. */
static __attribute__((noinline, unused)) void expand_all(const expand_pass *q, int64_t fours)
{
    const int64_t c = q->c, ci = q->ci;
    const float *x = q->x, *t = q->t;
    float *y = q->y;
    expand_block s;
    vec_pinned_fence();
    EXPAND_UNROLL for (int k = 0; k < EXPAND_AHEAD; k++) s.w[k] = vec_load_pinned(q->w, k * VEC_LANES);
    EXPAND_UNROLL for (int k = 0; k < 8; k++) s.x[k / 4][k % 4] = vec_load_pinned(x + k % 4 * c, k / 4 * VEC_LANES);
    int in_band = q->first;
    for (int64_t i = 0; i < fours; i++, t += EXPAND_PIXELS * ci) {
        if (q->band && in_band == q->band) {
            t += q->skip;
            in_band = 0;
        }
        in_band += EXPAND_PIXELS;
        if (q->band)
            expand_fetch(q, t);
        const float *w = q->w, *tg = t;
        int64_t left = q->wide; /* outputs of this group */
        for (int64_t o = 0; o < c; o += EXPAND_ACROSS, y += EXPAND_ACROSS) {
            const bool last = o + EXPAND_ACROSS == c;
            const float *next = x + EXPAND_ACROSS + (last ? (EXPAND_PIXELS - 1) * c : 0), *tk = tg;
            next = last && i + 1 == fours ? x : next; /* there is none */
            expand_begin(&s, x, c, q->b + o);
            for (int k = 4; k < q->deep; k += 4, tk += 4, w += 4 * EXPAND_ACROSS)
                expand_step(&s, tk, ci, w, w + 4 * EXPAND_ACROSS, NULL, 0);
            expand_step(&s, tk, ci, w, last ? q->w : w + 4 * EXPAND_ACROSS, next, c);
            w += 4 * EXPAND_ACROSS;
            EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++) vec_store_line_pinned(y + p * c, s.sum[p]);
            x = next;
            left -= EXPAND_ACROSS;
            tg += left ? 0 : q->deep;
            left = left ? left : q->wide;
        }
        y += (EXPAND_PIXELS - 1) * c;
    }
    vec_pinned_fence();
}

#endif

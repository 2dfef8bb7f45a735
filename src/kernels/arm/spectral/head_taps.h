/* Depthwise 3x3 plus its own input, for a row of planes, for AArch64. Groups of sixteen pixels of a plane follow
 * each other without a gap: at each step tap j is applied to the pixel j before the newest. Nine sums thus grow side
 * by side, and a pixel is multiplied soon after it is requested (a Neoverse-V1 reads only four registers per cycle
 * that were ready when an instruction was queued; gelu_lines.c). Meanwhile the next row of the map is prefetched
 * into L1, and the row after it into L2, a few lines at a time: in a burst, each prefetch waits for the previous
 * one. The order of instructions matters, so each is its own `asm volatile` (wht_pass.h). */
#ifndef ZN_ARM_HEAD_TAPS_H
#define ZN_ARM_HEAD_TAPS_H

#include "kernels/arm/pinned.h"

#include <stdbool.h>

enum { TAPS_BLOCK = 16, TAPS = 9, TAPS_FLOATS = TAPS_BLOCK * VEC_LANES };

typedef struct head_taps {
    const float *row[3]; /* rows of the first plane, one pixel before the first */
    const float *taps;   /* [planes][9][VEC_LANES] */
    float *e;
    int64_t plane, e_plane;
    int planes, blocks;        /* blocks per plane */
    const float *soon, *later; /* memory to prefetch into L1 and L2: floats per block, at most five cache lines */
    int64_t fetched;
} head_taps;

/* Addresses of a block: its rows, its taps and its results. */
typedef struct taps_place {
    const float *row[3], *taps;
    float *e;
} taps_place;

/* State in flight: pixel k of this block, or of the previous one, in sum[k]; the taps; for each row the pixel being
 * multiplied and the next one; and, if a row continues with this block, the pixel after the last of `left`. */
typedef struct taps_state {
    vec sum[TAPS_BLOCK], w[TAPS], x[3][2], over;
    const float *row[3], *left, *soon, *later;
    float *e;
} taps_state;

/* Tap j at step t. A drain only completes what the previous block has started. */
VEC_INLINE void taps_multiply(const int t, const int j, const bool drain, taps_state *s)
{
    const bool over = t >= j / 3 * 3 && t < j;
    vec *sum = s->sum + (t - j + TAPS_BLOCK) % TAPS_BLOCK;
    if (!drain || t < j)
        __asm__ volatile("fmla %0.4s, %1.4s, %2.4s"
                         : "+w"(*sum)
                         : "w"(s->w[j]), "w"(over ? s->over : s->x[j / 3][(t + j / 3) % 2]));
}

/* Loads the pixel of row i that step t + 1 starts with. */
VEC_INLINE void taps_load(const int t, const int i, taps_state *s, const taps_place *place)
{
    const int pixel = (t + 1 - 3 * i + TAPS_BLOCK) % TAPS_BLOCK;
    if (pixel == 0) {
        s->left = s->row[i];
        s->row[i] = place->row[i];
    }
    s->x[i][(t + 1 + i) % 2] = vec_load_pinned(s->row[i], pixel * VEC_LANES);
}

/* Step t of the block at `here`; the next block is at `next`. */
VEC_INLINE void taps_step(const int t, const bool drain, taps_state *s, const taps_place *here, const taps_place *next)
{
    const int then = (t + 1) % TAPS_BLOCK, done = (t - TAPS + TAPS_BLOCK) % TAPS_BLOCK;
    const taps_place *place = then ? here : next;
    taps_multiply(t, 1, drain, s);
    if (!drain) {
        taps_load(t, 0, s, place);
        s->sum[then] = vec_load_pinned(place->row[1], (then + 1) * VEC_LANES);
    }
    taps_load(t, 2, s, here);
    taps_multiply(t, 5, drain, s);
    taps_multiply(t, 2, drain, s);
    taps_multiply(t, 4, drain, s);
    taps_multiply(t, 8, drain, s);
    if (t == TAPS)
        s->e = here->e;
    if (t % 2)
        vec_store_two_pinned((char *)s->e, done * (int)sizeof(vec), s->sum + done);
    taps_load(t, 1, s, here);
    taps_multiply(t, 0, drain, s);
    taps_multiply(t, 7, drain, s);
    taps_multiply(t, 3, drain, s);
    taps_multiply(t, 6, drain, s);
    if (then % 3 < 2 && then < TAPS)
        s->over = vec_load_pinned(s->left, (TAPS_BLOCK + then % 3) * VEC_LANES);
    if (!drain && then < TAPS)
        s->w[then] = vec_load_pinned(place->taps, then * VEC_LANES);
    if (!drain && t % 3 == 1)
        vec_fetch_near_pinned(s->soon, t / 3 * 16);
    if (!drain && t % 3 == 2)
        vec_fetch_pinned(s->later, t / 3 * 16);
}

static inline void head_taps_pinned(const head_taps *q)
{
    float nowhere[TAPS_FLOATS];
    taps_place here = { { q->row[0], q->row[1], q->row[2] }, q->taps, q->e };
    taps_state s = {
        .row = { q->row[0], q->row[1], q->row[2] }, .left = q->row[0], .soon = q->soon, .later = q->later, .e = nowhere
    };
    PINNED_UNROLL for (int k = 0; k < TAPS_BLOCK; k++) s.sum[k] = vec_splat(0);
    PINNED_UNROLL for (int k = 0; k < TAPS; k++) s.w[k] = vec_splat(0);
    PINNED_UNROLL for (int k = 0; k < 6; k++) s.x[k / 2][k % 2] = vec_splat(0);
    vec_pinned_fence();
    s.x[0][0] = s.over = vec_load_pinned(q->row[0], 0);
    s.sum[0] = vec_load_pinned(q->row[1], VEC_LANES);
    s.w[0] = vec_load_pinned(q->taps, 0);
    const int64_t count = (int64_t)q->planes * q->blocks;
    const int64_t seam = q->plane - q->blocks * TAPS_FLOATS, e_seam = q->e_plane - q->blocks * TAPS_FLOATS;
    int block = 0;
    for (int64_t i = 0; i < count; i++, s.soon += q->fetched, s.later += q->fetched) {
        const bool end = ++block == q->blocks;
        const int64_t step = i + 1 < count ? TAPS_FLOATS + (end ? seam : 0) : 0;
        const taps_place next = { { here.row[0] + step, here.row[1] + step, here.row[2] + step },
                                  here.taps + (end && step ? TAPS * VEC_LANES : 0),
                                  here.e + TAPS_FLOATS + (end ? e_seam : 0) };
        block = end ? 0 : block;
        PINNED_UNROLL for (int t = 0; t < TAPS_BLOCK; t++) taps_step(t, false, &s, &here, &next);
        here = next;
    }
    PINNED_UNROLL for (int t = 0; t < TAPS - 1; t++) taps_step(t, true, &s, &here, &here);
    vec_pinned_fence();
}

#endif

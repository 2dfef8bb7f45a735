/* The extent of a pass of a Walsh-Hadamard transform: blocks of radix rows, in contiguous runs of floats in each
 * row. */
#ifndef ZN_SIMD_WHT_WALK_H
#define ZN_SIMD_WHT_WALK_H

#include "kernels/simd/vec.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum wht_kind {
    WHT_PLAIN,
    WHT_SCALE,   /* the result times `scale` */
    WHT_GATE,    /* transformed, row k times factors[k] * scale, transformed again */
    WHT_FACTORS, /* row k is factors[k] times row table[k] & mask of `from` */
} wht_kind;

/* Cache lines to prefetch meanwhile, a few with each block, because a burst of them stalls loads. */
typedef struct wht_ahead {
    const float *at;
    int64_t lines; /* remaining lines; none if not positive */
    int each;      /* lines per two blocks */
    bool near;     /* into L1 instead of L2 */
} wht_ahead;

typedef struct wht_walk {
    const float *from;
    float *to;                  /* may be from */
    int64_t from_step, to_step; /* stride of the rows of a block in floats; WHT_FACTORS: of all rows of `from` */
    int64_t run, runs;          /* floats per run, whole vectors; number of runs */
    int64_t from_next, to_next; /* floats from one run to the next; the rows of the next run are the next `radix` */
    const float *factors;
    const int32_t *table;
    int32_t mask;
    float scale;
    wht_ahead *ahead; /* or NULL */
} wht_walk;

static inline bool wht_fetches(const wht_walk *q) { return q->ahead && q->ahead->lines > 0; }

/* Marks the lines before `to` as prefetched. */
static inline void wht_fetched(const wht_walk *q, const float *to)
{
    if (wht_fetches(q)) {
        q->ahead->lines -= (to - q->ahead->at) / 16;
        q->ahead->at = to;
    }
}

#endif

/* What a pass of a Walsh-Hadamard transform goes over: blocks of radix rows, in runs of floats that lie one behind the
 * other in each row. */
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

/* Lines of the cache that are fetched meanwhile, some with each block, since a burst of them makes loads wait. */
typedef struct wht_ahead {
    const float *at;
    int64_t lines; /* those that are left; none if not positive */
    int each;      /* how many with two blocks */
    bool near;     /* into the first cache instead of the second */
} wht_ahead;

typedef struct wht_walk {
    const float *from;
    float *to;                  /* may be from */
    int64_t from_step, to_step; /* floats between the rows of a block; WHT_FACTORS: between all rows of `from` */
    int64_t run, runs;          /* floats of a run, whole vectors; and how many */
    int64_t from_next, to_next; /* floats between the beginnings of runs; the rows of the next are the next `radix` */
    const float *factors;
    const int32_t *table;
    int32_t mask;
    float scale;
    wht_ahead *ahead; /* or NULL */
} wht_walk;

static inline bool wht_fetches(const wht_walk *q) { return q->ahead && q->ahead->lines > 0; }

/* Those before `to` are. */
static inline void wht_fetched(const wht_walk *q, const float *to)
{
    if (wht_fetches(q)) {
        q->ahead->lines -= (to - q->ahead->at) / 16;
        q->ahead->at = to;
    }
}

#endif

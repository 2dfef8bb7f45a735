/* A strip of columns of a map whose rows are far apart. The first pass reads the map and writes scratch, where a
 * column is contiguous and fits L1; the last pass writes back. The passes in between work on one column. Passes over
 * the map use at most four rows, in whole cache lines: such rows often share one cache set, which cannot hold more. */
#ifndef ZN_SIMD_WHT_STRIP_H
#define ZN_SIMD_WHT_STRIP_H

#include "kernels/simd/spectral/wht.h"

typedef struct wht_strip {
    const float *from;
    float *to;
    int64_t row;            /* stride of the map's rows in floats */
    int64_t n;              /* rows: 16 or more with a gate, 8 or more without */
    int64_t columns, width; /* columns of `width` floats, whole vectors; sixteen are best */
    const float *gate;      /* [n], for H (gate * scale .* H x); or NULL, for scale * H x */
    float scale;
    float *lines; /* scratch of columns * (n * width + WHT_APART) */
} wht_strip;

enum {
    WHT_APART = 16, /* floats of padding that put neighbouring columns in different cache sets */
    WHT_EARLY = 4   /* blocks of rows to prefetch, fewer than eight */
};

/* Steps among radix rows (1, 2 or 4), times scale. */
static inline void wht_scaled(int radix, const wht_walk *q)
{
    if (q->scale == 1 && radix > 1)
        wht_plain(radix, q);
    else if (radix == 4)
        ZN_KERNEL(wht_scale4)(q);
    else if (radix == 2)
        ZN_KERNEL(wht_scale2)(q);
    else
        wht_walk_blocks(WHT_SCALE, 1, q);
}

/* The steps at distances below n of `total` contiguous rows of `width` floats, into t. Returns the address of the
 * result: t, or `from` if there are no steps. */
static inline const float *wht_first_steps(const float *from, float *t, int64_t n, int64_t total, int64_t width,
                                           wht_ahead *ahead)
{
    for (int64_t len = 1, radix; len < n; len *= radix, from = t) {
        radix = wht_next_radix(n / len);
        wht_walk q = wht_solid(from, t, total, (int)radix, len, width);
        q.ahead = ahead;
        wht_plain((int)radix, &q);
    }
    return from;
}

/* scale * H x for lines of n contiguous rows of `width` floats, `total` rows in all. The last pass has at most four
 * rows, so that it writes whole cache lines: memory takes partial lines at a third of the speed. */
static inline void wht_whole_lines(const float *from, float *t, float *to, int64_t n, int64_t total, int64_t width,
                                   float scale, wht_ahead *ahead)
{
    const int last = n >= 4 ? 4 : (int)n;
    from = wht_first_steps(from, t, n / last, total, width, ahead);
    wht_walk q = wht_solid(from, to, total, last, n / last, width);
    q.ahead = ahead;
    q.scale = scale;
    wht_scaled(last, &q);
}

/* The first row of block number i, which has rows y, y + len, ... y + (radix - 1) * len. */
static inline int64_t wht_block_row(int64_t i, int radix, int64_t len) { return i / len * len * radix + i % len; }

/* Prefetches into L2. */
static inline void wht_strip_fetch(const wht_strip *q, int64_t i, int radix, int64_t len)
{
    const int64_t y = wht_block_row(i, radix, len);
    for (int64_t k = y; k < y + radix * len && k < q->n; k += len)
        for (int64_t c = 0; c < q->columns * q->width; c += 16)
            __builtin_prefetch(q->from + k * q->row + c, 0, 2);
}

static inline void wht_strip_in(const wht_strip *q, int radix, int64_t len)
{
    for (int64_t i = 0; i < WHT_EARLY; i++)
        wht_strip_fetch(q, i, radix, len);
    for (int64_t i = 0; i < q->n / radix; i++) {
        const int64_t y = wht_block_row(i, radix, len);
        const wht_walk walk = { .from = q->from + y * q->row,
                                .to = q->lines + y * q->width,
                                .from_step = len * q->row,
                                .to_step = len * q->width,
                                .run = q->width,
                                .runs = q->columns,
                                .from_next = q->width,
                                .to_next = q->n * q->width + WHT_APART };
        wht_strip_fetch(q, i + WHT_EARLY, radix, len);
        wht_plain(radix, &walk);
    }
}

static inline void wht_strip_out(const wht_strip *q, int radix)
{
    const int64_t len = q->n / radix;
    for (int64_t y = 0; y < len; y++) {
        const wht_walk walk = { .from = q->lines + y * q->width,
                                .to = q->to + y * q->row,
                                .from_step = len * q->width,
                                .to_step = len * q->row,
                                .run = q->width,
                                .runs = q->columns,
                                .from_next = q->n * q->width + WHT_APART,
                                .to_next = q->width,
                                .scale = q->scale };
        if (q->gate)
            wht_plain(radix, &walk);
        else
            wht_scaled(radix, &walk);
    }
}

static inline void wht_strip_all(const wht_strip *q)
{
    const int64_t first = q->gate ? 8 : 1; /* the distance of the first pass */
    const int in = q->n / first >= (q->gate ? 4 : 16) ? 4 : 2, out = q->gate ? in : 4;
    wht_strip_in(q, in, first);
    for (int64_t p = 0; p < q->columns; p++) {
        float *x = q->lines + p * (q->n * q->width + WHT_APART);
        wht_solid_from(x, q->n, first * in, q->gate ? q->n : q->n / out, q->width, NULL);
        if (!q->gate)
            continue;
        wht_walk walk = wht_solid(x, x, q->n, 8, 1, q->width);
        walk.factors = q->gate;
        walk.scale = q->scale;
        ZN_KERNEL(wht_gate8)(&walk);
        wht_solid_from(x, q->n, 8, q->n / out, q->width, NULL);
    }
    wht_strip_out(q, out);
}

#endif

/* How a map is processed by the passes of wht_flow.h: in groups of n rows by `width` floats, from the map through
 * rings of two groups back to the map. This file chooses the passes and where each of them reads and writes. */
#ifndef ZN_ARM_WHT_PLAN_H
#define ZN_ARM_WHT_PLAN_H

#include "kernels/arm/spectral/wht_flow.h"

/* Groups are adjacent in lines of n rows; the lines are consecutive. */
typedef struct wht_stream {
    const float *from; /* the first line */
    float *to;
    int64_t n, row; /* rows, and floats from one to the next */
    int64_t width;  /* width of a group: whole cache lines, an even number of them if n is 8 and it is not a row */
    int64_t first, total; /* first group to process, and number of groups */
    float scale;
    float *rings; /* scratch of two groups for every pass except one */
} wht_stream;

/* Radixes of the passes over n rows, 0 for unused passes. Rows that are far apart are read four at a time: they
 * share an L1 set, and radix 8 would read each line twice. */
typedef struct wht_plan {
    int a, b, c;
} wht_plan;

static inline bool wht_near(const wht_stream *q) { return q->row <= 256; }

static inline wht_plan wht_plan_of(const wht_stream *q)
{
    switch (q->n) {
    case 2:
        return (wht_plan){ 2, 0, 0 };
    case 4:
        return (wht_plan){ 4, 0, 0 };
    case 8:
        return (wht_plan){ 4, 2, 0 };
    case 16:
        return (wht_plan){ 4, 4, 0 };
    case 32:
        return wht_near(q) ? (wht_plan){ 8, 4, 0 } : (wht_plan){ 4, 2, 4 };
    case 64:
        return (wht_plan){ 4, 4, 4 };
    default:
        return (wht_plan){ 8, 4, 4 };
    }
}

static inline int wht_plan_passes(const wht_plan *p) { return p->c ? 3 : p->b ? 2 : 1; }

static inline int wht_plan_last(const wht_plan *p) { return p->c ? p->c : p->b ? p->b : p->a; }

/* Whether the passes support it, with `scratch` bytes of scratch. */
static inline bool wht_can_stream(const wht_stream *q, size_t scratch)
{
    const wht_plan plan = wht_plan_of(q);
    const int64_t group = q->n * q->width, rings = wht_plan_passes(&plan) - 1;
    const bool wide = q->width % 32 == 0 || q->n > 8 || q->n == 4 || (q->n == 8 && q->width == q->row);
    return q->n >= 2 && q->n <= (wht_near(q) ? 128 : 64) && q->width % 16 == 0 && q->row % q->width == 0 && wide &&
           q->total > wht_plan_passes(&plan) && q->total * group % (32 * VEC_LANES) == 0 &&
           (size_t)(rings * 2 * group) * sizeof(float) <= scratch;
}

/* Offset of group i in a map. */
static inline int64_t wht_group_at(const wht_stream *q, int64_t i)
{
    const int64_t groups = q->row / q->width, k = q->first + i;
    return k / groups * q->n * q->row + k % groups * q->width;
}

/* The address of group i in ring r. */
static inline float *wht_slot(const wht_stream *q, int r, int64_t i)
{
    return q->rings + (2 * r + i % 2) * q->n * q->width;
}

/* The side of a pass that reads or writes ring r, from group i. */
static inline flow_side wht_ring(const wht_stream *q, int r, int64_t i)
{
    const int64_t ring = 2 * q->n * q->width * (int64_t)sizeof(float);
    return (flow_side){ .at = (char *)wht_slot(q, r, i), .end = (char *)wht_slot(q, r, 0) + ring, .ring = ring };
}

/* Reads what radix 8 wrote: a run covers a row, eight rows form a group. */
static inline void wht_read_spread(flow_side *s, int64_t width)
{
    s->step = 8 * width;
    s->block = 512;
    s->run = 32 - 8 * width;
    s->group = 32 * width - 256;
}

/* Positions a pass at group i, counted from the start of a line. */
static inline void wht_pass_at(flow_pass *p, int64_t i)
{
    p->blocks_left = p->blocks;
    p->runs_left = p->runs;
    p->groups_left = p->groups - i % p->groups;
}

/* The map -> ring 0, from group i. */
static inline flow_pass wht_pass_first(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const int64_t size = sizeof(float), width = q->width * size, row = q->row * size, across = 256 / p->a;
    char *map = (char *)(q->from + wht_group_at(q, i));
    flow_pass f = { .from = { .at = map,
                              .step = row,
                              .block = across,
                              .run = p->a * row - width,
                              .group = width - q->n * row,
                              .line = (q->n - 1) * row },
                    .to = wht_ring(q, 0, i),
                    .blocks = width / across,
                    .runs = q->n / p->a,
                    .groups = q->row / q->width,
                    .total = q->total - i,
                    .still = map,
                    /* measured; for rows, less than 8 KB has no effect */
                    .to_fetch = width == row ? 16384
                                : q->n > 16  ? 512
                                             : 2048 };
    wht_pass_at(&f, q->first + i);
    f.to.step = p->a == 8 ? 64 : width;
    f.to.block = p->a == 8 ? 256 : across;
    f.to.run = p->a == 8 ? 0 : (p->a - 1) * width;
    return f;
}

/* Ring 0 -> ring 1. */
static inline flow_pass wht_pass_middle(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const int64_t width = q->width * (int64_t)sizeof(float), across = 256 / p->b, len = p->a;
    flow_pass f = {
        .from = wht_ring(q, 0, i), .to = wht_ring(q, 1, i), .blocks = len * width / across, .runs = 1, .groups = 1
    };
    f.to.step = len * width;
    f.to.block = across;
    f.to.group = (p->b - 1) * len * width;
    if (p->a == 8) {
        f.blocks = width / across;
        f.runs = 8;
        wht_read_spread(&f.from, width);
    } else {
        f.from.step = f.to.step;
        f.from.block = f.to.block;
        f.from.group = f.to.group;
    }
    wht_pass_at(&f, 0);
    return f;
}

/* The last ring -> the map. */
static inline flow_pass wht_pass_last(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const int radix = wht_plan_last(p);
    const int64_t size = sizeof(float), width = q->width * size, row = q->row * size, across = 256 / radix;
    const int64_t len = q->n / radix;
    const bool spread = p->a == 8 && !p->c, whole = width == row && !spread; /* rows are one run */
    flow_pass f = { .from = wht_ring(q, p->c ? 1 : 0, i),
                    .to = { .at = (char *)(q->to + wht_group_at(q, i)),
                            .step = len * row,
                            .block = across,
                            .run = whole ? 0 : row - width,
                            .group = width - len * row,
                            .line = (q->n - 1) * row },
                    .blocks = whole ? len * width / across : width / across,
                    .runs = whole ? 1 : len,
                    .groups = q->row / q->width };
    wht_pass_at(&f, q->first + i);
    f.from.step = len * width;
    f.from.block = across;
    f.from.group = (radix - 1) * len * width;
    if (spread)
        wht_read_spread(&f.from, width);
    return f;
}

#endif

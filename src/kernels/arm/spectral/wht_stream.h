/* Transforms of 2 to 128 rows of a map of any size as one stream: passes work on neighbouring groups at the same
 * time, as planned below. The groups at the ends have no neighbour and are processed
 * separately. */
#ifndef ZN_ARM_WHT_STREAM_H
#define ZN_ARM_WHT_STREAM_H

#include "kernels/arm/spectral/wht_pass.h"
#include "kernels/simd/spectral/wht_strip.h"

/* One to three passes of a Walsh-Hadamard transform at once, for AArch64: a block of sixteen vectors of each in
 * turn. Memory is read and written at an even rate, and data between the passes stays in rings of a few KB. While
 * one block is computed, the previous one (of another pass) is stored and the next one loaded.
 *
 * Whole cache lines are written, to rings as well as to memory. Half lines make memory several times as slow, even
 * half lines in L1 between whole lines that go to memory. */

/* The kind of a pass, a compile-time constant everywhere: its radix (2, 4 or 8), and flags. */
enum {
    FLOW_RADIX = 15,
    FLOW_SCALE = 16,  /* multiply the result by a factor */
    FLOW_SPREAD = 32, /* reads data written by a pass of radix 8: the halves of a line are 256 bytes apart */
    FLOW_CLOSE = 64,  /* also prefetch the next line of each row into L1 */
};
#define FLOW_ACROSS(pass) (16 / ((pass)&FLOW_RADIX)) /* vectors per row of a block */
#define FLOW_STEPS(pass)  (8 * (((pass)&FLOW_RADIX) == 8 ? 3 : ((pass)&FLOW_RADIX) / 2)) /* butterflies per block */

/* Where a pass reads or writes; all in bytes. Blocks form runs, runs form groups, groups form lines. */
typedef struct flow_side {
    char *at;                        /* the next block */
    int64_t step;                    /* distance between its rows; for stores of radix 8, between its lines */
    int64_t block, run, group, line; /* distance to the next block; and more after a run, a group, a line */
    char *end;                       /* end of a ring, or NULL */
    int64_t ring;
} flow_side;

typedef struct flow_pass {
    flow_side from, to;
    int64_t blocks, runs, groups; /* blocks per run, runs per group, groups per line */
    int64_t blocks_left, runs_left, groups_left;
    int64_t total;    /* total groups, or 0 for a pass that reads a ring */
    char *still;      /* an address that may be read after the last of them */
    int64_t to_fetch; /* prefetch distance into L2 in bytes */
} flow_pass;

VEC_INLINE void flow_advance(flow_pass *p)
{
    p->from.at += p->from.block;
    p->to.at += p->to.block;
    if (__builtin_expect(--p->blocks_left != 0, 1))
        return;
    p->blocks_left = p->blocks;
    p->from.at += p->from.run;
    p->to.at += p->to.run;
    if (--p->runs_left != 0)
        return;
    p->runs_left = p->runs;
    p->from.at += p->from.group;
    p->to.at += p->to.group;
    if (p->from.at == p->from.end)
        p->from.at -= p->from.ring;
    if (p->to.at == p->to.end)
        p->to.at -= p->to.ring;
    if (--p->groups_left == 0) {
        p->groups_left = p->groups;
        p->from.at += p->from.line;
        p->to.at += p->to.line;
    }
    if (--p->total == 0)
        p->from.at = p->still;
}

#define FLOW_LOAD(offset)                                                                                              \
    __asm__ volatile("ldp %q0, %q1, [%2, " #offset "]" : "=w"(v[2 * k]), "=w"(v[2 * k + 1]) : "r"(p))
/* Loads pair k of a block. */
VEC_INLINE void flow_load(const int pass, const flow_side *s, vec *v, const int k)
{
    const int pairs = FLOW_ACROSS(pass) / 2, at = k % pairs;
    const char *p = s->at + k / pairs * s->step;
    if (at == 0)
        FLOW_LOAD(0);
    else if (pass & FLOW_SPREAD)
        FLOW_LOAD(256);
    else if (at == 1)
        FLOW_LOAD(32);
    else if (at == 2)
        FLOW_LOAD(64);
    else
        FLOW_LOAD(96);
}
#undef FLOW_LOAD

/* Stores the k-th line of a block that is complete: first, third, second, fourth. */
VEC_INLINE void flow_store(const int pass, char *to, int64_t step, vec *v, vec scale, const int k)
{
    const int line = k / 2 + k % 2 * 2, scaled = pass & FLOW_SCALE ? 4 : 0;
    char *p = (pass & FLOW_RADIX) == 2 ? to + line / 2 * step + line % 2 * 64 : to + line * step;
    v += 4 * line;
    WHT_UNROLL for (int i = 0; i < scaled; i++) wht_times(v + i, scale, 0);
    __asm__ volatile("stp %q0, %q1, [%4]\n\tstp %q2, %q3, [%4, 32]"
                     :
                     : "w"(v[0]), "w"(v[1]), "w"(v[2]), "w"(v[3]), "r"(p));
}

VEC_INLINE void flow_step(const int pass, vec *v, const int k)
{
    const int across = FLOW_ACROSS(pass), i = k % 8 / across, u = k % across, h = 1 << k / 8;
    const int low = i / h * 2 * h + i % h;
    wht_butterfly(v + low * across + u, v + (low + h) * across + u);
}

/* Prefetches four lines; with radix 8, two blocks share eight. */
VEC_INLINE void flow_fetch(const int pass, const flow_pass *p)
{
    const int64_t step = p->from.step;
    const char *at = p->from.at + p->to_fetch;
    if ((pass & FLOW_RADIX) == 8)
        at += p->blocks_left % 2 * 4 * step;
    WHT_UNROLL for (int i = 0; i < 4; i++)
    {
        const int64_t line = (pass & FLOW_RADIX) == 2 ? i / 2 * step + i % 2 * 64 : i * step;
        __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(at + line));
        if (pass & FLOW_CLOSE)
            __asm__ volatile("prfm pldl1keep, [%0, 64]" : : "r"(p->from.at + line));
    }
}

/* A block whose last two lines are not stored yet. */
typedef struct flow_rest {
    char *to;
    int64_t step;
} flow_rest;

/* Computes a block v of p and stores half of it; stores the rest of `old`, a block of old_pass, and loads the next
 * block of n in its place. */
VEC_INLINE void flow_block(const int pass, flow_pass *p, vec *v, const int old_pass, vec *old, flow_rest *rest,
                           const int next_pass, const flow_pass *n, vec scale)
{
    const int steps = FLOW_STEPS(pass), apart = steps / 8;
    vec fresh[16];
    WHT_UNROLL for (int k = 0; k < steps; k++)
    {
        if (k == 0 || k == apart)
            flow_store(old_pass, rest->to, rest->step, old, scale, 2 + k / apart);
        flow_step(pass, v, k);
        if (k == steps - 3 || k == steps - 1)
            flow_store(pass, p->to.at, p->to.step, v, scale, (k - steps + 3) / 2);
        if (k % apart == apart - 1)
            flow_load(next_pass, &n->from, fresh, k / apart);
    }
    WHT_UNROLL for (int k = 0; k < 16; k++) old[k] = fresh[k];
    *rest = (flow_rest){ p->to.at, p->to.step };
    flow_advance(p);
}

/* Before the first block: marks one of the last pass as not stored yet; its destination is overwritten later. */
VEC_INLINE flow_rest flow_begin(const int pass, const flow_pass *first, const flow_pass *last, vec *v, vec *old)
{
    __asm__ volatile("" : : : "memory"); /* loads and stores do not declare their memory: this and flow_end do */
    WHT_UNROLL for (int k = 0; k < 8; k++) flow_load(pass, &first->from, v, k);
    WHT_UNROLL for (int k = 0; k < 16; k++) old[k] = vec_splat(0);
    return (flow_rest){ last->to.at, last->to.step };
}

VEC_INLINE void flow_end(const int pass, const flow_rest *rest, vec *old, vec scale)
{
    flow_store(pass, rest->to, rest->step, old, scale, 2);
    flow_store(pass, rest->to, rest->step, old, scale, 3);
    __asm__ volatile("" : : : "memory");
}

/* A pass from map to map, of an even number of blocks. */
VEC_INLINE void flow_one(const int a, const flow_pass *passes, int64_t blocks, float factor)
{
    flow_pass p = *passes, read = p; /* which is one block ahead */
    const vec scale = vec_splat(factor);
    vec v[16], w[16];
    flow_rest rest = flow_begin(a, &p, &p, v, w);
    flow_advance(&read);
    for (; blocks > 0; blocks -= 2) {
        flow_fetch(a, &read);
        flow_block(a, &p, v, a, w, &rest, a, &read, scale);
        flow_advance(&read);
        flow_fetch(a, &read);
        flow_block(a, &p, w, a, v, &rest, a, &read, scale);
        flow_advance(&read);
    }
    flow_end(a, &rest, w, scale);
}

/* Passes a and b, of `blocks` blocks each; b reads what a wrote one group earlier. */
VEC_INLINE void flow_two(const int a, const int b, const flow_pass *passes, int64_t blocks, float factor)
{
    flow_pass p = passes[0], q = passes[1];
    const vec scale = vec_splat(factor);
    vec v[16], w[16];
    flow_rest rest = flow_begin(a, &p, &q, v, w);
    for (; blocks > 0; blocks--) {
        flow_block(a, &p, v, b, w, &rest, b, &q, scale);
        flow_fetch(a, &p);
        flow_block(b, &q, w, a, v, &rest, a, &p, scale);
    }
    flow_end(b, &rest, w, scale);
}

/* Passes a, b and c; an even number of blocks. */
VEC_INLINE void flow_three(const int a, const int b, const int c, const flow_pass *passes, int64_t blocks, float factor)
{
    flow_pass p = passes[0], q = passes[1], r = passes[2];
    const vec scale = vec_splat(factor);
    vec v[16], w[16];
    flow_rest rest = flow_begin(a, &p, &r, v, w);
    for (; blocks > 0; blocks -= 2) {
        flow_block(a, &p, v, c, w, &rest, b, &q, scale);
        flow_block(b, &q, w, a, v, &rest, c, &r, scale);
        flow_fetch(a, &p);
        flow_block(c, &r, v, b, w, &rest, a, &p, scale);
        flow_block(a, &p, w, c, v, &rest, b, &q, scale);
        flow_block(b, &q, v, a, w, &rest, c, &r, scale);
        flow_fetch(a, &p);
        flow_block(c, &r, w, b, v, &rest, a, &p, scale);
    }
    flow_end(c, &rest, w, scale);
}

/* How a map is processed by the passes of one group: in groups of n rows by `width` floats, from the map through
 * rings of two groups back to the map. This file chooses the passes and where each of them reads and writes. */

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

/* One pass over one group, for the ends of the stream. */
static inline void wht_group_first(const wht_stream *q, int radix, int64_t i)
{
    const float *from = q->from + wht_group_at(q, i);
    float *to = wht_slot(q, 0, i);
    if (radix == 8) /* in pieces of 32 bytes, the eight of a block contiguous */
        for (int64_t y = 0; y < q->n; y += 8)
            wht_plain(8, &(wht_walk){ .from = from + y * q->row,
                                      .to = to + y * q->width,
                                      .from_step = q->row,
                                      .to_step = 8,
                                      .run = 8,
                                      .runs = q->width / 8,
                                      .from_next = 8,
                                      .to_next = 64 });
    else
        wht_plain(radix, &(wht_walk){ .from = from,
                                      .to = to,
                                      .from_step = q->row,
                                      .to_step = q->width,
                                      .run = q->width,
                                      .runs = q->n / radix,
                                      .from_next = radix * q->row,
                                      .to_next = radix * q->width });
}

/* Four rows of pieces as written by radix 8, 8 rows apart. */
static inline void wht_group_spread(const float *from, float *to, int64_t width, int64_t row, float scale)
{
    for (int64_t c = 0; c < width; c += 8)
        wht_scaled(4, &(wht_walk){ .from = from + 8 * c,
                                   .to = to + c,
                                   .from_step = 8 * width,
                                   .to_step = 8 * row,
                                   .run = 8,
                                   .runs = 8,
                                   .from_next = 8,
                                   .to_next = row,
                                   .scale = scale });
}

static inline void wht_group_middle(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const float *from = wht_slot(q, 0, i);
    float *to = wht_slot(q, 1, i);
    if (p->a == 8) {
        for (int64_t at = 0; at < q->n * q->width; at += 32 * q->width)
            wht_group_spread(from + at, to + at, q->width, q->width, 1);
        return;
    }
    const wht_walk walk = wht_solid(from, to, q->n, p->b, p->a, q->width);
    wht_plain(p->b, &walk);
}

static inline void wht_group_last(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const int radix = wht_plan_last(p);
    const int64_t len = q->n / radix;
    const float *from = wht_slot(q, p->c ? 1 : 0, i);
    float *to = q->to + wht_group_at(q, i);
    if (p->a == 8 && !p->c)
        wht_group_spread(from, to, q->width, q->row, q->scale);
    else
        wht_scaled(radix, &(wht_walk){ .from = from,
                                       .to = to,
                                       .from_step = len * q->width,
                                       .to_step = len * q->row,
                                       .run = q->width,
                                       .runs = len,
                                       .from_next = q->width,
                                       .to_next = q->row,
                                       .scale = q->scale });
}

#define WHT_FLOW(name, flow)                                                                                           \
    static __attribute__((noinline, unused)) void name(const flow_pass *p, int64_t blocks, float scale) { flow; }
#define WHT_FLOWS(name, flow, ...)                                                                                     \
    WHT_FLOW(name, flow(__VA_ARGS__, p, blocks, scale))                                                                \
    WHT_FLOW(name##_scaled, flow(__VA_ARGS__ | FLOW_SCALE, p, blocks, scale))
WHT_FLOWS(wht_flow2, flow_one, 2)
WHT_FLOWS(wht_flow4, flow_one, 4)
WHT_FLOWS(wht_flow42, flow_two, 4, 2)
WHT_FLOWS(wht_flow44, flow_two, 4, 4)
WHT_FLOWS(wht_flow84, flow_two, 8, 4 | FLOW_SPREAD)
WHT_FLOWS(wht_flow444, flow_three, 4, 4, 4)
WHT_FLOWS(wht_flow844, flow_three, 8, 4 | FLOW_SPREAD, 4)
WHT_FLOWS(wht_far44, flow_two, 4 | FLOW_CLOSE, 4) /* for rows that are far apart */
WHT_FLOWS(wht_far424, flow_three, 4 | FLOW_CLOSE, 2, 4)
WHT_FLOWS(wht_far444, flow_three, 4 | FLOW_CLOSE, 4, 4)
#undef WHT_FLOWS
#undef WHT_FLOW

static inline void wht_flow(const wht_stream *q, const flow_pass *passes, int64_t blocks)
{
    const bool near = wht_near(q);
    const struct {
        int64_t n;
        bool near; /* or far */
        void (*plain)(const flow_pass *, int64_t, float), (*scaled)(const flow_pass *, int64_t, float);
    } flows[] = { { 2, near, wht_flow2, wht_flow2_scaled },     { 4, near, wht_flow4, wht_flow4_scaled },
                  { 8, near, wht_flow42, wht_flow42_scaled },   { 16, true, wht_flow44, wht_flow44_scaled },
                  { 16, false, wht_far44, wht_far44_scaled },   { 32, true, wht_flow84, wht_flow84_scaled },
                  { 32, false, wht_far424, wht_far424_scaled }, { 64, true, wht_flow444, wht_flow444_scaled },
                  { 64, false, wht_far444, wht_far444_scaled }, { 128, true, wht_flow844, wht_flow844_scaled } };
    for (size_t i = 0; i < sizeof flows / sizeof *flows; i++)
        if (flows[i].n == q->n && flows[i].near == near)
            (q->scale == 1 ? flows[i].plain : flows[i].scaled)(passes, blocks, q->scale);
}

static inline void wht_stream_begin(const wht_stream *q, const wht_plan *p)
{
    if (p->b)
        wht_group_first(q, p->a, 0);
    if (p->c) {
        wht_group_middle(q, p, 0);
        wht_group_first(q, p->a, 1);
    }
}

static inline void wht_stream_end(const wht_stream *q, const wht_plan *p)
{
    if (p->c) {
        wht_group_middle(q, p, q->total - 1);
        wht_group_last(q, p, q->total - 2);
    }
    if (p->b)
        wht_group_last(q, p, q->total - 1);
}

/* Processes all of a stream that wht_can_stream accepts. */
static inline void wht_stream_all(const wht_stream *q)
{
    const wht_plan plan = wht_plan_of(q);
    const int behind = wht_plan_passes(&plan) - 1; /* groups by which the last pass lags */
    flow_pass passes[3] = { wht_pass_first(q, &plan, behind) };
    if (plan.c)
        passes[1] = wht_pass_middle(q, &plan, 1);
    if (plan.b)
        passes[behind] = wht_pass_last(q, &plan, 0);
    else
        passes[0].to = wht_pass_last(q, &plan, 0).to;
    wht_stream_begin(q, &plan);
    wht_flow(q, passes, (q->total - behind) * q->n * q->width / (16 * VEC_LANES));
    wht_stream_end(q, &plan);
}

#endif

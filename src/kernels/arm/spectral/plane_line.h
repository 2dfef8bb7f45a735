/* Lines of a Lite block in planes (plane_pass.h): loading, all passes, and storing. */
#ifndef ZN_ARM_PLANE_LINE_H
#define ZN_ARM_PLANE_LINE_H

#include "kernels/arm/spectral/plane_pass.h"
#include "kernels/simd/spectral/wht_strip.h"

enum {
    PLANE_APART = 40, /* padding between planes in floats: loads 2 or 4 KB apart would stall */
    PLANE_LEAST = 64,
    PLANE_MOST = 1024
};

/* A line of n positions of `width` floats; plane k begins at x + (k + 1) * plane_floats(n), the first one is spare. */
typedef struct plane_line {
    float *x;
    const float *gates; /* computed by plane_gates */
    int64_t n, width;
    wht_ahead *ahead;
} plane_line;

/* Destination of lines: positions are `position` floats apart, with a jump after every `fours` groups of four. */
typedef struct plane_to {
    float *to;
    int64_t position, fours, jump;
} plane_to;

static inline bool plane_does(int64_t n, int64_t width)
{
    return n >= PLANE_LEAST && n <= PLANE_MOST && width % 16 == 0;
}
static inline int64_t plane_floats(int64_t n) { return n * VEC_LANES + PLANE_APART; }

/* Number of places in the pass with the gate. */
static inline int plane_radix(int64_t n) { return n == 64 ? 4 : n == 256 || n == 1024 ? 16 : 8; }

/* The gate in the order of the pass, including the factor of both transforms: for two neighbouring places the sum
 * and the difference. */
static inline void plane_gates(const float *gate, int64_t n, float *to)
{
    const int radix = plane_radix(n), across = 16 / radix;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % 16, place = k / across, at = i / 16 * across + k % across;
        const float even = gate[at + place / 2 * 2 * (n / radix)], odd = gate[at + (place / 2 * 2 + 1) * (n / radix)];
        to[i] = (place % 2 ? even - odd : even + odd) * (1 / (float)n);
    }
}

/* The steps among sixteen neighbours, from rows `row` floats apart. */
static inline void plane_in(const plane_line *q, const float *from, int64_t row)
{
    const int64_t size = sizeof(float), plane = plane_floats(q->n) * size, planes = q->width / VEC_LANES;
    const plane_walk walk = { .from = (const char *)from,
                              .to = (char *)q->x + plane,
                              .apart = row * size,
                              .from_step = PLANE_ROW,
                              .to_step = plane,
                              .from_jump = 16 * row * size - planes * PLANE_ROW,
                              .to_jump = PLANE_BLOCK - planes * plane,
                              .round = planes,
                              .rounds = q->n / 16,
                              .ahead = q->ahead };
    plane_near16(&walk);
}

/* The same if the line is already in its planes. */
static inline void plane_in_place(const plane_line *q)
{
    const int64_t plane = plane_floats(q->n) * (int64_t)sizeof(float);
    const plane_walk walk = { .from = (const char *)q->x + plane,
                              .to = (char *)q->x + plane,
                              .apart = PLANE_ROW,
                              .from_step = PLANE_BLOCK,
                              .to_step = PLANE_BLOCK,
                              .from_jump = plane - q->n * PLANE_ROW,
                              .to_jump = plane - q->n * PLANE_ROW,
                              .round = q->n / 16,
                              .rounds = q->width / VEC_LANES,
                              .ahead = q->ahead };
    plane_plain16(&walk);
}

/* A pass over `radix` places: each plane is written to the one before it or, starting with the last, to the one
 * after it. */
static inline plane_walk plane_turn(const plane_line *q, int radix, bool back)
{
    const int64_t plane = plane_floats(q->n) * (int64_t)sizeof(float), planes = q->width / VEC_LANES;
    char *x = (char *)q->x;
    const int64_t across = 16 / radix * PLANE_ROW, on = (back ? -plane : plane);
    return (plane_walk){ .from = x + (back ? (planes - 1) * plane : plane),
                         .to = x + (back ? planes * plane : 0),
                         .apart = q->n / radix * PLANE_ROW,
                         .from_step = across,
                         .to_step = PLANE_BLOCK,
                         .from_jump = on - q->n / 16 * across,
                         .to_jump = on - q->n * PLANE_ROW,
                         .round = q->n / 16,
                         .rounds = planes,
                         .gates = q->gates,
                         .ahead = q->ahead };
}

/* All steps between those of sixteen neighbours and the last two. */
static inline void plane_middle(const plane_line *q)
{
    const int64_t plane = plane_floats(q->n);
    for (int64_t k = 1; q->n > 256 && k <= q->width / VEC_LANES; k++) {
        wht_walk two = wht_solid(q->x + k * plane, q->x + k * plane, q->n, 4, 16, VEC_LANES);
        two.ahead = q->ahead;
        ZN_KERNEL(wht_plain4)(&two);
    }
    const plane_walk gate = plane_turn(q, plane_radix(q->n), false);
    if (plane_radix(q->n) == 16)
        plane_gate16(&gate);
    else if (plane_radix(q->n) == 8)
        plane_gate8(&gate);
    else
        plane_gate4(&gate);
    if (q->n > 256) {
        const plane_walk out = plane_turn(q, 16, true);
        plane_plain16(&out);
    } else {
        const plane_walk out = plane_turn(q, 4, true);
        plane_plain4(&out);
    }
}

VEC_INLINE void plane_store_line(float *to, const vec *v, const int i)
{
    const vec line[4] = { v[i], v[4 + i], v[8 + i], v[12 + i] };
    vec_store_line_pinned(to, line);
}

/* Four places of four planes: v[plane * 4 + place]. Does the last two steps and stores four cache lines. */
VEC_INLINE void plane_last_block(vec *v, vec *next, const plane_from *f, float *to, int64_t position)
{
    WHT_UNROLL for (int k = 0; k < 16; k++)
    {
        const int low = k < 8 ? 2 * k : k % 4 * 4 + (k - 8) / 4;
        wht_butterfly(v + low, v + low + (k < 8 ? 1 : 2));
        if (k >= 2 && k < 10)
            plane_load(16, f, next, k - 2);
        if (k == 12)
            plane_store_line(to, v, 0);
        if (k == 13)
            plane_store_line(to + 2 * position, v, 2);
        if (k >= 14)
            WHT_UNROLL for (int i = 0; i < 4; i++) plane_load(16, f, next, 4 * (k - 14) + 8 + i);
    }
    plane_store_line(to + position, v, 1);
    plane_store_line(to + 3 * position, v, 3);
}

/* Where the last pass reads or writes: remaining lines of a position, and groups of four positions before a jump. */
typedef struct plane_left {
    int64_t lines, fours;
} plane_left;

/* Advances the reads: to the next four planes of these positions, or to the first ones of the next. */
VEC_INLINE void plane_read_on(const plane_line *q, plane_from *f, plane_left *left)
{
    const int64_t lines = q->width / 16, four = 4 * plane_floats(q->n) * (int64_t)sizeof(float);
    const bool more = --left->lines > 0;
    plane_move(16, f, more ? four : PLANE_ROW - (lines - 1) * four);
    left->lines = more ? left->lines : lines;
}

/* The address that follows `to`. */
VEC_INLINE float *plane_write_on(const plane_line *q, const plane_to *o, float *to, plane_left *left)
{
    const int64_t lines = q->width / 16;
    if (--left->lines > 0)
        return to + 16;
    left->lines = lines;
    to += 4 * o->position - 16 * (lines - 1);
    if (--left->fours > 0)
        return to;
    left->fours = o->fours;
    return to + o->jump;
}

/* All positions, four at a time: the last two steps. */
static __attribute__((noinline, unused)) void plane_last(const plane_line *q, const plane_to *o)
{
    const int64_t plane = plane_floats(q->n) * (int64_t)sizeof(float), lines = q->width / 16;
    const int each = plane_doses(q->ahead);
    const float *ahead = each ? q->ahead->at : NULL;
    const plane_walk walk = { .from = (const char *)q->x + plane, .apart = q->n / 4 * PLANE_ROW };
    plane_from f = plane_begin(16, &walk);
    plane_left read = { .lines = lines }, write = { .lines = lines, .fours = o->fours };
    float *to = o->to;
    vec a[16], b[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 4; k++) f.at[k] = walk.from + k * plane;
    WHT_UNROLL for (int k = 0; k < 16; k++) plane_load(16, &f, a, k);
    for (int64_t left = q->n / 4 * lines; left > 0; left -= 2) {
        plane_read_on(q, &f, &read);
        plane_last_block(a, b, &f, to, o->position);
        to = plane_write_on(q, o, to, &write);
        if (left > 2) /* otherwise there is no next block */
            plane_read_on(q, &f, &read);
        plane_last_block(b, a, &f, to, o->position);
        to = plane_write_on(q, o, to, &write);
        ahead = wht_fetch(ahead, each, false);
    }
    vec_pinned_fence();
    plane_fetched(q->ahead, ahead);
}

#endif

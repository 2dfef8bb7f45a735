/* Lines of a Lite block in planes: loading, all passes, and storing. */
#ifndef ZN_ARM_PLANE_LINE_H
#define ZN_ARM_PLANE_LINE_H

#include "kernels/arm/spectral/wht_pass.h"
#include "kernels/simd/spectral/wht_strip.h"

/* Passes of M(gate) = (1/n) H diag(gate) H along lines of 64 to 1024 positions for AArch64. A line is stored in
 * planes: a plane is a sequence of vectors, each with four channels of one position. Sixteen vectors are in
 * registers, so that four steps of the transform, or four, the gate and four back, are one pass, and everything can
 * still be stored in pairs. The bits of a position's index, highest first, and which pass does their steps, for 512
 * positions:
 *
 *     plane_in    876543210  3210, from the source of the line
 *     plane_two   876543210  54 (512 and 1024 only)
 *     plane_gate  543210876  876 there and back (64: two bits; 256 and 1024: four)
 *     plane_out   108765432  5432 (up to 256: 32)
 *     plane_last             10, and to the destination of the line, in whole cache lines
 *
 * plane_gate and plane_out read from places as far apart as possible and write consecutive vectors into a
 * neighbouring plane. Instructions keep their order (wht_pass.h). Each block loads the data of the next one. */

enum { PLANE_ROW = 16, PLANE_BLOCK = 256 }; /* bytes of a vector, and of sixteen */

/* Blocks of sixteen vectors, an even number of them, from places `apart` bytes apart to contiguous memory. They are
 * processed in rounds of an even number. */
typedef struct plane_walk {
    const char *from;
    char *to;
    int64_t apart;
    int64_t from_step, to_step; /* bytes from block to block */
    int64_t from_jump, to_jump; /* and additional bytes at the end of a round */
    int64_t round, rounds;
    const float *gates; /* sixteen per block of a round */
    wht_ahead *ahead;   /* or NULL */
} plane_walk;

/* Pointers to as many places as fit in registers, and the distance in bytes to the others. */
typedef struct plane_from {
    const char *at[8];
    int64_t apart[4];
} plane_from;

/* Radix places (4, 8 or 16, a compile-time constant everywhere) of 4, 2 or 1 vectors. */
#define PLANE_ACROSS(radix)   (16 / (radix))
#define PLANE_POINTERS(radix) ((radix) == 8 ? 8 : 4)

VEC_INLINE plane_from plane_begin(const int radix, const plane_walk *q)
{
    plane_from f = { .apart = { 0, q->apart, 2 * q->apart, 3 * q->apart } };
    const int pointers = PLANE_POINTERS(radix);
    WHT_UNROLL for (int j = 0; j < pointers; j++) f.at[j] = q->from + radix / pointers * j * q->apart;
    return f;
}

/* Load number k of a block: sixteen of one vector, or eight of two. v[place * across + u]. */
VEC_INLINE void plane_load(const int radix, const plane_from *f, vec *v, const int k)
{
    const int pairs = PLANE_ACROSS(radix) / 2, place = radix == 16 ? k : k / (pairs ? pairs : 1);
    if (radix == 16)
        __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v[k]) : "r"(f->at[k / 4]), "r"(f->apart[k % 4]));
    else
        vec_load_two_pinned(f->at[place], k % pairs * 32, v + place * PLANE_ACROSS(radix) + k % pairs * 2);
}
#define PLANE_LOADS(radix) ((radix) == 16 ? 16 : 8)

VEC_INLINE void plane_move(const int radix, plane_from *f, int64_t bytes)
{
    const int pointers = PLANE_POINTERS(radix);
    WHT_UNROLL for (int j = 0; j < pointers; j++)
    {
        f->at[j] += bytes;
        __asm__ volatile("" : "+r"(f->at[j]));
    }
}

#define PLANE_BITS(radix)  ((radix) == 16 ? 4 : (radix) == 8 ? 3 : 2)
#define PLANE_STEPS(radix) (8 * PLANE_BITS(radix)) /* butterflies of one transform */

/* Butterfly k of a transform over places; returns the lower of its vectors. */
VEC_INLINE int plane_step(const int radix, vec *v, const int k)
{
    const int across = PLANE_ACROSS(radix), i = k % 8 / across, u = k % across, h = 1 << k / 8;
    const int low = (i / h * 2 * h + i % h) * across + u;
    wht_butterfly(v + low, v + low + h * across);
    return low;
}

/* Stores the vectors of places 2 * pair and 2 * pair + 1 of column u: in memory the places of a column are adjacent. */
VEC_INLINE void plane_store(const int radix, char *to, const vec *v, const int u, const int pair)
{
    const int across = PLANE_ACROSS(radix);
    const vec two[2] = { v[2 * pair * across + u], v[(2 * pair + 1) * across + u] };
    vec_store_two_pinned(to, (u * radix + 2 * pair) * PLANE_ROW, two);
}

/* Butterfly k of the last transform of a block. Two neighbouring places are stored when both are done: their
 * butterflies of the last step are `across` apart. */
VEC_INLINE void plane_last_step(const int radix, vec *v, char *to, const int k)
{
    const int across = PLANE_ACROSS(radix), i = k % 8 / across, u = k % across, half = radix / 4;
    plane_step(radix, v, k);
    if (k >= PLANE_STEPS(radix) - 8 && i % 2) {
        plane_store(radix, to, v, u, i / 2);
        plane_store(radix, to, v, u, i / 2 + half);
    }
}

#define PLANE_TIMES(number)                                                                                            \
    __asm__ volatile("fmul %0.4s, %1.4s, %2.s[" #number "]" : "=w"(*t) : "w"(v), "w"(g[lane / 4]))
/* t = v times gate `lane` (a compile-time constant) of sixteen; or adds that product to t. */
VEC_INLINE void plane_product(vec *t, vec v, const vec *g, const int lane)
{
    if (lane % 4 == 0)
        PLANE_TIMES(0);
    else if (lane % 4 == 1)
        PLANE_TIMES(1);
    else if (lane % 4 == 2)
        PLANE_TIMES(2);
    else
        PLANE_TIMES(3);
}

VEC_INLINE void plane_sum(vec *t, vec v, const vec *g, const int lane) { vec_fma_pinned(t, v, g[lane / 4], lane % 4); }
#undef PLANE_TIMES

/* The step between neighbouring places, the gate and that step back: a, b become a p + b q, b p + a q, where p and q
 * are the sum and the difference of their gates. Four pairs at a time. */
VEC_INLINE void plane_gated(const int radix, vec *v, const vec *g)
{
    const int across = PLANE_ACROSS(radix);
    WHT_UNROLL for (int first = 0; first < 8; first += 4)
    {
        vec t[8];
        WHT_UNROLL for (int k = 0; k < 16; k++)
        {
            const int pair = first + k / 2 % 4, own = pair / across * 2 * across + pair % across, other = own + across,
                      second = k % 2;
            if (k < 8)
                plane_product(t + k, v[second ? other : own], g, own);
            else
                plane_sum(t + k - 8, v[second ? own : other], g, other);
        }
        WHT_UNROLL for (int k = 0; k < 8; k++)
        {
            const int pair = first + k / 2, own = pair / across * 2 * across + pair % across;
            v[k % 2 ? own + across : own] = t[k];
        }
    }
}

/* Computes v, loads `next` and stores the results. */
VEC_INLINE void plane_block(const bool gated, const int radix, vec *v, vec *next, const plane_from *f, char *to,
                            const float *gates)
{
    const int steps = PLANE_STEPS(radix), loads = PLANE_LOADS(radix), first = gated ? 8 : 0;
    vec g[4];
    WHT_UNROLL for (int k = 8; gated && k < steps; k++)
    {
        plane_step(radix, v, k);
        if (k >= steps - 4)
            g[k - steps + 4] = vec_load_pinned(gates, (k - steps + 4) * VEC_LANES);
    }
    if (gated)
        plane_gated(radix, v, g);
    WHT_UNROLL for (int k = first; k < steps; k++)
    {
        plane_last_step(radix, v, to, k);
        if (k >= steps - loads)
            plane_load(radix, f, next, k - steps + loads);
    }
}

/* Lines to prefetch with two blocks. */
static inline int plane_doses(const wht_ahead *ahead) { return ahead && ahead->lines > 0 ? ahead->each : 0; }

/* Marks the lines before `to` as prefetched. */
static inline void plane_fetched(wht_ahead *ahead, const float *to)
{
    if (plane_doses(ahead)) {
        ahead->lines -= (to - ahead->at) / 16;
        ahead->at = to;
    }
}

/* Prefetches four lines of the next sixteen places, in the same columns, into L1: over the blocks this covers each
 * line that four blocks will read. */
VEC_INLINE void plane_fetch(const plane_from *f, int64_t block)
{
    const char *at = f->at[0] + (4 + block % 4) * 4 * f->apart[1];
    WHT_UNROLL for (int k = 0; k < 4; k++) __asm__ volatile("prfm pldl1keep, [%0, %1]" : : "r"(at), "r"(f->apart[k]));
}

/* near (a compile-time constant): with plane_fetch. */
VEC_INLINE void plane_all(const bool gated, const int radix, const bool near, const plane_walk *q)
{
    const int each = plane_doses(q->ahead), loads = PLANE_LOADS(radix);
    const float *ahead = each ? q->ahead->at : NULL;
    plane_from f = plane_begin(radix, q);
    char *to = q->to;
    vec a[16], b[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < loads; k++) plane_load(radix, &f, a, k);
    for (int64_t rounds = q->rounds; rounds > 0; rounds--, to += q->to_jump) {
        const float *gates = q->gates;
        for (int64_t left = q->round; left > 0; left -= 2) {
            plane_move(radix, &f, q->from_step);
            if (near)
                plane_fetch(&f, q->round - left);
            plane_block(gated, radix, a, b, &f, to, gates);
            to += q->to_step;
            /* There is no block after the last. */
            plane_move(radix, &f, left > 2 ? q->from_step : rounds > 1 ? q->from_step + q->from_jump : 0);
            if (near)
                plane_fetch(&f, q->round - left + 1);
            plane_block(gated, radix, b, a, &f, to, gated ? gates + 16 : gates);
            to += q->to_step;
            gates += gated ? 32 : 0;
            ahead = wht_fetch(ahead, each, false);
        }
    }
    vec_pinned_fence();
    plane_fetched(q->ahead, ahead);
}

static __attribute__((noinline, unused)) void plane_gate16(const plane_walk *q) { plane_all(true, 16, false, q); }
static __attribute__((noinline, unused)) void plane_gate8(const plane_walk *q) { plane_all(true, 8, false, q); }
static __attribute__((noinline, unused)) void plane_gate4(const plane_walk *q) { plane_all(true, 4, false, q); }
static __attribute__((noinline, unused)) void plane_near16(const plane_walk *q) { plane_all(false, 16, true, q); }
static __attribute__((noinline, unused)) void plane_plain16(const plane_walk *q) { plane_all(false, 16, false, q); }
static __attribute__((noinline, unused)) void plane_plain4(const plane_walk *q) { plane_all(false, 4, false, q); }

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

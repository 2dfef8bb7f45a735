/* The pass of a Lite block along rows for AArch64: the grouped product with the passes below for one
 * or a pair of groups, the transform with those of plane_line.h if they support its size. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/pinned.h"
#include "kernels/arm/spectral/plane_line.h"
#include "kernels/lite.h"
#include "kernels/simd/spectral/lite_mix.h"
#include <stdbool.h>

/* The grouped product of a Lite block for AArch64: eight neighbouring pixels by eight outputs of a group. Each
 * instruction is its own `asm volatile` (wht_pass.h): sums start with a loaded bias, and weights and pixels are
 * loaded shortly before their use, because a Neoverse-V1 reads only four registers per cycle that were ready when an
 * instruction entered the queue. The next eight pixels are prefetched meanwhile. */

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

/* The grouped product of a Lite block from sixteen channels to four, for AArch64: six neighbouring pixels by two
 * groups, in the instruction order of the passes for one group. Later pixels are prefetched meanwhile, into both
 * caches. */

enum {
    PAIR_PIXELS = 6,
    PAIR_DEEP = 16,
    PAIR_EARLY = 64 /* best value of reduce_pass.early in long rows */
};

static inline bool pair_does(int groups, int deep, int wide, int64_t pixels)
{
    return groups % 2 == 0 && deep == PAIR_DEEP && wide == 4 && pixels >= PAIR_PIXELS;
}

/* [groups / 2][deep][2 groups][4] from [groups][4][deep]. */
static inline void pair_pack(const reduce_pass *q, const float *w, float *to)
{
    for (int g = 0; g < q->groups; g += 2)
        for (int k = 0; k < PAIR_DEEP; k++)
            for (int o = 0; o < 8; o++)
                *to++ = w[((int64_t)g * 4 + o) * PAIR_DEEP + k];
}

typedef struct pair_block {
    vec sum[2][PAIR_PIXELS], m[2][PAIR_PIXELS], w[2];
} pair_block;

/* Stores to y the sums of pixels p and p + 1 of one group, or of two groups of pixel p. */
VEC_INLINE void pair_store(const bool planes, const reduce_pass *q, const pair_block *s, float *y, const int half,
                           const int p)
{
    const vec two[2] = { s->sum[0][p], s->sum[1][p] };
    if (planes && p % 2 == 0)
        vec_store_two_pinned((char *)(y + half * q->plane), p * (int)sizeof(vec), s->sum[half] + p);
    else if (!planes && half == 0)
        vec_store_two_pinned((char *)(y + p * q->ci), 0, two);
}

/* Products of channels k to k + 3 (a compile-time constant). x: pixels of this block, but at its end already those
 * of the next. Prefetches pixels `far` bytes ahead. Stores the sums of the previous block to y. */
VEC_INLINE void pair_step(const bool planes, const reduce_pass *q, pair_block *s, const int k, const float *w,
                          const float *const x[PAIR_PIXELS], int64_t far, const float *bias, float *y)
{
    const int then = k + 4 < PAIR_DEEP ? k + 4 : 0;
    REDUCE_UNROLL for (int i = 0; i < 8; i++)
    {
        const int half = i % 2, lane = i / 2;
        const vec wi = s->w[half];
        s->w[half] = vec_load_pinned(w, k * 8 + (i + 2) * VEC_LANES);
        REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
        {
            if (k == 0 && lane == 0) {
                pair_store(planes, q, s, y, half, p);
                s->sum[half][p] = vec_load_pinned(bias, half * VEC_LANES);
            }
            vec_fma_pinned(&s->sum[half][p], wi, s->m[half][p], lane);
            if (lane == 3)
                s->m[half][p] = vec_load_pinned(x[p], half * PAIR_DEEP + then);
        }
        if (i < PAIR_PIXELS && k < 8)
            vec_fetch_near_pinned(x[i] + PAIR_PIXELS * q->c + 4 * k, 0);
        else if (i < PAIR_PIXELS)
            __asm__ volatile("prfm pldl2keep, [%0, %1]" : : "r"(x[i] - (k < 12 ? 0 : PAIR_DEEP)), "r"(far));
    }
}

/* All outputs of `pixels` pixels, at least PAIR_PIXELS: the last block may overlap the one before. The weights are
 * followed by two more vectors with any content. */
VEC_INLINE void pair_run(const bool planes, const reduce_pass *q, int64_t pixels)
{
    const int64_t across = planes ? 2 * q->plane : 8, on = planes ? VEC_LANES : q->ci;
    const float *x[PAIR_PIXELS];
    float *y = q->y, *old = y;
    pair_block s;
    vec_pinned_fence();
    REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
    {
        x[p] = q->x + p * q->c;
        s.m[0][p] = vec_load_pinned(x[p], 0);
        s.m[1][p] = vec_load_pinned(x[p], PAIR_DEEP);
        s.sum[0][p] = s.sum[1][p] = vec_splat(0); /* overwritten later */
    }
    for (int64_t left = pixels, move; left > 0; left -= move, y += move * on) {
        const int64_t more = left - PAIR_PIXELS, far = left > q->early ? q->early * q->c * (int64_t)sizeof(float) : 0;
        const float *w = q->w, *b = q->b;
        move = more > 0 && more < PAIR_PIXELS ? more : PAIR_PIXELS;
        REDUCE_UNROLL for (int u = 0; u < 2; u++) s.w[u] = vec_load_pinned(w, u * VEC_LANES);
        for (int g = 0; g < q->groups; g += 2, w += 8 * PAIR_DEEP, b += 8) {
            const int64_t on_x = more > 0 ? move * q->c : 0;
            const int64_t step = g + 2 < q->groups ? 2 * PAIR_DEEP : on_x - (q->groups - 2) * PAIR_DEEP;
            pair_step(planes, q, &s, 0, w, x, far, b, old);
            pair_step(planes, q, &s, 4, w, x, far, b, old);
            pair_step(planes, q, &s, 8, w, x, far, b, old);
            REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++) x[p] += step;
            pair_step(planes, q, &s, 12, w, x, far, b, old);
            old = y + g / 2 * across;
        }
    }
    REDUCE_UNROLL for (int p = 0; p < PAIR_PIXELS; p++)
    {
        pair_store(planes, q, &s, old, 0, p);
        pair_store(planes, q, &s, old, 1, p);
    }
    vec_pinned_fence();
}

static __attribute__((noinline, unused)) void pair_all(const reduce_pass *q, int64_t pixels)
{
    pair_run(false, q, pixels);
}

static __attribute__((noinline, unused)) void pair_planes(const reduce_pass *q, int64_t pixels)
{
    pair_run(true, q, pixels);
}

static bool in_pairs(const zn_lite_args *a)
{
    return pair_does(a->groups, a->c / a->groups, a->ci / a->groups, a->wide);
}

bool zn_lite_rows_arm_supports(const void *args)
{
    const zn_lite_args *a = args;
    return in_pairs(a) || (a->wide % REDUCE_PIXELS == 0 && reduce_does(a->c / a->groups, a->ci / a->groups));
}

/* The weights of the product, for one group or for pairs, followed by its results. */
static reduce_pass row_product(const zn_lite_args *a, bool pairs, float *scratch)
{
    reduce_pass q = { .w = scratch,
                      .b = a->b,
                      .c = a->c,
                      .ci = a->ci,
                      .groups = a->groups,
                      .deep = a->c / a->groups,
                      .wide = a->ci / a->groups };
    if (pairs)
        pair_pack(&q, a->w, scratch);
    else
        reduce_pack(&q, a->w, scratch);
    q.y = scratch + (int64_t)a->ci * q.deep + WHT_LINE;
    return q;
}

/* What to prefetch while a row is transformed: `pixels` pixels of the next row. */
static wht_ahead next_row(const zn_lite_args *a, int64_t pixels, int each, int64_t row, zn_range r)
{
    const int64_t lines = row + 1 < r.end ? pixels * a->c / 16 : 0;
    return (wht_ahead){ a->x + (row + 1) * a->wide * a->c, lines, each, false };
}

/* All rows by the product, then the vector build of the transform. */
static void rows_by_passes(const zn_lite_args *a, bool pairs, zn_range r)
{
    reduce_pass q = row_product(a, pairs, r.scratch);
    q.early = pairs && a->wide > PAIR_EARLY ? PAIR_EARLY : a->wide;
    for (int64_t row = r.begin; row < r.end; row++) {
        wht_ahead ahead = next_row(a, q.early, pairs ? 2 : 8, row, r);
        q.x = a->x + row * a->wide * a->c;
        if (pairs)
            pair_all(&q, a->wide);
        else
            reduce_all(&q, a->wide / REDUCE_PIXELS);
        mix(q.y, a->gate, a->wide, a->ci, a->y + zn_lite_at(a, row, 0), a->band * a->ci, zn_lite_apart(a), &ahead);
        zn_lite_end_bands(a, row);
    }
}

/* The same if the transform also has passes, those of plane_line.h. */
static void rows_by_planes(const zn_lite_args *a, bool pairs, zn_range r)
{
    reduce_pass q = row_product(a, pairs, r.scratch);
    float *gates = q.y;
    plane_line line = { .x = gates + a->wide, .gates = gates, .n = a->wide, .width = a->ci };
    const int fours = a->band ? a->band / 4 : a->wide / 4;
    q.early = a->wide / 8; /* spreads prefetches evenly */
    q.plane = plane_floats(a->wide);
    q.y = line.x + q.plane;
    plane_gates(a->gate, a->wide, gates);
    for (int64_t row = r.begin; row < r.end; row++) {
        wht_ahead ahead = next_row(a, q.early, 2, row, r);
        const plane_to to = { .to = a->y + zn_lite_at(a, row, 0),
                              .position = a->ci,
                              .fours = fours,
                              .jump = a->band ? zn_lite_apart(a) - a->band * a->ci : 0 };
        line.ahead = &ahead;
        q.x = a->x + row * a->wide * a->c;
        if (pairs)
            pair_planes(&q, a->wide);
        else
            reduce_planes(&q, a->wide / REDUCE_PIXELS);
        plane_in_place(&line);
        plane_middle(&line);
        plane_last(&line, &to);
        zn_lite_end_bands(a, row);
    }
}

void zn_lite_rows_arm(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    if (plane_does(a->wide, a->ci))
        rows_by_planes(a, in_pairs(a), r);
    else
        rows_by_passes(a, in_pairs(a), r);
}

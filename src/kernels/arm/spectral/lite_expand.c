/* The expansion of a Lite block for AArch64: four neighbouring pixels at a time with the passes below.
 * The remaining pixels are processed in panels of sixteen outputs, a whole cache line each. Weights are stored panel
 * by panel, [deep][16], so that the addresses of a panel are constant offsets from one pointer: computing them with
 * strides took longer than the products. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/pinned.h"
#include "kernels/lite.h"
#include <stdbool.h>

/* The expansion of a Lite block for AArch64: four neighbouring pixels by sixteen outputs of a group, a whole cache
 * line each. Each instruction is its own `asm volatile` (wht_pass.h): x and weights are loaded where they are used,
 * because a Neoverse-V1 reads only four registers per cycle that were ready when an instruction entered the queue.
 * Blocks overlap: during the last products, half of a block is stored and half of the next one started; the other
 * halves follow during the first products of the next block. Later pixels are prefetched meanwhile. */

enum {
    EXPAND_PIXELS = 4,
    EXPAND_ACROSS = 16,
    EXPAND_AHEAD = 2,    /* weights in flight before they are used */
    EXPAND_EARLY = 2048, /* distance in floats at which x is prefetched into L2 */
    EXPAND_BANDS = 2     /* and distance in bands for t */
};
#define EXPAND_UNROLL _Pragma("GCC unroll 16")

typedef struct expand_pass {
    const float *t, *w, *b; /* w: [panels of 16 outputs][deep][16] */
    const float *x;
    float *y;
    int64_t ci, c;  /* channels per pixel of t, and of x and y: whole panels */
    int deep, wide; /* size of a group, multiples of 4 and 16 */
    /* 0, or t has only `band` pixels, a multiple of four, before it skips some floats; `first` of them come before. */
    int band, first;
    int64_t skip;
} expand_pass;

/* A block in flight. */
typedef struct expand_block {
    vec sum[EXPAND_PIXELS][4];
    vec x[EXPAND_PIXELS][2]; /* half of a line of each pixel of x, and of the bias */
    vec b[2];
    vec m[EXPAND_PIXELS]; /* the next channels of t */
    vec w[EXPAND_AHEAD];  /* the next weights */
    /* Address of the next block's x, and of this block's y; each pixel has its own pointer. */
    const float *from[EXPAND_PIXELS];
    float *to[EXPAND_PIXELS];
    int64_t pixel[EXPAND_PIXELS]; /* offsets of the pixels of t in bytes */
    int64_t four;                 /* bytes per four pixels of x */
} expand_block;

/* Loads half of x: vectors 0 and 1, or 2 and 3. */
VEC_INLINE void expand_load(expand_block *s, const int p, const int half)
{
    vec_load_two_pinned((const char *)s->from[p], 32 * half, s->x[p]);
}

VEC_INLINE void expand_multiplier(expand_block *s, const float *t, const int p)
{
    __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(s->m[p]) : "r"(t), "r"(s->pixel[p]));
}

/* sum = x + b for one vector of a pixel. */
VEC_INLINE void expand_begin(expand_block *s, const int p, const int j)
{
    __asm__ volatile("fadd %0.4s, %1.4s, %2.4s" : "=w"(s->sum[p][j]) : "w"(s->b[j % 2]), "w"(s->x[p][j % 2]));
}

/* Data for the next block: weights, channels of t, bias; bytes by which y has moved before it and x moves after it. */
typedef struct expand_next {
    const float *w, *t, *b;
    int64_t y, x;
} expand_next;

/* Instructions after product k of pixel p in the first step of a block: the second halves of the previous block are
 * stored, and those of this one are started. y and x advance. */
VEC_INLINE void expand_among_first(expand_block *s, const expand_next *next, const int k, const int p)
{
    if (k == 0) {
        vec_store_two_pinned((char *)s->to[p], 32, s->sum[p] + 2);
        expand_load(s, p, 1);
    } else if (k == 1)
        __asm__ volatile("add %0, %0, %1" : "+r"(s->to[p]) : "r"(next->y));
    else if (k == 2)
        __asm__ volatile("add %0, %0, %1" : "+r"(s->from[p]) : "r"(next->x));
    else if (k == 3)
        expand_begin(s, p, 2);
    else if (k == 4)
        expand_begin(s, p, 3);
}

/* The same in the last step: first halves are stored, and those of the next block are started. */
VEC_INLINE void expand_among_last(expand_block *s, const float *b, const int k, const int p)
{
    if (k == 5)
        vec_fetch_pinned(s->from[p], EXPAND_EARLY);
    else if (k == 7)
        __asm__ volatile("prfm pldl1keep, [%0, %1]" : : "r"(s->from[p]), "r"(s->four));
    else if (k == 10 && p == 3)
        vec_load_two_pinned((const char *)b, 0, s->b);
    else if (k >= 11 && k < 14 && p == 1)
        expand_load(s, k - 11, 0);
    else if (k == 14) {
        vec_store_two_pinned((char *)s->to[p], 0, s->sum[p]);
        expand_begin(s, p, 0);
        expand_begin(s, p, 1);
        if (p == 1)
            expand_load(s, 3, 0);
    } else if (k == 15 && p == 3)
        vec_load_two_pinned((const char *)b, 32, s->b);
}

/* Product k of a step as lane and vector: the first vectors of two lanes come before their second ones, which are
 * started meanwhile. */
VEC_INLINE int expand_order(const bool first, const int k)
{
    return first && k < 8 ? (k & 1) | (k & 2) << 1 | (k & 4) >> 1 : k;
}

/* One step of four channels of t: weights [4][16]. The first weights and these channels are already loaded; after
 * them after_w and after_t are loaded. first and last are compile-time constants. */
VEC_INLINE void expand_step(expand_block *s, const bool first, const bool last, const float *w, const float *after_w,
                            const float *after_t, const expand_next *next)
{
    EXPAND_UNROLL for (int k = 0; k < 16; k++)
    {
        const int later = k + EXPAND_AHEAD, own = expand_order(first, k);
        const vec wk = s->w[k % EXPAND_AHEAD];
        s->w[k % EXPAND_AHEAD] = later < 16 ? vec_load_pinned(w, expand_order(first, later) * VEC_LANES)
                                            : vec_load_pinned(after_w, (later - 16) * VEC_LANES);
        EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++)
        {
            vec_fma_pinned(&s->sum[p][own % 4], wk, s->m[p], own / 4);
            if (first)
                expand_among_first(s, next, k, p);
            if (last)
                expand_among_last(s, next->b, k, p);
            if (k == 15)
                expand_multiplier(s, after_t, p);
        }
    }
}

/* Sixteen outputs of four pixels. */
VEC_INLINE void expand_outputs(expand_block *s, int deep, const float *w, const float *t, const expand_next *next)
{
    if (deep == 4) {
        expand_step(s, true, true, w, next->w, next->t, next);
        return;
    }
    expand_step(s, true, false, w, w + 64, t + 4, next);
    w += 64;
    t += 8;
    for (int k = 8; k < deep; k += 4, w += 64, t += 4)
        expand_step(s, false, false, w, w + 64, t, next);
    expand_step(s, false, true, w, next->w, next->t, next);
}

/* Prefetches t some bands after four pixels: the hardware prefetcher cannot predict these. */
VEC_INLINE void expand_fetch(const expand_pass *q, const float *t)
{
    const int64_t apart = q->skip + q->band * q->ci;
    for (int64_t k = 0; k < EXPAND_PIXELS * q->ci; k += 16) {
        vec_fetch_pinned(t + EXPAND_BANDS * apart + k, 0);
        vec_fetch_near_pinned(t + apart + k, 0);
    }
}

/* Starts the first block. The initial second halves are stored where they are overwritten later, or they are what is
 * stored there already. */
VEC_INLINE void expand_start(const expand_pass *q, expand_block *s)
{
    s->four = EXPAND_PIXELS * q->c * (int64_t)sizeof(float);
    EXPAND_UNROLL for (int k = 0; k < EXPAND_AHEAD; k++) s->w[k] = vec_load_pinned(q->w, k * VEC_LANES);
    vec_load_two_pinned((const char *)q->b, 0, s->b);
    EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++)
    {
        s->from[p] = q->x + p * q->c;
        s->to[p] = q->y + p * q->c;
        s->pixel[p] = p * q->ci * (int64_t)sizeof(float);
        __asm__ volatile("" : "+r"(s->from[p]), "+r"(s->to[p]), "+r"(s->pixel[p]));
        expand_multiplier(s, q->t, p);
        expand_load(s, p, 0);
        expand_begin(s, p, 0);
        expand_begin(s, p, 1);
        expand_load(s, p, 1);
        s->sum[p][2] = s->x[p][0];
        s->sum[p][3] = s->x[p][1];
    }
    vec_load_two_pinned((const char *)q->b, 32, s->b);
}

/* y = x + b + t w for `fours` groups of four pixels. */
static __attribute__((noinline, unused)) void expand_all(const expand_pass *q, int64_t fours)
{
    const int64_t size = sizeof(float), c = q->c, far = (EXPAND_ACROSS + (EXPAND_PIXELS - 1) * c) * size;
    const float *t = q->t; /* for these four pixels */
    int in_band = q->first;
    expand_block s;
    expand_next next = { .y = 0 };
    vec_pinned_fence();
    expand_start(q, &s);
    for (int64_t i = 0; i < fours; i++) {
        const float *w = q->w, *tg = t;
        int64_t left = q->wide; /* remaining outputs of this group */
        if (q->band)
            expand_fetch(q, t);
        in_band += EXPAND_PIXELS;
        t += EXPAND_PIXELS * q->ci + (q->band && in_band == q->band ? q->skip : 0);
        in_band = in_band == q->band ? 0 : in_band;
        next.b = q->b;
        for (int64_t o = EXPAND_ACROSS; o <= c; o += EXPAND_ACROSS) {
            left -= EXPAND_ACROSS;
            next.w = w + (int64_t)q->deep * EXPAND_ACROSS;
            next.t = left ? tg : tg + q->deep;
            next.b += EXPAND_ACROSS;
            left = left ? left : q->wide;
            next.x = EXPAND_ACROSS * size;
            if (o == c) { /* the next pixels, or none */
                next.x = i + 1 < fours ? far : 0;
                next.w = q->w;
                next.t = i + 1 < fours ? t : tg;
                next.b = q->b;
            }
            expand_outputs(&s, q->deep, w, tg, &next);
            next.y = next.x;
            w = next.w;
            tg = next.t;
        }
    }
    EXPAND_UNROLL for (int p = 0; p < EXPAND_PIXELS; p++) vec_store_two_pinned((char *)s.to[p], 32, s.sum[p] + 2);
    vec_pinned_fence();
}

enum { ACROSS = 4, PANEL = ACROSS * VEC_LANES };

/* The operands of an expansion: packed weights [groups][panels][deep][PANEL]. */
typedef struct expansion {
    const zn_lite_args *a;
    const float *packed;
    int deep, wide;
} expansion;

bool zn_lite_expand_arm_supports(const void *args)
{
    const zn_lite_args *a = args;
    return a->ci / a->groups % 4 == 0 && a->c / a->groups % PANEL == 0;
}

/* Packs from [groups][wide][deep]. */
static void pack(const expansion *e, float *to)
{
    const zn_lite_args *a = e->a;
    for (int panel = 0; panel < a->c; panel += PANEL)
        for (int k = 0; k < e->deep; k++)
            for (int o = panel; o < panel + PANEL; o++)
                *to++ = a->w[(int64_t)o * e->deep + k];
}

#define PANEL_LANE(lane)                                                                                               \
    _Pragma("GCC unroll 4") for (int j = 0; j < ACROSS; j++) sum[j] =                                                  \
        vec_fma_lane(m, lane, vec_load(w + (lane)*PANEL + j * VEC_LANES), sum[j]);

/* y = x + b + t w for one panel of one pixel. */
VEC_INLINE void expand_panel(int deep, const float *t, const float *w, const float *b, const float *x, float *y)
{
    vec sum[ACROSS];
#pragma GCC unroll 4
    for (int j = 0; j < ACROSS; j++)
        sum[j] = vec_load(b + j * VEC_LANES) + vec_load(x + j * VEC_LANES);
    for (int k = 0; k < deep; k += VEC_STEP, t += VEC_STEP, w += VEC_STEP * PANEL) {
        const vec_multipliers m = vec_load_multipliers(t);
        PANEL_LANE(0)
        PANEL_LANE(1)
        PANEL_LANE(2)
        PANEL_LANE(3)
    }
#pragma GCC unroll 4
    for (int j = 0; j < ACROSS; j++)
        vec_store(y + j * VEC_LANES, sum[j]);
}
#undef PANEL_LANE

static void expand_pixel(const expansion *e, int64_t p)
{
    const zn_lite_args *a = e->a;
    const float *t = a->t + zn_lite_at(a, p / a->wide, p % a->wide), *x = a->x + p * a->c;
    for (int o = 0; o < a->c; o += PANEL)
        expand_panel(e->deep, t + o / e->wide * e->deep, e->packed + (int64_t)o * e->deep, a->b + o, x + o,
                     a->y + p * a->c + o);
}

/* Expands groups of four pixels from p, as many as fit before `end`. Returns the first remaining pixel. */
static int64_t expand_fours(const expansion *e, int64_t p, int64_t end)
{
    const zn_lite_args *a = e->a;
    for (int64_t fours; end - p >= EXPAND_PIXELS && (!a->band || p % EXPAND_PIXELS == 0); p += fours * EXPAND_PIXELS) {
        const int64_t row = p / a->wide, x = p % a->wide, in_row = a->wide - x;
        const int64_t left = a->band && in_row < end - p ? in_row : end - p;
        const expand_pass q = { .t = a->t + zn_lite_at(a, row, x),
                                .w = e->packed,
                                .b = a->b,
                                .x = a->x + p * a->c,
                                .y = a->y + p * a->c,
                                .ci = a->ci,
                                .c = a->c,
                                .deep = e->deep,
                                .wide = e->wide,
                                .band = a->band,
                                .first = a->band ? x % a->band : 0,
                                .skip = zn_lite_apart(a) - a->band * a->ci };
        fours = left / EXPAND_PIXELS;
        expand_all(&q, fours);
    }
    return p;
}

void zn_lite_expand_arm(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    const expansion e = { a, r.scratch, a->ci / a->groups, a->c / a->groups };
    pack(&e, r.scratch);
    for (int64_t p = expand_fours(&e, r.begin, r.end); p < r.end; p = expand_fours(&e, p + 1, r.end))
        expand_pixel(&e, p);
}

/* How conv_winograd.c splits a convolution into tiles, and where each tile reads and writes. */
#ifndef ZN_WINOGRAD_PLAN_H
#define ZN_WINOGRAD_PLAN_H

#include "kernels/conv.h"
#include "kernels/simd/conv/gemm.h"

/* STRIP: tiles are ordered down columns of this many, so that the tile below reuses transformed rows. */
enum { POINTS = 64, LINE = 16 /* floats */, STRIP = 6, BLOCK_MOST = 30, CHANNELS_MOST = 4096 };
enum { HEAVY = 1 << (GEMM_FETCHES ? 14 : 15) /* weights of one frequency from which streaming them dominates */ };
enum { BLOCK_HEAVY = 66, CHANNELS_HEAVY = 512 };
static const int64_t block_floats = 240 << 10, heavy_floats = 2304 << 10;

typedef struct plan {
    int taps, outputs;         /* of a tile, along each axis: 3 and 6, or 2 and 7 */
    int in_phases, out_phases; /* 4 for stride 2, 4 for up2, otherwise 1 */
    int step_in, step_out;     /* from one tile to the next, in pixels of the input and of the output */
    int cin_p, k;              /* padded channels per phase; of all phases */
    int kc, chunks;            /* channels transformed and multiplied at once; number of chunks */
    int cout_p;                /* padded */
    int group;                 /* output channels multiplied at once */
    int rows, cols;            /* tiles per image */
    int64_t tiles;             /* tiles in the batch */
    int64_t row_blocks, units; /* row blocks of the product, GEMM_MR tiles each; units they are distributed to */
    int block;                 /* tiles of the largest unit */
    bool in_place;             /* M[f] overwrites V[f-1] */
    int64_t v_slot, m_slot;    /* floats from one frequency to the next; one cache line more than a power of two */
} plan;

static inline int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
static inline int most(int64_t a, int64_t b) { return (int)(a > b ? a : b); }
static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

static inline bool is_heavy(const plan *p) { return (int64_t)p->k * p->cout_p * p->out_phases >= HEAVY; }

/* Divides the row blocks of the product into units of at most `want` of them, all of nearly the same size. */
static inline void divide(plan *p, int64_t want)
{
    p->row_blocks = (p->tiles + GEMM_MR - 1) / GEMM_MR;
    p->units = (p->row_blocks + want - 1) / want;
    p->block = p->units ? (int)((p->row_blocks + p->units - 1) / p->units) * GEMM_MR : 0; /* a band may have no rows */
}

/* Heavy weights without prefetching: memory is the limit, and U is streamed from it once per unit. V and M lie in L3
 * then, but they are streamed, too: only the part of one frequency is used at a time. */
static inline void cut_heavy(plan *p, int threads, int64_t wide)
{
    const int64_t fit = least(heavy_floats / (POINTS * wide), BLOCK_HEAVY);
    const int64_t fair = (p->tiles + threads - 1) / threads + GEMM_MR - 1;
    divide(p, most(least(fit, fair) / GEMM_MR, 1));
}

/* With more tiles per unit, U is streamed from memory less often, but small maps should still give every thread a
 * unit. If there are few heavy units, their number is even. */
static inline void cut(plan *p, int threads)
{
    const int64_t wide = p->in_place ? most(p->kc, p->group) : p->kc + p->group;
    const int64_t fit = GEMM_FETCHES ? BLOCK_MOST : block_floats / (POINTS * wide);
    const bool heavy = is_heavy(p);
    if (heavy && !GEMM_FETCHES) {
        cut_heavy(p, threads, wide);
        return;
    }
    const int64_t fair = most(p->tiles / (10 * threads), p->tiles <= 24 * threads ? GEMM_MR
                                                         : heavy                  ? BLOCK_MOST
                                                                                  : 2 * GEMM_MR);
    const int want = most(least(least(fit, fair), BLOCK_MOST) / GEMM_MR, 1);
    divide(p, want);
    if (heavy && p->units > 1 && p->units <= 16) {
        p->units = most((p->row_blocks + want) / (2 * want), 1) * 2;
        p->block = (int)((p->row_blocks + p->units - 1) / p->units) * GEMM_MR;
    }
}

/* The first tile of a unit. */
static inline int64_t tile_of(const plan *p, int64_t unit)
{
    const int64_t tile = unit * p->row_blocks / p->units * GEMM_MR;
    return tile < p->tiles ? tile : p->tiles;
}

/* Number of channels processed at once. If the product prefetches its operands, V and M may exceed L2, and all
 * outputs should use a V before it is recomputed. Otherwise V and M must fit in L2, unless the weights are heavy. */
static inline void set_channels(plan *p)
{
    if (!GEMM_FETCHES && is_heavy(p) && p->in_phases == 1) {
        p->kc = least(p->k, CHANNELS_HEAVY);
        p->chunks = ceil_div(p->k, p->kc);
        p->group = least(p->cout_p, CHANNELS_HEAVY);
        return;
    }
    const int whole = GEMM_FETCHES && p->out_phases > 1 ? 256 : 128, group = GEMM_FETCHES ? 256 : 128;
    p->kc = p->k <= whole ? p->k : p->cin_p < 128 ? p->cin_p : GEMM_FETCHES ? 128 : 64;
    p->chunks = p->kc == p->k ? 1 : p->in_phases * ceil_div(p->cin_p, p->kc);
    p->group = p->cout_p <= group ? p->cout_p : p->chunks > 1 || GEMM_FETCHES ? group : 64;
}

static inline plan plan_of(const zn_conv_shape *s)
{
    plan p = { .taps = 3, .outputs = 6, .in_phases = 1, .out_phases = 1, .step_in = 6, .step_out = 6 };
    int high = s->oh, wide = s->ow;
    if (s->stride == 2)
        p.taps = 2, p.outputs = 7, p.in_phases = 4, p.step_in = 14, p.step_out = 7;
    if (s->up2) /* a tile begins one row of the large map before the image */
        p.taps = 2, p.outputs = 7, p.out_phases = 4, p.step_in = 7, p.step_out = 14, high++, wide++;
    p.cin_p = most(VEC_ROUND(s->cin), GEMM_K_LEAST);
    p.cout_p = VEC_ROUND(s->cout);
    p.k = p.in_phases * p.cin_p;
    set_channels(&p);
    p.in_place = p.out_phases == 1 && p.group == p.cout_p && p.chunks == 1;
    p.rows = ceil_div(high, p.step_out);
    p.cols = ceil_div(wide, p.step_out);
    p.tiles = (int64_t)s->n * p.rows * p.cols;
    cut(&p, zn_conv_threads(s));
    p.v_slot = (int64_t)p.block * (p.in_place ? most(p.kc, p.group) : p.kc) + LINE;
    p.m_slot = p.in_place ? p.v_slot : (int64_t)p.block * p.group + LINE;
    return p;
}

/* Channels [first,end) of `phases` phases, `k` in total; `before` packed channels come earlier. */
typedef struct chunk {
    int phase, phases, first, end, k, before;
} chunk;

static inline chunk chunk_of(const plan *p, int i)
{
    if (p->chunks == 1)
        return (chunk){ .phases = p->in_phases, .end = p->cin_p, .k = p->k };
    const int pieces = ceil_div(p->cin_p, p->kc), first = i % pieces * p->kc, end = least(first + p->kc, p->cin_p);
    return (chunk){ .phase = i / pieces,
                    .phases = 1,
                    .first = first,
                    .end = end,
                    .k = end - first,
                    .before = i / pieces * p->cin_p + first };
}

/* Products that can be skipped, one in eight along each axis:
 *
 *     stride 2   An odd phase has one tap, so its weights are 0 at infinity, the last frequency.
 *     up2        The taps of both phases have the same sum, so they share their product at point 1, frequency 1.
 *                Phases are processed in an order in which each differs from the previous one along one axis only.
 *                It reuses the shared product that the previous phase left in M. (The last phase could reuse
 *                as many again from the first, but the second has overwritten them.) */
static inline int out_phase(int turn) { return turn ^ turn >> 1; }

/* Column i of frequencies of an input phase. */
static inline bool input_is_spare(const plan *p, int phase, int i)
{
    return p->in_phases > 1 && i == 7 && phase % 2 == 1;
}

static inline bool is_spare(const plan *p, const chunk *c, int turn, int f)
{
    if (p->in_phases > 1)
        return c->phases == 1 && (input_is_spare(p, c->phase, f % 8) || (f / 8 == 7 && c->phase / 2 == 1));
    if (turn == 0)
        return false;
    return (out_phase(turn) ^ out_phase(turn - 1)) == 1 ? f % 8 == 1 : f / 8 == 1;
}

/* The number of products computed, over all phases and frequencies. */
static inline int products_of(const plan *p)
{
    const int all = p->in_phases * p->out_phases * POINTS;
    if (p->out_phases > 1)
        return all - 3 * 8;
    return p->chunks > 1 && p->in_phases > 1 ? all - 31 : all;
}

typedef struct place {
    int n, row, col;
} place;

/* Tiles are numbered down the columns of a strip, strip after strip, image after image. */
static inline place place_of(const plan *p, int64_t tile)
{
    const int64_t image = (int64_t)p->rows * p->cols, i = tile % image;
    const int strip = (int)(i / ((int64_t)STRIP * p->cols)), high = least(STRIP, p->rows - strip * STRIP);
    const int j = (int)(i - (int64_t)strip * STRIP * p->cols);
    return (place){ .n = (int)(tile / image), .row = strip * STRIP + j % high, .col = j / high };
}

/* The 8x8 input positions of a tile: from (y0,x0), every `step` pixels. */
typedef struct window {
    int n, y0, x0, step;
} window;

static inline window window_of(const zn_conv_shape *s, const plan *p, place at, int phase)
{
    window w = { .n = at.n, .y0 = at.row * p->step_in, .x0 = at.col * p->step_in, .step = s->stride };
    w.y0 += s->up2 ? -1 : (s->stride == 2 ? phase / 2 : 0) - s->pad;
    w.x0 += s->up2 ? -1 : (s->stride == 2 ? phase % 2 : 0) - s->pad;
    return w;
}

/* Destination of the outputs of a tile: rows y0 + step * [row_first,row_end), columns likewise. */
typedef struct target {
    int n, step;
    int y0, row_first, row_end;
    int x0, col_first, col_end;
} target;

static inline void clip(int start, int step, int outputs, int size, int *first, int *end)
{
    *first = start < 0 ? ceil_div(-start, step) : 0;
    *end = least(outputs, (size - start + step - 1) / step);
}

static inline target target_of(const zn_conv_shape *s, const plan *p, place at, int phase)
{
    target t = { .n = at.n, .step = s->up2 ? 2 : 1, .y0 = at.row * p->step_out, .x0 = at.col * p->step_out };
    if (s->up2) {
        t.y0 -= phase / 2;
        t.x0 -= phase % 2;
    }
    clip(t.y0, t.step, p->outputs, s->oh, &t.row_first, &t.row_end);
    clip(t.x0, t.step, p->outputs, s->ow, &t.col_first, &t.col_end);
    return t;
}

#endif

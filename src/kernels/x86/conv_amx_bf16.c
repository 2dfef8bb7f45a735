/* Direct convolution on AMX tiles. Activations and sums are fp32; the operands of multiplications are rounded to
 * bf16. The error of a whole decoder is about one percent. See conv_plan.h for how the work is split.
 *
 * A unit is processed in bands of four rows. The input of a band is converted to bf16 (conv_patch.h). Then, for 16
 * outputs at a time, groups of four tiles of 16 positions are summed over the whole kernel. Four sums hide the
 * latency of the tile product. The weights of 16 outputs (18 KiB for 3x3x64) stay in L1 for a band. */
#include "base/cpu.h"
#include "kernels/simd/vec.h"
#include "kernels/x86/conv_patch.h"

#include <math.h>

extern const zn_conv_kernel zn_conv_amx_bf16;

/* Rows [row,row + rows) of a unit's positions; the patch rows they read begin at `patch`. Patch rows from `next` on
 * are prefetched meanwhile. */
typedef struct band {
    const spot *unit;
    const uint16_t *patch;
    int row, rows, next, next_rows;
} band;

/* Memory to prefetch in each step of a product. */
typedef struct ahead {
    const char *from;
    int64_t bytes;
} ahead;

/* The part of the next rows that group g of `groups` prefetches. */
static ahead ahead_of(const zn_conv_args *a, const plan *p, const band *b, int g, int groups)
{
    const columns c = columns_of(&a->s, p, b->unit);
    const int shares = b->next_rows ? groups / b->next_rows : 0; /* groups per row */
    const bool any = shares && g / shares < b->next_rows;
    const float *x = any ? input_row(a, b->unit, &c, b->next + g / shares) : NULL;
    if (!x)
        return (ahead){ 0 };
    const int64_t share = pieces((int64_t)sizeof(float) * (c.end - c.begin) * a->s.cin, shares);
    return (ahead){ (const char *)x + g % shares * share, (int64_t)pieces(share, p->kh * p->steps * 64) * 64 };
}

/* Multiplies two tiles of positions with the weights in tile 6. */
#define PAIR(c0, c1, a0, a1)                                                                                           \
    do {                                                                                                               \
        tile_load(4, a0, stride);                                                                                      \
        tile_load(5, a1, stride);                                                                                      \
        tile_dp(c0, 4, 6);                                                                                             \
        tile_dp(c1, 5, 6);                                                                                             \
    } while (0)

/* c[4][16][16] = the sums of four tiles of positions over the weights of 16 outputs. Their patch values begin at
 * at[0..3]. With `half`, only the first two tiles. */
static void product(const zn_conv_shape *s, const plan *p, const char *const at[TILE_SUMS], bool half,
                    const char *weights, ahead next, float *c)
{
    const int64_t pixel = (int64_t)sizeof(uint16_t) * p->cin, line = pixel * p->patch_cols, stride = pixel * s->stride;
    const int64_t run = (int64_t)sizeof(uint16_t) * p->depth;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (int ky = 0; ky < p->kh; ky++)
        for (int64_t i = 0, k = ky * line; i < p->steps; i++, k += run, weights += step_bytes(p)) {
            tile_load(6, weights, TILE_BYTES);
            PAIR(0, 1, at[0] + k, at[1] + k);
            if (!half)
                PAIR(2, 3, at[2] + k, at[3] + k);
            for (int64_t end = 0; end < next.bytes; end += 64, next.from += 64)
                __builtin_prefetch(next.from, 0, 2);
        }
    tile_store(0, c, TILE_BYTES);
    tile_store(1, c + 256, TILE_BYTES);
    if (!half) {
        tile_store(2, c + 512, TILE_BYTES);
        tile_store(3, c + 768, TILE_BYTES);
    }
}

/* Where a tile of sums is stored: `count` pixels from y[at], `step` values apart, `lanes` outputs each. */
typedef struct target {
    int64_t at, step;
    int count, lanes;
} target;

/* Tiles of a band are numbered down the columns first: neighbours share patch cache lines. */
static target target_of(const zn_conv_shape *s, const plan *p, const band *b, int phase, int cout, int tile)
{
    const int row = b->unit->row + b->row + tile % b->rows, col = b->unit->col + tile / b->rows * TILE_ROWS;
    const int oy = row * p->up + phase / p->up, ox = col * p->up + phase % p->up;
    target t = { .at = (((int64_t)b->unit->n * s->oh + oy) * s->ow + ox) * s->cout + cout,
                 .step = (int64_t)p->up * s->cout };
    t.lanes = least(TILE_ROWS, s->cout - cout);
    t.count = oy < s->oh && ox < s->ow ? least(TILE_ROWS, pieces(s->ow - ox, p->up)) : 0;
    return t;
}

/* The residual of a tile is spread out, one cache line per pixel: prefetch it before computing the sums. */
static void prefetch(const zn_conv_args *a, const target *t)
{
    for (int i = 0; a->residual && i < t->count; i++)
        __builtin_prefetch(a->residual + t->at + i * t->step);
}

/* Adds bias and residual to one tile of sums and applies the activation. */
static void finish(const zn_conv_args *a, const target *t, int cout, const float *c)
{
    const vec floor = vec_splat(a->relu ? 0 : -INFINITY);
    for (int j = 0; j < t->lanes; j += VEC_LANES) {
        const int lanes = least(VEC_LANES, t->lanes - j);
        const vec bias = a->bias ? vec_load_part(a->bias + cout + j, lanes) : vec_splat(0);
        for (int i = 0; i < t->count; i++) {
            const int64_t at = t->at + i * t->step + j;
            vec v = vec_load(c + i * TILE_ROWS + j) + bias;
            if (lanes == VEC_LANES) {
                if (a->residual)
                    v = v + vec_load(a->residual + at);
                vec_store(a->y + at, vec_max(v, floor));
            } else {
                if (a->residual)
                    v = v + vec_load_part(a->residual + at, lanes);
                vec_store_part(a->y + at, vec_max(v, floor), lanes);
            }
        }
    }
}

/* Computes a band for one phase and 16 outputs. */
static void slice(const zn_conv_args *a, const plan *p, const band *b, int phase, int cout, float *c)
{
    const zn_conv_shape *s = &a->s;
    const int index = phase * p->couts + cout / TILE_ROWS, slices = p->up * p->up * p->couts;
    const char *weights = (const char *)a->packed + index * slice_bytes(p);
    const int dy = origin(s, phase / p->up) - origin(s, 0), dx = origin(s, phase % p->up) - origin(s, 0);
    const int tiles = b->rows * pieces(b->unit->cols, TILE_ROWS), groups = pieces(tiles, TILE_SUMS);
    for (int g = 0; g < groups; g++) {
        const int first = g * TILE_SUMS, count = least(TILE_SUMS, tiles - first);
        const char *at[TILE_SUMS];
        target t[TILE_SUMS];
        for (int i = 0; i < TILE_SUMS; i++) {
            const int tile = first + least(i, count - 1); /* missing ones repeat the last */
            const int row = tile % b->rows * s->stride + dy, col = tile / b->rows * TILE_ROWS * s->stride + dx;
            at[i] = (const char *)(b->patch + ((int64_t)row * p->patch_cols + col) * p->cin);
            t[i] = target_of(s, p, b, phase, cout, tile);
        }
        for (int i = 0; i < count; i++)
            prefetch(a, &t[i]);
        product(s, p, at, count <= 2, weights, ahead_of(a, p, b, index * groups + g, slices * groups), c);
        for (int i = 0; i < count; i++)
            finish(a, &t[i], cout, c + i * TILE_ROWS * TILE_ROWS);
    }
}

enum { BAND_ROWS = 4, SUM_BYTES = TILE_SUMS * TILE_ROWS * TILE_BYTES };

static void run_unit(const zn_conv_args *a, const plan *p, const spot *u, float *c, uint16_t *patch)
{
    const zn_conv_shape *s = &a->s;
    const int reach = p->patch_rows - (p->rows - 1) * s->stride; /* patch rows that one row of positions reads */
    for (int row = 0, have = 0; row < u->rows; row += BAND_ROWS) {
        const int end = least(u->rows, row + BAND_ROWS), need = (end - 1) * s->stride + reach;
        const band b = { .unit = u,
                         .patch = patch + (int64_t)row * s->stride * p->patch_cols * p->cin,
                         .row = row,
                         .rows = end - row,
                         .next = need,
                         .next_rows = (least(u->rows, end + BAND_ROWS) - end) * s->stride };
        gather(a, p, u, have, need, patch);
        have = need;
        for (int phase = 0; phase < p->up * p->up; phase++)
            for (int cout = 0; cout < s->cout; cout += TILE_ROWS)
                slice(a, p, &b, phase, cout, c);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const plan p = plan_of(&a->s);
    tile_begin(p.depth);
    for (int64_t i = r.begin; i < r.end; i++) {
        const spot u = spot_of(&p, i);
        run_unit(a, &p, &u, r.scratch, (uint16_t *)((char *)r.scratch + SUM_BYTES));
    }
    tile_end();
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return (SUM_BYTES + patch_bytes(&p) + 63) / 64 * 64;
}

static int64_t units(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return (int64_t)s->n * p.down * p.across;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return (size_t)(p.up * p.up * p.couts * slice_bytes(&p));
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const plan p = plan_of(s);
    plan_pack(s, &p, w, packed);
}

/* The kernels of the phases have the same size only if the original size is odd. A tile product takes the same time
 * for any number of useful values; it pays from eight on. */
static bool supports(const zn_conv_shape *s)
{
    if (s->unshuffle || s->shuffle || (s->up2 && (s->stride != 1 || s->kh % 2 == 0 || s->kw % 2 == 0)))
        return false;
    const plan p = plan_of(s);
    return p.kw * s->cin >= 8 * p.steps && patch_bytes(&p) <= LARGEST_PATCH;
}

static double flops(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    const double tiles = (double)s->n * p.high * pieces(p.wide, TILE_ROWS) * p.up * p.up * p.couts;
    return 2.0 * tiles * TILE_ROWS * TILE_ROWS * p.kh * p.steps * p.depth;
}

const zn_conv_kernel zn_conv_amx_bf16 = {
    .name = "direct-bf16-amx",
    .math = ZN_MATH_BF16,
    .cpu = ZN_CPU_AMX_BF16 | ZN_CPU_AVX512BF16 | ZN_CPU_AVX512,
    .tolerance = 4e-3f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};

/* Direct convolution on AMX tiles. Sums are fp32; the operands of multiplications are rounded to bf16. Maps are fp32 or
 * bf16, each by itself. `plan` says how the work is split; the products are in conv_amx_products.c.
 *
 * The errors of some layers pass through everything after them. The first one has few channels and hardly any work:
 * there the operands are sums of two bf16 numbers, high and low, and the channels of a patch pixel are high, low and
 * high inputs, to be multiplied with high, high and low weights; the error is 2^-16 instead of 2^-8. A layer with a
 * stride rounds the sum of all blocks before it: if that is fp32, it reads a second patch, of the low parts.
 *
 * A unit is processed in bands of four rows, 32 outputs at a time. Its input is read from the map if that is bf16 and
 * the unit touches no border, else from a copy as bf16. Two tiles of 16 positions are multiplied with two tiles of
 * weights over the whole kernel: four sums hide the latency of the tile product, and each tile loaded is used twice.
 * The sums wait in memory, and are written while the tile unit computes the next ones. */
#include "base/cpu.h"
#include "kernels/conv.h"
#include "kernels/simd/vec.h"
#include "kernels/x86/bf16.h"
#include "kernels/x86/conv_amx_plan.h"
#include "kernels/x86/conv_amx_products.h"

/* Position of a unit: image, first position, and the number of its positions inside the map. */
typedef struct spot {
    int n, row, col, rows, cols;
} spot;

static inline spot spot_of(const plan *p, int64_t unit)
{
    const int64_t line = unit / p->across;
    spot u = { .n = (int)(line / p->down),
               .row = (int)(line % p->down) * p->rows,
               .col = (int)(unit % p->across) * p->cols };
    u.rows = least(p->rows, p->high - u.row);
    u.cols = least(p->cols, p->wide - u.col);
    return u;
}

/* `count` values of a map as bf16. */
static inline void copy_values(const void *x, zn_type type, int64_t count, uint16_t *to)
{
    if (type == ZN_TYPE_BF16)
        memcpy(to, x, sizeof *to * (size_t)count);
    else
        bf16_from(x, count, to);
}

/* Writes pixels of `cin` channels as `channels` each: high, low and high parts, then zeros. */
VEC_INLINE void interleave(const int cin, int channels, const uint16_t *high, const uint16_t *low, int count,
                           uint16_t *to)
{
    for (int i = 0; i < count; i++, high += cin, low += cin, to += channels) {
        memcpy(to, high, sizeof *to * (size_t)cin);
        memcpy(to + cin, low, sizeof *to * (size_t)cin);
        memcpy(to + 2 * cin, high, sizeof *to * (size_t)cin);
        for (int c = PARTS * cin; c < channels; c++)
            to[c] = 0;
    }
}

/* `count` input pixels as p->cin channels each, high, low and high parts. */
static inline void split_pixels(const zn_conv_args *a, const plan *p, const float *x, int count, uint16_t *to)
{
    enum { BLOCK = 64 };
    const int cin = a->s.cin;
    uint16_t high[BLOCK * FEW], low[BLOCK * FEW];
    for (int i = 0; i < count; i += BLOCK, x += BLOCK * cin, to += BLOCK * p->cin) {
        const int pixels = least(BLOCK, count - i);
        bf16_from(x, (int64_t)pixels * cin, high);
        bf16_low(x, high, (int64_t)pixels * cin, low);
        if (cin == 3)
            interleave(3, p->cin, high, low, pixels, to);
        else
            interleave(cin, p->cin, high, low, pixels, to);
    }
}

/* Copies `count` input pixels as p->cin channels each. */
static inline void copy_pixels(const zn_conv_args *a, const plan *p, const char *x, int count, uint16_t *to)
{
    const int cin = a->s.cin;
    if (p->parts > 1) {
        split_pixels(a, p, (const float *)x, count, to);
        return;
    }
    if (p->cin == cin) {
        copy_values(x, a->x_type, (int64_t)count * cin, to);
        return;
    }
    for (int i = 0; i < count; i++, x += zn_type_size(a->x_type) * (size_t)cin, to += p->cin) {
        copy_values(x, a->x_type, cin, to);
        for (int c = cin; c < p->cin; c++)
            to[c] = 0;
    }
}

static inline void clear(const plan *p, int count, uint16_t *to)
{
    memset(to, 0, sizeof *to * (size_t)count * (size_t)p->cin);
}

/* The columns of a unit's patch, and which of them are inside the map. */
typedef struct columns {
    int x, all, begin, end; /* patch column c is input column x + c */
} columns;

static inline columns columns_of(const zn_conv_shape *s, const plan *p, const spot *u)
{
    const int dropped = p->cols - pieces(u->cols, TILE_ROWS) * TILE_ROWS;
    columns c = { .x = u->col * s->stride + origin(s, 0), .all = p->patch_cols - dropped * s->stride };
    c.begin = c.x < 0 ? least(-(int64_t)c.x, c.all) : 0;
    c.end = c.x < s->w ? least(c.all, (int64_t)s->w - c.x) : 0;
    c.end = c.end < c.begin ? c.begin : c.end;
    return c;
}

/* Zeros of a patch row that are outside of the map, as all of it may be. */
static inline void clear_outside(const plan *p, const columns *c, bool inside, uint16_t *to)
{
    clear(p, inside ? c->begin : c->all, to);
    if (inside)
        clear(p, c->all - c->end, to + (int64_t)c->end * p->cin);
}

/* The input of patch row r, starting at its first column inside the map; NULL above and below the map. */
static inline const char *input_row(const zn_conv_args *a, const spot *u, const columns *c, int r)
{
    const zn_conv_shape *s = &a->s;
    const int y = u->row * s->stride + origin(s, 0) + r;
    if (y < 0 || y >= s->h)
        return NULL;
    const int64_t at = (((int64_t)u->n * s->h + y) * s->w + c->x + c->begin) * s->cin;
    return (const char *)a->x + at * (int64_t)zn_type_size(a->x_type);
}

/* Values from a patch to that of the low parts of the input; 0: these are not multiplied. */
static inline int64_t low_values(const zn_conv_args *a, const plan *p)
{
    const bool reads = a->s.stride > 1 && p->parts == 1 && p->cin == a->s.cin && a->x_type == ZN_TYPE_F32;
    return reads ? (int64_t)p->patch_rows * p->patch_cols * p->cin : 0;
}

/* Fills rows [first,end) of the patch: the input of a unit as bf16, including the zeros of the border,
 * [patch_rows][patch_cols][cin]. */
static inline void gather(const zn_conv_args *a, const plan *p, const spot *u, int first, int end, uint16_t *patch)
{
    const columns c = columns_of(&a->s, p, u);
    const int64_t line = (int64_t)p->patch_cols * p->cin;
    const int64_t begin = (int64_t)c.begin * p->cin, after = (int64_t)c.end * p->cin;
    const int64_t low = low_values(a, p);
    for (int r = first; r < end; r++) {
        uint16_t *to = patch + r * line;
        const char *x = input_row(a, u, &c, r);
        if (x)
            copy_pixels(a, p, x, c.end - c.begin, to + begin);
        if (x && low)
            bf16_low((const float *)(const void *)x, to + begin, after - begin, to + low + begin);
        clear_outside(p, &c, x != NULL, to);
        if (low)
            clear_outside(p, &c, x != NULL, to + low);
    }
}

extern const zn_conv_kernel zn_conv_amx_bf16;

/* Rows [row,row + rows) of a unit's positions; the values they read begin at `from`, `line` bytes a row. Patch rows
 * from `next` on are prefetched meanwhile. */
typedef struct band {
    const spot *unit;
    const char *from;
    int64_t line;
    int row, rows, next, next_rows;
} band;

/* The part of the next rows that group g of `groups` prefetches. */
static ahead ahead_of(const zn_conv_args *a, const plan *p, const band *b, int g, int groups)
{
    const columns c = columns_of(&a->s, p, b->unit);
    const int shares = b->next_rows ? groups / b->next_rows : 0; /* groups per row */
    const bool any = shares && g / shares < b->next_rows;
    const char *x = any ? input_row(a, b->unit, &c, b->next + g / shares) : NULL;
    if (!x)
        return (ahead){ 0 };
    const int64_t share = pieces((int64_t)zn_type_size(a->x_type) * (c.end - c.begin) * a->s.cin, shares);
    return (ahead){ x + g % shares * share, (int64_t)pieces(share, p->kh * p->steps * 64) * 64 };
}

/* Tiles of a band are numbered down the columns first: neighbours share patch cache lines. */
static target target_of(const zn_conv_shape *s, const plan *p, const band *b, int phase, int cout, int tile)
{
    const int row = b->unit->row + b->row + tile % b->rows, col = b->unit->col + tile / b->rows * TILE_ROWS;
    const int oy = row * p->up + phase / p->up, ox = col * p->up + phase % p->up;
    target t = { .at = (((int64_t)b->unit->n * s->oh + oy) * s->ow + ox) * s->cout + cout,
                 .step = (int64_t)p->up * s->cout };
    t.count = oy < s->oh && ox < s->ow ? least(TILE_ROWS, pieces(s->ow - ox, p->up)) : 0;
    return t;
}

/* Whether results are written past the caches: whole cache lines of a map that would not stay there. */
static bool past_caches(const zn_conv_args *a)
{
    enum { LARGE_MAP = 4 << 20 };
    const zn_conv_shape *s = &a->s;
    const int64_t bytes = (int64_t)sizeof(uint16_t) * s->n * s->oh * s->ow * s->cout;
    return a->y_type == ZN_TYPE_BF16 && s->cout % PAIR_OUTPUTS == 0 && (uintptr_t)a->y % 64 == 0 && bytes > LARGE_MAP;
}

/* Computes tiles [first, first + o->tiles) of a band for one phase and the outputs from `cout`. */
static void group(const zn_conv_args *a, const plan *p, const band *b, int phase, int cout, int first, operands *o,
                  ahead next, work *w)
{
    const zn_conv_shape *s = &a->s;
    const int dy = origin(s, phase / p->up) - origin(s, 0), dx = origin(s, phase % p->up) - origin(s, 0);
    w->now.cout = cout;
    w->now.lanes = least(o->pair ? PAIR_OUTPUTS : TILE_ROWS, s->cout - cout);
    w->now.done = 0;
    w->now.pixels = o->tiles * TILE_ROWS;
    for (int i = 0; i < TILE_SUMS; i++) {
        const int tile = first + least(i, o->tiles - 1); /* missing ones repeat the last */
        const int row = tile % b->rows * s->stride + dy, col = tile / b->rows * TILE_ROWS * s->stride + dx;
        o->at[i] = b->from + row * b->line + (int64_t)sizeof(uint16_t) * col * p->cin;
        w->now.to[i] = target_of(s, p, b, phase, cout, tile);
    }
    zn_conv_amx_product(a, p, o, next, w);
    const sums done = w->now;
    w->now.c = w->before.c;
    w->before = done;
}

/* Computes a band for one phase and 32 outputs, or the last 16. */
static void slice(const zn_conv_args *a, const plan *p, const band *b, int phase, int cout, work *w)
{
    const bool pair = a->s.cout - cout > TILE_ROWS;
    const int index = phase * p->couts + cout / TILE_ROWS, each = pair ? 2 : TILE_SUMS;
    const int tiles = b->rows * pieces(b->unit->cols, TILE_ROWS), groups = pieces(tiles, each);
    const int slices = p->up * p->up * pieces(p->couts, 2), at = phase * pieces(p->couts, 2) + cout / PAIR_OUTPUTS;
    operands o = { .weights = (const char *)a->packed + index * slice_bytes(p),
                   .line = b->line,
                   .stride = (int64_t)sizeof(uint16_t) * p->cin * a->s.stride,
                   .low = (int64_t)sizeof(uint16_t) * low_values(a, p),
                   .pair = pair };
    for (int g = 0; g < groups; g++) {
        o.tiles = least(each, tiles - g * each);
        group(a, p, b, phase, cout, g * each, &o, ahead_of(a, p, b, at * groups + g, slices * groups), w);
    }
}

enum { BAND_ROWS = 4, SUM_BYTES = (int)sizeof(float) * SUM_VALUES };

/* Whether the map can be read in place of the patch of a unit, since the patch would be a copy of a part of it. */
static bool reads_map(const zn_conv_args *a, const plan *p, const spot *u)
{
    const zn_conv_shape *s = &a->s;
    const columns c = columns_of(s, p, u);
    const int y = u->row * s->stride + origin(s, 0), rows = p->patch_rows - (p->rows - u->rows) * s->stride;
    return a->x_type == ZN_TYPE_BF16 && p->parts == 1 && p->cin == s->cin && y >= 0 && y + rows <= s->h &&
           c.begin == 0 && c.end == c.all;
}

static void run_unit(const zn_conv_args *a, const plan *p, const spot *u, work *w, uint16_t *patch)
{
    const zn_conv_shape *s = &a->s;
    const columns c = columns_of(s, p, u);
    const int reach = p->patch_rows - (p->rows - 1) * s->stride; /* patch rows that one row of positions reads */
    const bool direct = reads_map(a, p, u);
    const char *from = direct ? input_row(a, u, &c, 0) : (const char *)patch;
    const int64_t line = (int64_t)sizeof(uint16_t) * p->cin * (direct ? s->w : p->patch_cols);
    for (int row = 0, have = 0; row < u->rows; row += BAND_ROWS) {
        const int end = least(u->rows, row + BAND_ROWS), need = (end - 1) * s->stride + reach;
        const band b = { .unit = u,
                         .from = from + (int64_t)row * s->stride * line,
                         .line = line,
                         .row = row,
                         .rows = end - row,
                         .next = need,
                         .next_rows = (least(u->rows, end + BAND_ROWS) - end) * s->stride };
        if (!direct)
            gather(a, p, u, have, need, patch);
        have = need;
        for (int phase = 0; phase < p->up * p->up; phase++)
            for (int cout = 0; cout < s->cout; cout += PAIR_OUTPUTS)
                slice(a, p, &b, phase, cout, w);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const plan p = plan_of(&a->s);
    work w = { .now.c = r.scratch, .before.c = (float *)r.scratch + SUM_VALUES, .past = past_caches(a) };
    zn_conv_amx_begin(&p);
    for (int64_t i = r.begin; i < r.end; i++) {
        const spot u = spot_of(&p, i);
        run_unit(a, &p, &u, &w, (uint16_t *)((char *)r.scratch + 2 * SUM_BYTES));
    }
    zn_conv_amx_end(a, &w);
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    const size_t patches = s->stride > 1 ? 2 : 1; /* the second of low parts */
    return (2 * SUM_BYTES + patches * patch_bytes(&p) + 63) / 64 * 64;
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
    plan_pack(s, &p, w, false, packed);
}

static void pack_constant(const zn_conv_shape *s, const float *w, void *packed)
{
    const plan p = plan_of(s);
    plan_pack(s, &p, w, rounds_together(s, &p), packed);
}

/* Not sums of weights, nor sums of two numbers, nor weights that depend on each other. */
static bool rearranges(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return p.up == 1 && p.parts == 1 && !rounds_together(s, &p);
}

/* The kernels of the phases have the same size only if the original size is odd. A tile product takes the same time
 * for any number of useful values; it pays from eight on. */
static bool supports(const zn_conv_shape *s)
{
    if (s->unshuffle || s->shuffle || (s->up2 && (s->stride != 1 || s->kh % 2 == 0 || s->kw % 2 == 0)))
        return false;
    const plan p = plan_of(s);
    return p.kw * s->cin >= 8 * (p.parts > 1 ? 1 : p.steps) && patch_bytes(&p) <= LARGEST_PATCH;
}

/* The errors of all layers add up. Where a network has few channels, layers with small maps are little of the work, so
 * they are left to fp32 kernels: in an encoder sooner than in a decoder, whose errors are half as large. Training keeps
 * the same precision everywhere. */
static bool pays(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { SHARE = 16, SHARE_GROWING = 64 };
    const int64_t share = wish->grows ? SHARE_GROWING : SHARE;
    return wish->changing || s->cin * s->cout > FEW_WEIGHTS || (int64_t)s->oh * s->ow * share >= wish->largest;
}

static double flops(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    const double tiles = (double)s->n * p.high * pieces(p.wide, TILE_ROWS) * p.up * p.up * p.couts;
    return 2.0 * tiles * TILE_ROWS * TILE_ROWS * p.kh * p.steps * p.depth;
}

static unsigned narrow(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return ZN_CONV_NARROW_Y | (p.parts > 1 ? 0 : ZN_CONV_NARROW_X);
}

const zn_conv_kernel zn_conv_amx_bf16 = {
    .name = "direct-bf16-amx",
    .math = ZN_PRECISION_BF16,
    .cpu = ZN_CPU_AMX_BF16 | ZN_CPU_AVX512BF16 | ZN_CPU_AVX512,
    .tolerance = 4e-3f,
    .narrow = narrow,
    .supports = supports,
    .pays = pays,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_constant = pack_constant,
    .rearranges = rearranges,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};

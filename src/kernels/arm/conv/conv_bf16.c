/* 3x3 convolution with bf16 operands on the matrix unit (BFMMLA), inside Winograd F(4,3), or F(5,2) after
 * upsampling, with fp32 transforms and sums. Stride 2 is not supported: its error would be the largest of a network.
 *
 * The error of a layer is 5e-3 of its result, or 1.2e-2 if the inputs have zero mean. That is several times the
 * error of conv_i8.c, in 0.75 of its time. A NaN or an infinity in a tile or in the weights results in NaN. */
#include "base/cpu.h"
#include "kernels/arm/conv/bf16_block.h"
#include "kernels/arm/conv/lowp.h"
#include "kernels/arm/two.h"

#include <arm_neon.h>
#include <string.h>

enum {
    POINTS = 6,
    FREQS = POINTS * POINTS,
    TILES = 24, /* maximum per unit: weights, values and products fit L2 together */
    PAIRS = TILES / 2,
    BLOCKS = PAIRS / ZN_BF16_PAIRS,
    COLS = ZN_LOWP_COLS, /* multiplied and transformed back at a time */
};

static bool supports(const zn_conv_shape *s) { return zn_lowp_supports(s) && s->stride == 1; }

static zn_lowp_grid grid_of(const zn_conv_shape *s) { return zn_lowp_grid_of(s, POINTS, TILES); }

/* Packed weights: for each chunk of columns, frequency and block of 8 columns [depth / 4][4][2 columns][4 channels] */
static size_t block_numbers(const zn_lowp_grid *g) { return (size_t)g->depth * ZN_BF16_COLS; }

static size_t packed_bytes(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return (size_t)g.cols / ZN_BF16_COLS * FREQS * block_numbers(&g) * sizeof(uint16_t) + ZN_BF16_SLACK;
}

/* ---- packing, eight columns at a time ---- */

/* The values of polynomial g of two or three weights at the points, divided by the product of the distances between
 * them, and multiplied by `more`; at infinity, its last coefficient. */
ZN_INLINE void evaluate(const float32x4_t g[3], int taps, float more, float32x4_t u[POINTS])
{
    const double near_2 = ZN_LOWP_NEAR * ZN_LOWP_NEAR, far_2 = ZN_LOWP_FAR * ZN_LOWP_FAR;
    const float at[] = { (float)ZN_LOWP_NEAR, (float)ZN_LOWP_FAR };
    const float over[] = { (float)(2 * near_2 * (near_2 - far_2)), (float)(2 * far_2 * (far_2 - near_2)) };
    u[0] = vmulq_n_f32(g[0], more);
    for (int i = 0; i < 2; i++) {
        const float32x4_t odd = vmulq_n_f32(g[1], at[i]);
        const float32x4_t even = taps == 3 ? vfmaq_n_f32(g[0], g[2], at[i] * at[i]) : g[0];
        u[1 + 2 * i] = vmulq_n_f32(vaddq_f32(even, odd), more / over[i]);
        u[2 + 2 * i] = vmulq_n_f32(vsubq_f32(even, odd), more / over[i]);
    }
    u[POINTS - 1] = vmulq_n_f32(g[taps - 1], more);
}

/* The taps along one axis: two of each parity after upsampling. */
ZN_INLINE void fold(float32x4_t g[3], bool up, int parity)
{
    if (!up)
        return;
    g[0] = parity ? vaddq_f32(g[0], g[1]) : g[0];
    g[1] = parity ? g[2] : vaddq_f32(g[1], g[2]);
}

/* Transformed weights of four outputs of a channel; w: of the channel's first tap; there: how many of them exist. */
static void transform(const zn_conv_shape *s, const float *w, int there, int phase, float32x4_t u[FREQS])
{
    const int64_t tap = (int64_t)s->cin * s->cout;
    const int taps = s->up2 ? 2 : 3;
    float32x4_t rows[3][POINTS];
    for (int ky = 0; ky < 3; ky++) {
        float32x4_t g[3];
        for (int kx = 0; kx < 3; kx++) {
            const float *from = w + (ky * 3 + kx) * tap;
            float some[4] = { 0 };
            if (there < 4)
                memcpy(some, from, sizeof *some * (size_t)there);
            g[kx] = vld1q_f32(there < 4 ? some : from);
        }
        fold(g, s->up2, phase % 2);
        evaluate(g, taps, 1, rows[ky]);
    }
    for (int j = 0; j < POINTS; j++) {
        float32x4_t g[3] = { rows[0][j], rows[1][j], rows[2][j] };
        fold(g, s->up2, phase / 2);
        evaluate(g, taps, (float)(1 + ZN_LOWP_CUT), u + j * POINTS);
    }
}

static int64_t pack_units(const zn_conv_shape *s) { return grid_of(s).cols / ZN_BF16_COLS; }

/* A unit is a block of eight columns. */
static void pack_some(const void *args, zn_range r)
{
    const zn_conv_pack_args *a = args;
    const zn_conv_shape *s = &a->s;
    const zn_lowp_grid g = grid_of(s);
    const int each = g.cols / g.phases;
    for (int col = (int)r.begin * ZN_BF16_COLS; col < r.end * ZN_BF16_COLS; col += ZN_BF16_COLS) {
        const int first = col - col % each % COLS, blocks = zn_lowp_chunk(&g, first, COLS) / ZN_BF16_COLS;
        uint16_t *to = (uint16_t *)a->packed + (size_t)first / ZN_BF16_COLS * FREQS * block_numbers(&g) +
                       (size_t)(col - first) / ZN_BF16_COLS * block_numbers(&g);
        for (int c = 0; c < g.depth; c += 4)
            for (int half = 0; half < ZN_BF16_COLS; half += 4) {
                const int out = col % each + half, there = s->cout - out < 0   ? 0
                                                           : s->cout - out < 4 ? s->cout - out
                                                                               : 4;
                float32x4_t u[4][FREQS];
                for (int j = 0; j < 4; j++)
                    transform(s, a->w + (int64_t)(c + j) * s->cout + (there ? out : 0), there, col / each, u[j]);
                for (int f = 0; f < FREQS; f++) {
                    uint16x4x4_t v;
                    for (int j = 0; j < 4; j++)
                        v.val[j] = vreinterpret_u16_bf16(vcvt_bf16_f32(u[j][f]));
                    vst4_u16(to + (size_t)(f * blocks) * block_numbers(&g) + c / 4 * 32 + half * 4, v);
                }
            }
        if (col + ZN_BF16_COLS == g.cols)
            memset((char *)a->packed + packed_bytes(s) - ZN_BF16_SLACK, 0, ZN_BF16_SLACK);
    }
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    pack_some(&(zn_conv_pack_args){ .s = *s, .w = w, .packed = packed }, (zn_range){ 0, pack_units(s), NULL });
}

/* Scratch of a thread, as offsets in bytes: transformed values [6 columns of frequencies][blocks of six pairs]
 * [depth / 4][ZN_BF16_GROUP bytes], products of a chunk of columns [pair][frequency][columns / 2 + 4][4], and for
 * one pair of tiles the rows at an edge and the transformed rows. */
typedef struct layout {
    size_t numbers, products, edge, rows, bytes;
} layout;

enum { M_STRIDE = FREQS * ZN_LOWP_M_ROW(COLS) }; /* floats */

static size_t block_bytes(const zn_lowp_grid *g) { return (size_t)g->depth / 4 * ZN_BF16_GROUP; }
static size_t column_bytes(const zn_lowp_grid *g) { return BLOCKS * block_bytes(g); }

static layout layout_of(const zn_lowp_grid *g)
{
    layout at = { 0 };
    at.numbers = zn_lowp_take(&at.bytes, POINTS * column_bytes(g) + ZN_BF16_SLACK);
    at.products = zn_lowp_take(&at.bytes, (size_t)M_STRIDE * PAIRS * sizeof(float));
    at.edge = zn_lowp_take(&at.bytes, (size_t)g->depth * 128 * sizeof(float));
    at.rows = zn_lowp_take(&at.bytes, (size_t)(2 * POINTS * ZN_LOWP_ROW(POINTS, g->depth)) * sizeof(float));
    return at;
}

typedef struct scratch {
    char *numbers;
    float *products, *edge, *rows;
} scratch;

static scratch scratch_at(const zn_lowp_grid *g, char *base)
{
    const layout at = layout_of(g);
    base += -(uintptr_t)base & 63;
    return (scratch){ .numbers = base + at.numbers,
                      .products = (float *)(void *)(base + at.products),
                      .edge = (float *)(void *)(base + at.edge),
                      .rows = (float *)(void *)(base + at.rows) };
}

/* Computes the values of pair p of a unit. */
static void input(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place tile[2], int p, const scratch *t)
{
    const int second = zn_lowp_rows(a, g, tile, t->edge, t->rows);
    char *to = t->numbers + (size_t)(p / ZN_BF16_PAIRS) * block_bytes(g) + p % ZN_BF16_PAIRS * ZN_BF16_PAIR;
    for (int j = 0; j < POINTS; j++, to += column_bytes(g))
        zn_lowp_column_bf16(g, t->rows, second, j, (uint16_t *)(void *)to, ZN_BF16_GROUP / 2);
}

/* Maximum number of product blocks in a chunk of columns. */
enum { CALLS = FREQS * BLOCKS * (COLS / ZN_BF16_COLS) };

/* Multiplies one chunk of columns; meanwhile prefetches the next block of weights. */
static void multiply(const zn_conv_args *a, const zn_lowp_grid *g, const scratch *t, int tiles, int col, int ncols,
                     const float *const *far)
{
    zn_bf16_block k = { .blocks = (size_t)(tiles + 2 * ZN_BF16_PAIRS - 1) / (2 * ZN_BF16_PAIRS),
                        .cols = (size_t)ncols / ZN_BF16_COLS,
                        .b = (const uint16_t *)a->packed + (size_t)col / ZN_BF16_COLS * FREQS * block_numbers(g),
                        .steps = (size_t)g->depth / 16,
                        .stride = M_STRIDE * sizeof(float),
                        .far = far,
                        .other = a->residual ? (size_t)((uintptr_t)a->residual - (uintptr_t)a->y) : 0 };
    for (int f = 0; f < FREQS; f++) {
        const char *column = t->numbers + (size_t)(f / POINTS) * column_bytes(g);
        k.a = (const uint16_t *)(const void *)(column + f % POINTS * 16);
        k.next_b = k.b + block_numbers(g);
        k.m = t->products + f * ZN_LOWP_M_ROW(ncols);
        zn_bf16_multiply(&k);
        k.b += k.cols * block_numbers(g);
        k.far += k.blocks * k.cols;
    }
}

#include "kernels/arm/conv/lowp_unit.h"

static double flops(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return 2.0 * FREQS * (double)g.tiles * g.cols * g.depth;
}

/* Errors of small maps propagate through the rest of a network, and small maps take little of its time. So the
 * coarsest kernel is used only for maps with at least an eighth of the pixels of the largest. */
static bool pays(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { COARSE_SHARE = 8 };
    return (int64_t)s->h * s->w * COARSE_SHARE >= wish->largest && !zn_conv_has_few_tiles(s, wish);
}

const zn_conv_kernel zn_conv_bf16 = {
    .name = "winograd4-bf16-bfmmla",
    .math = ZN_PRECISION_BF16,
    .cpu = ZN_CPU_NEON | ZN_CPU_BF16,
    .tolerance = 1.5e-2f,
    .narrow = narrow,
    .supports = supports,
    .pays = pays,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_units = pack_units,
    .pack_some = pack_some,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
    .block = block_side,
};

/* 3x3 convolution with bf16 operands on the matrix unit (BFMMLA), inside Winograd F(4,3), or F(5,2) after
 * upsampling, with fp32 transforms and sums. Stride 2 is not supported: its error would be the largest of a network.
 *
 * The error of a layer is 5e-3 of its result, or 1.2e-2 if the inputs have zero mean. That is several times the
 * error of conv_i8.c, in 0.75 of its time. A NaN or an infinity in a tile or in the weights results in NaN. */
#include "base/cpu.h"
#include "kernels/arm/conv/bf16_block.h"
#include "kernels/arm/conv/lowp.h"

#include <math.h>
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

/* Rounds to nearest, ties to even. */
static uint16_t bf16(float x)
{
    if (isnan(x))
        return 0x7fc0;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const zn_lowp_grid g = grid_of(s);
    memset(packed, 0, packed_bytes(s));
    for (int col = 0; col < g.cols; col++) {
        const int first = col - col % (g.cols / g.phases) % COLS, in = col - first,
                  blocks = zn_lowp_chunk(&g, first, COLS) / ZN_BF16_COLS;
        uint16_t *at = (uint16_t *)packed + (size_t)first / ZN_BF16_COLS * FREQS * block_numbers(&g);
        for (int c = 0; c < g.depth; c++) {
            float u[FREQS];
            zn_lowp_weights(s, POINTS, w, c, col, u);
            for (int f = 0; f < FREQS; f++)
                at[(size_t)(f * blocks + in / 8) * block_numbers(&g) + (size_t)(c / 4 * 32 + in % 8 * 4 + c % 4)] =
                    bf16(u[f] * (float)(1 + ZN_LOWP_CUT));
        }
    }
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
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
    .block = block_side,
};

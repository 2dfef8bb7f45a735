/* 3x3 convolution with 16-bit fixed-point multiplications on the int8 matrix unit (SMMLA), inside Winograd F(6,3).
 *
 * Each transformed value is rounded to q in [-32639, 32639] with a separate scale for every tile and frequency
 * (weights: for every frequency and output channel). q is split into two signed digits, q = 256 hi + lo. A product
 * is then 65536 (hi hi + (hi lo + lo hi) / 256): three of the four digit products, summed exactly in int32; lo lo is
 * below the rounding error. For a whole network the error is a third of that of fp16 operands with fp32 sums; fp16
 * sums of 16 terms have six times that error.
 *
 * A tile that contains an infinity or a NaN, or values beyond 2^118, gets a scale of NaN and results in NaN. */
#include "base/cpu.h"
#include "kernels/arm/conv/i8_block.h"
#include "kernels/arm/conv/lowp.h"
#include "kernels/arm/two.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define LARGEST 32639.0f    /* 127 * 256 + 127 */
#define MAGIC   12582912.0f /* 1.5 * 2^23, whose last bit has the value 1: adding it makes an integer of a float */

enum {
    POINTS = 8,
    FREQS = POINTS * POINTS,
    TILES = 36, /* maximum per unit */
    PAIRS = TILES / 2,
    COLS = 32, /* multiplied and transformed back at a time */
};

static zn_lowp_grid grid_of(const zn_conv_shape *s) { return zn_lowp_grid_of(s, POINTS, TILES); }

/* Packed weights: for each chunk of columns, frequency, and block of 8 columns: digits [depth / 8][hi, lo][4][2
 * columns][8 channels], then a table of three rows. Each row has four times two columns c0 c1 c0 c1: the scales,
 * -MAGIC times the scales, and (as integers) -128 times the sums of the high digits. */
enum { TABLE = 3 * 16 * sizeof(float) };

static size_t block_bytes(const zn_lowp_grid *g) { return (size_t)g->depth * 16 + TABLE; }

static size_t packed_bytes(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return (size_t)g.cols / 8 * FREQS * block_bytes(&g);
}

/* The scale that maps a peak to at most LARGEST, truncated to 16 bits so that its product with MAGIC is exact. */
static float scale_for(float peak)
{
    int exponent;
    const double m = frexp((double)(peak > 1e-30f ? peak : 1e-30f) / (double)LARGEST, &exponent);
    return (float)ldexp(ceil(m * 65536), exponent - 16);
}

/* Packs one column of one frequency into its block: w[depth], column 0 to 7. Digits cannot represent NaN or
 * infinity. Instead the scale is NaN, so that all results computed with it are NaN. */
static void pack_column(const float *w, int64_t stride, int depth, int column, int8_t *block)
{
    float peak = 0;
    bool finite = true;
    for (int c = 0; c < depth; c++) {
        peak = fmaxf(peak, fabsf(w[c * stride]));
        finite = finite && isfinite(w[c * stride]);
    }
    const float scale = finite ? scale_for(peak) : NAN;
    int sum = 0;
    for (int c = 0; c < depth; c++) {
        const int q = finite ? (int)lrintf(w[c * stride] / scale) : 0, high = (q + 128) >> 8;
        const int64_t at = c / 8 * 128 + column / 2 * 16 + column % 2 * 8 + c % 8;
        block[at] = (int8_t)high;
        block[at + 64] = (int8_t)(q - high * 256);
        sum += high;
    }
    const float scales[2] = { scale * 65536, scale * 65536 * -MAGIC };
    const int32_t offset = -128 * sum;
    for (size_t r = 0; r < 2; r++) {
        int8_t *at = block + depth * 16 + sizeof(float) * (size_t)(column / 2 * 4 + column % 2 + (int)r * 2);
        memcpy(at, &scales[0], sizeof(float));
        memcpy(at + 16 * sizeof(float), &scales[1], sizeof(float));
        memcpy(at + 32 * sizeof(float), &offset, sizeof offset);
    }
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const zn_lowp_grid g = grid_of(s);
    const int each = g.cols / g.phases;
    float u[ZN_LOWP_DEPTH * FREQS];
    for (int col = 0; col < g.cols; col++) {
        for (int c = 0; c < g.depth; c++)
            zn_lowp_weights(s, w, c, col, u + c * FREQS);
        const int first = col - col % each % COLS, in = col - first, blocks = zn_lowp_chunk(&g, first, COLS) / 8;
        int8_t *at = (int8_t *)packed + (size_t)first / 8 * FREQS * block_bytes(&g);
        for (int f = 0; f < FREQS; f++)
            pack_column(u + f, FREQS, g.depth, in % 8, at + (size_t)(f * blocks + in / 8) * block_bytes(&g));
    }
}

/* Scratch of a thread: digits [frequency][pair][depth / 8][hi, lo][2 tiles][8] with 16 bytes between pairs to avoid
 * bank conflicts, their scales [frequency][pair][4], for one pair of tiles the rows at an edge, the transformed rows
 * and eight frequencies, and the products of one chunk [pair][frequency][columns / 2 + 4][4]. */
typedef struct scratch {
    int8_t *digits;
    float *scales, *edge, *rows, *v[2], *products;
} scratch;

enum { M_STRIDE = FREQS * ZN_LOWP_M_ROW(COLS) }; /* floats */

static size_t pair_bytes(const zn_lowp_grid *g) { return (size_t)g->depth * 4 + 16; }
static size_t v_floats(const zn_lowp_grid *g) { return (size_t)g->depth / 4 * ZN_LOWP_V_STRIDE; }

typedef struct layout {
    size_t digits, scales, edge, rows, v[2], products, bytes;
} layout;

static layout layout_of(const zn_lowp_grid *g)
{
    layout at = { 0 };
    at.digits = zn_lowp_take(&at.bytes, FREQS * PAIRS * pair_bytes(g));
    at.scales = zn_lowp_take(&at.bytes, FREQS * PAIRS * 4 * sizeof(float));
    at.edge = zn_lowp_take(&at.bytes, (size_t)g->depth * 128 * sizeof(float));
    at.rows = zn_lowp_take(&at.bytes, (size_t)(16 * ZN_LOWP_ROW(POINTS, g->depth)) * sizeof(float));
    at.v[0] = zn_lowp_take(&at.bytes, v_floats(g) * sizeof(float));
    at.v[1] = zn_lowp_take(&at.bytes, v_floats(g) * sizeof(float));
    at.products = zn_lowp_take(&at.bytes, (size_t)M_STRIDE * PAIRS * sizeof(float));
    return at;
}

static scratch scratch_at(const zn_lowp_grid *g, char *base)
{
    const layout at = layout_of(g);
    base += -(uintptr_t)base & 63;
    return (scratch){ .digits = (int8_t *)base + at.digits,
                      .scales = (float *)(void *)(base + at.scales),
                      .edge = (float *)(void *)(base + at.edge),
                      .rows = (float *)(void *)(base + at.rows),
                      .v = { (float *)(void *)(base + at.v[0]), (float *)(void *)(base + at.v[1]) },
                      .products = (float *)(void *)(base + at.products) };
}

/* The scales of eight frequencies of a tile: powers of two, the value of one unit of q. magic: the floats whose last
 * bit has that value, MAGIC + 128 units. */
ZN_INLINE void scales_of(const float peaks[8], float magic[8], float scale[8])
{
    for (int i = 0; i < 8; i += 4) {
        const float32x4_t peak = vld1q_f32(peaks + i);
        const float32x4_t safe = vmaxq_f32(vmulq_n_f32(peak, 32768.0f / LARGEST), vdupq_n_f32(0x1p-60f));
        /* one more than the exponent, so that the power is above the peak, minus the 15 bits of q */
        const int32x4_t power = vshlq_n_s32(vshrq_n_s32(vreinterpretq_s32_f32(safe), 23), 23);
        const int32x4_t unit = vsubq_s32(power, vdupq_n_s32(14 << 23));
        vst1q_s32((int32_t *)(void *)(magic + i), vaddq_s32(unit, vdupq_n_s32(23 << 23 | 0x400080)));
        const float32x4_t big = vmulq_n_f32(peak, 512); /* infinite if magic would be; big - big is 0 or NaN */
        vst1q_f32(scale + i, vaddq_f32(vreinterpretq_f32_s32(unit), vsubq_f32(big, big)));
    }
}

ZN_INLINE int8x16_t fixed(const float *v, float32x4_t magic)
{
    const float32x4_t a = vaddq_f32(vld1q_f32(v), magic), b = vaddq_f32(vld1q_f32(v + ZN_LOWP_V_STRIDE), magic);
    return vreinterpretq_s8_s16(vuzp1q_s16(vreinterpretq_s16_f32(a), vreinterpretq_s16_f32(b)));
}

/* Digits of eight frequencies of a pair of tiles. With 128 added, the high byte is hi and the low byte is lo + 128. */
ZN_INLINE void quantise(int64_t depth, float *const v[2], float peak[2][8], int8_t *digits, size_t stride,
                        float *scales)
{
    float magic[2][8], scale[2][8];
    for (int i = 0; i < 2; i++)
        scales_of(peak[i], magic[i], scale[i]);
    for (int i = 0; i < 8; i++) {
        const float32x4_t m0 = vld1q_dup_f32(&magic[0][i]), m1 = vld1q_dup_f32(&magic[1][i]);
        int8_t *to = digits + (size_t)i * stride;
        for (int64_t c = 0; c < depth * 4; c += 64) /* the same for the next column */
            __builtin_prefetch(to + 8 * stride + c, 1);
#pragma GCC unroll 4
        for (int64_t c = 0; c < depth; c += 8) {
            const int64_t at = c / 4 * ZN_LOWP_V_STRIDE + i * 4;
            const int8x16_t a = fixed(v[0] + at, m0), b = fixed(v[1] + at, m1);
            vst1q_s8(to + c * 4, vuzp2q_s8(a, b));
            vst1q_s8(to + c * 4 + 16, vuzp1q_s8(a, b));
        }
        const float32x2_t s0 = vld1_dup_f32(&scale[0][i]), s1 = vld1_dup_f32(&scale[1][i]);
        vst1q_f32(scales + i * PAIRS * 4, vcombine_f32(s0, s1));
    }
}

/* The digits of pair number p of a unit, one column of frequencies at a time: the intermediate values stay in L1. */
static void input(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place tile[2], int p, const scratch *t)
{
    const size_t stride = PAIRS * pair_bytes(g);
    const int second = zn_lowp_rows(a, g, tile, t->edge, t->rows);
    for (int j = 0; j < 8; j++) {
        float peak[2][8];
        zn_lowp_column(g, t->rows, second, j, t->v, peak);
        int8_t *digits = t->digits + (size_t)j * 8 * stride + (size_t)p * pair_bytes(g);
        float *scales = t->scales + (j * 8 * PAIRS + p) * 4;
        if (g->depth == 64) /* the width of all current models: loops of known length */
            quantise(64, t->v, peak, digits, stride, scales);
        else
            quantise(g->depth, t->v, peak, digits, stride, scales);
    }
}

/* Maximum number of product blocks in a chunk of columns. */
enum { CALLS = FREQS * (PAIRS / ZN_I8_PAIRS) * (COLS / ZN_I8_COLS) };

/* One chunk of columns: every frequency and block of columns. While one frequency is multiplied, the digits and
 * weights of the next are prefetched. */
static void multiply(const zn_conv_args *a, const zn_lowp_grid *g, const scratch *t, int tiles, int col, int ncols,
                     const float *const *far)
{
    const int blocks = ncols / ZN_I8_COLS;
    const size_t block = block_bytes(g), line = PAIRS * pair_bytes(g);
    zn_i8_block k = { .pair = pair_bytes(g),
                      .blocks = (size_t)(tiles + 2 * ZN_I8_PAIRS - 1) / (2 * ZN_I8_PAIRS),
                      .b = (const int8_t *)a->packed + (size_t)col / 8 * FREQS * block,
                      .steps = (size_t)g->depth / 16,
                      .stride = M_STRIDE * sizeof(float),
                      .far = far,
                      .other = a->residual ? (size_t)((uintptr_t)a->residual - (uintptr_t)a->y) : 0 };
    for (int f = 0; f < FREQS; f++)
        for (int i = 0; i < blocks; i++) {
            k.a = t->digits + (size_t)f * line;
            k.rows = t->scales + f * PAIRS * 4;
            k.m = t->products + f * ZN_LOWP_M_ROW(ncols) + i * 16;
            k.next_a = k.a + line + (size_t)i * (line / (size_t)blocks);
            k.next_b = k.b + (size_t)blocks * block;
            zn_i8_multiply(&k);
            k.b += block;
            k.far += k.blocks;
        }
}

#include "kernels/arm/conv/lowp_unit.h"

static double flops(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return 2.0 * 3 * FREQS * (double)g.tiles * g.cols * g.depth;
}

/* Computing the digits of the weights takes eight times as long as the fp32 transforms. On a Neoverse-V1 this pays
 * from this number of output pixels on. */
static bool pays(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { DIGITS_PAY = 1 << 15 };
    const bool late = wish->changing && (int64_t)s->n * s->oh * s->ow < DIGITS_PAY;
    return !late && !zn_conv_has_few_tiles(s, wish);
}

/* 16-bit operands with exact sums are more accurate than either precision requires, so both use this kernel. */
#define DESCRIBE(precision)                                                                                            \
    {                                                                                                                  \
        .name = "winograd-i8x2-smmla", .math = precision, .cpu = ZN_CPU_NEON | ZN_CPU_I8MM, .tolerance = 3e-3f,        \
        .narrow = (precision) == ZN_PRECISION_BF16 ? narrow : NULL, .supports = zn_lowp_supports, .pays = pays,        \
        .packed_bytes = packed_bytes, .pack = pack, .scratch_bytes = scratch_bytes, .units = units, .run = run,        \
        .flops = flops, .block = block_side,                                                                           \
    }

const zn_conv_kernel zn_conv_i8_as_f16 = DESCRIBE(ZN_PRECISION_F16);
const zn_conv_kernel zn_conv_i8_as_bf16 = DESCRIBE(ZN_PRECISION_BF16);

/* 3x3 convolution from three channels to many, the first layer of an encoder, with BFMMLA: operands of 8 bits, fp32
 * sums.
 *
 * The 27 multipliers of a pixel are gathered as bf16, in 7 steps of 4: of each kernel row the first eight, then the
 * ninth of all three rows. A unit is a stretch of one output row. */
#include "base/cpu.h"
#include "kernels/arm/bf16_product.h"
#include "kernels/conv.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    CHANNELS = 3,
    STEPS = 7,
    PAIRS = 3,    /* of pixels, multiplied together */
    COLUMNS = 16, /* by so many outputs */
    STRETCH = 2 * PAIRS * 22,
    LINE = (STRETCH + 2) * CHANNELS + 32, /* a row of input, and what whole vectors reach beyond */
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 && !s->up2 && s->cin == CHANNELS &&
           s->cout % COLUMNS == 0;
}

/* The kernel row and the place in it of multiplier k of STEPS * 4; the last one is padding, row 3. */
static int row_of(int k) { return k < 24 ? k / 8 : k - 24; }
static int place_of(int k) { return k < 24 ? k % 8 : 8; }

/* [cout / COLUMNS][STEPS][COLUMNS / 2][2 columns][4 multipliers] */
static size_t packed_bytes(const zn_conv_shape *s) { return (size_t)s->cout * STEPS * 4 * sizeof(bfloat16_t); }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    bfloat16_t *to = packed;
    memset(to, 0, packed_bytes(s));
    for (int o = 0; o < s->cout; o++)
        for (int k = 0; k < 9 * CHANNELS; k++) {
            const int at = ((o / COLUMNS * STEPS + k / 4) * COLUMNS + o % COLUMNS) * 4 + k % 4;
            to[at] = vcvth_bf16_f32(w[(int64_t)(row_of(k) * 3 * CHANNELS + place_of(k)) * s->cout + o]);
        }
}

/* Scratch of a thread: bias in the lanes of the sums, three rows of input, their ninth multipliers, all multipliers. */
typedef struct scratch {
    float *bias;
    bfloat16_t (*line)[LINE], (*ninth)[4], (*pairs)[STEPS][8];
} scratch;

static size_t bias_bytes(const zn_conv_shape *s) { return (size_t)s->cout * 2 * sizeof(float); }

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const size_t line = 3 * LINE, ninth = (STRETCH + 8) * 4, pairs = STRETCH / 2 * STEPS * 8;
    return bias_bytes(s) + (line + ninth + pairs) * sizeof(bfloat16_t);
}

static scratch scratch_at(const zn_conv_shape *s, char *base)
{
    scratch t = { .bias = (void *)base, .line = (void *)(base + bias_bytes(s)) };
    t.ninth = (void *)t.line[3];
    t.pairs = (void *)t.ninth[STRETCH + 8];
    return t;
}

static int parts(const zn_conv_shape *s) { return (s->ow + STRETCH - 1) / STRETCH; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * parts(s); }

/* Input pixels [x0, x0 + count) of a row as bf16, zeros outside of the map (row NULL: all), and zeros up to LINE. */
static void convert(const zn_conv_shape *s, const float *row, int x0, int count, bfloat16_t *to)
{
    const int first = x0 < 0 ? -x0 : 0, end = s->w - x0 < count ? s->w - x0 : count;
    memset(to, 0, sizeof *to * LINE);
    if (!row)
        return;
    int i = first * CHANNELS;
    const float *x = row + (int64_t)x0 * CHANNELS;
    for (; i + 8 <= end * CHANNELS; i += 8)
        vst1q_bf16(to + i, vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(x + i)), vld1q_f32(x + i + 4)));
    for (; i < end * CHANNELS; i++)
        to[i] = vcvth_bf16_f32(x[i]);
}

/* The multipliers of `count` pixels, in pairs, with zeros up to whole blocks of PAIRS. */
static void gather(const zn_conv_args *a, int64_t row, int x0, int count, const scratch *t)
{
    const zn_conv_shape *s = &a->s;
    const int64_t n = row / s->oh;
    const int y0 = (int)(row % s->oh) - 1;
    for (int ky = 0; ky < 3; ky++) {
        const int y = y0 + ky;
        convert(s, y < 0 || y >= s->h ? NULL : a->x + (n * s->h + y) * s->w * CHANNELS, x0 - 1, count + 2, t->line[ky]);
    }
    for (int i = 0; i < count; i += 8) {
        uint16x8x4_t v = { .val[3] = vdupq_n_u16(0) };
        for (int ky = 0; ky < 3; ky++)
            v.val[ky] = vld3q_u16((const uint16_t *)t->line[ky] + (i + 2) * CHANNELS).val[2];
        vst4q_u16((uint16_t *)t->ninth[i], v);
    }
    const int blocks = (count + 2 * PAIRS - 1) / (2 * PAIRS);
    for (int i = 0; i < blocks * 2 * PAIRS; i++) {
        bfloat16_t *to = &t->pairs[i / 2][0][i % 2 * 4];
        for (int k = 0; k < 6; k++)
            vst1_bf16(to + k * 8, vld1_bf16(t->line[k / 2] + i * CHANNELS + k % 2 * 4));
        vst1_bf16(to + 6 * 8, vld1_bf16(t->ninth[i]));
    }
}

/* y = act(sums + residual) of one pixel: four outputs, of the low or high halves of two sums. */
INLINE void finish(const zn_conv_args *a, float32x4_t v, bool add, float32x4_t floor, int64_t at)
{
    if (add)
        v = vaddq_f32(v, vld1q_f32(a->residual + at));
    vst1q_f32(a->y + at, vmaxq_f32(v, floor));
}

/* A block of pixels by COLUMNS outputs, at y[at]; count: pixels of it that there are. */
INLINE void multiply(const zn_conv_args *a, bfloat16_t (*x)[STEPS][8], const bfloat16_t *w, const float *bias, bool add,
                     int64_t at, int count)
{
    float32x4_t sum[PAIRS][COLUMNS / 2];
#pragma GCC unroll 3
    for (int p = 0; p < PAIRS; p++)
#pragma GCC unroll 8
        for (int j = 0; j < COLUMNS / 2; j++)
            sum[p][j] = vld1q_f32(bias + j * 4);
#pragma GCC unroll 7
    for (int k = 0; k < STEPS; k++) {
        const bfloat16x8_t a0 = vld1q_bf16(x[0][k]), a1 = vld1q_bf16(x[1][k]), a2 = vld1q_bf16(x[2][k]);
#pragma GCC unroll 8
        for (int j = 0; j < COLUMNS / 2; j++) {
            const bfloat16x8_t b = vld1q_bf16(w + (k * COLUMNS + j * 2) * 4);
            BF16_PRODUCT(sum[0][j], a0, b);
            BF16_PRODUCT(sum[1][j], a1, b);
            BF16_PRODUCT(sum[2][j], a2, b);
        }
    }
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX passes NaN on */
#pragma GCC unroll 6
    for (int i = 0; i < 2 * PAIRS; i++)
        if (i < count)
#pragma GCC unroll 4
            for (int j = 0; j < COLUMNS / 2; j += 2)
                finish(a, bf16_row(sum[i / 2][j], sum[i / 2][j + 1], i % 2), add, floor, at + i * a->s.cout + j * 2);
}

/* Out of line, as compilers would else keep the multipliers of all steps for the next outputs, on the stack. */
static __attribute__((noinline)) void whole(const zn_conv_args *a, bfloat16_t (*x)[STEPS][8], const bfloat16_t *w,
                                            const float *bias, int64_t at)
{
    multiply(a, x, w, bias, false, at, 2 * PAIRS);
}

static __attribute__((noinline)) void any(const zn_conv_args *a, bfloat16_t (*x)[STEPS][8], const bfloat16_t *w,
                                          const float *bias, int64_t at, int count)
{
    multiply(a, x, w, bias, a->residual != NULL, at, count);
}

static void run_unit(const zn_conv_args *a, int64_t unit, const scratch *t)
{
    const zn_conv_shape *s = &a->s;
    const int64_t row = unit / parts(s);
    const int x0 = (int)(unit % parts(s)) * STRETCH, count = s->ow - x0 < STRETCH ? s->ow - x0 : STRETCH;
    gather(a, row, x0, count, t);
    for (int i = 0; i < count; i += 2 * PAIRS)
        for (int64_t o = 0; o < s->cout; o += COLUMNS) {
            const bfloat16_t *w = (const bfloat16_t *)a->packed + o * STEPS * 4;
            const int64_t at = (row * s->ow + x0 + i) * s->cout + o;
            if (count - i >= 2 * PAIRS && !a->residual)
                whole(a, t->pairs + i / 2, w, t->bias + o * 2, at);
            else
                any(a, t->pairs + i / 2, w, t->bias + o * 2, at, count - i);
        }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const scratch t = scratch_at(&a->s, r.scratch);
    for (int64_t o = 0; o < a->s.cout; o++)
        t.bias[o / 2 * 4 + o % 2] = t.bias[o / 2 * 4 + o % 2 + 2] = a->bias ? a->bias[o] : 0;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(a, unit, &t);
}

static double flops(const zn_conv_shape *s) { return 2.0 * s->n * s->oh * s->ow * STEPS * 4 * s->cout; }

#define DESCRIBE(precision)                                                                                            \
    {                                                                                                                  \
        .name = "from-few-bf16-bfmmla", .math = precision, .cpu = ZN_CPU_NEON | ZN_CPU_BF16, .tolerance = 3e-3f,       \
        .supports = supports, .packed_bytes = packed_bytes, .pack = pack, .scratch_bytes = scratch_bytes,              \
        .units = units, .run = run, .flops = flops,                                                                    \
    }

const zn_conv_kernel zn_conv_from_few_as_f16 = DESCRIBE(ZN_MATH_F16);
const zn_conv_kernel zn_conv_from_few_as_bf16 = DESCRIBE(ZN_MATH_BF16);

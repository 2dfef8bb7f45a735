/* 3x3 convolution from three channels to many, the first layer of an encoder, direct, fp32.
 *
 * The 27 multipliers of each pixel are gathered, with one zero after them, and all outputs of a block of pixels are
 * finished in registers. A unit is a stretch of one output row. */
#include "base/cpu.h"
#include "kernels/arm/two.h"
#include "kernels/conv.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum {
    CHANNELS = 3,
    ROW = 3 * CHANNELS, /* multipliers of a kernel row */
    STEPS = 28,
    PIXELS = 6,   /* multiplied together */
    COLUMNS = 16, /* by so many outputs */
    STRETCH = PIXELS * 22,
    LINE = (STRETCH + 2) * CHANNELS + 16, /* a row of input, and what whole vectors reach beyond */
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 && !s->up2 && s->cin == CHANNELS &&
           s->cout % COLUMNS == 0;
}

/* [cout / COLUMNS][STEPS][COLUMNS] */
static size_t packed_bytes(const zn_conv_shape *s) { return (size_t)s->cout * STEPS * sizeof(float); }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    memset(to, 0, packed_bytes(s));
    for (int o = 0; o < s->cout; o++)
        for (int k = 0; k < 3 * ROW; k++)
            to[(o / COLUMNS * STEPS + k) * COLUMNS + o % COLUMNS] = w[(int64_t)k * s->cout + o];
}

/* Scratch of a thread: bias, three rows of input, the multipliers of a stretch and what whole vectors reach beyond. */
typedef struct scratch {
    float *bias, (*line)[LINE], (*pixel)[STEPS];
} scratch;

static size_t scratch_bytes(const zn_conv_shape *s)
{
    return ((size_t)s->cout + 3 * LINE + (STRETCH + 1) * STEPS) * sizeof(float);
}

static scratch scratch_at(const zn_conv_shape *s, float *base)
{
    return (scratch){ .bias = base, .line = (void *)(base + s->cout), .pixel = (void *)(base + s->cout + 3 * LINE) };
}

static int parts(const zn_conv_shape *s) { return (s->ow + STRETCH - 1) / STRETCH; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * parts(s); }

/* Input pixels [x0, x0 + count) of a row, zeros outside of the map (row NULL: all), and zeros up to LINE. */
static void copy_row(const zn_conv_shape *s, const float *row, int x0, int count, float *to)
{
    const int first = x0 < 0 ? -x0 : 0, end = s->w - x0 < count ? s->w - x0 : count;
    memset(to, 0, sizeof *to * LINE);
    if (row)
        memcpy(to + first * CHANNELS, row + (int64_t)(x0 + first) * CHANNELS,
               sizeof *to * (size_t)((end - first) * CHANNELS));
}

/* The multipliers of `count` pixels, with zeros up to whole blocks. Whole vectors are copied: what runs over is written
 * again by the next row or pixel. */
static void gather(const zn_conv_args *a, int64_t row, int x0, int count, const scratch *t)
{
    const zn_conv_shape *s = &a->s;
    for (int ky = 0; ky < 3; ky++) {
        const int y = (int)(row % s->oh) - 1 + ky;
        const float *from = y < 0 || y >= s->h ? NULL : a->x + (row / s->oh * s->h + y) * s->w * CHANNELS;
        copy_row(s, from, x0 - 1, count + 2, t->line[ky]);
    }
    const int end = (count + PIXELS - 1) / PIXELS * PIXELS;
    for (int i = 0; i < end; i++) {
        float *to = t->pixel[i];
        for (int ky = 0; ky < 3; ky++)
            for (int k = 0; k < ROW; k += 4)
                vst1q_f32(to + ky * ROW + k, vld1q_f32(t->line[ky] + i * CHANNELS + k));
        to[STEPS - 1] = 0;
    }
}

/* One multiplier of all pixels of a block. */
#define STEP(lane)                                                                                                     \
    for (int j = 0; j < COLUMNS / 4; j++) {                                                                            \
        const float32x4_t b = vld1q_f32(w + (lane)*COLUMNS + j * 4);                                                   \
        sum[0][j] = vfmaq_laneq_f32(sum[0][j], b, m[0], lane);                                                         \
        sum[1][j] = vfmaq_laneq_f32(sum[1][j], b, m[1], lane);                                                         \
        sum[2][j] = vfmaq_laneq_f32(sum[2][j], b, m[2], lane);                                                         \
        sum[3][j] = vfmaq_laneq_f32(sum[3][j], b, m[3], lane);                                                         \
        sum[4][j] = vfmaq_laneq_f32(sum[4][j], b, m[4], lane);                                                         \
        sum[5][j] = vfmaq_laneq_f32(sum[5][j], b, m[5], lane);                                                         \
    }

/* A block of pixels by COLUMNS outputs. */
ZN_INLINE void multiply(float (*x)[STEPS], const float *w, const float *bias, float32x4_t sum[PIXELS][COLUMNS / 4])
{
#pragma GCC unroll 6
    for (int p = 0; p < PIXELS; p++)
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS / 4; j++)
            sum[p][j] = vld1q_f32(bias + j * 4);
    for (int k = 0; k < STEPS; k += 4, w += 4 * COLUMNS) {
        float32x4_t m[PIXELS];
#pragma GCC unroll 6
        for (int p = 0; p < PIXELS; p++)
            m[p] = vld1q_f32(x[p] + k);
#pragma GCC unroll 4
        STEP(0)
#pragma GCC unroll 4
        STEP(1)
#pragma GCC unroll 4
        STEP(2)
#pragma GCC unroll 4
        STEP(3)
    }
}

/* All outputs of a block of pixels from y on. */
static void whole(const zn_conv_args *a, float (*x)[STEPS], const float *bias, float *y)
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX passes NaN on */
    const int64_t cout = a->s.cout;
    const float *w = a->packed, *end = bias + cout;
    for (; bias < end; bias += COLUMNS, w += STEPS * COLUMNS, y += COLUMNS) {
        float32x4_t sum[PIXELS][COLUMNS / 4];
        __asm__("" : "+r"(x)); /* or compilers keep the multipliers for the next outputs, on the stack */
        multiply(x, w, bias, sum);
#pragma GCC unroll 6
        for (int p = 0; p < PIXELS; p++)
#pragma GCC unroll 4
            for (int j = 0; j < COLUMNS; j += 4)
                vst1q_f32(y + p * cout + j, vmaxq_f32(sum[p][j / 4], floor));
    }
}

/* The same of `count` pixels, with a residual if there is one. */
static void partly(const zn_conv_args *a, float (*x)[STEPS], const float *bias, int64_t at, int count)
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY);
    for (int64_t o = 0; o < a->s.cout; o += COLUMNS) {
        float32x4_t sum[PIXELS][COLUMNS / 4];
        multiply(x, (const float *)a->packed + o * STEPS, bias + o, sum);
        for (int p = 0; p < PIXELS && p < count; p++)
            for (int j = 0; j < COLUMNS; j += 4) {
                const int64_t to = at + p * a->s.cout + o + j;
                const float32x4_t v = sum[p][j / 4];
                vst1q_f32(a->y + to, vmaxq_f32(a->residual ? vaddq_f32(v, vld1q_f32(a->residual + to)) : v, floor));
            }
    }
}

static void run_unit(const zn_conv_args *a, int64_t unit, const scratch *t)
{
    const zn_conv_shape *s = &a->s;
    const int64_t row = unit / parts(s);
    const int x0 = (int)(unit % parts(s)) * STRETCH, count = s->ow - x0 < STRETCH ? s->ow - x0 : STRETCH;
    gather(a, row, x0, count, t);
    for (int i = 0; i < count; i += PIXELS) {
        const int64_t at = (row * s->ow + x0 + i) * s->cout;
        if (count - i >= PIXELS && !a->residual)
            whole(a, t->pixel + i, t->bias, a->y + at);
        else
            partly(a, t->pixel + i, t->bias, at, count - i);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const scratch t = scratch_at(&a->s, r.scratch);
    for (int o = 0; o < a->s.cout; o++)
        t.bias[o] = a->bias ? a->bias[o] : 0;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(a, unit, &t);
}

static double flops(const zn_conv_shape *s) { return 2.0 * s->n * s->oh * s->ow * STEPS * s->cout; }

const zn_conv_kernel zn_conv_from_few_neon = {
    .name = "from-few-f32-neon",
    .math = ZN_MATH_F32,
    .cpu = ZN_CPU_NEON,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};

/* 3x3 convolution from three channels to many, the first layer of an encoder, direct, fp32.
 *
 * Three lines of input are copied, with zeros around the map, and all outputs of a block of pixels are completed in
 * registers. A unit is a stretch of one output row. Results of bf16 are rounded a few blocks at a time. */
#include "base/cpu.h"
#include "kernels/arm/conv/pixels_6x16.h"
#include "kernels/conv.h"
#include "kernels/narrow.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum {
    CHANNELS = 3,
    ROW = 3 * CHANNELS, /* multipliers per kernel row */
    STEPS = 3 * ROW,
    PIXELS = ZN_6X16_PIXELS,
    COLUMNS = ZN_6X16_COLUMNS,
    STRETCH = PIXELS * 22,
    BUFFER = PIXELS * 4,                  /* pixels whose sums are not computed in place */
    LINE = (STRETCH + 2) * CHANNELS + 16, /* a row of input, plus the floats that whole vectors read past it */
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 && !s->up2 && s->cin == CHANNELS &&
           s->cout % COLUMNS == 0;
}

/* [cout / COLUMNS][3 lines][ROW][COLUMNS] */
static size_t packed_bytes(const zn_conv_shape *s) { return (size_t)s->cout * STEPS * sizeof(float); }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    for (int o = 0; o < s->cout; o++)
        for (int k = 0; k < STEPS; k++)
            to[(o / COLUMNS * STEPS + k) * COLUMNS + o % COLUMNS] = w[(int64_t)k * s->cout + o];
}

/* Scratch of a thread: bias, the outputs of a buffer, its residual as floats, three rows of input. */
typedef struct scratch {
    float *bias, *sums, *residual, (*line)[LINE];
} scratch;

static size_t scratch_bytes(const zn_conv_shape *s)
{
    return ((1 + 2 * BUFFER) * (size_t)s->cout + 3 * LINE) * sizeof(float);
}

static scratch scratch_at(const zn_conv_shape *s, float *base)
{
    float *sums = base + s->cout, *residual = sums + BUFFER * s->cout;
    return (scratch){ .bias = base, .sums = sums, .residual = residual, .line = (void *)(residual + BUFFER * s->cout) };
}

static int parts(const zn_conv_shape *s) { return (s->ow + STRETCH - 1) / STRETCH; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * parts(s); }

/* Copies input pixels [x0, x0 + count) of a row, with zeros outside the map (row NULL: all), and zeros up to LINE. */
static void copy_row(const zn_conv_shape *s, const float *row, int x0, int count, float *to)
{
    const int first = x0 < 0 ? -x0 : 0, end = s->w - x0 < count ? s->w - x0 : count;
    memset(to, 0, sizeof *to * LINE);
    if (row)
        memcpy(to + first * CHANNELS, row + (int64_t)(x0 + first) * CHANNELS,
               sizeof *to * (size_t)((end - first) * CHANNELS));
}

/* Copies the three lines around `count` pixels from x0. */
static void gather(const zn_conv_args *a, int64_t row, int x0, int count, const scratch *t)
{
    const zn_conv_shape *s = &a->s;
    for (int ky = 0; ky < 3; ky++) {
        const int y = (int)(row % s->oh) - 1 + ky;
        const float *from = y < 0 || y >= s->h ? NULL : a->x + (row / s->oh * s->h + y) * s->w * CHANNELS;
        copy_row(s, from, x0 - 1, count + 2, t->line[ky]);
    }
}

/* The residual of `count` results as floats, in `wide` where it is bf16; NULL: there is none. */
static const float *residual_at(const zn_conv_args *a, int64_t at, int count, float *wide)
{
    if (!a->residual || a->residual_type == ZN_TYPE_F32)
        return a->residual ? a->residual + at : NULL;
    zn_k_widen(&(zn_widen_args){ (const uint16_t *)(const void *)a->residual + at, wide },
               (zn_range){ 0, count, NULL });
    return wide;
}

/* y = act(sums + residual). The sums may be y, but not of bf16, and are overwritten then. */
static void finish(const zn_conv_args *a, float *sums, int64_t at, int count, const scratch *t)
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX propagates NaN */
    const float *residual = residual_at(a, at, count, t->residual);
    const bool narrow = a->y_type != ZN_TYPE_F32;
    float *y = narrow ? sums : a->y + at;
    for (int i = 0; i < count; i += 4) {
        float32x4_t v = vld1q_f32(sums + i);
        if (residual)
            v = vaddq_f32(v, vld1q_f32(residual + i));
        vst1q_f32(y + i, vmaxq_f32(v, floor));
    }
    if (narrow)
        zn_k_round(&(zn_round_args){ sums, (uint16_t *)(void *)a->y + at }, (zn_range){ 0, count, NULL });
}

static void run_unit(const zn_conv_args *a, int64_t unit, const scratch *t)
{
    const zn_conv_shape *s = &a->s;
    const int64_t row = unit / parts(s);
    const int x0 = (int)(unit % parts(s)) * STRETCH, count = s->ow - x0 < STRETCH ? s->ow - x0 : STRETCH;
    /* Computed in place: a residual may be y itself. */
    const int whole = a->residual || a->y_type != ZN_TYPE_F32 ? 0 : count / PIXELS * PIXELS;
    const int64_t at = (row * s->ow + x0) * s->cout;
    gather(a, row, x0, count, t);
    zn_6x16 k = { .a = t->line[0],
                  .w = a->packed,
                  .start = t->bias,
                  .y = a->y + at,
                  .row = sizeof *t->line,
                  .groups = 3,
                  .panels = s->cout / COLUMNS,
                  .blocks = whole / PIXELS };
    if (whole)
        zn_6x16_taps(&k);
    if (whole && a->relu)
        finish(a, a->y + at, at, whole * s->cout, t);
    for (int i = whole; i < count; i += BUFFER) {
        const int pixels = count - i < BUFFER ? count - i : BUFFER;
        k.a = t->line[0] + i * CHANNELS, k.y = t->sums, k.blocks = (pixels + PIXELS - 1) / PIXELS;
        zn_6x16_taps(&k);
        finish(a, t->sums, at + (int64_t)i * s->cout, pixels * s->cout, t);
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

static unsigned narrow(const zn_conv_shape *s)
{
    (void)s;
    return ZN_CONV_NARROW_Y;
}

static double flops(const zn_conv_shape *s) { return 2.0 * s->n * s->oh * s->ow * STEPS * s->cout; }

const zn_conv_kernel zn_conv_from_few_neon = {
    .name = "from-few-f32-neon",
    .math = ZN_PRECISION_F32,
    .cpu = ZN_CPU_NEON,
    .tolerance = 5e-6f,
    .narrow = narrow,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};

/* 1x1 convolution from a few dozen channels, fp32, direct: six pixels by sixteen outputs are completed in registers,
 * including bias and residual, and written as whole cache lines. A unit is a run of pixels. */
#include "base/cpu.h"
#include "kernels/arm/conv/pixels_6x16.h"
#include "kernels/conv.h"

#include <arm_neon.h>
#include <string.h>

extern const zn_conv_kernel zn_conv_pointwise_neon;

enum {
    PIXELS = ZN_6X16_PIXELS,
    COLUMNS = ZN_6X16_COLUMNS,
    CIN_LEAST = 8, /* with fewer, the ends of blocks take longer than the products */
    CIN_MOST = 64, /* with more, weights and pixels would not fit L1 together */
    UNIT = 42 * PIXELS,
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && zn_conv_keeps_size(s) &&
           !s->unshuffle && !s->shuffle && s->cin % 4 == 0 && s->cin >= CIN_LEAST && s->cin <= CIN_MOST &&
           s->cout % COLUMNS == 0;
}

/* [cout / COLUMNS][cin][COLUMNS] */
static size_t packed_bytes(const zn_conv_shape *s) { return sizeof(float) * (size_t)s->cin * (size_t)s->cout; }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    for (int o = 0; o < s->cout; o += COLUMNS)
        for (int k = 0; k < s->cin; k++)
            for (int j = 0; j < COLUMNS; j++)
                *to++ = w[(int64_t)k * s->cout + o + j];
}

static bool rearranges(const zn_conv_shape *s) { return s->cin > 0; }

/* The bias, and copies of the last few pixels and their outputs. */
static size_t scratch_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * ((size_t)s->cout + PIXELS * (size_t)(s->cin + s->cout));
}

static int64_t pixels_of(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * s->ow; }
static int64_t units(const zn_conv_shape *s) { return (pixels_of(s) + UNIT - 1) / UNIT; }

/* y = max(y, 0) for values just written. */
static void relu(float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4)
        vst1q_f32(y + i, vmaxq_f32(vld1q_f32(y + i), vdupq_n_f32(0)));
}

/* Computes fewer than PIXELS pixels using copies. */
static void rest(const zn_conv_args *a, zn_6x16 k, int64_t first, int count, float *copies)
{
    const int cin = a->s.cin, cout = a->s.cout;
    float *sums = copies + PIXELS * cin;
    memset(copies, 0, sizeof(float) * PIXELS * (size_t)cin);
    memcpy(copies, a->x + first * cin, sizeof(float) * (size_t)(count * cin));
    k.a = copies, k.y = sums, k.blocks = 1;
    zn_6x16_multiply(&k);
    for (int i = 0; i < count * cout; i += 4) {
        const int64_t at = first * cout + i;
        const float32x4_t v = vld1q_f32(sums + i);
        vst1q_f32(a->y + at, a->residual ? vaddq_f32(v, vld1q_f32(a->residual + at)) : v);
    }
}

/* Computes pixels [first, end), a unit. */
static void run_unit(const zn_conv_args *a, int64_t first, int64_t end, float *scratch)
{
    const int64_t cin = a->s.cin, cout = a->s.cout, done = first + (end - first) / PIXELS * PIXELS;
    const zn_6x16 k = { .a = a->x + first * cin,
                        .w = a->packed,
                        .start = scratch,
                        .y = a->y + first * cout,
                        .row = cin * (int64_t)sizeof(float),
                        .residual = a->residual ? (intptr_t)a->residual - (intptr_t)a->y : 0,
                        .groups = cin / 4,
                        .panels = cout / COLUMNS,
                        .blocks = (done - first) / PIXELS };
    if (k.blocks && a->residual)
        zn_6x16_multiply_add(&k);
    else if (k.blocks)
        zn_6x16_multiply(&k);
    if (done < end)
        rest(a, k, done, (int)(end - done), scratch + cout);
    if (a->relu)
        relu(a->y + first * cout, (end - first) * cout);
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const int64_t pixels = pixels_of(&a->s);
    float *bias = r.scratch;
    for (int o = 0; o < a->s.cout; o++)
        bias[o] = a->bias ? a->bias[o] : 0;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(a, unit * UNIT, (unit + 1) * UNIT < pixels ? (unit + 1) * UNIT : pixels, bias);
}

static double flops(const zn_conv_shape *s) { return zn_conv_direct_flops(s); }

const zn_conv_kernel zn_conv_pointwise_neon = {
    .name = "pointwise-f32-neon",
    .math = ZN_PRECISION_F32,
    .cpu = ZN_CPU_NEON,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .rearranges = rearranges,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};

/* 1x1 convolution from few dozens of channels, fp32, direct: four pixels by sixteen outputs are finished in registers,
 * with bias and residual, and written as whole cache lines. A unit is a run of pixels. */
#include "base/cpu.h"
#include "kernels/arm/two.h"
#include "kernels/conv.h"

#include <math.h>

extern const zn_conv_kernel zn_conv_pointwise_neon;

enum {
    PIXELS = 4,
    COLUMNS = 16,
    CIN_LEAST = 8, /* below, the ends of blocks take longer than the products */
    CIN_MOST = 64, /* beyond, weights and pixels would no longer share the first cache */
    UNIT = 256,    /* pixels */
    AHEAD = 8,     /* pixels whose residual is fetched before it is needed */
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && !s->unshuffle && !s->shuffle &&
           s->cin % 4 == 0 && s->cin >= CIN_LEAST && s->cin <= CIN_MOST && s->cout % COLUMNS == 0;
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

static size_t scratch_bytes(const zn_conv_shape *s) { return sizeof(float) * (size_t)s->cout; } /* bias */

static int64_t pixels_of(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * s->ow; }
static int64_t units(const zn_conv_shape *s) { return (pixels_of(s) + UNIT - 1) / UNIT; }

/* Products with lane `lane` of the multipliers. */
#define STEP(lane)                                                                                                     \
    _Pragma("GCC unroll 4") for (int j = 0; j < COLUMNS / 4; j++)                                                      \
    {                                                                                                                  \
        const float32x4_t b = vld1q_f32(w + (lane)*COLUMNS + 4 * j);                                                   \
        _Pragma("GCC unroll 4") for (int p = 0; p < pixels; p++) sum[p][j] =                                           \
            vfmaq_laneq_f32(sum[p][j], b, m[p], lane);                                                                 \
    }

/* COLUMNS outputs of `pixels` neighbours (a constant, as is residual), which go to float `at` of y. */
ZN_INLINE void block(const int pixels, const bool residual, const zn_conv_args *a, const float *x, const float *w,
                     const float *bias, int64_t at)
{
    const int cin = a->s.cin;
    const int64_t cout = a->s.cout;
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX passes NaN on */
    float32x4_t sum[PIXELS][COLUMNS / 4];
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS / 4; j++)
            sum[p][j] = vld1q_f32(bias + 4 * j);
    for (int k = 0; k < cin; k += 4, w += 4 * COLUMNS) {
        float32x4_t m[PIXELS];
#pragma GCC unroll 4
        for (int p = 0; p < pixels; p++)
            m[p] = vld1q_f32(x + p * cin + k);
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
    }
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++) {
        const float *add = a->residual + at + p * cout;
        float *y = a->y + at + p * cout;
        if (residual)
            __builtin_prefetch(add + AHEAD * cout);
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS / 4; j++) {
            const float32x4_t v = residual ? vaddq_f32(sum[p][j], vld1q_f32(add + 4 * j)) : sum[p][j];
            vst1q_f32(y + 4 * j, vmaxq_f32(v, floor));
        }
    }
}
#undef STEP

ZN_INLINE void pixels_from(const int pixels, const bool residual, const zn_conv_args *a, int64_t first,
                           const float *bias)
{
    const zn_conv_shape *s = &a->s;
    for (int o = 0; o < s->cout; o += COLUMNS)
        block(pixels, residual, a, a->x + first * s->cin, (const float *)a->packed + (int64_t)o * s->cin, bias + o,
              first * s->cout + o);
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const int64_t pixels = pixels_of(&a->s), end = r.end * UNIT < pixels ? r.end * UNIT : pixels;
    float *bias = r.scratch;
    for (int o = 0; o < a->s.cout; o++)
        bias[o] = a->bias ? a->bias[o] : 0;
    int64_t p = r.begin * UNIT;
    for (; p + PIXELS <= end; p += PIXELS)
        if (a->residual)
            pixels_from(PIXELS, true, a, p, bias);
        else
            pixels_from(PIXELS, false, a, p, bias);
    for (; p < end; p++)
        if (a->residual)
            pixels_from(1, true, a, p, bias);
        else
            pixels_from(1, false, a, p, bias);
}

static double flops(const zn_conv_shape *s) { return zn_conv_direct_flops(s); }

const zn_conv_kernel zn_conv_pointwise_neon = {
    .name = "pointwise-f32-neon",
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

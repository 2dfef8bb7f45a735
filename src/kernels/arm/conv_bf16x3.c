/* 1x1 convolution in fp32 on the bf16 matrix unit (BFMMLA). Every number is a sum of two bf16, x = high + low with 16
 * bits together, and a product is high high + low high + high low, summed in fp32; low low is below the rounding. Three
 * BFMMLA take the time of 12 multiply-adds where FMLA takes that of 16. The error is 4.4e-6 of the result.
 *
 * A unit is a strip of pixels, split while it is laid out for the first cache; then one panel of 8 outputs after
 * another goes over it. Pixel unshuffle and shuffle cost nothing on the way in and out. Sums depend on their own pixel
 * only. An infinity comes out as NaN, as do values that bf16 rounds to one (beyond 3.39e38). */
#include "base/cpu.h"
#include "kernels/arm/bf16x3_block.h"
#include "kernels/arm/two.h"
#include "kernels/conv.h"

#include <string.h>

extern const zn_conv_kernel zn_conv_bf16x3;

enum {
    STRIP_BYTES = 32 << 10, /* of split pixels: half of the first cache */
    STRIP_MOST = 96,        /* pixels */
    GROUP_A = 96,           /* halves of a group of four channels: 12 pixels, high and low */
    GROUP_B = 64,           /* likewise of 8 outputs */
};

static int groups_of(const zn_conv_shape *s) { return (s->cin + 3) / 4; }
static int panels_of(const zn_conv_shape *s) { return s->cout / ZN_X3_COLS; }
static int64_t pixels_of(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * s->ow; }

/* Pixels of a unit, whole blocks. */
static int strip_of(const zn_conv_shape *s)
{
    const int blocks = STRIP_BYTES / (GROUP_A * 2 * groups_of(s)), most = STRIP_MOST / ZN_X3_PIXELS;
    return ZN_X3_PIXELS * (blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* With fewer channels than these, splitting and storing cost what the products save. */
enum { CIN_LEAST = 64, COUT_LEAST = 64, CIN_MOST = 4096 };

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && s->cin >= CIN_LEAST &&
           s->cin <= CIN_MOST && s->cout >= COUT_LEAST && s->cout % ZN_X3_COLS == 0;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    return (size_t)panels_of(s) * (size_t)groups_of(s) * GROUP_B * sizeof(uint16_t) + ZN_X3_SLACK;
}

/* Scratch: the split strip, and for each panel what its sums begin with, [4 pairs of outputs][4]. */
static size_t strip_bytes(const zn_conv_shape *s)
{
    return (size_t)strip_of(s) * (size_t)groups_of(s) * 8 * sizeof(uint16_t) + ZN_X3_SLACK;
}

static size_t scratch_bytes(const zn_conv_shape *s) { return strip_bytes(s) + (size_t)s->cout * 2 * sizeof(float); }

static int64_t units(const zn_conv_shape *s) { return (pixels_of(s) + strip_of(s) - 1) / strip_of(s); }

/* Four channels of two pixels (or outputs): high parts, and low parts `low` halves on. The high ones are rounded as
 * integers, which goes faster; a NaN that overflows there stays in the low part. */
ZN_INLINE void split(float32x4_t p, float32x4_t q, uint16_t *to, int low)
{
    const uint32x4_t half = vdupq_n_u32(0x8000), upper = vdupq_n_u32(0xffff0000);
    const uint32x4_t ph = vaddq_u32(vreinterpretq_u32_f32(p), half), qh = vaddq_u32(vreinterpretq_u32_f32(q), half);
    p = vsubq_f32(p, vreinterpretq_f32_u32(vandq_u32(ph, upper)));
    q = vsubq_f32(q, vreinterpretq_f32_u32(vandq_u32(qh, upper)));
    vst1q_u16(to, vuzp2q_u16(vreinterpretq_u16_u32(ph), vreinterpretq_u16_u32(qh)));
    vst1q_u16(to + low, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(p), q)));
}

/* Which output a column holds. Before a pixel shuffle, columns are those of the first sub-pixel, then of the second ..
 */
static int output_of(const zn_conv_shape *s, int column)
{
    const int each = s->cout / 4;
    return s->shuffle ? column % each * 4 + column / each : column;
}

/* [panel][group][high, low][4 pairs][2 outputs][4 channels], zeros for what is missing. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    uint16_t *to = packed;
    for (int panel = 0; panel < panels_of(s); panel++)
        for (int group = 0; group < groups_of(s); group++, to += GROUP_B)
            for (int pair = 0; pair < 4; pair++) {
                float v[2][4] = { { 0 } };
                for (int o = 0; o < 2; o++)
                    for (int i = 0; i < 4; i++) {
                        const int column = panel * ZN_X3_COLS + 2 * pair + o, channel = 4 * group + i;
                        if (channel < s->cin)
                            v[o][i] = w[(int64_t)channel * s->cout + output_of(s, column)];
                    }
                split(vld1q_f32(v[0]), vld1q_f32(v[1]), to + 8 * pair, GROUP_B / 2);
            }
    memset(to, 0, ZN_X3_SLACK);
}

/* Floats before pixel p in a map of `channels`, or in the larger one that it is shuffled from or to. */
static int64_t place(int64_t p, int channels, bool shuffled, int wide)
{
    return shuffled ? zn_conv_sub_pixel(p / wide, wide, p % wide, 0, channels / 4) : p * channels;
}

/* Two pixels into their place of a block. */
static void split_pair(const float *p, const float *q, int cin, uint16_t *to)
{
    int k = 0;
    for (; k + 4 <= cin; k += 4, to += GROUP_A)
        split(vld1q_f32(p + k), vld1q_f32(q + k), to, 8);
    if (k < cin) {
        float rest[2][4] = { { 0 } };
        memcpy(rest[0], p + k, sizeof(float) * (size_t)(cin - k));
        memcpy(rest[1], q + k, sizeof(float) * (size_t)(cin - k));
        split(vld1q_f32(rest[0]), vld1q_f32(rest[1]), to, 8);
    }
}

/* v[j] = channel j of the four sub-pixels at x; `line` floats lie between rows, c channels are a sub-pixel. */
ZN_INLINE void unshuffle(const float *x, int64_t line, int c, float32x4_t v[4])
{
    const float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + c), d = vld1q_f32(x + line), e = vld1q_f32(x + line + c);
    const float32x4_t ad = vzip1q_f32(a, d), be = vzip1q_f32(b, e), ad2 = vzip2q_f32(a, d), be2 = vzip2q_f32(b, e);
    v[0] = vzip1q_f32(ad, be), v[1] = vzip2q_f32(ad, be), v[2] = vzip1q_f32(ad2, be2), v[3] = vzip2q_f32(ad2, be2);
}

/* The same through a pixel unshuffle: a group is one channel of four sub-pixels. */
static void split_shuffled_pair(const float *p, const float *q, int64_t line, int cin, uint16_t *to)
{
    for (int k = 0; k < cin / 4; k += 4) {
        float32x4_t v[4], u[4];
        unshuffle(p + k, line, cin / 4, v);
        unshuffle(q + k, line, cin / 4, u);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, to += GROUP_A)
            split(v[i], u[i], to, 8);
    }
}

/* The pixels from `first` on, in whole blocks: what is missing of the last one repeats the last pixel. */
static void split_strip(const zn_conv_args *a, int64_t first, int count, uint16_t *to)
{
    const zn_conv_shape *s = &a->s;
    const int64_t line = 2 * (int64_t)s->w * (s->cin / 4);
    for (int t = 0; t < count; t += ZN_X3_PIXELS, to += groups_of(s) * GROUP_A)
        for (int pair = 0; pair < ZN_X3_PAIRS; pair++) {
            const int i = t + 2 * pair, last = count - 1;
            const float *p = a->x + place(first + (i < last ? i : last), s->cin, s->unshuffle, s->w);
            const float *q = a->x + place(first + (i < last ? i + 1 : last), s->cin, s->unshuffle, s->w);
            if (s->unshuffle)
                split_shuffled_pair(p, q, line, s->cin, to + 16 * pair);
            else
                split_pair(p, q, s->cin, to + 16 * pair);
        }
}

/* Where a panel of a strip goes: `to` floats into y for each pixel, and `offset` more. */
typedef struct target {
    const zn_conv_args *a;
    const int64_t *to;
    int64_t offset;
} target;

/* y = act(sum + residual) for `count` pixels of a block. residual, relu, and count where it is all, are constants. */
ZN_INLINE void put_as(const bool residual, const bool relu, const int count, const target *k,
                      float32x4_t sum[ZN_X3_PAIRS][4])
{
    const float32x4_t zero = vdupq_n_f32(0);
#pragma GCC unroll 12
    for (int p = 0; p < ZN_X3_PIXELS; p++) {
        if (p >= count)
            break;
        const int64_t at = k->to[p] + k->offset;
        float32x4_t v[2];
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const float64x2_t s0 = vreinterpretq_f64_f32(sum[p / 2][2 * i]),
                              s1 = vreinterpretq_f64_f32(sum[p / 2][2 * i + 1]);
            v[i] = vreinterpretq_f32_f64(p % 2 ? vzip2q_f64(s0, s1) : vzip1q_f64(s0, s1));
            if (residual)
                v[i] = vaddq_f32(v[i], vld1q_f32(k->a->residual + at + 4 * i));
            if (relu)
                v[i] = vmaxq_f32(v[i], zero);
        }
        vst1q_f32(k->a->y + at, v[0]);
        vst1q_f32(k->a->y + at + 4, v[1]);
    }
}

ZN_INLINE void put(const int count, const target *k, float32x4_t sum[ZN_X3_PAIRS][4])
{
    if (k->a->residual && k->a->relu)
        put_as(true, true, count, k, sum);
    else if (k->a->residual)
        put_as(true, false, count, k, sum);
    else if (k->a->relu)
        put_as(false, true, count, k, sum);
    else
        put_as(false, false, count, k, sum);
}

/* One panel of outputs of a strip. */
static void multiply(const zn_conv_args *a, const uint16_t *strip, const float *starts, const int64_t *to, int count,
                     int panel)
{
    const zn_conv_shape *s = &a->s;
    const int groups = groups_of(s), column = panel * ZN_X3_COLS, each = s->cout / 4;
    target k = { a, to, column };
    if (s->shuffle)
        k.offset = zn_conv_sub_pixel(0, s->ow, 0, column / each, each) + column % each;
    zn_x3_block b = { .a = strip,
                      .b = (const uint16_t *)a->packed + (int64_t)panel * groups * GROUP_B,
                      .start = starts + panel * 16,
                      .groups = (size_t)groups };
    for (int t = 0; t < count; t += ZN_X3_PIXELS, b.a += groups * GROUP_A, k.to += ZN_X3_PIXELS) {
        float32x4_t sum[ZN_X3_PAIRS][4];
        for (int p = 0; a->residual && p < ZN_X3_PIXELS && p < count - t; p++)
            __builtin_prefetch(a->residual + k.to[p] + k.offset); /* else they would wait for it */
        zn_x3_multiply(&b, sum);
        if (count - t >= ZN_X3_PIXELS)
            put(ZN_X3_PIXELS, &k, sum);
        else
            put(count - t, &k, sum);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const zn_conv_shape *s = &a->s;
    const int length = strip_of(s);
    const int64_t pixels = pixels_of(s);
    float *starts = (float *)(void *)((char *)r.scratch + strip_bytes(s));
    for (int o = 0; o < s->cout; o++)
        starts[o / 2 * 4 + o % 2] = starts[o / 2 * 4 + o % 2 + 2] = a->bias ? a->bias[output_of(s, o)] : 0;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t first = unit * length;
        const int count = (int)(pixels - first < length ? pixels - first : length);
        int64_t to[STRIP_MOST];
        for (int t = 0; t < count; t++)
            to[t] = place(first + t, s->cout, s->shuffle, s->ow);
        split_strip(a, first, count, r.scratch);
        for (int panel = 0; panel < panels_of(s); panel++)
            multiply(a, r.scratch, starts, to, count, panel);
    }
}

/* In multiply-adds of the fp32 pipes' time. */
static double flops(const zn_conv_shape *s) { return 0.75 * zn_conv_direct_flops(s); }

/* Three matrix instructions, one slot each, for sixteen products; and for each input its high part, the difference and
 * the low part. */
static double slots(const zn_conv_shape *s) { return (double)pixels_of(s) * s->cin * (4 * 3 / 16.0 * s->cout + 3); }

const zn_conv_kernel zn_conv_bf16x3 = {
    .name = "pointwise-bf16x3",
    .math = ZN_MATH_F32,
    .cpu = ZN_CPU_NEON | ZN_CPU_BF16,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
    .slots = slots,
};

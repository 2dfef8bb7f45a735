/* 3x3 convolution from many channels to at most three, the last layer of a decoder, direct, fp32; also with nearest
 * x2 upsampling of the input.
 *
 * With so few outputs the nine taps are columns of one product: each pixel is multiplied once with all 27 vectors of
 * weights. An output is the sum of nine of these partial sums of its neighbours (or, after upsampling, of the pixels
 * that it shares with its neighbours). The three of a kernel row are added at once, for all outputs that will need
 * them. A unit is a strip of the input; the sums of three of its rows stay in L1. */
#include "base/cpu.h"
#include "kernels/arm/two.h"
#include "kernels/conv.h"
#include "kernels/narrow.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum {
    OUTPUTS = 3,  /* maximum */
    COLUMNS = 28, /* 9 taps of 3, and one column of zeros */
    WIDE = 64,    /* input pixels per unit */
    TALL = 64,
    SIDE = 3, /* pixels multiplied together: with four, sums and operands would not fit the registers */
    SUMS = (WIDE + 2 + SIDE) * COLUMNS,
    ROW = WIDE * 2 * 3 * 4, /* vectors of three kernel rows per output */
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 && s->cin % 16 == 0 && s->cout <= OUTPUTS;
}

/* [cin][COLUMNS], and one row that is loaded after the last */
static size_t packed_bytes(const zn_conv_shape *s) { return ((size_t)s->cin + 1) * COLUMNS * sizeof(float); }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    memset(to, 0, packed_bytes(s));
    for (int tap = 0; tap < 9; tap++)
        for (int c = 0; c < s->cin; c++)
            for (int o = 0; o < s->cout; o++)
                to[c * COLUMNS + tap * OUTPUTS + o] = w[((int64_t)tap * s->cin + c) * s->cout + o];
}

/* Partial sums, the sums of three rows, and a row of the input as floats. */
static size_t scratch_bytes(const zn_conv_shape *s)
{
    return (SUMS + 3 * ROW + (WIDE + 2) * (size_t)s->cin) * sizeof(float);
}

static int across(const zn_conv_shape *s) { return (s->w + WIDE - 1) / WIDE; }
static int down(const zn_conv_shape *s) { return (s->h + TALL - 1) / TALL; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * down(s) * across(s); }

/* v8-v14, v15-v21 and v22-v28 are the sums of three pixels, v0-v2 four channels of each, v3-v7, v29 and v30 a row of
 * weights. Each is reloaded for the next channel as soon as it has been used. */
/* clang-format off */
#define FMLA(op, sum, b, pixel, lane) op " v" #sum ".4s, v" #b ".4s, v" #pixel ".s[" #lane "]\n"
#define LOAD_W(b, next) "ldr q" #b ", [%[w], #" next "]\n"
#define LOAD_X(pixel) "ldr q" #pixel ", [%[x" #pixel "]], #16\n"
#define COLUMN(op, b, lane, s0, s1, s2, next)                                                                          \
    FMLA(op, s0, b, 0, lane) FMLA(op, s1, b, 1, lane) FMLA(op, s2, b, 2, lane) LOAD_W(b, next)
#define SIX_COLUMNS(op, lane, row)                                                                                     \
    COLUMN(op, 3, lane, 8, 15, 22, row "*112")                                                                         \
    COLUMN(op, 4, lane, 9, 16, 23, row "*112+16")                                                                      \
    COLUMN(op, 5, lane, 10, 17, 24, row "*112+32")                                                                     \
    COLUMN(op, 6, lane, 11, 18, 25, row "*112+48")                                                                     \
    COLUMN(op, 7, lane, 12, 19, 26, row "*112+64")                                                                     \
    COLUMN(op, 29, lane, 13, 20, 27, row "*112+80")
#define CHANNEL(op, lane, row) SIX_COLUMNS(op, lane, row) COLUMN(op, 30, lane, 14, 21, 28, row "*112+96")
#define CHANNELS(op, load0, load1, load2)                                                                              \
    CHANNEL(op, 0, "1") CHANNEL("fmla", 1, "2") CHANNEL("fmla", 2, "3") SIX_COLUMNS("fmla", 3, "4")                    \
    FMLA("fmla", 14, 30, 0, 3) load0 FMLA("fmla", 21, 30, 1, 3) load1 FMLA("fmla", 28, 30, 2, 3) load2                 \
    LOAD_W(30, "4*112+96") "add %[w], %[w], #448\n"
/* clang-format on */

/* Multiplies three pixels with all columns: z[3][COLUMNS]. Prefetches the same pixels of the next row, at distance
 * `ahead` in floats. In assembly, because compilers load weights just before they are needed: 3.0 instead of 3.5
 * multiply-adds per cycle of a Neoverse-V1. */
static void multiply(const float *const x[SIDE], int channels, int64_t ahead, const float *w, float *z)
{
    for (int c = 0; c < channels; c += 16)
        for (int i = 0; i < SIDE; i++)
            __builtin_prefetch(x[i] + c + ahead);
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2];
    int64_t groups = channels / 4 - 2;
    /* clang-format off */
    __asm__ volatile(
        LOAD_X(0) LOAD_X(1) LOAD_X(2) LOAD_W(3, "0") LOAD_W(4, "16") LOAD_W(5, "32") LOAD_W(6, "48") LOAD_W(7, "64")
        LOAD_W(29, "80") LOAD_W(30, "96")
        CHANNELS("fmul", LOAD_X(0), LOAD_X(1), LOAD_X(2))
        "0:\n"
        CHANNELS("fmla", LOAD_X(0), LOAD_X(1), LOAD_X(2))
        "subs %[groups], %[groups], #1\n"
        "b.gt 0b\n"
        CHANNELS("fmla", "", "", "")
        "stp q8, q9, [%[z]]\nstp q10, q11, [%[z], #32]\nstp q12, q13, [%[z], #64]\nstp q14, q15, [%[z], #96]\n"
        "stp q16, q17, [%[z], #128]\nstp q18, q19, [%[z], #160]\nstp q20, q21, [%[z], #192]\n"
        "stp q22, q23, [%[z], #224]\nstp q24, q25, [%[z], #256]\nstp q26, q27, [%[z], #288]\nstr q28, [%[z], #320]\n"
        : [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [w] "+r"(w), [groups] "+r"(groups)
        : [z] "r"(z)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30");
    /* clang-format on */
}

/* Values [at, at + count) of the map as floats; of bf16, in `wide`. */
static const float *values_of(const zn_conv_args *a, int64_t at, int64_t count, float *wide)
{
    if (a->x_type == ZN_TYPE_F32)
        return a->x + at;
    zn_k_widen(&(zn_widen_args){ (const uint16_t *)(const void *)a->x + at, wide }, (zn_range){ 0, count, NULL });
    return wide;
}

/* Partial sums of pixels [x0 - 1, x0 + count] of the row that begins with value `at` of the map, zeros outside it. */
static void partial_sums(const zn_conv_args *a, int64_t at, int x0, int count, float *z)
{
    const int first = x0 == 0, end = a->s.w - x0 + 1 < count + 2 ? a->s.w - x0 + 1 : count + 2, cin = a->s.cin;
    const int64_t ahead = a->x_type == ZN_TYPE_F32 ? (int64_t)a->s.w * cin : 0;
    const float *row =
        values_of(a, at + (int64_t)(x0 - 1 + first) * cin, (int64_t)(end - first) * cin, z + SUMS + 3 * ROW);
    for (int i = first; i < end; i += SIDE) {
        const float *x[SIDE];
        for (int k = 0; k < SIDE; k++) /* pixels past the end are computed twice and not used */
            x[k] = row + (int64_t)((i + k < end ? i + k : end - 1) - first) * cin;
        multiply(x, cin, ahead, a->packed, z + (int64_t)i * COLUMNS);
    }
    memset(z, 0, sizeof *z * (size_t)(first * COLUMNS));
    memset(z + (int64_t)end * COLUMNS, 0, sizeof *z * (size_t)((count + 2 - end) * COLUMNS));
}

ZN_INLINE float32x4_t add(const float *a, const float *b, const float *c)
{
    return vaddq_f32(vaddq_f32(vld1q_f32(a), vld1q_f32(b)), vld1q_f32(c));
}

/* h[output][kernel row][4] from the partial sums of count + 2 pixels: adds the three of each kernel row, for one
 * output per pixel or for two. */
ZN_INLINE void fold(const bool up2, const float *z, int count, float *h)
{
    const int tap = OUTPUTS;
    for (int i = 0; i < count; i++, z += COLUMNS)
#pragma GCC unroll 3
        for (int ky = 0; ky < 3; ky++, h += 4) {
            const float *left = z + ky * 3 * tap, *mid = left + COLUMNS, *right = mid + COLUMNS;
            if (!up2) {
                vst1q_f32(h, add(left, mid + tap, right + 2 * tap));
            } else {
                vst1q_f32(h, add(mid + tap, mid + 2 * tap, left));
                vst1q_f32(h + 12, add(mid, mid + tap, right + 2 * tap));
            }
            if (up2 && ky == 2)
                h += 12;
        }
}

/* The sums of a row of the map, or zeros outside the map. */
static void fold_row(const zn_conv_args *a, int64_t n, int y, int x0, int count, float *z, float *h)
{
    const zn_conv_shape *s = &a->s;
    if (y < 0 || y >= s->h) {
        memset(h, 0, sizeof(float) * (size_t)(count * (s->up2 ? 24 : 12)));
        return;
    }
    partial_sums(a, (n * s->h + y) * s->w * s->cin, x0, count, z);
    if (s->up2)
        fold(true, z, count, h);
    else
        fold(false, z, count, h);
}

ZN_INLINE float32x4_t load_part(const float *x, int count)
{
    float32x4_t v = vld1q_lane_f32(x, vdupq_n_f32(0), 0);
    v = count > 1 ? vld1q_lane_f32(x + 1, v, 1) : v;
    return count > 2 ? vld1q_lane_f32(x + 2, v, 2) : v;
}

ZN_INLINE void store_part(float *y, float32x4_t v, int count)
{
    vst1q_lane_f32(y, v, 0);
    if (count > 1)
        vst1q_lane_f32(y + 1, v, 1);
    if (count > 2)
        vst1q_lane_f32(y + 2, v, 2);
}

/* `count` outputs from y[at], computed from the sums of three kernel rows. Whole vectors are stored if the next
 * outputs overwrite the excess; not with a residual, which may be stored there. */
static void add_up(const zn_conv_args *a, const float *const h[3], int count, int64_t at)
{
    const int outputs = a->s.cout;
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY);
    const float32x4_t bias = a->bias ? load_part(a->bias, outputs) : vdupq_n_f32(0);
    float *y = a->y + at, *end = y + (int64_t)count * outputs;
    for (int64_t i = 0; i < count; i++, y += outputs) {
        float32x4_t v = vaddq_f32(add(h[0] + i * 12, h[1] + i * 12 + 4, h[2] + i * 12 + 8), bias);
        if (a->residual)
            v = vaddq_f32(v, load_part(a->residual + (y - a->y), outputs));
        v = vmaxq_f32(v, floor);
        if (end - y >= 4 && !a->residual)
            vst1q_f32(y, v);
        else
            store_part(y, v, outputs);
    }
}

static void run_unit(const zn_conv_args *a, int64_t unit, float *scratch)
{
    const zn_conv_shape *s = &a->s;
    const int x0 = (int)(unit % across(s)) * WIDE, y0 = (int)(unit / across(s) % down(s)) * TALL;
    const int64_t n = unit / across(s) / down(s);
    const int count = s->w - x0 < WIDE ? s->w - x0 : WIDE, end = s->h - y0 < TALL ? s->h : y0 + TALL;
    const int times = s->up2 ? 2 : 1;
    float *const sums = scratch + SUMS;
    for (int y = y0 - 1; y <= end; y++) { /* y is the row below the outputs */
        fold_row(a, n, y, x0, count, scratch, sums + (y + 3) % 3 * ROW);
        if (y <= y0)
            continue;
        const float *above = sums + (y + 1) % 3 * ROW, *here = sums + (y + 2) % 3 * ROW, *below = sums + y % 3 * ROW;
        for (int sub = 0; sub < times; sub++) {
            const float *h[3] = { sub ? here : above, here, sub || !s->up2 ? below : here };
            add_up(a, h, times * count, ((n * s->oh + times * (y - 1) + sub) * s->ow + times * x0) * s->cout);
        }
    }
}

static void run(const void *args, zn_range r)
{
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(args, unit, r.scratch);
}

static double flops(const zn_conv_shape *s) { return 2.0 * s->n * s->h * s->w * s->cin * COLUMNS; }

static unsigned narrow(const zn_conv_shape *s)
{
    (void)s;
    return ZN_CONV_NARROW_X;
}

const zn_conv_kernel zn_conv_to_few_neon = {
    .name = "to-few-f32-neon",
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

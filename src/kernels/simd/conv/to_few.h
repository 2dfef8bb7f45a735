/* 3x3 convolution from many channels to at most three, the last layer of a decoder, direct, fp32; also with nearest
 * x2 upsampling of the input.
 *
 * With so few outputs the nine taps are columns of one product: each pixel is multiplied once with all 27 vectors of
 * weights. An output is the sum of nine of these partial sums of its neighbours (or, after upsampling, of the pixels
 * that it shares with its neighbours). The three of a kernel row are added at once, for all outputs that will need
 * them. A unit is a strip of the input; the sums of three of its rows stay in L1.
 *
 * conv_to_few.c, in simd/ or in the folder of the ISA, defines SIDE, how many pixels it multiplies together, then
 * includes this. */
#ifndef ZN_SIMD_TO_FEW_H
#define ZN_SIMD_TO_FEW_H

#include "kernels/conv.h"
#include "kernels/narrow.h"
#include "kernels/simd/quad.h"

#include <math.h>

enum {
    OUTPUTS = 3,             /* maximum */
    COLUMNS = VEC_ROUND(28), /* 9 taps of 3, and columns of zeros */
    WIDE = 64,               /* input pixels per unit */
    TALL = 64,
    SUMS = (WIDE + 2 + SIDE) * COLUMNS,
    ROW = WIDE * 2 * 3 * 4, /* vectors of three kernel rows per output */
};

/* Multiplies SIDE pixels with all columns of w: z[SIDE][COLUMNS]. Prefetches the same pixels of the next row, at
 * distance `ahead` in floats. */
static void multiply(const float *const x[SIDE], int channels, int64_t ahead, const float *w, float *z);

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 && zn_conv_keeps_size(s) && s->cin % 16 == 0 &&
           s->cout <= OUTPUTS;
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

VEC_INLINE quad add(const float *a, const float *b, const float *c)
{
    return quad_load(a) + quad_load(b) + quad_load(c);
}

/* h[output][kernel row][4] from the partial sums of count + 2 pixels: adds the three of each kernel row, for one
 * output per pixel or for two. */
VEC_INLINE void fold(const bool up2, const float *z, int count, float *h)
{
    const int tap = OUTPUTS;
    for (int i = 0; i < count; i++, z += COLUMNS)
#pragma GCC unroll 3
        for (int ky = 0; ky < 3; ky++, h += 4) {
            const float *left = z + ky * 3 * tap, *mid = left + COLUMNS, *right = mid + COLUMNS;
            if (!up2) {
                quad_store(h, add(left, mid + tap, right + 2 * tap));
            } else {
                quad_store(h, add(mid + tap, mid + 2 * tap, left));
                quad_store(h + 12, add(mid, mid + tap, right + 2 * tap));
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

VEC_INLINE quad load_part(const float *x, int count)
{
    quad v = quad_splat(0);
    v[0] = x[0];
    if (count > 1)
        v[1] = x[1];
    if (count > 2)
        v[2] = x[2];
    return v;
}

VEC_INLINE void store_part(float *y, quad v, int count)
{
    y[0] = v[0];
    if (count > 1)
        y[1] = v[1];
    if (count > 2)
        y[2] = v[2];
}

/* `count` outputs from y[at], computed from the sums of three kernel rows. Whole vectors are stored if the next
 * outputs overwrite the excess; not with a residual, which may be stored there. */
static void add_up(const zn_conv_args *a, const float *const h[3], int count, int64_t at)
{
    const int outputs = a->s.cout;
    const quad floor = quad_splat(a->relu ? 0 : -INFINITY);
    const quad bias = a->bias ? load_part(a->bias, outputs) : quad_splat(0);
    float *y = a->y + at, *end = y + (int64_t)count * outputs;
    for (int64_t i = 0; i < count; i++, y += outputs) {
        quad v = add(h[0] + i * 12, h[1] + i * 12 + 4, h[2] + i * 12 + 8) + bias;
        if (a->residual)
            v = v + load_part(a->residual + (y - a->y), outputs);
        v = quad_max(v, floor);
        if (end - y >= 4 && !a->residual)
            quad_store(y, v);
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

extern const zn_conv_kernel ZN_KERNEL(conv_to_few);

const zn_conv_kernel ZN_KERNEL(conv_to_few) = {
    .name = "to-few-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
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

#endif

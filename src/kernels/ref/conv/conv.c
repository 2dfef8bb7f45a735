/* Direct convolution, scalar: the reference. It sums in double, so that every other kernel can be compared with it. */
#include "kernels/conv.h"

#include <string.h>

static bool supports(const zn_conv_shape *s) { return s->cin > 0; }

static size_t packed_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)s->kh * (size_t)s->kw * (size_t)s->cin * (size_t)s->cout;
}

static void pack(const zn_conv_shape *s, const float *w, void *packed) { memcpy(packed, w, packed_bytes(s)); }
static bool rearranges(const zn_conv_shape *s) { return s->cin > 0; }
static size_t scratch_bytes(const zn_conv_shape *s) { return sizeof(double) * (size_t)s->cout; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh; }

double zn_conv_direct_flops(const zn_conv_shape *s)
{
    return 2.0 * s->n * s->oh * s->ow * (double)s->cout * s->cin * s->kh * s->kw;
}

/* Offset of channel i of pixel (row, x) in a map of `channels`, or in the larger map on the other side of the
 * shuffle. */
static int64_t place(int64_t row, int wide, int x, int i, int channels, bool shuffled)
{
    return shuffled ? zn_conv_sub_pixel(row, wide, x, i % 4, channels / 4) + i / 4 : (row * wide + x) * channels + i;
}

/* Adds the products of one output pixel to sum[cout]. */
static void pixel(const zn_conv_args *a, int n, int oy, int ox, double *sum)
{
    const zn_conv_shape *s = &a->s;
    const float *w = a->packed;
    const int up = s->up2 ? 2 : 1;
    for (int ky = 0; ky < s->kh; ky++)
        for (int kx = 0; kx < s->kw; kx++) {
            const int iy = oy * s->stride - s->pad + ky, ix = ox * s->stride - s->pad + kx;
            if (iy < 0 || ix < 0 || iy >= s->h * up || ix >= s->w * up)
                continue;
            const int64_t row = (int64_t)n * s->h + iy / up;
            const float *wk = w + (int64_t)(ky * s->kw + kx) * s->cin * s->cout;
            for (int i = 0; i < s->cin; i++) {
                const double x = (double)a->x[place(row, s->w, ix / up, i, s->cin, s->unshuffle)];
                for (int o = 0; o < s->cout; o++)
                    sum[o] += x * (double)wk[(int64_t)i * s->cout + o];
            }
        }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const zn_conv_shape *s = &a->s;
    double *sum = r.scratch;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ox = 0; ox < s->ow; ox++) {
            for (int o = 0; o < s->cout; o++) {
                const int64_t at = place(row, s->ow, ox, o, s->cout, s->shuffle);
                sum[o] = (a->bias ? (double)a->bias[o] : 0) + (a->residual ? (double)a->residual[at] : 0);
            }
            pixel(a, (int)(row / s->oh), (int)(row % s->oh), ox, sum);
            for (int o = 0; o < s->cout; o++) /* NaN passes through */
                a->y[place(row, s->ow, ox, o, s->cout, s->shuffle)] = a->relu && sum[o] < 0 ? 0.0f : (float)sum[o];
        }
}

const zn_conv_kernel zn_conv_ref = {
    .name = "direct-f32-ref",
    .math = ZN_PRECISION_F32,
    .tolerance = 0,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .rearranges = rearranges,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};

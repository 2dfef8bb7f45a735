/* Weight gradient of any convolution as outer products of pixels, fp32, NHWC. For each tap, the row of input pixels
 * it reads is multiplied with the row of gradients, both read in place. With very few input channels all multipliers
 * of an output pixel are gathered first ("columns"), so that one product covers all taps. */
#include "kernels/conv_grad.h"
#include "kernels/simd/conv/outer.h"

#include <string.h>

extern const zn_conv_grad_kernel ZN_KERNEL(conv_grad_direct);

/* STRETCH: output pixels multiplied at once, so that both factors stay in L1. */
enum { STRETCH = 128, FEW = 8, CHANNELS_MOST = 4096, TAPS_MOST = 64 };

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

static bool in_columns(const zn_conv_shape *s) { return s->cin < FEW && s->kh * s->kw > 1; }
static bool padded(const zn_conv_shape *s) { return s->cout % VEC_LANES != 0; }
static int64_t rows_of(const zn_conv_shape *s) { return (int64_t)s->kh * s->kw * s->cin; }
static int64_t partial_floats(const zn_conv_shape *s) { return rows_of(s) * VEC_ROUND(s->cout); }

/* Scratch, in floats: gradients of a stretch padded to whole vectors, and gathered multipliers. */
static int64_t dy_floats(const zn_conv_shape *s) { return padded(s) ? (int64_t)STRETCH * VEC_ROUND(s->cout) : 0; }
static int64_t column_floats(const zn_conv_shape *s) { return in_columns(s) ? STRETCH * rows_of(s) : 0; }

/* columns[count][kh * kw * cin] of output pixels from ox, zero outside the image. */
static void gather(const zn_conv_grad_args *a, int64_t row, int ox, int count, float *columns)
{
    const zn_conv_shape *s = &a->s;
    for (int t = 0; t < count; t++)
        for (int ky = 0; ky < s->kh; ky++) {
            const int y = (int)(row % s->oh) * s->stride - s->pad + ky;
            const int64_t line = (row / s->oh * s->h + y) * s->w;
            for (int kx = 0; kx < s->kw; kx++) {
                const int x = (ox + t) * s->stride - s->pad + kx;
                const bool inside = y >= 0 && y < s->h && x >= 0 && x < s->w;
                for (int i = 0; i < s->cin; i++)
                    *columns++ = inside ? a->x[(line + x) * s->cin + i] : 0;
            }
        }
}

static void pad_channels(const float *dy, int cout, int count, float *to)
{
    const int wide = VEC_ROUND(cout);
    for (int t = 0; t < count; t++)
        for (int o = 0; o < wide; o++)
            to[t * wide + o] = o < cout ? dy[(int64_t)t * cout + o] : 0;
}

/* Tap (ky,kx) for the output pixels [ox, ox + count) of a row; g holds the gradients and the destination of the
 * sums. */
static void tap_product(const zn_conv_grad_args *a, int64_t row, int ky, int kx, int ox, int count, outer_args g)
{
    const zn_conv_shape *s = &a->s;
    const int y = (int)(row % s->oh) * s->stride - s->pad + ky;
    if (y < 0 || y >= s->h)
        return;
    /* output pixels whose input pixel ox * stride - pad + kx is inside the image */
    const int before = s->pad - kx, after = s->w + s->pad - kx;
    const int first = most(ox, before > 0 ? (before + s->stride - 1) / s->stride : 0);
    const int end = after <= 0 ? first : least(ox + count, (after + s->stride - 1) / s->stride);
    if (end <= first)
        return;
    g.a = a->x + ((row / s->oh * s->h + y) * s->w + (int64_t)first * s->stride - s->pad + kx) * s->cin;
    g.a_step = (int64_t)s->stride * s->cin;
    g.b += (first - ox) * g.b_step;
    g.c += (int64_t)(ky * s->kw + kx) * s->cin * g.c_row;
    g.k = end - first;
    outer(&g, s->cin, (int)g.c_row);
}

static void row_products(const zn_conv_grad_args *a, int64_t row, float *partial, float *scratch)
{
    const zn_conv_shape *s = &a->s;
    const int wide = VEC_ROUND(s->cout);
    float *columns = scratch + dy_floats(s);
    for (int ox = 0; ox < s->ow; ox += STRETCH) {
        const int count = least(STRETCH, s->ow - ox);
        outer_args g = { .b = a->dy + (row * s->ow + ox) * s->cout,
                         .b_step = s->cout,
                         .c = partial,
                         .c_row = wide,
                         .k = count,
                         .more = true };
        if (padded(s)) {
            pad_channels(g.b, s->cout, count, scratch);
            g.b = scratch;
            g.b_step = wide;
        }
        if (in_columns(s)) {
            gather(a, row, ox, count, columns);
            g.a = columns;
            g.a_step = rows_of(s);
            outer(&g, (int)rows_of(s), wide);
            continue;
        }
        for (int tap = 0; tap < s->kh * s->kw; tap++)
            tap_product(a, row, tap / s->kw, tap % s->kw, ox, count, g);
    }
}

/* Rows of dw: adds the partial sums in block order. */
static void sum_rows(const zn_conv_grad_args *a, zn_range r)
{
    const int blocks = zn_grad_blocks(&a->s), cout = a->s.cout, wide = VEC_ROUND(cout);
    const int64_t size = partial_floats(&a->s);
    for (int64_t row = r.begin; row < r.end; row++)
        for (int o = 0; o < cout; o += VEC_LANES) {
            const float *from = (const float *)a->shared + row * wide + o;
            vec sum = vec_load(from);
            for (int block = 1; block < blocks; block++)
                sum = sum + vec_load(from + block * size);
            vec_store_part(a->dw + row * cout + o, sum, least(VEC_LANES, cout - o));
        }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_grad_args *a = args;
    if (a->stage == 1) {
        sum_rows(a, r);
        return;
    }
    const int64_t size = partial_floats(&a->s), rows = (int64_t)a->s.n * a->s.oh;
    for (int64_t block = r.begin; block < r.end; block++) {
        float *partial = (float *)a->shared + block * size;
        memset(partial, 0, sizeof(float) * (size_t)size);
        const int64_t begin = block * zn_grad_rows(&a->s), end = begin + zn_grad_rows(&a->s);
        for (int64_t row = begin; row < end && row < rows; row++)
            row_products(a, row, partial, r.scratch);
    }
}

static bool supports(const zn_conv_shape *s)
{
    return !s->up2 && s->cin <= CHANNELS_MOST && s->cout <= CHANNELS_MOST && s->kh * s->kw <= TAPS_MOST;
}

static size_t shared_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)partial_floats(s) * (size_t)zn_grad_blocks(s);
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)(dy_floats(s) + column_floats(s));
}

static int stages(const zn_conv_shape *s)
{
    (void)s;
    return 2;
}

static int64_t units(const zn_conv_shape *s, int stage) { return stage == 0 ? zn_grad_blocks(s) : rows_of(s); }

const zn_conv_grad_kernel ZN_KERNEL(conv_grad_direct) = {
    .name = "direct-grad-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 5e-6f,
    .supports = supports,
    .shared_bytes = shared_bytes,
    .scratch_bytes = scratch_bytes,
    .stages = stages,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};

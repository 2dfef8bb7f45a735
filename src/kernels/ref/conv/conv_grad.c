/* Gradient of a convolution with respect to its weights, and the flipped weights that turn the gradient with respect
 * to its input into an ordinary convolution. */
#include "kernels/conv_grad.h"
#include "kernels/kernels.h"

#include <string.h>

extern const zn_conv_grad_kernel zn_conv_grad_ref;

int zn_grad_rows(const zn_conv_shape *s)
{
    return (int)(((int64_t)s->n * s->oh + ZN_GRAD_BLOCKS - 1) / ZN_GRAD_BLOCKS);
}

int zn_grad_blocks(const zn_conv_shape *s)
{
    const int rows = zn_grad_rows(s);
    return (int)(((int64_t)s->n * s->oh + rows - 1) / rows);
}

static int64_t weights_of(const zn_conv_shape *s) { return (int64_t)s->kh * s->kw * s->cin * s->cout; }

/* dw[i][o] += x[i] * dy[o] for one pair of pixels. */
static void outer(const float *x, const float *dy, float *dw, int cin, int cout)
{
    for (int i = 0; i < cin; i++)
        for (int o = 0; o < cout; o++)
            dw[(int64_t)i * cout + o] += x[i] * dy[o];
}

/* Adds the products of one output row. */
static void row_products(const zn_conv_grad_args *a, int64_t row, float *dw)
{
    const zn_conv_shape *s = &a->s;
    for (int ky = 0; ky < s->kh; ky++) {
        const int iy = (int)(row % s->oh) * s->stride - s->pad + ky;
        if (iy < 0 || iy >= s->h)
            continue;
        const float *xrow = a->x + (row / s->oh * s->h + iy) * s->w * s->cin;
        for (int kx = 0; kx < s->kw; kx++)
            for (int ox = 0; ox < s->ow; ox++) {
                const int ix = ox * s->stride - s->pad + kx;
                if (ix >= 0 && ix < s->w)
                    outer(xrow + (int64_t)ix * s->cin, a->dy + (row * s->ow + ox) * s->cout,
                          dw + (int64_t)(ky * s->kw + kx) * s->cin * s->cout, s->cin, s->cout);
            }
    }
}

/* Stage 0: one sum per block of rows. Stage 1: adds these in block order. */
static void run(const void *args, zn_range r)
{
    const zn_conv_grad_args *a = args;
    const int64_t count = weights_of(&a->s), rows = (int64_t)a->s.n * a->s.oh;
    if (a->stage == 1) {
        const zn_reduce_args sum = { .x = a->shared, .y = a->dw, .rows = count, .c = zn_grad_blocks(&a->s) };
        zn_k_sum_partials(&sum, (zn_range){ r.begin * a->s.cout, r.end * a->s.cout, NULL });
        return;
    }
    for (int64_t block = r.begin; block < r.end; block++) {
        float *dw = (float *)a->shared + block * count;
        memset(dw, 0, sizeof(float) * (size_t)count);
        const int64_t begin = block * zn_grad_rows(&a->s), end = begin + zn_grad_rows(&a->s);
        for (int64_t row = begin; row < end && row < rows; row++)
            row_products(a, row, dw);
    }
}

static bool supports(const zn_conv_shape *s) { return !s->up2; }

static size_t shared_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)weights_of(s) * (size_t)zn_grad_blocks(s);
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    (void)s;
    return 0;
}

static int stages(const zn_conv_shape *s)
{
    (void)s;
    return 2;
}

static int64_t units(const zn_conv_shape *s, int stage)
{
    return stage == 0 ? zn_grad_blocks(s) : weights_of(s) / s->cout;
}

const zn_conv_grad_kernel zn_conv_grad_ref = { .name = "direct-grad-f32",
                                               .math = ZN_PRECISION_F32,
                                               .supports = supports,
                                               .shared_bytes = shared_bytes,
                                               .scratch_bytes = scratch_bytes,
                                               .stages = stages,
                                               .units = units,
                                               .run = run,
                                               .flops = zn_conv_direct_flops };

void zn_k_flip_weights(const void *args, zn_range r)
{
    const zn_flip_args *a = args;
    const int64_t size = (int64_t)a->cin * a->cout;
    for (int64_t tap = r.begin; tap < r.end; tap++) {
        const float *w = a->w + tap * size;
        float *y = a->y + (a->taps - 1 - tap) * size;
        for (int i = 0; i < a->cin; i++)
            for (int o = 0; o < a->cout; o++)
                y[(int64_t)o * a->cin + i] = w[(int64_t)i * a->cout + o];
    }
}

/* Gradient of a convolution with respect to its weights, and the flipped weights that turn the gradient with respect
 * to its input into an ordinary convolution. */
#include "kernels/kernels.h"

#include <string.h>

/* dw[i][o] += x[i] * dy[o] for one pair of pixels. */
static void outer(const float *x, const float *dy, float *dw, int cin, int cout)
{
    for (int i = 0; i < cin; i++)
        for (int o = 0; o < cout; o++)
            dw[(int64_t)i * cout + o] += x[i] * dy[o];
}

void zn_k_conv_weight_grad(const void *args, zn_range r)
{
    const zn_conv_weight_grad_args *a = args;
    const int64_t count = (int64_t)a->kh * a->kw * a->cin * a->cout, rows = (int64_t)a->n * a->oh;
    for (int64_t block = r.begin; block < r.end; block++) {
        float *dw = a->partial + block * count;
        memset(dw, 0, sizeof(float) * (size_t)count);
        const int64_t begin = block * a->rows_per_block;
        const int64_t end = begin + a->rows_per_block < rows ? begin + a->rows_per_block : rows;
        for (int64_t row = begin; row < end; row++)
            for (int ky = 0; ky < a->kh; ky++) {
                const int iy = (int)(row % a->oh) * a->stride - a->pad + ky;
                if (iy < 0 || iy >= a->h)
                    continue;
                const float *xrow = a->x + (row / a->oh * a->h + iy) * a->w * a->cin;
                for (int kx = 0; kx < a->kw; kx++)
                    for (int ox = 0; ox < a->ow; ox++) {
                        const int ix = ox * a->stride - a->pad + kx;
                        if (ix >= 0 && ix < a->w)
                            outer(xrow + (int64_t)ix * a->cin, a->dy + (row * a->ow + ox) * a->cout,
                                  dw + (int64_t)(ky * a->kw + kx) * a->cin * a->cout, a->cin, a->cout);
                    }
            }
    }
}

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

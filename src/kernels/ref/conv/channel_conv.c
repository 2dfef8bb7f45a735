/* Convolutions of single channels. Channels are innermost, so that compilers vectorise the loops over them. */
#include "kernels/channel_conv.h"

#include <stdint.h>
#include <string.h>

static void add_products(const float *x, const float *w, int c, float *y)
{
    for (int k = 0; k < c; k++)
        y[k] += x[k] * w[k];
}

static void output_pixel(const zn_channel_conv_args *a, int64_t n, int oy, int ox, float *y)
{
    for (int ky = 0; ky < a->side; ky++)
        for (int kx = 0; kx < a->side; kx++) {
            const int iy = oy * a->stride - a->pad + ky, ix = ox * a->stride - a->pad + kx;
            if (iy >= 0 && ix >= 0 && iy < a->h && ix < a->wide)
                add_products(a->x + ((n * a->h + iy) * a->wide + ix) * a->c, a->w + (ky * a->side + kx) * a->c, a->c,
                             y);
        }
}

void zn_k_channel_conv(const void *args, zn_range rows)
{
    const zn_channel_conv_args *a = args;
    const int64_t length = (int64_t)a->ow * a->c;
    for (int64_t row = rows.begin; row < rows.end; row++) {
        memset(a->y + row * length, 0, sizeof *a->y * (size_t)length);
        for (int ox = 0; ox < a->ow; ox++)
            output_pixel(a, row / a->oh, (int)(row % a->oh), ox, a->y + row * length + (int64_t)ox * a->c);
    }
}

/* Every output that the pixel (iy, ix) is part of. */
static void input_pixel(const zn_channel_conv_args *a, int64_t n, int iy, int ix, float *dx)
{
    for (int ky = 0; ky < a->side; ky++)
        for (int kx = 0; kx < a->side; kx++) {
            const int y = iy + a->pad - ky, x = ix + a->pad - kx;
            if (y < 0 || x < 0 || y % a->stride || x % a->stride || y / a->stride >= a->oh || x / a->stride >= a->ow)
                continue;
            const float *dy = a->x + ((n * a->oh + y / a->stride) * a->ow + x / a->stride) * a->c;
            add_products(dy, a->w + (ky * a->side + kx) * a->c, a->c, dx);
        }
}

void zn_k_channel_conv_grad(const void *args, zn_range rows)
{
    const zn_channel_conv_args *a = args;
    const int64_t length = (int64_t)a->wide * a->c;
    for (int64_t row = rows.begin; row < rows.end; row++) {
        memset(a->y + row * length, 0, sizeof *a->y * (size_t)length);
        for (int ix = 0; ix < a->wide; ix++)
            input_pixel(a, row / a->h, (int)(row % a->h), ix, a->y + row * length + (int64_t)ix * a->c);
    }
}

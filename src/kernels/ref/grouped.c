/* Grouped 1x1 convolution and depthwise 3x3 convolution with their gradients. */
#include "kernels/mix.h"

#include <string.h>

void zn_k_grouped(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int o = 0; o < a->cout; o++) {
            const float *x = a->x + p * a->cin + o / go * gi, *w = a->w + (int64_t)o * gi;
            float sum = a->bias ? a->bias[o] : 0;
            for (int i = 0; i < gi; i++)
                sum += w[i] * x[i];
            a->y[p * a->cout + o] = sum;
        }
}

void zn_k_grouped_grad(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    for (int64_t p = r.begin; p < r.end; p++) {
        float *dx = a->y + p * a->cin;
        memset(dx, 0, sizeof(float) * (size_t)a->cin);
        for (int o = 0; o < a->cout; o++) {
            const float *w = a->w + (int64_t)o * gi, dy = a->dy[p * a->cout + o];
            for (int i = 0; i < gi; i++)
                dx[o / go * gi + i] += w[i] * dy;
        }
    }
}

void zn_k_grouped_weight_grad(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    const int64_t count = (int64_t)a->cout * gi;
    for (int64_t block = r.begin; block < r.end; block++) {
        const int64_t begin = block * ZN_MIX_BLOCK;
        const int64_t end = begin + ZN_MIX_BLOCK < a->pixels ? begin + ZN_MIX_BLOCK : a->pixels;
        float *dw = a->partial + block * count;
        memset(dw, 0, sizeof(float) * (size_t)count);
        for (int64_t p = begin; p < end; p++)
            for (int o = 0; o < a->cout; o++) {
                const float *x = a->x + p * a->cin + o / go * gi, dy = a->dy[p * a->cout + o];
                for (int i = 0; i < gi; i++)
                    dw[(int64_t)o * gi + i] += dy * x[i];
            }
    }
}

void zn_k_depthwise(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ox = 0; ox < a->wide; ox++) {
            float *y = a->y + (row * a->wide + ox) * a->c;
            if (a->add_x)
                memcpy(y, a->x + (row * a->wide + ox) * a->c, sizeof(float) * (size_t)a->c);
            else
                memset(y, 0, sizeof(float) * (size_t)a->c);
            for (int ky = 0; ky < 3; ky++)
                for (int kx = 0; kx < 3; kx++) {
                    const int iy = (int)(row % a->h) + ky - 1, ix = ox + kx - 1;
                    if (iy < 0 || iy >= a->h || ix < 0 || ix >= a->wide)
                        continue;
                    const float *x = a->x + ((row / a->h * a->h + iy) * a->wide + ix) * a->c;
                    const float *w = a->w + (a->flip ? 8 - (3 * ky + kx) : 3 * ky + kx);
                    for (int k = 0; k < a->c; k++)
                        y[k] += w[9 * k] * x[k];
                }
        }
}

void zn_k_depthwise_weight_grad(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    for (int64_t row = r.begin; row < r.end; row++) {
        float *dw = a->partial + row * 9 * a->c;
        memset(dw, 0, sizeof(float) * 9 * (size_t)a->c);
        for (int ky = 0; ky < 3; ky++)
            for (int kx = 0; kx < 3; kx++) {
                const int iy = (int)(row % a->h) + ky - 1;
                if (iy < 0 || iy >= a->h)
                    continue;
                for (int ox = 0; ox < a->wide; ox++) {
                    const int ix = ox + kx - 1;
                    if (ix < 0 || ix >= a->wide)
                        continue;
                    const float *x = a->x + ((row / a->h * a->h + iy) * a->wide + ix) * a->c;
                    const float *dy = a->dy + (row * a->wide + ox) * a->c;
                    for (int k = 0; k < a->c; k++)
                        dw[9 * k + 3 * ky + kx] += dy[k] * x[k];
                }
            }
    }
}

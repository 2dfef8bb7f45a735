/* Grouped 1x1 convolution and depthwise 3x3 convolution with their gradients. */
#include "kernels/mix.h"

#include <string.h>

/* Size for the vector builds: packed weights of groups merged up to 16 lanes, and a few pixels of both maps. */
size_t zn_grouped_scratch(const zn_grouped_args *a)
{
    const size_t groups = (size_t)a->groups + 16, gi = (size_t)(a->cin / a->groups), go = (size_t)(a->cout / a->groups);
    return sizeof(float) * groups * (gi * go + 32 * (gi + go) + ZN_GROUPED_PIXELS * (gi + go + 32));
}

/* Index of output o in y. */
static int place(const zn_grouped_args *a, int o)
{
    const int go = a->cout / a->groups;
    return a->interleave ? o % go * a->groups + o / go : o;
}

void zn_ref_grouped(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int o = 0; o < a->cout; o++) {
            const float *x = a->x + p * a->cin + o / go * gi, *w = a->w + (int64_t)o * gi;
            float sum = a->bias ? a->bias[o] : 0;
            for (int i = 0; i < gi; i++)
                sum += w[i] * x[i];
            a->y[p * a->cout + place(a, o)] = sum;
        }
}

void zn_ref_grouped_grad(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    for (int64_t p = r.begin; p < r.end; p++) {
        float *dx = a->y + p * a->cin;
        memset(dx, 0, sizeof(float) * (size_t)a->cin);
        for (int o = 0; o < a->cout; o++) {
            const float *w = a->w + (int64_t)o * gi, dy = a->dy[p * a->cout + place(a, o)];
            for (int i = 0; i < gi; i++)
                dx[o / go * gi + i] += w[i] * dy;
        }
    }
}

void zn_ref_grouped_weight_grad(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    const int64_t size = zn_sum_block(a->pixels);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t begin = unit / a->groups * size, end = begin + size < a->pixels ? begin + size : a->pixels;
        const int g = (int)(unit % a->groups);
        float *dw = a->partial + unit * go * gi;
        memset(dw, 0, sizeof(float) * (size_t)(go * gi));
        for (int64_t p = begin; p < end; p++)
            for (int o = 0; o < go; o++) {
                const float *x = a->x + p * a->cin + g * gi, dy = a->dy[p * a->cout + place(a, g * go + o)];
                for (int i = 0; i < gi; i++)
                    dw[(int64_t)o * gi + i] += dy * x[i];
            }
    }
}

void zn_ref_depthwise(const void *args, zn_range r)
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

/* Adds the sums of one row to dw. */
static void depthwise_weight_row(const zn_depthwise_args *a, int64_t row, float *dw)
{
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

void zn_ref_depthwise_weight_grad(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    const int64_t rows = (int64_t)a->n * a->h, size = zn_sum_block(rows);
    for (int64_t block = r.begin; block < r.end; block++) {
        float *dw = a->partial + block * 9 * a->c;
        memset(dw, 0, sizeof(float) * 9 * (size_t)a->c);
        for (int64_t row = block * size; row < (block + 1) * size && row < rows; row++)
            depthwise_weight_row(a, row, dw);
    }
}

/* The head of a Lite-R block, pixel by pixel. */
#include "kernels/lite_head.h"
#include "kernels/mix.h"

#include <math.h>

void zn_ref_lite_head(const void *lite_head_args, zn_range rows);

enum { L1_FLOATS = 2304, STRIP_LEAST = 16, STRIP_MOST = ZN_GROUPED_PIXELS, ROWS = 3 };

int zn_lite_head_strip(const zn_lite_head_args *a)
{
    const int fit = (L1_FLOATS / a->c - 2) / 16 * 16;
    return fit < STRIP_LEAST ? STRIP_LEAST : fit < STRIP_MOST ? fit : STRIP_MOST;
}

/* Reordered taps, rows of v, one row of e, and the scratch of the product. */
size_t zn_lite_head_scratch(const zn_lite_head_args *a)
{
    const size_t strip = (size_t)zn_lite_head_strip(a), c = (size_t)a->c;
    const zn_grouped_args g = { .cin = a->c, .cout = a->co, .groups = a->groups };
    return sizeof(float) * (9 + ROWS * (strip + 2) + strip) * c + zn_grouped_scratch(&g);
}

static float inverse_rms(const float *x, int c, float eps)
{
    float sum = 0;
    for (int k = 0; k < c; k++)
        sum += x[k] * x[k];
    return 1 / sqrtf(sum / (float)c + eps);
}

/* e[c] of the pixel (y, x) of image n. */
static void taps_of(const zn_lite_head_args *a, int64_t n, int y, int x, float *e)
{
    for (int k = 0; k < a->c; k++)
        e[k] = 0;
    for (int ky = 0; ky < 3; ky++)
        for (int kx = 0; kx < 3; kx++) {
            const int iy = y + ky - 1, ix = x + kx - 1;
            if (iy < 0 || iy >= a->h || ix < 0 || ix >= a->wide)
                continue;
            const float *from = a->x + ((n * a->h + iy) * a->wide + ix) * a->c, s = inverse_rms(from, a->c, a->eps);
            const float own = ky == 1 && kx == 1 ? 1 : 0;
            for (int k = 0; k < a->c; k++)
                e[k] += (own + a->taps[9 * k + 3 * ky + kx]) * (from[k] * s * a->gain[k]);
        }
}

void zn_ref_lite_head(const void *args, zn_range r)
{
    const zn_lite_head_args *a = args;
    const int gi = a->c / a->groups, go = a->co / a->groups;
    float *e = r.scratch;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->wide; x++) {
            float *y = a->y + (row * a->wide + x) * a->co;
            taps_of(a, row / a->h, (int)(row % a->h), x, e);
            for (int o = 0; o < a->co; o++) {
                const int g = o / go;
                float sum = a->b[o];
                for (int k = 0; k < gi; k++)
                    sum += a->w[(int64_t)o * gi + k] * e[g * gi + k];
                y[o % go * a->groups + g] = sum;
            }
        }
}

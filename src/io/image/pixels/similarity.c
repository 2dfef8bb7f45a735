/* SSIM (Wang, Bovik, Sheikh, Simoncelli 2004) in one pass over rows.
 *
 * With s = a + b and d = a - b the formula of the paper,
 *
 *     (2 ma mb + C1) (2 cov(a,b) + C2) / ((ma^2 + mb^2 + C1) (var a + var b + C2)),
 *
 * needs the means of s, d, s^2, d^2 only: 2 ma mb = (ms^2 - md^2) / 2, ma^2 + mb^2 = (ms^2 + md^2) / 2, and so on.
 * That is four filtered planes instead of five, and it stays exact where a equals b, so floats are enough. The Gaussian
 * is separable: rows of s, d, s^2, d^2 go round in a ring, are filtered downwards, then along the row. The channels
 * stay interleaved; filtering along a row steps by their number. */
#include "io/image/pixels/similarity.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/ssim.h"

#include <string.h>

enum { WINDOW = ZN_SSIM_WINDOW, PLANES = 4 };

typedef struct scan {
    size_t samples, step; /* in a row, and from a pixel to the next */
    int taps_x, taps_y;   /* 11, or the side of a smaller map */
    float weight_x[WINDOW], weight_y[WINDOW];
    float range, c1, c2;
    float *ring;    /* [taps_y][PLANES][samples] */
    float *columns; /* [PLANES][samples]: filtered downwards */
    float *means;   /* [PLANES][samples]: filtered both ways */
} scan;

static void take_window(float *weight, int taps)
{
    double value[WINDOW];
    zn_ssim_window(taps, value);
    for (int i = 0; i < taps; i++)
        weight[i] = (float)value[i];
}

static void square(const float *restrict from, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] * from[i];
}

/* to[i] = sum of weight[k] * from[k][i] */
static void weighted_sum(float *restrict to, const float *const *from, const float *weight, int taps, size_t count)
{
    if (taps == WINDOW) { /* one pass, the usual case */
        const float *r[WINDOW];
        memcpy(r, from, sizeof r);
        for (size_t i = 0; i < count; i++)
            to[i] = weight[0] * (r[0][i] + r[10][i]) + weight[1] * (r[1][i] + r[9][i]) +
                    weight[2] * (r[2][i] + r[8][i]) + weight[3] * (r[3][i] + r[7][i]) +
                    weight[4] * (r[4][i] + r[6][i]) + weight[5] * r[5][i];
        return;
    }
    memset(to, 0, count * sizeof *to);
    for (int k = 0; k < taps; k++)
        for (size_t i = 0; i < count; i++)
            to[i] += weight[k] * from[k][i];
}

static void find_means(const scan *f, int y, size_t valid)
{
    const size_t n = f->samples;
    const float *from[WINDOW];
    for (int p = 0; p < PLANES; p++) {
        for (int k = 0; k < f->taps_y; k++)
            from[k] = f->ring + ((size_t)((y + 1 + k) % f->taps_y) * PLANES + (size_t)p) * n;
        weighted_sum(f->columns + (size_t)p * n, from, f->weight_y, f->taps_y, n);
        for (int k = 0; k < f->taps_x; k++)
            from[k] = f->columns + (size_t)p * n + (size_t)k * f->step;
        weighted_sum(f->means + (size_t)p * n, from, f->weight_x, f->taps_x, valid);
    }
}

static double sum_of(const float *map, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += map[i];
    return sum;
}

/* Adds the row of windows whose last row of the map is y. */
static void add_windows(const scan *f, int y, double *whole, double *structure)
{
    const size_t n = f->samples, valid = n - (size_t)(f->taps_x - 1) * f->step;
    find_means(f, y, valid);
    const float *restrict s = f->means, *restrict d = s + n, *restrict ss = d + n, *restrict dd = ss + n;
    float *restrict map = f->columns;
    const float c1 = f->c1, c2 = f->c2;
    for (size_t i = 0; i < valid; i++) {
        const float shifted = s[i] + f->range;
        const float ms = shifted * shifted, md = d[i] * d[i];
        const float vs = ss[i] - s[i] * s[i], vd = dd[i] - md;
        map[i] = ((ms - md) / 2 + c1) * ((vs - vd) / 2 + c2) / (((ms + md) / 2 + c1) * ((vs + vd) / 2 + c2));
    }
    *whole += sum_of(map, valid);
    if (!structure)
        return;
    for (size_t i = 0; i < valid; i++) {
        const float vs = ss[i] - s[i] * s[i], vd = dd[i] - d[i] * d[i];
        map[i] = ((vs - vd) / 2 + c2) / ((vs + vd) / 2 + c2);
    }
    *structure += sum_of(map, valid);
}

zn_status zn_similarity_of(const zn_similarity_rows *rows, double *whole, double *structure)
{
    const size_t n = (size_t)rows->width * (size_t)rows->channels;
    scan f = { .samples = n,
               .step = (size_t)rows->channels,
               .taps_x = rows->width < WINDOW ? rows->width : WINDOW,
               .taps_y = rows->height < WINDOW ? rows->height : WINDOW,
               .range = (float)rows->range,
               .c1 = (float)(ZN_SSIM_K1 * rows->range * ZN_SSIM_K1 * rows->range),
               .c2 = (float)(ZN_SSIM_K2 * rows->range * ZN_SSIM_K2 * rows->range) };
    take_window(f.weight_x, f.taps_x);
    take_window(f.weight_y, f.taps_y);
    ZN_TRY(zn_alloc_for("comparing images", n * PLANES * (size_t)(f.taps_y + 2) * sizeof(float), (void **)&f.ring));
    f.columns = f.ring + n * PLANES * (size_t)f.taps_y;
    f.means = f.columns + n * PLANES;
    *whole = 0;
    if (structure)
        *structure = 0;
    for (int y = 0; y < rows->height; y++) {
        float *planes = f.ring + (size_t)(y % f.taps_y) * PLANES * n;
        rows->row(rows->self, y, planes, planes + n);
        square(planes, planes + 2 * n, n);
        square(planes + n, planes + 3 * n, n);
        if (y >= f.taps_y - 1)
            add_windows(&f, y, whole, structure);
    }
    zn_free(f.ring);
    const double windows =
        (double)(rows->height - f.taps_y + 1) * (double)(rows->width - f.taps_x + 1) * rows->channels;
    *whole /= windows;
    if (structure)
        *structure /= windows;
    return ZN_OK;
}

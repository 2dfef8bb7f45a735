/* Mean, median and Gaussian filters, and the public functions that apply a filter to a picture. */
#include "train/data/filters.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "kernels/kernels.h"

#include <math.h>
#include <zenith/restore.h>

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Sum of one column of channel c over rows [top,bottom] of image n. */
static double column_sum(const float *x, zn_shape s, int64_t n, int64_t top, int64_t bottom, int64_t column, int64_t c)
{
    double sum = 0;
    const int64_t step = s.dim[2] * s.dim[3];
    const float *p = x + ((n * s.dim[1] + top) * s.dim[2] + column) * s.dim[3] + c;
    for (int64_t row = top; row <= bottom; row++, p += step)
        sum += (double)*p;
    return sum;
}

/* The window slides along a row: one column comes in, one goes out. */
static void box_row(const float *x, zn_shape s, int64_t n, int64_t row, int64_t c, int64_t reach, float *y)
{
    const int64_t top = clamp(row - reach, 0, row), bottom = clamp(row + reach, 0, s.dim[1] - 1), w = s.dim[2];
    double sum = 0;
    for (int64_t k = 0; k < reach && k < w; k++)
        sum += column_sum(x, s, n, top, bottom, k, c);
    for (int64_t k = 0; k < w; k++) {
        if (k + reach < w)
            sum += column_sum(x, s, n, top, bottom, k + reach, c);
        if (k - reach > 0)
            sum -= column_sum(x, s, n, top, bottom, k - reach - 1, c);
        const int64_t columns = clamp(k + reach, 0, w - 1) - clamp(k - reach, 0, w - 1) + 1;
        y[((n * s.dim[1] + row) * w + k) * s.dim[3] + c] = (float)(sum / (double)((bottom - top + 1) * columns));
    }
}

void zn_box_blur(const float *x, zn_shape map, int side, float *y)
{
    for (int64_t n = 0; n < map.dim[0]; n++)
        for (int64_t row = 0; row < map.dim[1]; row++)
            for (int64_t c = 0; c < map.dim[3]; c++)
                box_row(x, map, n, row, c, side / 2, y);
}

static float median_around(const float *x, zn_shape s, int64_t i, int side)
{
    const int64_t c = i % s.dim[3], column = i / s.dim[3] % s.dim[2], row = i / s.dim[3] / s.dim[2] % s.dim[1];
    const int64_t n = i / s.dim[3] / s.dim[2] / s.dim[1];
    float v[25];
    for (int k = 0; k < side * side; k++) { /* sorted as they come */
        const int64_t y = clamp(row + k / side - side / 2, 0, s.dim[1] - 1);
        const float next =
            x[((n * s.dim[1] + y) * s.dim[2] + clamp(column + k % side - side / 2, 0, s.dim[2] - 1)) * s.dim[3] + c];
        int at = k;
        for (; at > 0 && v[at - 1] > next; at--)
            v[at] = v[at - 1];
        v[at] = next;
    }
    return v[side * side / 2];
}

void zn_median(const float *x, zn_shape map, int side, float *y)
{
    const zn_median_args three = { .x = x, .y = y, .h = (int)map.dim[1], .w = (int)map.dim[2], .c = (int)map.dim[3] };
    if (side == 3) {
        zn_k_median3(&three, (zn_range){ 0, map.dim[0] * map.dim[1], NULL });
        return;
    }
    for (int64_t i = 0; i < zn_shape_count(map); i++)
        y[i] = median_around(x, map, i, side);
}

/* One direction of a separable blur: `length` positions that lie `step` floats apart. */
static void blur_line(const float *x, int64_t length, int64_t step, const float *kernel, int64_t reach, float *y)
{
    for (int64_t i = 0; i < length; i++) {
        float sum = 0;
        for (int64_t k = -reach; k <= reach; k++)
            sum += kernel[k + reach] * x[clamp(i + k, 0, length - 1) * step];
        y[i * step] = sum;
    }
}

zn_status zn_gaussian_blur(const float *x, zn_shape map, float sigma, float *y)
{
    enum { FURTHEST = 200 };
    float kernel[2 * FURTHEST + 1];
    const int64_t reach = clamp((int64_t)ceilf(4 * sigma), 0, FURTHEST), h = map.dim[1], w = map.dim[2];
    const int64_t c = map.dim[3];
    double total = 0;
    for (int64_t k = -reach; k <= reach; k++) {
        kernel[k + reach] = k ? expf(-(float)(k * k) / (2 * sigma * sigma)) : 1; /* not 0/0 for the least sigmas */
        total += (double)kernel[k + reach];
    }
    for (int64_t k = 0; k <= 2 * reach; k++)
        kernel[k] = (float)((double)kernel[k] / total);
    float *rows;
    ZN_TRY(zn_alloc_for("a blur", sizeof *rows * (size_t)(h * w * c), (void **)&rows));
    for (int64_t row = 0; row < h; row++)
        for (int64_t k = 0; k < c; k++)
            blur_line(x + row * w * c + k, w, c, kernel, reach, rows + row * w * c + k);
    for (int64_t i = 0; i < w * c; i++)
        blur_line(rows + i, h, w * c, kernel, reach, y + i);
    zn_free(rows);
    return ZN_OK;
}

/* ---- pictures ---- */

const char *zn_filter_name(int kind)
{
    static const char *const names[] = { "mean", "median", "nlm" };
    return kind >= 0 && kind < (int)(sizeof names / sizeof *names) ? names[kind] : NULL;
}

static zn_status check(zn_filter_kind kind, double strength)
{
    static const double least[] = { 3, 3, 0 }, most[] = { 99, 5, 255 };
    if (!zn_filter_name((int)kind))
        return ZN_FAIL(ZN_EINVALID, "filter %d is not known", (int)kind);
    const bool within = strength >= least[kind] && strength <= most[kind];
    if (!within || (kind != ZN_FILTER_NLM && fmod(strength, 2) != 1)) /* a side is odd */
        return ZN_FAIL(ZN_EINVALID, "a strength of %g is not possible for the %s filter", strength,
                       zn_filter_name((int)kind));
    return ZN_OK;
}

zn_status zn_filter(const zn_image *image, zn_filter_kind kind, double strength, int threads, zn_image **out)
{
    *out = NULL;
    strength = strength == 0 && kind != ZN_FILTER_NLM ? 3 : strength;
    ZN_TRY(check(kind, strength));
    const zn_region all = { 0, 0, image->width, image->height };
    const zn_shape map = ZN_SHAPE(1, image->height, image->width, 3);
    const size_t row = (size_t)image->width * 3, floats = row * (size_t)image->height;
    float *x;
    ZN_TRY(zn_alloc_for("a picture", sizeof *x * floats * 2, (void **)&x));
    zn_pixels_to_float(image, all, x, row);
    zn_pool *pool = NULL;
    zn_image *result;
    zn_status status;
    if (kind == ZN_FILTER_NLM) {
        ZN_TRY_DONE(zn_pool_new(threads, &pool));
        ZN_TRY_DONE(zn_nlm(x, image->width, image->height, (float)strength / 255, pool, x + floats));
    } else if (kind == ZN_FILTER_MEAN) {
        zn_box_blur(x, map, (int)strength, x + floats);
    } else {
        zn_median(x, map, (int)strength, x + floats);
    }
    ZN_TRY_DONE(zn_image_new(image->width, image->height, image->bits, &result));
    zn_pixels_from_float(x + floats, row, result, all);
    *out = result;
done:
    zn_pool_free(pool);
    zn_free(x);
    return status;
}

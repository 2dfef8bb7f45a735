/* The difference of two images: PSNR and SSIM (Wang, Bovik, Sheikh, Simoncelli 2004), and an image of the difference.
 *
 * With s = a + b and d = a - b the formula of the paper,
 *
 *     (2 ma mb + C1) (2 cov(a,b) + C2) / ((ma^2 + mb^2 + C1) (var a + var b + C2)),
 *
 * needs the means of s, d, s^2, d^2 only: 2 ma mb = (ms^2 - md^2) / 2, ma^2 + mb^2 = (ms^2 + md^2) / 2, and so on.
 * That is four filtered planes instead of five, and it stays exact where a equals b, so floats are enough. The Gaussian
 * is separable: rows of s, d, s^2, d^2 go round in a ring, are filtered downwards, then along the row. The channels
 * stay interleaved; filtering along a row steps by three. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "io/image/pixels/raster.h"
#include "kernels/ssim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = ZN_SSIM_WINDOW, PLANES = 4 };
static const float C1 = (float)(ZN_SSIM_K1 * 255 * ZN_SSIM_K1 * 255), C2 = (float)(ZN_SSIM_K2 * 255 * ZN_SSIM_K2 * 255);

typedef struct ssim {
    size_t samples;     /* in a row */
    int taps_x, taps_y; /* 11, or the side of a smaller image */
    float weight_x[WINDOW], weight_y[WINDOW];
    float *ring;    /* [taps_y][PLANES][samples] */
    float *columns; /* [PLANES][samples]: filtered downwards */
    float *means;   /* [PLANES][samples]: filtered both ways */
} ssim;

static void take_window(float *weight, int taps)
{
    double value[WINDOW];
    zn_ssim_window(taps, value);
    for (int i = 0; i < taps; i++)
        weight[i] = (float)value[i];
}

static void enter_row(float *restrict planes, size_t n, const uint8_t *restrict a, const uint8_t *restrict b)
{
    float *restrict s = planes, *restrict d = planes + n, *restrict ss = planes + 2 * n, *restrict dd = planes + 3 * n;
    for (size_t i = 0; i < n; i++) {
        const int sum = a[i] + b[i] - 255, difference = a[i] - b[i]; /* centred: smaller squares, smaller errors */
        s[i] = (float)sum;
        d[i] = (float)difference;
        ss[i] = (float)(sum * sum);
        dd[i] = (float)(difference * difference);
    }
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

/* The sum of the SSIM map over one row of windows whose last image row is y. */
static double row_of_windows(const ssim *f, int y)
{
    const size_t n = f->samples, valid = n - (size_t)(f->taps_x - 1) * 3;
    const float *from[WINDOW];
    for (int p = 0; p < PLANES; p++) {
        for (int k = 0; k < f->taps_y; k++)
            from[k] = f->ring + ((size_t)((y + 1 + k) % f->taps_y) * PLANES + (size_t)p) * n;
        weighted_sum(f->columns + (size_t)p * n, from, f->weight_y, f->taps_y, n);
        for (int k = 0; k < f->taps_x; k++)
            from[k] = f->columns + (size_t)p * n + (size_t)k * 3;
        weighted_sum(f->means + (size_t)p * n, from, f->weight_x, f->taps_x, valid);
    }
    const float *restrict s = f->means, *restrict d = s + n, *restrict ss = d + n, *restrict dd = ss + n;
    float *restrict map = f->columns;
    for (size_t i = 0; i < valid; i++) {
        const float shifted = s[i] + 255.0f;
        const float ms = shifted * shifted, md = d[i] * d[i];
        const float vs = ss[i] - s[i] * s[i], vd = dd[i] - md;
        map[i] = ((ms - md) / 2 + C1) * ((vs - vd) / 2 + C2) / (((ms + md) / 2 + C1) * ((vs + vd) / 2 + C2));
    }
    double sum = 0;
    for (size_t i = 0; i < valid; i++)
        sum += map[i];
    return sum;
}

/* Row y as 8-bit samples: the image's own, or rounded into buffer. */
static const uint8_t *row8(const zn_image *image, int y, uint8_t *buffer)
{
    const size_t n = (size_t)image->width * 3, at = (size_t)y * n;
    if (image->bits == 8)
        return (const uint8_t *)image->pixels + at;
    zn_pixels_to_8((const uint16_t *)image->pixels + at, buffer, n);
    return buffer;
}

static uint64_t squared_errors(const uint8_t *a, const uint8_t *b, size_t n, int *largest)
{
    uint64_t sum = 0;
    int most = *largest;
    for (size_t i = 0; i < n; i++) {
        const int d = abs(a[i] - b[i]);
        sum += (uint32_t)(d * d);
        most = d > most ? d : most;
    }
    *largest = most;
    return sum;
}

static zn_status check_pair(const zn_image *a, const zn_image *b)
{
    if (a->width != b->width || a->height != b->height)
        return ZN_FAIL(ZN_ESHAPE, "images of %dx%d and %dx%d pixels cannot be compared", a->width, a->height, b->width,
                       b->height);
    return ZN_OK;
}

zn_status zn_image_compare(const zn_image *a, const zn_image *b, zn_image_difference *out)
{
    ZN_TRY(check_pair(a, b));
    const size_t n = (size_t)a->width * 3;
    ssim f = { .samples = n,
               .taps_x = a->width < WINDOW ? a->width : WINDOW,
               .taps_y = a->height < WINDOW ? a->height : WINDOW };
    take_window(f.weight_x, f.taps_x);
    take_window(f.weight_y, f.taps_y);
    const size_t floats = n * PLANES * (size_t)(f.taps_y + 2);
    void *memory;
    ZN_TRY(zn_alloc_for("comparing images", floats * sizeof(float) + 2 * n, &memory));
    f.ring = memory;
    f.columns = f.ring + n * PLANES * (size_t)f.taps_y;
    f.means = f.columns + n * PLANES;
    uint8_t *bytes = (uint8_t *)(f.ring + floats);
    uint64_t squares = 0;
    double similarity = 0;
    int largest = 0;
    for (int y = 0; y < a->height; y++) {
        const uint8_t *row_a = row8(a, y, bytes), *row_b = row8(b, y, bytes + n);
        squares += squared_errors(row_a, row_b, n, &largest);
        enter_row(f.ring + (size_t)(y % f.taps_y) * PLANES * n, n, row_a, row_b);
        if (y >= f.taps_y - 1)
            similarity += row_of_windows(&f, y);
    }
    zn_free(memory);
    const double windows = (double)(a->height - f.taps_y + 1) * (double)(a->width - f.taps_x + 1) * 3;
    const double mse = (double)squares / ((double)n * a->height);
    out->psnr = squares ? 10 * log10(255.0 * 255.0 / mse) : INFINITY;
    out->ssim = similarity / windows;
    out->max_difference = largest;
    return ZN_OK;
}

zn_status zn_image_side_by_side(const zn_image *a, const zn_image *b, zn_image **out)
{
    enum { GAP = 8, AMPLIFIED = 4, WHITE = 255 };
    *out = NULL;
    ZN_TRY(check_pair(a, b));
    const size_t n = (size_t)a->width * 3;
    void *rows;
    ZN_TRY(zn_alloc_for("two rows of pixels", 2 * n, &rows));
    const int64_t width = (int64_t)a->width * 3 + 2 * GAP;
    zn_status status = width > INT32_MAX
                           ? ZN_FAIL(ZN_ELIMIT, "three images of width %d do not fit side by side", a->width)
                           : zn_image_alloc(width, a->height, 8, out);
    for (int y = 0; status == ZN_OK && y < a->height; y++) {
        const uint8_t *row_a = row8(a, y, rows), *row_b = row8(b, y, (uint8_t *)rows + n);
        uint8_t *to = (uint8_t *)(*out)->pixels + (size_t)y * (size_t)width * 3;
        uint8_t *second = to + n + GAP * 3, *third = second + n + GAP * 3;
        memset(to, WHITE, (size_t)width * 3);
        memcpy(to, row_a, n);
        memcpy(second, row_b, n);
        for (size_t i = 0; i < n; i++) {
            const int d = AMPLIFIED * abs(row_a[i] - row_b[i]);
            third[i] = (uint8_t)(d < 255 ? d : 255);
        }
    }
    if (status == ZN_OK)
        (*out)->grey = a->grey && b->grey;
    zn_free(rows);
    return status;
}

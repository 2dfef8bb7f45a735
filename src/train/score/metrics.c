/* MSE, PSNR, SSIM (Wang and others 2004) and multi-scale SSIM (2003) in double. One channel of one image at a time: the
 * five moments are filtered along rows, then down the columns. */
#include "train/score/metrics.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/ssim.h"

#include <math.h>

enum { WINDOW = ZN_SSIM_WINDOW, MOMENTS = 5, SCALES = 5 };

double zn_mean_square(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return sum / (double)count;
}

double zn_psnr(double mean_square, double range) { return 10 * log10(range * range / mean_square); }

/* Two planes and the memory to compare them. */
typedef struct planes {
    double *a, *b;   /* [h][w] */
    double *rows;    /* [MOMENTS][h][w]: filtered along rows */
    double *moments; /* [MOMENTS][w]: of one row, before filtering; then of one row of windows */
    int64_t h, w;
} planes;

/* to[i] = sum over k of weight[k] * from[i + k * step] */
static void filter(const double *from, int64_t step, const double *weight, int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = weight[0] * from[i];
    for (int k = 1; k < WINDOW; k++)
        for (int64_t i = 0; i < count; i++)
            to[i] += weight[k] * from[i + k * step];
}

static void filter_rows(const planes *p, const double *weight)
{
    const int64_t w = p->w, valid = w - WINDOW + 1, plane = p->h * w;
    for (int64_t y = 0; y < p->h; y++) {
        const double *a = p->a + y * w, *b = p->b + y * w;
        double *m = p->moments;
        for (int64_t x = 0; x < w; x++) {
            m[x] = a[x];
            m[w + x] = b[x];
            m[2 * w + x] = a[x] * a[x];
            m[3 * w + x] = b[x] * b[x];
            m[4 * w + x] = a[x] * b[x];
        }
        for (int i = 0; i < MOMENTS; i++)
            filter(m + i * w, 1, weight, valid, p->rows + i * plane + y * w);
    }
}

/* Means over the valid positions: of the whole similarity, and of its contrast and structure alone. */
static void compare(const planes *p, double range, double *whole, double *structure)
{
    double weight[WINDOW];
    const double c1 = ZN_SSIM_K1 * range * ZN_SSIM_K1 * range, c2 = ZN_SSIM_K2 * range * ZN_SSIM_K2 * range;
    const int64_t w = p->w, high = p->h - WINDOW + 1, wide = w - WINDOW + 1, plane = p->h * w;
    zn_ssim_window(WINDOW, weight);
    filter_rows(p, weight);
    *whole = *structure = 0;
    for (int64_t y = 0; y < high; y++) {
        double *m = p->moments;
        for (int i = 0; i < MOMENTS; i++)
            filter(p->rows + i * plane + y * w, w, weight, wide, m + i * w);
        for (int64_t x = 0; x < wide; x++) {
            const double aa = m[x] * m[x], bb = m[w + x] * m[w + x], ab = m[x] * m[w + x];
            const double s = (2 * (m[4 * w + x] - ab) + c2) / (m[2 * w + x] - aa + m[3 * w + x] - bb + c2);
            *structure += s;
            *whole += s * (2 * ab + c1) / (aa + bb + c1);
        }
    }
    *whole /= (double)(high * wide);
    *structure /= (double)(high * wide);
}

/* One channel, with `edge` zeros around it. */
static void take(planes *p, const float *a, const float *b, zn_shape s, int64_t edge, int64_t image, int64_t channel)
{
    p->h = s.dim[1] + 2 * edge;
    p->w = s.dim[2] + 2 * edge;
    for (int64_t i = 0; i < p->h * p->w; i++) {
        const int64_t y = i / p->w - edge, x = i % p->w - edge;
        const bool inside = y >= 0 && y < s.dim[1] && x >= 0 && x < s.dim[2];
        const int64_t at = ((image * s.dim[1] + y) * s.dim[2] + x) * s.dim[3] + channel;
        p->a[i] = inside ? (double)a[at] : 0;
        p->b[i] = inside ? (double)b[at] : 0;
    }
}

/* Means of 2x2, in place: a result is written where nothing is read any more. */
static void halve(planes *p)
{
    const int64_t h = p->h / 2, w = p->w / 2;
    double *both[] = { p->a, p->b };
    for (int i = 0; i < 2; i++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) {
                const double *from = both[i] + 2 * y * p->w + 2 * x;
                both[i][y * w + x] = (from[0] + from[1] + from[p->w] + from[p->w + 1]) / 4;
            }
    p->h = h;
    p->w = w;
}

static double single(planes *p, double range)
{
    double whole, structure;
    compare(p, range, &whole, &structure);
    return whole;
}

static double multiple(planes *p, double range)
{
    static const double power[SCALES] = { 0.0448, 0.2856, 0.3001, 0.2363, 0.1333 };
    double product = 1;
    for (int i = 0; i < SCALES; i++) {
        double whole, structure;
        if (i > 0)
            halve(p);
        compare(p, range, &whole, &structure);
        product *= pow(fmax(i < SCALES - 1 ? structure : whole, 0), power[i]);
    }
    return product;
}

static zn_status similarity(const float *a, const float *b, zn_shape s, int64_t edge, double range, int64_t least,
                            double (*of)(planes *, double), double *out)
{
    char text[96];
    if (s.rank != 4 || s.dim[1] < least || s.dim[2] < least)
        return ZN_FAIL(ZN_ESHAPE, "similarity needs sides of at least %lld, not %s", (long long)least,
                       zn_shape_text(s, text, sizeof text));
    planes p = { 0 };
    const int64_t width = s.dim[2] + 2 * edge, plane = (s.dim[1] + 2 * edge) * width;
    ZN_TRY(zn_alloc_for("comparing maps", sizeof(double) * (size_t)((plane + width) * (2 + MOMENTS)), (void **)&p.a));
    p.b = p.a + plane;
    p.rows = p.b + plane;
    p.moments = p.rows + MOMENTS * plane;
    double sum = 0;
    for (int64_t i = 0; i < s.dim[0] * s.dim[3]; i++) {
        take(&p, a, b, s, edge, i / s.dim[3], i % s.dim[3]);
        sum += of(&p, range);
    }
    zn_free(p.a);
    *out = sum / (double)(s.dim[0] * s.dim[3]);
    return ZN_OK;
}

zn_status zn_ssim(const float *a, const float *b, zn_shape map, double range, double *out)
{
    return similarity(a, b, map, 0, range, WINDOW, single, out);
}

zn_status zn_ssim_padded(const float *a, const float *b, zn_shape map, double range, double *out)
{
    return similarity(a, b, map, WINDOW / 2, range, 1, single, out);
}

zn_status zn_ms_ssim(const float *a, const float *b, zn_shape map, double range, double *out)
{
    return similarity(a, b, map, 0, range, (int64_t)WINDOW << (SCALES - 1), multiple, out);
}

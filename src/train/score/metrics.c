/* MSE, PSNR, and multi-scale SSIM (Wang and others 2003): one channel of one image at a time. */
#include "train/score/metrics.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/similarity.h"
#include "kernels/ssim.h"

#include <math.h>

enum { SCALES = 5, LEAST_SIDE = ZN_SSIM_WINDOW << (SCALES - 1) };

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

/* One channel of both maps, at one scale. */
typedef struct planes {
    double *a, *b; /* [h][w] */
    int64_t h, w;
    double range;
} planes;

static void read_row(void *self, int y, float *sum, float *difference)
{
    const planes *p = self;
    const double *a = p->a + y * p->w, *b = p->b + y * p->w;
    for (int64_t x = 0; x < p->w; x++) {
        sum[x] = (float)(a[x] + b[x] - p->range);
        difference[x] = (float)(a[x] - b[x]);
    }
}

static void take(planes *p, const float *a, const float *b, zn_shape s, int64_t image, int64_t channel)
{
    p->h = s.dim[1];
    p->w = s.dim[2];
    for (int64_t i = 0; i < p->h * p->w; i++) {
        const int64_t at = (image * p->h * p->w + i) * s.dim[3] + channel;
        p->a[i] = (double)a[at];
        p->b[i] = (double)b[at];
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

/* The product over scales: structure of all, luminance of the last. */
static zn_status multiply_scales(planes *p, double *out)
{
    static const double power[SCALES] = { 0.0448, 0.2856, 0.3001, 0.2363, 0.1333 };
    *out = 1;
    for (int i = 0; i < SCALES; i++) {
        double whole, structure;
        if (i > 0)
            halve(p);
        const zn_similarity_rows rows = { (int)p->h, (int)p->w, 1, p->range, read_row, p };
        ZN_TRY(zn_similarity_of(&rows, &whole, &structure));
        *out *= pow(fmax(i < SCALES - 1 ? structure : whole, 0), power[i]);
    }
    return ZN_OK;
}

zn_status zn_ms_ssim(const float *a, const float *b, zn_shape s, double range, double *out)
{
    char text[96];
    if (s.rank != 4 || s.dim[1] < LEAST_SIDE || s.dim[2] < LEAST_SIDE)
        return ZN_FAIL(ZN_ESHAPE, "similarity needs sides of at least %d, not %s", LEAST_SIDE,
                       zn_shape_text(s, text, sizeof text));
    planes p = { .range = range };
    const int64_t count = s.dim[0] * s.dim[3];
    double sum = 0;
    zn_status status = ZN_OK;
    ZN_TRY(zn_alloc_for("comparing maps", 2 * sizeof *p.a * (size_t)(s.dim[1] * s.dim[2]), (void **)&p.a));
    p.b = p.a + s.dim[1] * s.dim[2];
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        double one = 0;
        take(&p, a, b, s, i / s.dim[3], i % s.dim[3]);
        status = multiply_scales(&p, &one);
        sum += one;
    }
    zn_free(p.a);
    *out = sum / (double)count;
    return status;
}

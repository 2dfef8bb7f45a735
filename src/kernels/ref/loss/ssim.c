/* Structural similarity of two maps and its gradient, for one channel of one image at a time: an 11x11 Gaussian
 * window with standard deviation 1.5 over the valid positions, for values of range 1 (K1 0.01, K2 0.03). The five
 * moments of the window are filtered along rows, then along columns. The gradient passes back through the same
 * filters. */
#include "kernels/ssim.h"

#include <math.h>
#include <string.h>

enum { WINDOW = ZN_SSIM_WINDOW, MOMENTS = 5, PLANES = 2 + 2 * MOMENTS };
static const float c1 = (float)ZN_SSIM_K1 * (float)ZN_SSIM_K1, c2 = (float)ZN_SSIM_K2 * (float)ZN_SSIM_K2;

/* Buffers of one plane: both maps, their moments, and the moments after the first filter. */
typedef struct planes {
    float weight[WINDOW];
    float *a, *b;          /* [h][w] */
    float *half[MOMENTS];  /* [h][wide], later reused by the gradient */
    float *whole[MOMENTS]; /* [high][wide] */
    int64_t h, w, high, wide;
} planes;

void zn_ssim_window(int taps, double weight[ZN_SSIM_WINDOW])
{
    static const double deviation = 1.5;
    double sum = 0;
    for (int i = 0; i < taps; i++) {
        const double x = i - (taps - 1) / 2.0;
        sum += weight[i] = exp(-x * x / (2 * deviation * deviation));
    }
    for (int i = 0; i < taps; i++)
        weight[i] /= sum;
}

size_t zn_ssim_scratch(int h, int w) { return sizeof(float) * PLANES * (size_t)h * (size_t)w; }

/* The gradient keeps three maps of every plane; the similarity needs less. */
size_t zn_ssim_maps(int64_t count, int h, int w) { return sizeof(float) * 3 * (size_t)count * (size_t)h * (size_t)w; }

static planes take(const zn_ssim_args *s, int64_t plane, float *memory)
{
    planes p = { .h = s->h, .w = s->w, .high = s->h - WINDOW + 1, .wide = s->w - WINDOW + 1 };
    const int64_t size = p.h * p.w;
    double weight[WINDOW];
    zn_ssim_window(WINDOW, weight);
    for (int i = 0; i < WINDOW; i++)
        p.weight[i] = (float)weight[i];
    p.a = memory;
    p.b = memory + size;
    for (int i = 0; i < MOMENTS; i++) {
        p.half[i] = memory + (2 + i) * size;
        p.whole[i] = memory + (2 + MOMENTS + i) * size;
    }
    const int64_t start = plane / s->c * size * s->c + plane % s->c;
    for (int64_t i = 0; i < size; i++) {
        p.a[i] = s->a[start + i * s->c];
        p.b[i] = s->b[start + i * s->c];
    }
    return p;
}

static void filter_rows(const planes *p)
{
    for (int64_t y = 0; y < p->h; y++) {
        const float *a = p->a + y * p->w, *b = p->b + y * p->w;
        float *m[MOMENTS];
        for (int i = 0; i < MOMENTS; i++) {
            m[i] = p->half[i] + y * p->wide;
            memset(m[i], 0, sizeof(float) * (size_t)p->wide);
        }
        for (int k = 0; k < WINDOW; k++)
            for (int64_t x = 0; x < p->wide; x++) {
                const float v = p->weight[k], ax = a[x + k], bx = b[x + k];
                m[0][x] += v * ax;
                m[1][x] += v * bx;
                m[2][x] += v * ax * ax;
                m[3][x] += v * bx * bx;
                m[4][x] += v * ax * bx;
            }
    }
}

/* along columns: [rows] <- [rows + WINDOW - 1] */
static void filter_columns(const planes *p, const float *from, float *to)
{
    memset(to, 0, sizeof(float) * (size_t)(p->high * p->wide));
    for (int64_t y = 0; y < p->high; y++)
        for (int k = 0; k < WINDOW; k++)
            for (int64_t x = 0; x < p->wide; x++)
                to[y * p->wide + x] += p->weight[k] * from[(y + k) * p->wide + x];
}

static void find_moments(const planes *p)
{
    filter_rows(p);
    for (int i = 0; i < MOMENTS; i++)
        filter_columns(p, p->half[i], p->whole[i]);
}

/* The terms of the similarity at one position: s = (a1 a2) / (b1 b2). */
typedef struct parts {
    float ma, mb, a1, a2, b1, b2, s;
} parts;

static parts parts_at(const planes *p, int64_t i)
{
    parts q = { .ma = p->whole[0][i], .mb = p->whole[1][i] };
    const float aa = q.ma * q.ma, bb = q.mb * q.mb, ab = q.ma * q.mb;
    q.a1 = 2 * ab + c1;
    q.a2 = 2 * (p->whole[4][i] - ab) + c2;
    q.b1 = aa + bb + c1;
    q.b2 = p->whole[2][i] - aa + p->whole[3][i] - bb + c2;
    q.s = q.a1 * q.a2 / (q.b1 * q.b2);
    return q;
}

void zn_k_ssim(const void *args, zn_range r)
{
    const zn_ssim_args *s = args;
    for (int64_t plane = r.begin; plane < r.end; plane++) {
        const planes p = take(s, plane, r.scratch);
        find_moments(&p);
        double sum = 0;
        for (int64_t i = 0; i < p.high * p.wide; i++)
            sum += (double)parts_at(&p, i).s;
        s->y[plane] = (float)(sum / (double)(p.high * p.wide));
    }
}

/* Distributes a map of the valid positions over the pixels of their windows. */
static void spread(const planes *p, const float *from, float *half, float *to)
{
    memset(half, 0, sizeof(float) * (size_t)(p->h * p->wide));
    memset(to, 0, sizeof(float) * (size_t)(p->h * p->w));
    for (int64_t y = 0; y < p->high; y++)
        for (int k = 0; k < WINDOW; k++)
            for (int64_t x = 0; x < p->wide; x++)
                half[(y + k) * p->wide + x] += p->weight[k] * from[y * p->wide + x];
    for (int64_t y = 0; y < p->h; y++)
        for (int k = 0; k < WINDOW; k++)
            for (int64_t x = 0; x < p->wide; x++)
                to[y * p->w + x + k] += p->weight[k] * half[y * p->wide + x];
}

void zn_k_ssim_grad(const void *args, zn_range r)
{
    const zn_ssim_args *s = args;
    for (int64_t plane = r.begin; plane < r.end; plane++) {
        const planes p = take(s, plane, r.scratch);
        find_moments(&p);
        const float scale = *s->dy / (float)(p.high * p.wide);
        for (int64_t i = 0; i < p.high * p.wide; i++) { /* with respect to the moments mean(a), mean(a a), mean(a b) */
            const parts q = parts_at(&p, i);
            const float b12 = q.b1 * q.b2;
            p.whole[0][i] = scale * 2 * (q.mb * (q.a2 - q.a1) / b12 - q.ma * q.s * (1 / q.b1 - 1 / q.b2));
            p.whole[2][i] = scale * -q.s / q.b2;
            p.whole[4][i] = scale * 2 * q.a1 / b12;
        }
        spread(&p, p.whole[0], p.half[3], p.half[0]);
        spread(&p, p.whole[2], p.half[3], p.half[1]);
        spread(&p, p.whole[4], p.half[3], p.half[2]);
        const int64_t start = plane / s->c * p.h * p.w * s->c + plane % s->c;
        for (int64_t i = 0; i < p.h * p.w; i++)
            s->y[start + i * s->c] = p.half[0][i] + 2 * p.a[i] * p.half[1][i] + p.b[i] * p.half[2][i];
    }
}

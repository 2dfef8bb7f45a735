/* Spectral mixing in tiles (specification D2). A unit is one run of channels of one line: it is extended by reflection
 * into scratch, each tile transformed, gated, thresholded and transformed back, and the middle copied out. */
#include "kernels/gates.h"

#include "kernels/spectral.h"

#include <math.h>
#include <string.h>

enum { RUN = 16 };

typedef struct piece {
    int64_t at, width;    /* first float and floats of the run */
    int64_t left, padded; /* extension before, and length with both */
} piece;

static int64_t runs_of(const zn_tile_mix_args *a) { return (a->inner + RUN - 1) / RUN; }
int64_t zn_tile_mix_units(const zn_tile_mix_args *a) { return a->outer * runs_of(a); }

static int64_t padded_of(const zn_tile_mix_args *a, int64_t *left)
{
    *left = (a->p - a->offset) % a->p;
    return (*left + a->n + a->p - 1) / a->p * a->p;
}

size_t zn_tile_mix_scratch(const zn_tile_mix_args *a)
{
    int64_t left;
    return sizeof(float) * 2 * RUN * (size_t)padded_of(a, &left);
}

static piece piece_of(const zn_tile_mix_args *a, int64_t unit)
{
    const int64_t first = unit % runs_of(a) * RUN;
    piece q = { .at = unit / runs_of(a) * a->n * a->inner + first,
                .width = a->inner - first < RUN ? a->inner - first : RUN };
    q.padded = padded_of(a, &q.left);
    return q;
}

/* Position of the line that extended position i shows: reflection without repeating the edge. */
static int64_t reflect(int64_t i, int64_t n)
{
    if (n == 1)
        return 0;
    const int64_t period = 2 * (n - 1);
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

static void extend(const zn_tile_mix_args *a, const piece *q, const float *x, float *t)
{
    for (int64_t i = 0; i < q->padded; i++)
        memcpy(t + i * q->width, x + q->at + reflect(i - q->left, a->n) * a->inner, sizeof(float) * (size_t)q->width);
}

/* The transpose of extend: adds every extended value to its source. */
static void fold(const zn_tile_mix_args *a, const piece *q, const float *t, float *y)
{
    for (int64_t i = 0; i < a->n; i++)
        memset(y + q->at + i * a->inner, 0, sizeof(float) * (size_t)q->width);
    for (int64_t i = 0; i < q->padded; i++) {
        float *to = y + q->at + reflect(i - q->left, a->n) * a->inner;
        for (int64_t c = 0; c < q->width; c++)
            to[c] += t[i * q->width + c];
    }
}

static void crop(const zn_tile_mix_args *a, const piece *q, const float *t, float *y)
{
    for (int64_t i = 0; i < a->n; i++)
        memcpy(y + q->at + i * a->inner, t + (i + q->left) * q->width, sizeof(float) * (size_t)q->width);
}

/* The gradient of crop: zero in the extension. */
static void uncrop(const zn_tile_mix_args *a, const piece *q, const float *dy, float *t)
{
    memset(t, 0, sizeof(float) * (size_t)(q->padded * q->width));
    for (int64_t i = 0; i < a->n; i++)
        memcpy(t + (i + q->left) * q->width, dy + q->at + i * a->inner, sizeof(float) * (size_t)q->width);
}

static void transform_tiles(const zn_tile_mix_args *a, const piece *q, float *t)
{
    const float scale = 1 / sqrtf((float)a->p);
    for (int64_t tile = 0; tile < q->padded; tile += a->p)
        zn_wht_rows(t + tile * q->width, a->p, q->width, q->width);
    for (int64_t i = 0; i < q->padded * q->width; i++)
        t[i] *= scale;
}

/* Parameter index of extended position i, float c of the run. */
static int64_t parameter(const zn_tile_mix_args *a, const piece *q, int64_t i, int64_t c)
{
    return i % a->p * a->channels + (q->at % a->inner + c) % a->channels;
}

void zn_k_tile_mix(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    float *t = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const piece q = piece_of(a, unit);
        extend(a, &q, a->x, t);
        transform_tiles(a, &q, t);
        for (int64_t i = 0; i < q.padded; i++)
            for (int64_t c = 0; c < q.width; c++) {
                const int64_t k = parameter(a, &q, i, c);
                const float v = a->gate[k] * t[i * q.width + c], m = fabsf(v) - fabsf(a->th[k]);
                t[i * q.width + c] = m <= 0 ? 0 : copysignf(m, v);
            }
        transform_tiles(a, &q, t);
        crop(a, &q, t, a->y);
    }
}

/* Fills x with the spectrum of the input and dy with the gradient after the threshold. */
static void both_spectra(const zn_tile_mix_args *a, const piece *q, float *x, float *dy)
{
    extend(a, q, a->x, x);
    transform_tiles(a, q, x);
    uncrop(a, q, a->dy, dy);
    transform_tiles(a, q, dy);
}

void zn_k_tile_mix_grad(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const piece q = piece_of(a, unit);
        float *x = r.scratch, *dy = x + q.padded * RUN;
        both_spectra(a, &q, x, dy);
        for (int64_t i = 0; i < q.padded; i++)
            for (int64_t c = 0; c < q.width; c++) {
                const int64_t k = parameter(a, &q, i, c), at = i * q.width + c;
                dy[at] = fabsf(a->gate[k] * x[at]) > fabsf(a->th[k]) ? a->gate[k] * dy[at] : 0;
            }
        transform_tiles(a, &q, dy);
        fold(a, &q, dy, a->y);
    }
}

void zn_k_tile_mix_param_grad(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    const int64_t count = (int64_t)a->p * a->channels;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const piece q = piece_of(a, unit);
        float *x = r.scratch, *dy = x + q.padded * RUN;
        float *dgate = a->partial + unit * 2 * count, *dth = dgate + count;
        memset(dgate, 0, sizeof(float) * 2 * (size_t)count);
        both_spectra(a, &q, x, dy);
        for (int64_t i = 0; i < q.padded; i++)
            for (int64_t c = 0; c < q.width; c++) {
                const int64_t k = parameter(a, &q, i, c), at = i * q.width + c;
                const float v = a->gate[k] * x[at];
                if (fabsf(v) <= fabsf(a->th[k]))
                    continue;
                dgate[k] += x[at] * dy[at];
                dth[k] -= (v > 0 ? 1.0f : -1.0f) * (a->th[k] > 0 ? 1.0f : a->th[k] < 0 ? -1.0f : 0.0f) * dy[at];
            }
    }
}

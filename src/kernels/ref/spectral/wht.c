/* Walsh-Hadamard transforms. Each piece is gathered into scratch that fits L1 and L2, transformed there with
 * butterflies over contiguous runs, and written back. This is one pass over memory for any length of the transform. */
#include "base/least.h"
#include "kernels/spectral.h"

#include <string.h>

void zn_wht_rows(float *x, int64_t n, int64_t inner, int64_t stride)
{
    for (int64_t len = 1; len < n; len *= 2)
        for (int64_t i = 0; i < n; i += 2 * len)
            for (int64_t k = i; k < i + len; k++) {
                float *restrict a = x + k * stride, *restrict b = a + len * stride;
                for (int64_t c = 0; c < inner; c++) {
                    const float s = a[c] + b[c], d = a[c] - b[c];
                    a[c] = s;
                    b[c] = d;
                }
            }
}

/* Steps with long distances come first and run over contiguous floats; the last two steps work inside groups of
 * four. */
void zn_wht_line(float *x, int64_t n)
{
    for (int64_t len = n / 2; len >= 4; len /= 2)
        for (int64_t i = 0; i < n; i += 2 * len) {
            float *restrict a = x + i, *restrict b = a + len;
            for (int64_t k = 0; k < len; k++) {
                const float s = a[k] + b[k], d = a[k] - b[k];
                a[k] = s;
                b[k] = d;
            }
        }
    if (n == 2) {
        const float a = x[0], b = x[1];
        x[0] = a + b;
        x[1] = a - b;
    }
    for (int64_t i = 0; i + 4 <= n; i += 4) {
        const float a = x[i] + x[i + 2], b = x[i + 1] + x[i + 3], c = x[i] - x[i + 2], d = x[i + 1] - x[i + 3];
        x[i] = a + b;
        x[i + 1] = a - b;
        x[i + 2] = c + d;
        x[i + 3] = c - d;
    }
}

/* The bits of the Gray code of k, reversed. */
int64_t zn_wht_sequency(int64_t k, int64_t n)
{
    const int64_t gray = k ^ (k >> 1);
    int64_t index = 0;
    for (int64_t bit = 1; bit < n; bit *= 2)
        index = 2 * index + ((gray & bit) != 0);
    return index;
}

int64_t zn_wht_run(const zn_wht_args *a)
{
    if (a->inner == 1)
        return 1;
    return a->n <= 64 ? 256 : a->n <= 1024 ? 128 : 32;
}

static int64_t runs_of(const zn_wht_args *a) { return (a->inner + zn_wht_run(a) - 1) / zn_wht_run(a); }

int64_t zn_wht_units(const zn_wht_args *a) { return a->outer * runs_of(a); }

/* Long pieces: two threads that work less than a few MB apart slow down each other's memory accesses by up to a
 * third. */
int64_t zn_wht_grain(const zn_wht_args *a)
{
    const int64_t unit = a->n * zn_least(zn_wht_run(a), a->inner), all = a->outer * a->n * a->inner;
    const int64_t share = all / (runs_of(a) > 1 ? 32 : 16), least = 1 << 16, most = 1 << 20;
    return 1 + (share < least ? least : share > most ? most : share) / unit;
}

/* Two pieces, or a chunk of lines. */
size_t zn_wht_scratch(const zn_wht_args *a)
{
    const size_t floats = (size_t)(2 * zn_wht_run(a) * a->n);
    return sizeof(float) * (floats < ZN_WHT_CHUNK ? ZN_WHT_CHUNK : floats);
}

static void gather(const zn_wht_args *a, const float *x, float *t, int64_t width)
{
    if (width == a->inner) {
        memcpy(t, x, sizeof(float) * (size_t)(a->n * width));
        return;
    }
    for (int64_t k = 0; k < a->n; k++)
        memcpy(t + k * width, x + k * a->inner, sizeof(float) * (size_t)width);
}

static void transform(const zn_wht_args *a, float *t, int64_t width)
{
    if (a->inner == 1)
        zn_wht_line(t, a->n);
    else
        zn_wht_rows(t, a->n, width, width);
}

/* Offset where unit u begins, and the number of floats of its run. */
static int64_t piece(const zn_wht_args *a, int64_t u, int64_t *width)
{
    const int64_t runs = runs_of(a), first = u % runs * zn_wht_run(a);
    *width = zn_least(zn_wht_run(a), a->inner - first);
    return u / runs * a->n * a->inner + first;
}

void zn_ref_wht(const void *args, zn_range r)
{
    const zn_wht_args *a = args;
    float *t = r.scratch;
    for (int64_t u = r.begin; u < r.end; u++) {
        int64_t width;
        const int64_t at = piece(a, u, &width);
        gather(a, a->x + at, t, width);
        transform(a, t, width);
        if (a->gate) {
            for (int64_t k = 0; k < a->n; k++)
                for (int64_t c = 0; c < width; c++)
                    t[k * width + c] *= a->gate[k] * a->scale;
            transform(a, t, width);
        }
        const float scale = a->gate ? 1 : a->scale;
        for (int64_t k = 0; k < a->n; k++)
            for (int64_t c = 0; c < width; c++)
                a->y[at + k * a->inner + c] = scale * t[k * width + c];
    }
}

void zn_ref_gate_grad(const void *args, zn_range r)
{
    const zn_gate_grad_args *g = args;
    const zn_wht_args *a = &g->t;
    float *x = r.scratch, *dy = x + zn_wht_run(a) * a->n;
    for (int64_t u = r.begin; u < r.end; u++) {
        int64_t width;
        const int64_t at = piece(a, u, &width);
        gather(a, a->x + at, x, width);
        gather(a, g->dy + at, dy, width);
        transform(a, x, width);
        transform(a, dy, width);
        for (int64_t k = 0; k < a->n; k++) {
            float sum = 0;
            for (int64_t c = 0; c < width; c++)
                sum += x[k * width + c] * dy[k * width + c];
            g->partial[u * a->n + k] = a->scale * sum;
        }
    }
}

/* Means, covariances and the trace of a matrix root. The trace of (A B)^(1/2) is the sum of the roots of the
 * eigenvalues of R B R, where R is the root of A: a symmetric matrix, so that Jacobi's method is enough. */
#include "train/score/frechet.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <string.h>

enum { MOST_SWEEPS = 60 };

zn_status zn_spread_add(zn_spread *s, const float *features)
{
    const size_t n = (size_t)s->width;
    if (!s->sum) {
        s->sum = zn_calloc(n + n * n, sizeof *s->sum);
        if (!s->sum)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the covariance of %d features", s->width);
        s->products = s->sum + n;
    }
    s->count++;
    for (size_t i = 0; i < n; i++) {
        s->sum[i] += (double)features[i];
        for (size_t k = 0; k <= i; k++)
            s->products[i * n + k] += (double)features[i] * (double)features[k];
    }
    return ZN_OK;
}

void zn_spread_free(zn_spread *s)
{
    zn_free(s->sum);
    *s = (zn_spread){ .width = s->width };
}

static void covariance(const zn_spread *s, double *out)
{
    const int n = s->width;
    const double count = (double)s->count;
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++)
            out[i * n + k] = out[k * n + i] = (s->products[i * n + k] - s->sum[i] * s->sum[k] / count) / (count - 1);
}

/* Turns rows p and q of x [n][n] by the angle of cosine c and sine s. */
static void turn_rows(double *x, int n, int p, int q, double c, double s)
{
    for (int k = 0; k < n; k++) {
        const double a = x[p * n + k], b = x[q * n + k];
        x[p * n + k] = c * a - s * b;
        x[q * n + k] = s * a + c * b;
    }
}

static void turn_columns(double *x, int n, int p, int q, double c, double s)
{
    for (int k = 0; k < n; k++) {
        const double a = x[k * n + p], b = x[k * n + q];
        x[k * n + p] = c * a - s * b;
        x[k * n + q] = s * a + c * b;
    }
}

static double off_diagonal(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            sum += x[i * n + k] * x[i * n + k];
    return sum;
}

/* Jacobi's method: x [n][n], symmetric, becomes diagonal; the rows of `vectors` (may be NULL) its eigenvectors. */
static void diagonalise(double *x, int n, double *vectors)
{
    double trace = 0;
    for (int i = 0; i < n; i++)
        trace += fabs(x[i * n + i]);
    for (int i = 0; vectors && i < n * n; i++)
        vectors[i] = i / n == i % n;
    for (int sweep = 0; sweep < MOST_SWEEPS && off_diagonal(x, n) > 1e-24 * trace * trace; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                const double off = x[p * n + q];
                if (fabs(off) <= 1e-18 * trace)
                    continue;
                const double ratio = (x[q * n + q] - x[p * n + p]) / (2 * off);
                const double t = (ratio >= 0 ? 1 : -1) / (fabs(ratio) + sqrt(1 + ratio * ratio));
                const double c = 1 / sqrt(1 + t * t), s = t * c;
                turn_columns(x, n, p, q, c, s);
                turn_rows(x, n, p, q, c, s);
                if (vectors)
                    turn_rows(vectors, n, p, q, c, s);
            }
}

static double root(double v) { return v > 0 ? sqrt(v) : 0; } /* rounding leaves small negative eigenvalues */

/* out = V' diag(root of values) V; values is the diagonal of x. */
static void root_of(const double *x, const double *vectors, int n, double *out)
{
    memset(out, 0, sizeof *out * (size_t)n * (size_t)n);
    for (int k = 0; k < n; k++) {
        const double r = root(x[k * n + k]);
        for (int i = 0; i < n; i++) {
            const double f = r * vectors[k * n + i];
            for (int j = 0; j < n; j++)
                out[i * n + j] += f * vectors[k * n + j];
        }
    }
}

static void multiply(const double *a, const double *b, int n, double *out)
{
    memset(out, 0, sizeof *out * (size_t)n * (size_t)n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const double f = a[i * n + k];
            for (int j = 0; j < n; j++)
                out[i * n + j] += f * b[k * n + j];
        }
}

zn_status zn_frechet_distance(const zn_spread *a, const zn_spread *b, double *out)
{
    const int n = a->width;
    const size_t square = (size_t)n * (size_t)n;
    if (a->count < 2 || b->count < 2 || a->width != b->width)
        return ZN_FAIL(ZN_EINVALID, "a distance of sets needs at least two images in each, not %lld and %lld",
                       (long long)a->count, (long long)b->count);
    double *x, distance = 0;
    ZN_TRY(zn_alloc_for("the distance of two sets", sizeof *x * 4 * square, (void **)&x));
    double *y = x + square, *vectors = y + square, *r = vectors + square;
    for (int i = 0; i < n; i++) {
        const double d = a->sum[i] / (double)a->count - b->sum[i] / (double)b->count;
        distance += d * d;
    }
    covariance(a, x);
    covariance(b, y);
    for (int i = 0; i < n; i++)
        distance += x[i * n + i] + y[i * n + i];
    diagonalise(x, n, vectors);
    root_of(x, vectors, n, r);
    multiply(r, y, n, vectors);
    multiply(vectors, r, n, x);
    diagonalise(x, n, NULL);
    for (int i = 0; i < n; i++)
        distance -= 2 * root(x[i * n + i]);
    zn_free(x);
    *out = distance > 0 ? distance : 0;
    return ZN_OK;
}

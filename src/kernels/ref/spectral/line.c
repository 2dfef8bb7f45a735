/* The spectral half of a Prune block, scalar, and the small steps that need no vector build. */
#include "kernels/line.h"

#include "kernels/gates.h"
#include "kernels/mix.h"
#include "kernels/spectral.h"

#include <math.h>
#include <string.h>

void zn_ref_line(const void *line_args, zn_range pixels);
void zn_ref_line_norm(const void *line_args, zn_range pixels);
void zn_ref_line_sums(const void *line_args, zn_range strips);
void zn_ref_line_grad(const void *line_args, zn_range blocks);

bool zn_line_is_pruned(const zn_line_args *a, int64_t pixel)
{
    if (!a->mask)
        return false;
    const int blocks = a->c / ZN_GATE_BLOCK;
    const float *m = a->mask + pixel * blocks;
    int open = 0;
    for (int b = 0; b < blocks; b++)
        open |= m[b] != 0;
    return !open;
}

static float *line_at(float *scratch, int c, int i) { return scratch + i * zn_line_length(c) + ZN_LINE_PAD; }

static void transform(const zn_line_args *a, float *x)
{
    zn_wht_line(x, a->c);
    for (int k = 0; k < a->c; k++)
        x[k] *= a->unit;
}

/* t = N(u), or its gradient du from dt with the sums of the parameter gradients. SRIG uses its own kernels on one
 * pixel. */
static void nonlinear(const zn_line_args *a, const float *u, float *t, float *scratch)
{
    if (a->kind == ZN_LINE_SRIG) {
        const zn_srig_args s = { .u = u, .w = a->w, .b = a->b, .y = t, .pixels = 1, .c = a->c };
        zn_k_srig(&s, (zn_range){ 0, 1, scratch });
        return;
    }
    for (int k = 0; k < a->c; k++) {
        const float size = a->kind == ZN_LINE_THRESHOLD ? fabsf(u[k]) - fabsf(a->w[k]) : fabsf(u[k]);
        t[k] = size > 0 ? copysignf(size, u[k]) : size <= 0 ? 0 : size; /* NaN passes through */
    }
}

static void nonlinear_grad(const zn_line_args *a, const float *u, const float *dt, float *du, float *rows,
                           float *scratch)
{
    const int c = a->c;
    if (a->kind == ZN_LINE_SRIG) {
        float *taps = scratch, *rest = scratch + 6 * (int64_t)c; /* [c][5], then [c] */
        const zn_srig_args s = {
            .u = u, .w = a->w, .b = a->b, .dy = dt, .y = du, .partial = taps, .pixels = 1, .c = c
        };
        zn_k_srig_grad(&s, (zn_range){ 0, 1, rest });
        zn_k_srig_param_grad(&s, (zn_range){ 0, 1, rest });
        for (int k = 0; k < c; k++)
            for (int j = 0; j < 6; j++)
                rows[j * c + k] += j < 5 ? taps[5 * k + j] : taps[5 * c + k];
        return;
    }
    for (int k = 0; k < c; k++) {
        const bool open = a->kind != ZN_LINE_THRESHOLD || fabsf(u[k]) > fabsf(a->w[k]);
        du[k] = open ? dt[k] : 0;
        if (a->kind == ZN_LINE_THRESHOLD && open)
            rows[k] -= zn_sign(u[k]) * zn_sign(a->w[k]) * dt[k];
    }
}

static void moments(const zn_line_args *a, const float *r, float *out)
{
    const int width = a->c / a->groups;
    for (int g = 0; g < a->groups; g++) {
        double sum = 0, square = 0;
        for (int k = g * width; k < (g + 1) * width; k++)
            sum += (double)r[k];
        const double mean = sum / width;
        for (int k = g * width; k < (g + 1) * width; k++)
            square += ((double)r[k] - mean) * ((double)r[k] - mean);
        out[2 * g] = (float)mean;
        out[2 * g + 1] = (float)square;
    }
}

void zn_ref_line(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    const int c = a->c;
    const float *left = a->mixer, *centre = left + c, *right = centre + c;
    float *u = line_at(range.scratch, c, 0), *s = line_at(range.scratch, c, 1), *m = line_at(range.scratch, c, 2);
    for (int64_t p = range.begin; p < range.end; p++) {
        const bool pruned = zn_line_is_pruned(a, p), norm = a->gamma != NULL;
        if (norm)
            a->pruned[p] = pruned;
        if (pruned) {
            memset(a->moments + p * 2 * a->groups, 0, sizeof(float) * 2 * (size_t)a->groups);
            continue;
        }
        memcpy(u, a->e + p * c, sizeof(float) * (size_t)c);
        transform(a, u);
        nonlinear(a, u, s, line_at(range.scratch, c, 3));
        for (int k = 0; k < c; k++)
            s[k] *= a->scale[k];
        for (int k = 0; k < c; k++)
            m[k] = centre[k] * s[k] + (k ? left[k] * s[k - 1] : 0) + (k + 1 < c ? right[k] * s[k + 1] : 0);
        transform(a, m);
        for (int k = 0; norm && k < c; k++)
            m[k] = m[k] < 0 ? 0 : m[k];
        memcpy((norm ? a->r : a->y) + p * c, m, sizeof(float) * (size_t)c);
        if (norm)
            moments(a, m, a->moments + p * 2 * a->groups);
    }
}

void zn_k_line_stats(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    const double width = a->c / a->groups;
    for (int64_t u = range.begin; u < range.end; u++) {
        const float *m = a->moments + (u / a->groups * a->pixels * a->groups + u % a->groups) * 2;
        double mean = 0, square = 0;
        for (int64_t p = 0; p < a->pixels; p++)
            mean += (double)m[p * 2 * a->groups];
        mean /= (double)a->pixels;
        for (int64_t p = 0; p < a->pixels; p++) {
            const double d = (double)m[p * 2 * a->groups] - mean;
            square += (double)m[p * 2 * a->groups + 1] + width * d * d;
        }
        a->stats[4 * u] = (float)mean;
        a->stats[4 * u + 1] = (float)(1 / sqrt(square / (width * (double)a->pixels) + (double)a->eps));
    }
}

/* The statistics of the group of channel k of pixel p. */
static const float *stats_of(const zn_line_args *a, int64_t p, int k)
{
    return a->stats + 4 * (p / a->pixels * a->groups + k / (a->c / a->groups));
}

void zn_ref_line_norm(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    for (int64_t p = range.begin; p < range.end; p++) {
        const bool pruned = a->pruned[p] != 0;
        for (int k = 0; k < a->c; k++) {
            const float *t = stats_of(a, p, k), r = pruned ? 0 : a->r[p * a->c + k];
            a->y[p * a->c + k] = (r - t[0]) * t[1] * a->gamma[k] + a->beta[k];
        }
    }
}

void zn_ref_line_sums(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    const int64_t strips = zn_line_strips(a) / a->n;
    for (int64_t u = range.begin; u < range.end; u++) {
        const int64_t image = u / strips, first = u % strips * ZN_LINE_STRIP;
        for (int64_t k = first; k < first + ZN_LINE_STRIP && k < a->c; k++) {
            double sum = 0, product = 0;
            for (int64_t p = image * a->pixels; p < (image + 1) * a->pixels; p++) {
                const float *t = stats_of(a, p, (int)k), r = a->pruned[p] != 0 ? 0 : a->r[p * a->c + k];
                sum += (double)a->dy[p * a->c + k];
                product += (double)a->dy[p * a->c + k] * (double)((r - t[0]) * t[1]);
            }
            a->sums[2 * image * a->c + k] = (float)sum;
            a->sums[(2 * image + 1) * a->c + k] = (float)product;
        }
    }
}

void zn_k_line_means(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    const int width = a->c / a->groups;
    for (int64_t u = range.begin; u < range.end; u++) {
        const float *sum = a->sums + u / a->groups * 2 * a->c, *product = sum + a->c;
        double m1 = 0, m2 = 0;
        for (int64_t k = u % a->groups * width; k < (u % a->groups + 1) * width; k++) {
            m1 += (double)a->gamma[k] * (double)sum[k];
            m2 += (double)a->gamma[k] * (double)product[k];
        }
        a->stats[4 * u + 2] = (float)(m1 / ((double)width * (double)a->pixels));
        a->stats[4 * u + 3] = (float)(m2 / ((double)width * (double)a->pixels));
    }
}

/* Computes the gradient of z for one pixel. */
static void begin(const zn_line_args *a, int64_t p, float *dz)
{
    const float *dy = a->dy + p * a->c;
    for (int k = 0; k < a->c; k++) {
        dz[k] = dy[k];
        if (a->gamma) {
            const float *t = stats_of(a, p, k), r = a->r[p * a->c + k], xh = (r - t[0]) * t[1];
            dz[k] = r > 0 ? (dy[k] * a->gamma[k] - t[2] - xh * t[3]) * t[1] : 0;
        }
    }
}

static void pixel_grad(const zn_line_args *a, int64_t p, float *rows, float *scratch)
{
    const int c = a->c;
    const float *left = a->mixer, *centre = left + c, *right = centre + c;
    float *dm = line_at(scratch, c, 0), *u = line_at(scratch, c, 1), *t = line_at(scratch, c, 2),
          *dt = line_at(scratch, c, 3);
    begin(a, p, dm);
    transform(a, dm);
    memcpy(u, a->e + p * c, sizeof(float) * (size_t)c);
    transform(a, u);
    nonlinear(a, u, t, line_at(scratch, c, 4));
    for (int k = 0; k < c; k++) {
        rows[c + k] += k ? dm[k] * a->scale[k - 1] * t[k - 1] : 0;
        rows[2 * c + k] += dm[k] * a->scale[k] * t[k];
        rows[3 * c + k] += k + 1 < c ? dm[k] * a->scale[k + 1] * t[k + 1] : 0;
        const float ds =
            centre[k] * dm[k] + (k + 1 < c ? left[k + 1] * dm[k + 1] : 0) + (k ? right[k - 1] * dm[k - 1] : 0);
        rows[k] += ds * t[k];
        dt[k] = ds * a->scale[k];
    }
    nonlinear_grad(a, u, dt, a->y + p * c, rows + 4 * c, line_at(scratch, c, 4));
    transform(a, a->y + p * c);
}

void zn_ref_line_grad(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    const int64_t all = a->n * a->pixels, size = zn_line_block(all), count = (int64_t)zn_line_rows(a->kind) * a->c;
    for (int64_t block = range.begin; block < range.end; block++) {
        memset(a->partial + block * count, 0, sizeof(float) * (size_t)count);
        for (int64_t p = block * size; p < (block + 1) * size && p < all; p++)
            if (a->gamma && a->pruned[p] != 0) /* z = 0, and no gradient passes the ReLU */
                memset(a->y + p * a->c, 0, sizeof(float) * (size_t)a->c);
            else
                pixel_grad(a, p, a->partial + block * count, range.scratch);
    }
}

void zn_k_line_turn(const void *args, zn_range range)
{
    const zn_line_turn_args *a = args;
    const int64_t length = zn_line_length(a->c);
    for (int64_t k = range.begin; k < range.end; k++) {
        float square = 0;
        for (int j = 0; j < 5; j++) {
            const float w = a->w[5 * k + j];
            a->turned[j * length + ZN_LINE_PAD + k] = w;
            square += w * w;
        }
        a->turned[5 * length + ZN_LINE_PAD + k] = sqrtf(square + 1e-8f);
    }
    for (int j = 0; j < 6; j++) {
        if (range.begin == 0)
            memset(a->turned + j * length, 0, sizeof(float) * ZN_LINE_PAD);
        if (range.end == a->c)
            memset(a->turned + (j + 1) * length - ZN_LINE_PAD, 0, sizeof(float) * ZN_LINE_PAD);
    }
}

void zn_k_line_fold(const void *args, zn_range range)
{
    const zn_line_fold_args *a = args;
    for (int64_t piece = range.begin; piece < range.end; piece++) {
        const int64_t first = piece * ZN_LINE_FOLD;
        const int64_t count = a->count - first < ZN_LINE_FOLD ? a->count - first : ZN_LINE_FOLD;
        float *restrict y = a->y + first;
        memcpy(y, a->partial + first, sizeof(float) * (size_t)count);
        for (int64_t block = 1; block < a->blocks; block++) {
            const float *restrict p = a->partial + block * a->count + first;
            for (int64_t i = 0; i < count; i++)
                y[i] += p[i];
        }
    }
}

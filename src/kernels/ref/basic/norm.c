/* Group norm and its gradient; see norm.h. */
#include "kernels/norm.h"

#include <math.h>

static float silu(float x) { return x / (1 + expf(-x)); }

static float activate(zn_activation act, float v)
{
    return act == ZN_ACT_SILU ? silu(v) : act == ZN_ACT_RELU && v < 0 ? 0 : v;
}

/* Mean and squared deviations of every channel of a block of pixels. */
void zn_ref_norm_sums(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin, end;
        zn_norm_block_of(a, unit, &begin, &end);
        for (int c = 0; c < a->c; c++) {
            float mean = 0, square = 0;
            for (int64_t p = begin; p < end; p++)
                mean += a->x[p * a->c + c];
            mean /= (float)(end - begin);
            for (int64_t p = begin; p < end; p++)
                square += (a->x[p * a->c + c] - mean) * (a->x[p * a->c + c] - mean);
            a->partial[unit * 2 * a->c + c] = mean;
            a->partial[(unit * 2 + 1) * a->c + c] = square;
        }
    }
}

/* A group of one map: its channels, its mean and 1 / sqrt(variance + eps). */
typedef struct group {
    int64_t map;
    int first, end;
    double mean, scale;
} group;

static group group_of(const zn_norm_args *a, int64_t unit)
{
    const int width = a->c / a->groups, first = (int)(unit % a->groups) * width;
    return (group){ .map = unit / a->groups, .first = first, .end = first + width };
}

static group measured(const zn_norm_args *a, int64_t unit)
{
    group g = group_of(a, unit);
    const int64_t blocks = zn_norm_blocks(a), size = zn_norm_block(a);
    const double count = (double)a->pixels * (g.end - g.first);
    double sum = 0, square = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const float *means = a->partial + (g.map * blocks + b) * 2 * a->c;
        const double pixels = (double)((b + 1) * size < a->pixels ? size : a->pixels - b * size);
        for (int c = g.first; c < g.end; c++)
            sum += pixels * (double)means[c];
    }
    g.mean = sum / count;
    for (int64_t b = 0; b < blocks; b++) {
        const float *means = a->partial + (g.map * blocks + b) * 2 * a->c, *squares = means + a->c;
        const double pixels = (double)((b + 1) * size < a->pixels ? size : a->pixels - b * size);
        for (int c = g.first; c < g.end; c++) {
            const double off = (double)means[c] - g.mean;
            square += (double)squares[c] + pixels * off * off;
        }
    }
    g.scale = 1 / sqrt(square / count + (double)a->eps);
    return g;
}

void zn_k_norm_merge(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = measured(a, unit);
        float *factors = a->table + g.map * 3 * a->c, *shifts = factors + a->c;
        for (int c = g.first; c < g.end; c++) {
            const double gain = 1 + (a->gain ? (double)a->gain[g.map * a->gain_step + c] : 0);
            const double own = 1 + (a->scale ? (double)a->scale[g.map * a->scale_step + c] : 0),
                         shift = a->shift ? (double)a->shift[g.map * a->shift_step + c] : 0;
            const double factor = g.scale * (double)a->gamma[c];
            factors[c] = (float)(factor * own * gain);
            shifts[c] = (float)((((double)a->beta[c] - g.mean * factor) * own + shift) * gain);
        }
    }
}

void zn_ref_norm_apply(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *factors = a->table + p / a->pixels * 3 * a->c, *shifts = factors + a->c;
        for (int c = 0; c < a->c; c++)
            a->y[p * a->c + c] = activate(a->act, factors[c] * a->x[p * a->c + c] + shifts[c]);
    }
}

void zn_k_group_norm(const void *args, zn_range r)
{
    zn_norm_args a = *(const zn_norm_args *)args;
    const zn_range maps = { r.begin / a.groups, (r.end + a.groups - 1) / a.groups, r.scratch };
    const int64_t blocks = zn_norm_blocks(&a);
    zn_ref_norm_sums(&a, (zn_range){ maps.begin * blocks, maps.end * blocks, r.scratch });
    zn_k_norm_merge(&a, r);
    for (int64_t p = maps.begin * a.pixels; p < maps.end * a.pixels; p++)
        for (int64_t unit = r.begin; unit < r.end; unit++) {
            const group g = group_of(&a, unit);
            const float *factors = a.table + g.map * 3 * a.c, *shifts = factors + a.c;
            for (int c = g.first; c < g.end && g.map == p / a.pixels; c++)
                a.y[p * a.c + c] = activate(a.act, factors[c] * a.x[p * a.c + c] + shifts[c]);
        }
}

/* ---- gradient: dx = (b - mean(b) - xh mean(b xh)) / deviation, b = dy gamma, xh the normalised x ---- */

void zn_k_norm_stats(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = measured(a, unit);
        float *scales = a->table + g.map * 3 * a->c, *shifts = scales + a->c;
        for (int c = g.first; c < g.end; c++) {
            scales[c] = (float)g.scale;
            shifts[c] = (float)(-g.mean * g.scale);
        }
    }
}

void zn_ref_norm_grad_sums(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin, end;
        zn_norm_block_of(a, unit, &begin, &end);
        const float *scales = a->table + begin / a->pixels * 3 * a->c, *shifts = scales + a->c;
        for (int c = 0; c < a->c; c++) {
            float product = 0, sum = 0;
            for (int64_t p = begin; p < end; p++) {
                const float dy = a->dy[p * a->c + c];
                product += dy * (a->x[p * a->c + c] * scales[c] + shifts[c]);
                sum += dy;
            }
            a->partial[unit * 2 * a->c + c] = product;
            a->partial[(unit * 2 + 1) * a->c + c] = sum;
        }
    }
}

void zn_k_norm_grad_merge(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    const int64_t blocks = zn_norm_blocks(a);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_of(a, unit);
        const double count = (double)a->pixels * (g.end - g.first);
        float *products = a->sums + g.map * 2 * a->c, *sums = products + a->c;
        double mean = 0, mean_product = 0;
        for (int c = g.first; c < g.end; c++) {
            double product = 0, sum = 0;
            for (int64_t b = 0; b < blocks; b++) {
                product += (double)a->partial[(g.map * blocks + b) * 2 * a->c + c];
                sum += (double)a->partial[((g.map * blocks + b) * 2 + 1) * a->c + c];
            }
            products[c] = (float)product;
            sums[c] = (float)sum;
            mean += (double)a->gamma[c] * sum / count;
            mean_product += (double)a->gamma[c] * product / count;
        }
        float *by_dy = a->table + g.map * 3 * a->c, *by_x = by_dy + a->c, *rest = by_x + a->c;
        for (int c = g.first; c < g.end; c++) {
            const double scale = (double)by_dy[c], shift = (double)by_x[c];
            by_dy[c] = (float)(scale * (double)a->gamma[c]);
            by_x[c] = (float)(-scale * scale * mean_product);
            rest[c] = (float)(-scale * (mean + shift * mean_product));
        }
    }
}

void zn_ref_norm_grad(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *by_dy = a->table + p / a->pixels * 3 * a->c, *by_x = by_dy + a->c, *rest = by_x + a->c;
        for (int c = 0; c < a->c; c++) {
            const int64_t i = p * a->c + c;
            a->y[i] = by_dy[c] * a->dy[i] + (by_x[c] * a->x[i] + rest[c]);
        }
    }
}

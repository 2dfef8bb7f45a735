/* Group norm with modulation, SiLU and dropout, and its gradient; see silu_norm.h. */
#include "kernels/silu_norm.h"

#include "kernels/dropout.h"

#include <math.h>

/* ---- blocks of pixels ---- */

typedef struct block {
    int64_t map, begin, end; /* pixels of all maps */
} block;

static block block_of(const zn_silu_norm_args *a, int64_t unit)
{
    const int64_t blocks = zn_silu_norm_blocks(a), size = zn_silu_norm_block(a), map = unit / blocks;
    const int64_t begin = map * a->pixels + unit % blocks * size, last = (map + 1) * a->pixels;
    return (block){ map, begin, begin + size < last ? begin + size : last };
}

void zn_k_silu_norm_sums(const void *args, zn_range r)
{
    const zn_silu_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const block b = block_of(a, unit);
        for (int c = 0; c < a->c; c++) {
            double mean = 0, square = 0;
            for (int64_t p = b.begin; p < b.end; p++)
                mean += (double)a->x[p * a->c + c];
            mean /= (double)(b.end - b.begin);
            for (int64_t p = b.begin; p < b.end; p++)
                square += ((double)a->x[p * a->c + c] - mean) * ((double)a->x[p * a->c + c] - mean);
            a->partial[unit * 2 * a->c + c] = (float)mean;
            a->partial[(unit * 2 + 1) * a->c + c] = (float)square;
        }
    }
}

/* ---- groups ---- */

typedef struct group {
    int64_t map;
    int first, end; /* channels */
    double count;   /* numbers */
} group;

static group group_of(const zn_silu_norm_args *a, int64_t unit)
{
    const int width = a->c / a->groups, first = (int)(unit % a->groups) * width;
    return (group){ unit / a->groups, first, first + width, (double)a->pixels * width };
}

static const float *partial_of(const zn_silu_norm_args *a, const group *g, int64_t b)
{
    return a->partial + (g->map * zn_silu_norm_blocks(a) + b) * 2 * a->c;
}

static double or_zero(const float *values, int64_t at) { return values ? (double)values[at] : 0; }

/* The mean, and 1 / sqrt(variance + eps). */
static void measure(const zn_silu_norm_args *a, const group *g, double *mean, double *scale)
{
    const int64_t blocks = zn_silu_norm_blocks(a), size = zn_silu_norm_block(a);
    double sum = 0, square = 0;
    for (int64_t b = 0; b < blocks; b++)
        for (int c = g->first; c < g->end; c++)
            sum += (double)((b + 1) * size < a->pixels ? size : a->pixels - b * size) * (double)partial_of(a, g, b)[c];
    *mean = sum / g->count;
    for (int64_t b = 0; b < blocks; b++)
        for (int c = g->first; c < g->end; c++) {
            const double off = (double)partial_of(a, g, b)[c] - *mean;
            square += (double)partial_of(a, g, b)[a->c + c] +
                      (double)((b + 1) * size < a->pixels ? size : a->pixels - b * size) * off * off;
        }
    *scale = 1 / sqrt(square / g->count + (double)a->eps);
}

void zn_k_silu_norm_merge(const void *args, zn_range r)
{
    const zn_silu_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_of(a, unit);
        double mean, scale;
        measure(a, &g, &mean, &scale);
        float *table = a->table + g.map * 4 * a->c;
        for (int c = g.first; c < g.end; c++) {
            const int64_t at = g.map * a->c + c;
            const double own = 1 + or_zero(a->scale, at), gain = 1 + or_zero(a->gain, at);
            const double factor = scale * (double)a->gamma[c];
            table[c] = (float)(factor * own * gain);
            table[a->c + c] = (float)((((double)a->beta[c] - mean * factor) * own + or_zero(a->shift, at)) * gain);
            table[2 * a->c + c] = (float)scale;
            table[3 * a->c + c] = (float)(-mean * scale);
        }
    }
}

void zn_k_silu_norm_grad_merge(const void *args, zn_range r)
{
    const zn_silu_norm_args *a = args;
    const int64_t blocks = zn_silu_norm_blocks(a);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_of(a, unit);
        double mean = 0, mean_product = 0; /* of the gradient of xh, and of its product with xh */
        for (int c = g.first; c < g.end; c++) {
            const int64_t at = g.map * a->c + c;
            const double gamma = (double)a->gamma[c], beta = (double)a->beta[c];
            const double own = 1 + or_zero(a->scale, at), gain = 1 + or_zero(a->gain, at);
            double product = 0, sum = 0;
            for (int64_t b = 0; b < blocks; b++) {
                product += (double)partial_of(a, &g, b)[c];
                sum += (double)partial_of(a, &g, b)[a->c + c];
            }
            a->sums[g.map * 2 * a->c + c] = (float)(product * own * gain);
            a->sums[(g.map * 2 + 1) * a->c + c] = (float)(sum * own * gain);
            if (a->scale)
                a->d_scale[at] = (float)((gamma * product + beta * sum) * gain);
            if (a->shift)
                a->d_shift[at] = (float)(sum * gain);
            if (a->gain)
                a->d_gain[at] = (float)((gamma * product + beta * sum) * own + or_zero(a->shift, at) * sum);
            mean += gamma * own * gain * sum / g.count;
            mean_product += gamma * own * gain * product / g.count;
        }
        const float *table = a->table + g.map * 4 * a->c;
        float *line = a->line + g.map * 2 * a->c;
        for (int c = g.first; c < g.end; c++) {
            const double scale = (double)table[2 * a->c + c], shift = (double)table[3 * a->c + c];
            line[c] = (float)(-scale * scale * mean_product);
            line[a->c + c] = (float)(-scale * (mean + shift * mean_product));
        }
    }
}

/* ---- maps ---- */

/* What dropout multiplies element [p][c] with. */
static float kept(const zn_silu_norm_args *a, int64_t p, int c)
{
    if (!a->seeds)
        return 1;
    const int64_t map = p / a->pixels;
    const uint32_t key = zn_dropout_key(a->seeds[map], a->place), i = (uint32_t)((p - map * a->pixels) * a->c + c);
    return zn_dropout_drops(i, key, zn_dropout_limit(a->share)) ? 0 : 1 / (1 - a->share);
}

void zn_k_silu_norm_apply(const void *args, zn_range r)
{
    const zn_silu_norm_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *table = a->table + p / a->pixels * 4 * a->c;
        for (int c = 0; c < a->c; c++) {
            const float v = table[c] * a->x[p * a->c + c] + table[a->c + c];
            a->y[p * a->c + c] = kept(a, p, c) * v / (1 + expf(-v));
        }
    }
}

/* The gradient of v at element [p][c]. */
static float gradient_of_v(const zn_silu_norm_args *a, int64_t p, int c)
{
    const float *table = a->table + p / a->pixels * 4 * a->c;
    const float v = table[c] * a->x[p * a->c + c] + table[a->c + c], s = 1 / (1 + expf(-v));
    return a->dy[p * a->c + c] * kept(a, p, c) * s * (1 + v * (1 - s));
}

void zn_k_silu_norm_grad_sums(const void *args, zn_range r)
{
    const zn_silu_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const block b = block_of(a, unit);
        const float *table = a->table + b.map * 4 * a->c;
        for (int c = 0; c < a->c; c++) {
            double product = 0, sum = 0;
            for (int64_t p = b.begin; p < b.end; p++) {
                const double dv = (double)gradient_of_v(a, p, c);
                product += dv * (double)(a->x[p * a->c + c] * table[2 * a->c + c] + table[3 * a->c + c]);
                sum += dv;
            }
            a->partial[unit * 2 * a->c + c] = (float)product;
            a->partial[(unit * 2 + 1) * a->c + c] = (float)sum;
        }
    }
}

void zn_k_silu_norm_grad(const void *args, zn_range r)
{
    const zn_silu_norm_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const int64_t map = p / a->pixels;
        const float *factors = a->table + map * 4 * a->c, *line = a->line + map * 2 * a->c;
        for (int c = 0; c < a->c; c++) {
            const int64_t i = p * a->c + c;
            const float dx = factors[c] * gradient_of_v(a, p, c) + (line[c] * a->x[i] + line[a->c + c]);
            a->y[i] = a->more ? dx + a->more[i] : dx;
        }
    }
}

/* ---- all passes; devices alone launch these, so that units are those of whole maps ---- */

static void each_map(const zn_silu_norm_args *a, zn_range r, bool gradient)
{
    for (int64_t map = r.begin / a->groups; map * a->groups < r.end; map++) {
        const int64_t blocks = zn_silu_norm_blocks(a);
        const zn_range parts = { map * blocks, (map + 1) * blocks, NULL };
        const zn_range groups = { map * a->groups, (map + 1) * a->groups, NULL };
        const zn_range pixels = { map * a->pixels, (map + 1) * a->pixels, NULL };
        (gradient ? zn_k_silu_norm_grad_sums : zn_k_silu_norm_sums)(a, parts);
        (gradient ? zn_k_silu_norm_grad_merge : zn_k_silu_norm_merge)(a, groups);
        (gradient ? zn_k_silu_norm_grad : zn_k_silu_norm_apply)(a, pixels);
    }
}

void zn_k_silu_norm(const void *args, zn_range r) { each_map(args, r, false); }
void zn_k_silu_norm_back(const void *args, zn_range r) { each_map(args, r, true); }

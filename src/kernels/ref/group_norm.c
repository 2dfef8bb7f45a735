/* Group norm and its gradients. Sums run in double: the statistics of a large map must not depend on its size. */
#include "kernels/kernels.h"

#include <math.h>

typedef struct group {
    const float *x, *dy;
    float *y;
    int64_t pixels;
    int c, first, width; /* channels first .. first+width of c */
} group;

static group group_at(const zn_group_norm_args *a, int64_t unit)
{
    const int64_t image = unit / a->groups * a->pixels * a->c;
    const int width = a->c / a->groups;
    return (group){ .x = a->x + image,
                    .dy = a->dy ? a->dy + image : 0,
                    .y = a->y ? a->y + image : 0,
                    .pixels = a->pixels,
                    .c = a->c,
                    .first = (int)(unit % a->groups) * width,
                    .width = width };
}

/* Two passes: mean first, then the variance around it. */
static void measure(const group *g, float eps, float stats[2])
{
    double sum = 0, square = 0;
    const double count = (double)g->pixels * g->width;
    for (int64_t p = 0; p < g->pixels; p++)
        for (int c = g->first; c < g->first + g->width; c++)
            sum += (double)g->x[p * g->c + c];
    const double mean = sum / count;
    for (int64_t p = 0; p < g->pixels; p++)
        for (int c = g->first; c < g->first + g->width; c++) {
            const double d = (double)g->x[p * g->c + c] - mean;
            square += d * d;
        }
    stats[0] = (float)mean;
    stats[1] = (float)(1.0 / sqrt(square / count + (double)eps));
}

void zn_k_group_norm(const void *args, zn_range r)
{
    const zn_group_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_at(a, unit);
        float stats[2];
        measure(&g, a->eps, stats);
        if (a->stats) {
            a->stats[2 * unit] = stats[0];
            a->stats[2 * unit + 1] = stats[1];
        }
        for (int64_t p = 0; p < g.pixels; p++)
            for (int c = g.first; c < g.first + g.width; c++) {
                const float y = (g.x[p * g.c + c] - stats[0]) * stats[1] * a->gamma[c] + a->beta[c];
                g.y[p * g.c + c] = a->relu && y < 0 ? 0 : y;
            }
    }
}

/* dx = (b - mean(b) - xh * mean(b * xh)) / sqrt(var + eps), b = dy * gamma, xh the normalised input. */
void zn_k_group_norm_grad(const void *args, zn_range r)
{
    const zn_group_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_at(a, unit);
        float stats[2];
        measure(&g, a->eps, stats);
        double m1 = 0, m2 = 0;
        for (int64_t p = 0; p < g.pixels; p++)
            for (int c = g.first; c < g.first + g.width; c++) {
                const int64_t i = p * g.c + c;
                const double b = (double)g.dy[i] * (double)a->gamma[c];
                m1 += b;
                m2 += b * (double)((g.x[i] - stats[0]) * stats[1]);
            }
        m1 /= (double)g.pixels * g.width;
        m2 /= (double)g.pixels * g.width;
        for (int64_t p = 0; p < g.pixels; p++)
            for (int c = g.first; c < g.first + g.width; c++) {
                const int64_t i = p * g.c + c;
                const float xh = (g.x[i] - stats[0]) * stats[1];
                g.y[i] = (g.dy[i] * a->gamma[c] - (float)m1 - xh * (float)m2) * stats[1];
            }
    }
}

void zn_k_group_norm_param_grad(const void *args, zn_range r)
{
    const zn_group_norm_args *a = args;
    const int width = a->c / a->groups;
    for (int64_t k = r.begin; k < r.end; k++)
        for (int c = (int)k * width; c < ((int)k + 1) * width; c++) {
            double dgamma = 0, dbeta = 0;
            for (int64_t n = 0; n < a->n; n++) {
                const group g = group_at(a, n * a->groups + k);
                float stats[2];
                if (c == (int)k * width) { /* measured once for each image and group, then kept */
                    measure(&g, a->eps, stats);
                    a->stats[2 * (n * a->groups + k)] = stats[0];
                    a->stats[2 * (n * a->groups + k) + 1] = stats[1];
                }
                const float *kept = a->stats + 2 * (n * a->groups + k);
                for (int64_t p = 0; p < g.pixels; p++) {
                    const int64_t i = p * g.c + c;
                    dgamma += (double)g.dy[i] * (double)((g.x[i] - kept[0]) * kept[1]);
                    dbeta += (double)g.dy[i];
                }
            }
            a->dgamma[c] = (float)dgamma;
            a->dbeta[c] = (float)dbeta;
        }
}

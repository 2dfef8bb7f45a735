/* The norm after a line of channels (kernels/line.h), and the sums for its gradient. A fully pruned pixel is not
 * read: it is zero. */
#include "kernels/line.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(line_norm)(const void *args, zn_range r);
void ZN_KERNEL(line_sums)(const void *args, zn_range r);
void zn_ref_line_norm(const void *args, zn_range r);
void zn_ref_line_sums(const void *args, zn_range r);

void ZN_KERNEL(line_norm)(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    const int width = a->c / a->groups;
    if (width % VEC_LANES) {
        zn_ref_line_norm(args, range);
        return;
    }
    for (int64_t p = range.begin; p < range.end; p++) {
        const float *stats = a->stats + 4 * (p / a->pixels * a->groups), *r = a->r + p * a->c;
        const bool pruned = a->pruned[p] != 0;
        for (int g = 0; g < a->groups; g++) {
            const vec mean = vec_splat(stats[4 * g]), scale = vec_splat(stats[4 * g + 1]);
            const vec empty = (vec_splat(0) - mean) * scale;
            for (int k = g * width; k < (g + 1) * width; k += VEC_LANES) {
                const vec xh = pruned ? empty : (vec)((vec_load(r + k) - mean) * scale);
                vec_store(a->y + p * a->c + k, vec_fma(xh, vec_load(a->gamma + k), vec_load(a->beta + k)));
            }
        }
    }
}

/* Sums of one cache line of channels over the pixels of an image. */
enum { SPAN = 16, SPAN_VECTORS = SPAN / VEC_LANES };

static void sum_columns(const zn_line_args *a, int64_t image, int k)
{
    const int width = a->c / a->groups;
    vec mean[SPAN_VECTORS], scale[SPAN_VECTORS], sum[SPAN_VECTORS], product[SPAN_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < SPAN_VECTORS; v++) {
        const float *stats = a->stats + 4 * (image * a->groups + (k + v * VEC_LANES) / width);
        mean[v] = vec_splat(stats[0]), scale[v] = vec_splat(stats[1]);
        sum[v] = product[v] = vec_splat(0);
    }
    for (int64_t p = image * a->pixels; p < (image + 1) * a->pixels; p++) {
        const float *dy = a->dy + p * a->c + k, *r = a->r + p * a->c + k;
        const bool pruned = a->pruned[p] != 0;
#pragma GCC unroll 4
        for (int v = 0; v < SPAN_VECTORS; v++) {
            const vec d = vec_load(dy + v * VEC_LANES), x = pruned ? vec_splat(0) : vec_load(r + v * VEC_LANES);
            sum[v] = sum[v] + d;
            product[v] = vec_fma(d, x - mean[v], product[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < SPAN_VECTORS; v++) {
        vec_store(a->sums + 2 * image * a->c + k + v * VEC_LANES, sum[v]);
        vec_store(a->sums + (2 * image + 1) * a->c + k + v * VEC_LANES, product[v] * scale[v]);
    }
}

void ZN_KERNEL(line_sums)(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    if (a->c / a->groups % VEC_LANES || a->c % SPAN) {
        zn_ref_line_sums(args, range);
        return;
    }
    const int64_t strips = zn_line_strips(a) / a->n;
    for (int64_t u = range.begin; u < range.end; u++)
        for (int64_t k = u % strips * ZN_LINE_STRIP; k < (u % strips + 1) * ZN_LINE_STRIP && k < a->c; k += SPAN)
            sum_columns(a, u / strips, (int)k);
}

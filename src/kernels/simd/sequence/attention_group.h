/* What the forward passes of attention on matrix units share (attention_amx_bf16.c, attention_bfmmla.c): the queries of
 * a unit with their sums, and the softmax of a tile of keys. The file that includes it defines before
 *
 *     QUERIES, STEP           queries that are multiplied at a time; a multiple of it is the width of a head
 *     LEAST_WIDTH, MOST_WIDTH
 *     scratch                 of a thread, with `float products[QUERIES][...]`
 *     largest(p, count)       of floats; count is a multiple of SILU_BLOCK
 *     put_weights(t, i, j, v) rounds the weights of query i and the keys from j on to an operand of scratch t */
#ifndef ZN_SIMD_ATTENTION_GROUP_H
#define ZN_SIMD_ATTENTION_GROUP_H

#include "base/least.h"
#include "kernels/attention.h"
#include "kernels/simd/basic/silu.h"

#include <math.h>
#include <string.h>

/* The queries of a unit, and their head. */
typedef struct group {
    const zn_attention_args *a;
    scratch *t;
    int64_t first; /* query */
    int count;
    zn_rows q, k, v;       /* of this head: data points to its row 0 */
    float *y, *most, *sum; /* y: as the kernel orders it, for queries up to a multiple of QUERIES */
} group;

static int whole(int n, int to) { return (n + to - 1) / to * to; }

/* y, most and sum follow the scratch. */
static group group_of(const zn_attention_args *a, int64_t unit, void *memory)
{
    const int64_t groups = zn_attention_blocks(a), rows = zn_attention_rows(a), head = unit / groups;
    group g = { .a = a,
                .t = memory,
                .first = unit % groups * rows,
                .q = zn_attention_head(a, &a->q, head, 1),
                .k = zn_attention_head(a, &a->k, head, zn_attention_share(a)),
                .v = zn_attention_head(a, &a->v, head, zn_attention_share(a)) };
    g.count = (int)zn_least(rows, a->queries - g.first);
    const int padded = whole(g.count, QUERIES);
    g.y = (float *)(g.t + 1);
    g.most = g.y + (int64_t)padded * a->width;
    g.sum = g.most + padded;
    memset(g.y, 0, sizeof(float) * (size_t)padded * (size_t)a->width);
    for (int i = 0; i < padded; i++) {
        g.most[i] = -INFINITY;
        g.sum[i] = 0;
    }
    return g;
}

static bool group_fits(const zn_attention_args *a)
{
    const size_t rows = (size_t)whole((int)zn_attention_rows(a), QUERIES);
    return a->math == ZN_PRECISION_BF16 && !a->causal && a->width % STEP == 0 && a->width >= LEAST_WIDTH &&
           a->width <= MOST_WIDTH &&
           sizeof(scratch) + sizeof(float) * rows * (size_t)(a->width + 2) <= zn_attention_scratch(a);
}

/* Turns the products of the group's query `row` + i with the keys of the tile into weights, relative to its largest
 * product so far. Returns what its sums must be multiplied with. */
static float weigh(const group *g, int row, int i, int keys)
{
    float *p = g->t->products[i];
    const int end = whole(keys, SILU_BLOCK);
    for (int j = keys; j < end; j++)
        p[j] = -INFINITY;
    const float scale = g->a->scale, before = g->most[row + i], here = scale * largest(p, end);
    const float most = here > before ? here : before, factor = most > before ? expf(before - most) : 1;
    vec total = vec_splat(0);
    for (int j = 0; j < end; j += SILU_BLOCK) {
        vec v[SILU_U];
        SILU_EACH v[u] = vec_fma(vec_load(p + j + u * VEC_LANES), vec_splat(scale), vec_splat(-most));
        vec_exp_vectors(SILU_U, v);
        SILU_EACH total = total + v[u];
        SILU_EACH put_weights(g->t, i, j + u * VEC_LANES, v[u]);
    }
    g->sum[row + i] = g->sum[row + i] * factor + vec_sum(total);
    g->most[row + i] = most;
    return factor;
}

#endif

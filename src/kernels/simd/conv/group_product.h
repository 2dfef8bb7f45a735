/* Products of groups: c_g = a_g w_g for all groups of a grouped 1x1 convolution, using gemm.h. Groups narrower than
 * a vector are merged, with zeros where an input and an output belong to different groups, so that few lanes are
 * idle. */
#ifndef ZN_GROUP_PRODUCT_H
#define ZN_GROUP_PRODUCT_H

#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/vec.h"
#include "kernels/simd/vec_math.h"
#include <stdbool.h>

/* Products of narrow groups on NEON: six pixels by two vectors of outputs, of one group or of two neighbours. Twelve
 * sums are enough to hide each other's latency, and the two vectors of a pixel are stored together. */

#if defined(__ARM_NEON)

enum { PANEL_PIXELS = 6 };

/* One panel: weights [deep][2 vectors] of one group, or twice [deep][1 vector] of two. */
typedef struct group_panel {
    const float *x, *w, *start; /* start: two vectors of initial sums, or NULL */
    float *y;
    int64_t x_row, y_row;
    int deep; /* a multiple of four */
} group_panel;

/* Products with lane `lane` of the multipliers. */
#define PANEL_LANE(lane)                                                                                               \
    {                                                                                                                  \
        const vec w0 = vec_load(w + (lane) * (apart ? 4 : 8)), w1 = vec_load(w + (lane) * (apart ? 4 : 8) + second);   \
        _Pragma("GCC unroll 6") for (int p = 0; p < pixels; p++)                                                       \
        {                                                                                                              \
            sum[p][0] = vec_fma_lane(m[p][0], lane, w0, sum[p][0]);                                                    \
            sum[p][1] = vec_fma_lane(m[p][apart], lane, w1, sum[p][1]);                                                \
        }                                                                                                              \
    }

/* pixels and apart (two groups) are compile-time constants. */
VEC_INLINE void group_panel_block(const int pixels, const bool apart, const group_panel *g, const float *x, float *y)
{
    const float *w = g->w;
    const int64_t second = apart ? 4 * (int64_t)g->deep : 4;
    vec sum[PANEL_PIXELS][2];
#pragma GCC unroll 6
    for (int p = 0; p < pixels; p++)
        for (int j = 0; j < 2; j++)
            sum[p][j] = g->start ? vec_load(g->start + 4 * j) : vec_splat(-0.0f); /* -0 + p is p */
    for (int k = 0; k < g->deep; k += 4, w += apart ? 16 : 32) {
        vec m[PANEL_PIXELS][2];
#pragma GCC unroll 6
        for (int p = 0; p < pixels; p++) {
            m[p][0] = vec_load(x + p * g->x_row + k);
            if (apart)
                m[p][1] = vec_load(x + p * g->x_row + k + g->deep);
        }
        PANEL_LANE(0)
        PANEL_LANE(1)
        PANEL_LANE(2)
        PANEL_LANE(3)
    }
#pragma GCC unroll 6
    for (int p = 0; p < pixels; p++) {
        vec_store(y + p * g->y_row, sum[p][0]);
        vec_store(y + p * g->y_row + 4, sum[p][1]);
    }
}
#undef PANEL_LANE

VEC_INLINE void group_panel_rows(const bool apart, const group_panel *g, int rows)
{
    int t = 0;
    for (; t + PANEL_PIXELS <= rows; t += PANEL_PIXELS)
        group_panel_block(PANEL_PIXELS, apart, g, g->x + t * g->x_row, g->y + t * g->y_row);
    for (; t < rows; t++)
        group_panel_block(1, apart, g, g->x + t * g->x_row, g->y + t * g->y_row);
}

/* Whether panels support groups of deep x wide. */
static bool group_panels_do(int groups, int deep, int wide)
{
    return deep % 4 == 0 && (wide == 8 || (wide == 4 && groups % 2 == 0));
}

/* Computes all groups of g, whose pointers are those of the first group. */
static void group_panels(group_panel g, int groups, int wide, int rows)
{
    const int at_once = wide == 4 ? 2 : 1;
    for (int i = 0; i < groups; i += at_once) {
        if (wide == 4)
            group_panel_rows(true, &g, rows);
        else
            group_panel_rows(false, &g, rows);
        g.x += at_once * g.deep;
        g.w += 8 * (int64_t)g.deep;
        g.y += 8;
        g.start += g.start ? 8 : 0;
    }
}

#endif

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* c_g[j] = sum over k of a_g[k] w[g][k][j], with the given strides of w. */
typedef struct product {
    const float *w;
    int groups, deep, wide;      /* deep, wide: size of one group */
    int64_t w_group, w_k, w_j;   /* strides */
    int together, across, total; /* groups per product, its padded width, total padded width */
} product;

static product product_of(const float *w, int groups, int deep, int wide, int64_t w_k, int64_t w_j)
{
    product q = { w, groups, deep, wide, (int64_t)deep * wide, w_k, w_j, 1, 0, 0 };
    if (wide < VEC_LANES)
        q.together = least((VEC_LANES + wide - 1) / wide, groups);
    q.across = VEC_ROUND(q.together * wide);
    q.total = (groups + q.together - 1) / q.together * q.across;
    return q;
}

/* Row k of group g in the panel of columns [j0, j0 + across): its own columns, zeros elsewhere. */
static void pack_row(const product *q, int g, int k, int j0, int across, float *to)
{
    const int own = g % q->together * q->wide - j0; /* may be before or after this panel */
    const int begin = own < 0 ? 0 : least(own, across), end = own + q->wide < 0 ? 0 : least(own + q->wide, across);
    const float *w = q->w + g * q->w_group + k * q->w_k;
    for (int j = 0; j < begin; j++)
        to[j] = 0;
    for (int j = begin; j < end; j++)
        to[j] = w[(j - own) * q->w_j];
    for (int j = end > begin ? end : begin; j < across; j++)
        to[j] = 0;
}

/* Packs the panels of all products one after the other; returns the end. */
static float *pack(const product *q, float *to)
{
    for (int first = 0; first < q->groups; first += q->together)
        for (int j0 = 0; j0 < q->across; j0 += GEMM_NR) {
            const int across = least(GEMM_NR, q->across - j0);
            for (int g = first; g < first + q->together; g++)
                for (int k = 0; k < q->deep; k++, to += across)
                    if (g < q->groups)
                        pack_row(q, g, k, j0, across, to);
        }
    return to;
}

static bool short_does(const gemm_args *g, int across)
{
    const int vectors = across / VEC_LANES;
    const bool assembly = VEC_STEP == 4 && vectors == GEMM_NV && g->k % 4 == 0 && g->k >= GEMM_K_LEAST;
    return g->k <= 32 && !assembly && (vectors == 1 || vectors == 2 || vectors == GEMM_NV);
}

/* gemm.h for one panel with few multipliers, where calling its kernels would take longer than the product. */
static void short_product(const gemm_args *g, int rows, int across)
{
    gemm_args part = *g;
    const int most = across == VEC_LANES ? GEMM_MR_ONE : GEMM_MR, vectors = across / VEC_LANES;
    int t = 0;
    for (; t + most <= rows; t += most, part.a += most * g->row, part.c += most * g->c_row)
        if (vectors == 1)
            gemm_block(GEMM_MR_ONE, 1, &part);
        else if (vectors == 2)
            gemm_block(GEMM_MR, 2, &part);
        else
            gemm_block(GEMM_MR, GEMM_NV, &part);
    if (t < rows)
        gemm_kernels[vectors - 1][rows - t - 1](&part);
}

/* c[rows][c_row] = start (or 0 if NULL) + all groups of a[rows][groups * deep]. With a start, c is dense. */
static void multiply(const product *q, const float *packed, const float *a, int rows, float *c, int64_t c_row,
                     const float *start)
{
#if defined(__ARM_NEON)
    if (group_panels_do(q->groups, q->deep, q->wide)) {
        const group_panel g = { a, packed, start, c, (int64_t)q->groups * q->deep, c_row, q->deep };
        group_panels(g, q->groups, q->wide, rows);
        return;
    }
#endif
    for (int t = 0; start && t < rows; t++)
        memcpy(c + t * c_row, start, sizeof(float) * (size_t)(q->groups * q->wide));
    for (int first = 0; first < q->groups; first += q->together) {
        const int groups = least(q->together, q->groups - first);
        const gemm_args g = { .a = a + first * q->deep,
                              .b = packed + (int64_t)(first / q->together) * q->together * q->deep * q->across,
                              .c = c + (int64_t)(first / q->together) * q->across,
                              .row = (int64_t)q->groups * q->deep,
                              .c_row = c_row,
                              .segments = 1,
                              .k = groups * q->deep,
                              .depth = q->together * q->deep,
                              .more = start != NULL };
        if (short_does(&g, q->across))
            short_product(&g, rows, q->across);
        else
            ZN_KERNEL(gemm)(&g, rows, q->across);
    }
}

/* Whether the padded products are contiguous, like the groups. */
static bool dense(const product *q) { return q->total == q->groups * q->wide; }

/* Removes the gaps of padded products in one row, in place. */
static void close_gaps(const product *q, float *c)
{
    if (dense(q))
        return;
    const int step = q->together * q->wide;
    for (int i = 1; i * q->together < q->groups; i++)
        memmove(c + i * step, c + i * q->across, sizeof(float) * (size_t)step);
}

/* to[n][groups] = from[groups][n] for one pixel: the inverse of part. */
static inline void alternate(float *to, const float *from, int n, int groups)
{
    int j = 0;
    if (groups == 4)
        for (; j + 4 <= n; j += 4)
            interleave4(to + 4 * j, from + j, from + n + j, from + 2 * n + j, from + 3 * n + j);
    for (; j < n; j++)
        for (int g = 0; g < groups; g++)
            to[j * groups + g] = from[g * n + j];
}

#endif

/* Products of narrow groups on NEON: six pixels by two vectors of outputs, of one group or of two neighbours. Twelve
 * sums are enough to hide each other's latency, and the two vectors of a pixel are stored together. */
#ifndef ZN_GROUP_PANEL_H
#define ZN_GROUP_PANEL_H

#include "kernels/simd/vec.h"

#include <stdbool.h>

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

#endif

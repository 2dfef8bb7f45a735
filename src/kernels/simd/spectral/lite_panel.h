/* The expansion of a Lite block on NEON: four neighbouring pixels by sixteen outputs of a group, a whole line of each.
 * Weights lie panel after panel, [deep][16], so that a panel's addresses are constants beside one pointer: with strides
 * they took longer than the products. */
#ifndef ZN_LITE_PANEL_H
#define ZN_LITE_PANEL_H

#include "kernels/simd/vec.h"

#include <stdbool.h>

#if defined(__ARM_NEON)

enum { PANEL_ACROSS = 4, PANEL = PANEL_ACROSS * VEC_LANES, PANEL_MOST = 4 /* pixels */ };

static bool lite_panels_do(int deep, int wide) { return deep % 4 == 0 && wide % PANEL == 0; }

#define LITE_PANEL_LANE(lane)                                                                                          \
    _Pragma("GCC unroll 4") for (int j = 0; j < PANEL_ACROSS; j++)                                                     \
    {                                                                                                                  \
        const vec wj = vec_load(w + (lane)*PANEL + j * VEC_LANES);                                                     \
        _Pragma("GCC unroll 4") for (int i = 0; i < pixels; i++) sum[i][j] = vec_fma_lane(m[i], lane, wj, sum[i][j]);  \
    }

/* y = x + b + t w for one panel; pixels is a constant. Pixels lie t_step floats apart in t, c in x and y. */
VEC_INLINE void lite_panel(const int pixels, int deep, const float *t, int64_t t_step, const float *w, const float *b,
                           const float *x, float *y, int64_t c)
{
    vec sum[PANEL_MOST][PANEL_ACROSS];
#pragma GCC unroll 4
    for (int j = 0; j < PANEL_ACROSS; j++) {
        const vec bj = vec_load(b + j * VEC_LANES);
#pragma GCC unroll 4
        for (int i = 0; i < pixels; i++)
            sum[i][j] = bj + vec_load(x + i * c + j * VEC_LANES);
    }
    for (int k = 0; k < deep; k += VEC_STEP, t += VEC_STEP, w += VEC_STEP * PANEL) {
        vec_multipliers m[PANEL_MOST];
#pragma GCC unroll 4
        for (int i = 0; i < pixels; i++)
            m[i] = vec_load_multipliers(t + i * t_step);
        LITE_PANEL_LANE(0)
        LITE_PANEL_LANE(1)
        LITE_PANEL_LANE(2)
        LITE_PANEL_LANE(3)
    }
#pragma GCC unroll 4
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PANEL_ACROSS; j++)
            vec_store(y + i * c + j * VEC_LANES, sum[i][j]);
}
#undef LITE_PANEL_LANE

/* All groups of some pixels. */
VEC_INLINE void lite_panels(const int pixels, int groups, int deep, int wide, const float *t, int64_t t_step,
                            const float *w, const float *b, const float *x, float *y, int64_t c)
{
    for (int g = 0; g < groups; g++, t += deep)
        for (int o = 0; o < wide; o += PANEL, w += (int64_t)deep * PANEL, b += PANEL, x += PANEL, y += PANEL)
            lite_panel(pixels, deep, t, t_step, w, b, x, y, c);
}

#endif

#endif

/* The expansion of a Lite block for AArch64: four neighbouring pixels at a time with the passes of expand_pass.h.
 * The remaining pixels are processed in panels of sixteen outputs, a whole cache line each. Weights are stored panel
 * by panel, [deep][16], so that the addresses of a panel are constant offsets from one pointer: computing them with
 * strides took longer than the products. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/expand_pass.h"
#include "kernels/lite.h"

enum { ACROSS = 4, PANEL = ACROSS * VEC_LANES };

/* The operands of an expansion: packed weights [groups][panels][deep][PANEL]. */
typedef struct expansion {
    const zn_lite_args *a;
    const float *packed;
    int deep, wide;
} expansion;

bool zn_lite_expand_arm_supports(const void *args)
{
    const zn_lite_args *a = args;
    return a->ci / a->groups % 4 == 0 && a->c / a->groups % PANEL == 0;
}

/* Packs from [groups][wide][deep]. */
static void pack(const expansion *e, float *to)
{
    const zn_lite_args *a = e->a;
    for (int panel = 0; panel < a->c; panel += PANEL)
        for (int k = 0; k < e->deep; k++)
            for (int o = panel; o < panel + PANEL; o++)
                *to++ = a->w[(int64_t)o * e->deep + k];
}

#define PANEL_LANE(lane)                                                                                               \
    _Pragma("GCC unroll 4") for (int j = 0; j < ACROSS; j++) sum[j] =                                                  \
        vec_fma_lane(m, lane, vec_load(w + (lane)*PANEL + j * VEC_LANES), sum[j]);

/* y = x + b + t w for one panel of one pixel. */
VEC_INLINE void expand_panel(int deep, const float *t, const float *w, const float *b, const float *x, float *y)
{
    vec sum[ACROSS];
#pragma GCC unroll 4
    for (int j = 0; j < ACROSS; j++)
        sum[j] = vec_load(b + j * VEC_LANES) + vec_load(x + j * VEC_LANES);
    for (int k = 0; k < deep; k += VEC_STEP, t += VEC_STEP, w += VEC_STEP * PANEL) {
        const vec_multipliers m = vec_load_multipliers(t);
        PANEL_LANE(0)
        PANEL_LANE(1)
        PANEL_LANE(2)
        PANEL_LANE(3)
    }
#pragma GCC unroll 4
    for (int j = 0; j < ACROSS; j++)
        vec_store(y + j * VEC_LANES, sum[j]);
}
#undef PANEL_LANE

static void expand_pixel(const expansion *e, int64_t p)
{
    const zn_lite_args *a = e->a;
    const float *t = a->t + zn_lite_at(a, p / a->wide, p % a->wide), *x = a->x + p * a->c;
    for (int o = 0; o < a->c; o += PANEL)
        expand_panel(e->deep, t + o / e->wide * e->deep, e->packed + (int64_t)o * e->deep, a->b + o, x + o,
                     a->y + p * a->c + o);
}

/* Expands groups of four pixels from p, as many as fit before `end`. Returns the first remaining pixel. */
static int64_t expand_fours(const expansion *e, int64_t p, int64_t end)
{
    const zn_lite_args *a = e->a;
    for (int64_t fours; end - p >= EXPAND_PIXELS && (!a->band || p % EXPAND_PIXELS == 0); p += fours * EXPAND_PIXELS) {
        const int64_t row = p / a->wide, x = p % a->wide, in_row = a->wide - x;
        const int64_t left = a->band && in_row < end - p ? in_row : end - p;
        const expand_pass q = { .t = a->t + zn_lite_at(a, row, x),
                                .w = e->packed,
                                .b = a->b,
                                .x = a->x + p * a->c,
                                .y = a->y + p * a->c,
                                .ci = a->ci,
                                .c = a->c,
                                .deep = e->deep,
                                .wide = e->wide,
                                .band = a->band,
                                .first = a->band ? x % a->band : 0,
                                .skip = zn_lite_apart(a) - a->band * a->ci };
        fours = left / EXPAND_PIXELS;
        expand_all(&q, fours);
    }
    return p;
}

void zn_lite_expand_arm(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    const expansion e = { a, r.scratch, a->ci / a->groups, a->c / a->groups };
    pack(&e, r.scratch);
    for (int64_t p = expand_fours(&e, r.begin, r.end); p < r.end; p = expand_fours(&e, p + 1, r.end))
        expand_pixel(&e, p);
}

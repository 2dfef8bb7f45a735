/* The passes of a Lite block along rows and over pixels; lite_columns.c has the one between. A row of t is transformed
 * in scratch, where it fits the L1. The grouped convolutions run on the way in and on the way out. */
#include "kernels/lite.h"
#include "kernels/mix.h"
#include "kernels/simd/conv/group_product.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/spectral/lite_mix.h"
#include "kernels/simd/spectral/lite_panel.h"
#include "kernels/simd/vec_math.h"
#if defined(__aarch64__)
#include "kernels/arm/spectral/expand_pass.h"
#include "kernels/arm/spectral/plane_line.h"
#include "kernels/arm/spectral/reduce_pair.h"
#endif

void ZN_KERNEL(lite_rows)(const void *args, zn_range r);
void ZN_KERNEL(lite_expand)(const void *args, zn_range r);

#if defined(__aarch64__)
/* The weights of the product of arm/reduce_pass.h, or reduce_pair.h (pairs), behind which its results go. */
static reduce_pass row_product(const zn_lite_args *a, bool pairs, float *scratch)
{
    reduce_pass q = { .w = scratch,
                      .b = a->b,
                      .c = a->c,
                      .ci = a->ci,
                      .groups = a->groups,
                      .deep = a->c / a->groups,
                      .wide = a->ci / a->groups };
    if (pairs)
        pair_pack(&q, a->w, scratch);
    else
        reduce_pack(&q, a->w, scratch);
    q.y = scratch + (int64_t)a->ci * q.deep + WHT_LINE;
    return q;
}

/* What is fetched while a row is transformed: so many pixels of the next one. */
static wht_ahead next_row(const zn_lite_args *a, int64_t pixels, int each, int64_t row, zn_range r)
{
    const int64_t lines = row + 1 < r.end ? pixels * a->c / 16 : 0;
    return (wht_ahead){ a->x + (row + 1) * a->wide * a->c, lines, each, false };
}

/* All of lite_rows where there is such a product. */
static void rows_by_passes(const zn_lite_args *a, bool pairs, zn_range r)
{
    reduce_pass q = row_product(a, pairs, r.scratch);
    q.early = pairs ? least(a->wide, PAIR_EARLY) : a->wide;
    for (int64_t row = r.begin; row < r.end; row++) {
        wht_ahead ahead = next_row(a, q.early, pairs ? 2 : 8, row, r);
        q.x = a->x + row * a->wide * a->c;
        if (pairs)
            pair_all(&q, a->wide);
        else
            reduce_all(&q, a->wide / REDUCE_PIXELS);
        mix(q.y, a->gate, a->wide, a->ci, a->y + zn_lite_at(a, row, 0), a->band * a->ci, zn_lite_apart(a), &ahead);
        zn_lite_end_bands(a, row);
    }
}

/* The same where also the transform has passes, those of arm/plane_line.h. */
static void rows_by_planes(const zn_lite_args *a, bool pairs, zn_range r)
{
    reduce_pass q = row_product(a, pairs, r.scratch);
    float *gates = q.y;
    plane_line line = { .x = gates + a->wide, .gates = gates, .n = a->wide, .width = a->ci };
    const int fours = a->band ? a->band / 4 : a->wide / 4;
    q.early = a->wide / 8; /* so fetches come evenly */
    q.plane = plane_floats(a->wide);
    q.y = line.x + q.plane;
    plane_gates(a->gate, a->wide, gates);
    for (int64_t row = r.begin; row < r.end; row++) {
        wht_ahead ahead = next_row(a, q.early, 2, row, r);
        const plane_to to = { .to = a->y + zn_lite_at(a, row, 0),
                              .position = a->ci,
                              .fours = fours,
                              .jump = a->band ? zn_lite_apart(a) - a->band * a->ci : 0 };
        line.ahead = &ahead;
        q.x = a->x + row * a->wide * a->c;
        if (pairs)
            pair_planes(&q, a->wide);
        else
            reduce_planes(&q, a->wide / REDUCE_PIXELS);
        plane_in_place(&line);
        plane_middle(&line);
        plane_last(&line, &to);
        zn_lite_end_bands(a, row);
    }
}
#endif

void ZN_KERNEL(lite_rows)(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
#if defined(__aarch64__)
    const bool pairs = pair_does(a->groups, a->c / a->groups, a->ci / a->groups, a->wide);
    if (pairs || (a->wide % REDUCE_PIXELS == 0 && reduce_does(a->c / a->groups, a->ci / a->groups))) {
        if (plane_does(a->wide, a->ci))
            rows_by_planes(a, pairs, r);
        else
            rows_by_passes(a, pairs, r);
        return;
    }
#endif
    const product q = product_of(a->w, a->groups, a->c / a->groups, a->ci / a->groups, 1, a->c / a->groups);
    const int64_t width = VEC_ROUND(a->ci);
    float *packed = r.scratch, *products = pack(&q, packed), *line = products + ZN_GROUPED_PIXELS * q.total;
    const bool direct = dense(&q) && width == a->ci;
    for (int64_t row = r.begin; row < r.end; row++) {
        const float *x = a->x + row * a->wide * a->c;
        for (int p = 0; p < a->wide; p += ZN_GROUPED_PIXELS) {
            const int count = least(ZN_GROUPED_PIXELS, a->wide - p);
            float *to = direct ? line + p * width : products;
            multiply(&q, packed, x + (int64_t)p * a->c, count, to, q.total, direct ? a->b : NULL);
            for (int t = 0; t < count && !direct; t++) {
                float *c = products + (int64_t)t * q.total;
                close_gaps(&q, c);
                for (int k = 0; k < a->ci; k++)
                    c[k] += a->b[k];
                widen(line + (p + t) * width, width, c, a->ci);
            }
        }
        float *y = a->y + zn_lite_at(a, row, 0);
        /* What the next row's product reads comes while this one is transformed. */
        wht_ahead ahead = { x + a->wide * a->c, row + 1 < r.end ? a->wide * a->c / 16 : 0, 8, false };
        mix(line, a->gate, a->wide, width, width == a->ci ? y : line, a->band * a->ci, zn_lite_apart(a), &ahead);
        zn_lite_end_bands(a, row);
        for (int p = 0; p < a->wide && width != a->ci; p++)
            memcpy(y + (int64_t)p * a->ci, line + p * width, sizeof(float) * (size_t)a->ci);
    }
}

enum { PIXELS = 4, ACROSS = VEC_REGISTERS / 8 }; /* a block of results */

/* What a pixel is expanded with: packed weights [groups][deep][padded]. */
typedef struct expansion {
    const zn_lite_args *a;
    const float *packed;
    int deep, wide, padded;
} expansion;

/* y = x + b + t w for `pixels` pixels (a constant) of `across` vectors (likewise), the last one of `last` lanes. x and
 * y begin at float `at`, b and w at output o of group g. */
VEC_INLINE void expand_few(const int pixels, const int across, const expansion *e, const float *t, int g, int o,
                           int64_t at, int last)
{
    const zn_lite_args *a = e->a;
    const float *b = a->b + g * e->wide + o, *w = e->packed + (int64_t)g * e->deep * e->padded + o;
    vec sum[PIXELS][ACROSS];
#pragma GCC unroll 4
    for (int j = 0; j < across; j++) {
        const int n = j == across - 1 ? last : VEC_LANES;
        const vec bj = load(b + j * VEC_LANES, n);
#pragma GCC unroll 4
        for (int i = 0; i < pixels; i++)
            sum[i][j] = bj + load(a->x + at + i * a->c + j * VEC_LANES, n);
    }
    for (int k = 0; k < e->deep; k++, w += e->padded) {
        vec wj[ACROSS];
#pragma GCC unroll 4
        for (int j = 0; j < across; j++)
            wj[j] = vec_load(w + j * VEC_LANES);
#pragma GCC unroll 4
        for (int i = 0; i < pixels; i++) {
            const vec m = vec_splat(t[i * a->ci + g * e->deep + k]);
#pragma GCC unroll 4
            for (int j = 0; j < across; j++)
                sum[i][j] = vec_fma(m, wj[j], sum[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 4
        for (int j = 0; j < across; j++)
            store(a->y + at + i * a->c + j * VEC_LANES, sum[i][j], j == across - 1 ? last : VEC_LANES);
}

/* All outputs of some pixels. */
VEC_INLINE void expand_pixels(const int pixels, const expansion *e, const float *t, int64_t at)
{
#if defined(__ARM_NEON)
    if (lite_panels_do(e->deep, e->wide)) {
        const zn_lite_args *a = e->a;
        lite_panels(pixels, a->groups, e->deep, e->wide, t, a->ci, e->packed, a->b, a->x + at, a->y + at, a->c);
        return;
    }
#endif
    for (int g = 0; g < e->a->groups; g++, at += e->wide) {
        int o = 0;
        for (; o + ACROSS * VEC_LANES <= e->wide; o += ACROSS * VEC_LANES)
            expand_few(pixels, ACROSS, e, t, g, o, at + o, VEC_LANES);
        for (; o + VEC_LANES <= e->wide; o += VEC_LANES)
            expand_few(pixels, 1, e, t, g, o, at + o, VEC_LANES);
        if (o < e->wide)
            expand_few(pixels, 1, e, t, g, o, at + o, e->wide - o);
    }
}

/* [groups][panels][deep][across] from [groups][wide][deep], zeros behind; returns where they end. One panel of `padded`
 * outputs, unless the build has narrower ones. */
static float *pack_expansion(const expansion *e, float *to)
{
    const zn_lite_args *a = e->a;
    int across = e->padded;
#if defined(__ARM_NEON)
    across = lite_panels_do(e->deep, e->wide) ? PANEL : across;
#endif
    for (int g = 0; g < a->groups; g++)
        for (int panel = 0; panel < e->padded; panel += across)
            for (int k = 0; k < e->deep; k++)
                for (int o = panel; o < panel + across; o++)
                    *to++ = o < e->wide ? a->w[((int64_t)g * e->wide + o) * e->deep + k] : 0;
    return to;
}

/* What lies 8 KB behind these floats, into the second cache. */
static inline void fetch_ahead(const float *from, int64_t floats)
{
    for (int64_t i = 0; i < floats; i += 16)
        __builtin_prefetch(from + 2048 + i, 0, 2);
}

/* All outputs of as many fours of pixels from p on as there are before `end`, if the build has a pass for them. Returns
 * the first pixel that is left. */
static int64_t expand_fours(const expansion *e, int64_t p, int64_t end)
{
#if defined(__aarch64__)
    const zn_lite_args *a = e->a;
    if (!lite_panels_do(e->deep, e->wide))
        return p;
    for (int64_t fours; end - p >= EXPAND_PIXELS && (!a->band || p % EXPAND_PIXELS == 0); p += fours * EXPAND_PIXELS) {
        const int64_t row = p / a->wide, x = p % a->wide, left = a->band ? least(a->wide - x, end - p) : end - p;
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
#else
    (void)e, (void)end;
#endif
    return p;
}

void ZN_KERNEL(lite_expand)(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    const int wide = a->c / a->groups;
    const expansion e = { a, r.scratch, a->ci / a->groups, wide, VEC_ROUND(wide) };
    pack_expansion(&e, r.scratch);
    int64_t p = r.begin;
    while (p < r.end) {
        p = expand_fours(&e, p, r.end);
        const bool four = p + PIXELS <= r.end && (!a->band || p % PIXELS == 0);
        const float *t = a->t + zn_lite_at(a, p / a->wide, p % a->wide);
        if (four) {
            fetch_ahead(a->x + p * a->c, PIXELS * a->c);
            expand_pixels(PIXELS, &e, t, p * a->c);
        } else if (p < r.end) {
            expand_pixels(1, &e, t, p * a->c);
        }
        p += four ? PIXELS : 1;
    }
}

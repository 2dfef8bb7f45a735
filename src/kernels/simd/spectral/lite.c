/* The passes of a Lite block along rows and over pixels; lite_columns.c has the pass between them. A row of t is
 * transformed in scratch, where it fits L1. The grouped convolutions run when data is loaded and stored. */
#include "kernels/lite.h"
#include "kernels/mix.h"
#include "kernels/simd/conv/group_product.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/spectral/lite_mix.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(lite_rows)(const void *args, zn_range r);
void ZN_KERNEL(lite_expand)(const void *args, zn_range r);

void ZN_KERNEL(lite_rows)(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
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
        /* Prefetches the input of the next row's product while this row is transformed. */
        wht_ahead ahead = { x + a->wide * a->c, row + 1 < r.end ? a->wide * a->c / 16 : 0, 8, false };
        mix(line, a->gate, a->wide, width, width == a->ci ? y : line, a->band * a->ci, zn_lite_apart(a), &ahead);
        zn_lite_end_bands(a, row);
        for (int p = 0; p < a->wide && width != a->ci; p++)
            memcpy(y + (int64_t)p * a->ci, line + p * width, sizeof(float) * (size_t)a->ci);
    }
}

enum { PIXELS = 4, ACROSS = VEC_REGISTERS / 8 }; /* a block of results */

/* The operands of an expansion: packed weights [groups][deep][padded]. */
typedef struct expansion {
    const zn_lite_args *a;
    const float *packed;
    int deep, wide, padded;
} expansion;

/* y = x + b + t w for `pixels` pixels and `across` vectors (both compile-time constants), the last vector with
 * `last` lanes. x and y begin at offset `at`, b and w at output o of group g. */
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

/* [groups][deep][padded] from [groups][wide][deep], zero-padded. */
static void pack_expansion(const expansion *e, float *to)
{
    const zn_lite_args *a = e->a;
    for (int g = 0; g < a->groups; g++)
        for (int k = 0; k < e->deep; k++)
            for (int o = 0; o < e->padded; o++)
                *to++ = o < e->wide ? a->w[((int64_t)g * e->wide + o) * e->deep + k] : 0;
}

/* Prefetches the memory 8 KB after these floats into L2. */
static inline void fetch_ahead(const float *from, int64_t floats)
{
    for (int64_t i = 0; i < floats; i += 16)
        __builtin_prefetch(from + 2048 + i, 0, 2);
}

void ZN_KERNEL(lite_expand)(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    const int wide = a->c / a->groups;
    const expansion e = { a, r.scratch, a->ci / a->groups, wide, VEC_ROUND(wide) };
    pack_expansion(&e, r.scratch);
    int64_t p = r.begin;
    while (p < r.end) {
        const bool four = p + PIXELS <= r.end && (!a->band || p % PIXELS == 0);
        const float *t = a->t + zn_lite_at(a, p / a->wide, p % a->wide);
        if (four) {
            fetch_ahead(a->x + p * a->c, PIXELS * a->c);
            expand_pixels(PIXELS, &e, t, p * a->c);
        } else {
            expand_pixels(1, &e, t, p * a->c);
        }
        p += four ? PIXELS : 1;
    }
}

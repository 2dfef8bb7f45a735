/* Depthwise 3x3, with channels as vector lanes. Four neighbouring pixels are processed together through all their
 * channels. They share inputs, and pixels with many channels are so large that they would not stay in L1 until the
 * next pass. Products are rounded before they are added (this file is compiled without contraction), as in the
 * reference and in the kernel that skips pruned blocks: all three give the same bits. Only y = x + conv(x), which
 * the skipping kernel does not support, uses fused multiply-adds. */
#include "kernels/mix.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(depthwise)(const void *args, zn_range r);
void ZN_KERNEL(depthwise_weight_grad)(const void *args, zn_range r);

enum { FOUR = 4 };

/* One row: the kernel rows that exist (ky in [from,to)), and the offset where the first would begin. */
typedef struct strip {
    const float *x;
    int64_t at, line; /* offset of kernel row 0; floats per row */
    int from, to, wide, c;
} strip;

VEC_INLINE const float *tap_of(const strip *s, int ky, int x, int k)
{
    return s->x + (s->at + ky * s->line + (int64_t)x * s->c + k);
}

static strip strip_of(const zn_depthwise_args *a, int64_t row)
{
    const int y = (int)(row % a->h);
    const int64_t line = (int64_t)a->wide * a->c;
    return (strip){ .x = a->x,
                    .at = (row - 1) * line,
                    .line = line,
                    .from = y == 0 ? 1 : 0,
                    .to = y + 1 == a->h ? 2 : 3,
                    .wide = a->wide,
                    .c = a->c };
}

/* The extent of a group of pixels: `count` pixels from ox, kernel rows [from,to), columns [left,right), `lanes`
 * channels from k. All except ox and k are compile-time constants for groups inside the map. */
typedef struct group {
    int count, from, to, left, right, lanes, ox, k;
} group;

VEC_INLINE void sums_of(const strip *s, const group g, const float *turned, const bool add_x, float *y)
{
    vec sum[FOUR], x[FOUR + 2];
#pragma GCC unroll 4
    for (int t = 0; t < g.count; t++)
        sum[t] = add_x ? load(tap_of(s, 1, g.ox + t, g.k), g.lanes) : vec_splat(0);
#pragma GCC unroll 3
    for (int ky = g.from; ky < g.to; ky++) {
#pragma GCC unroll 6
        for (int i = g.left; i < g.count - 1 + g.right; i++)
            x[i] = load(tap_of(s, ky, g.ox + i - 1, g.k), g.lanes);
#pragma GCC unroll 3
        for (int kx = g.left; kx < g.right; kx++) {
            const vec w = load(turned + (3 * ky + kx) * s->c + g.k, g.lanes);
#pragma GCC unroll 4
            for (int t = 0; t < g.count; t++)
                sum[t] = add_x ? vec_fma(w, x[t + kx], sum[t]) : (vec)(sum[t] + w * x[t + kx]);
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < g.count; t++)
        store(y + (int64_t)(g.ox + t) * s->c + g.k, sum[t], g.lanes);
}

/* Four pixels of a row and the four below them, all inside the map. They share two thirds of their inputs, and nine
 * weights also fit the registers. Each sum is computed in the order of sums_of. */
VEC_INLINE void sums_of_two(const strip *s, const group g, const float *turned, const bool add_x, float *y)
{
    vec sum[2][FOUR], w[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        w[i] = vec_load(turned + i * s->c + g.k);
#pragma GCC unroll 2
    for (int r = 0; r < 2; r++)
#pragma GCC unroll 4
        for (int t = 0; t < FOUR; t++)
            sum[r][t] = add_x ? vec_load(tap_of(s, 1 + r, g.ox + t, g.k)) : vec_splat(0);
#pragma GCC unroll 4
    for (int row = 0; row < 4; row++) {
        vec x[FOUR + 2];
#pragma GCC unroll 6
        for (int i = 0; i < FOUR + 2; i++)
            x[i] = vec_load(tap_of(s, row, g.ox + i - 1, g.k));
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            const int ky = row - r;
            if (ky < 0 || ky > 2)
                continue;
#pragma GCC unroll 3
            for (int kx = 0; kx < 3; kx++)
#pragma GCC unroll 4
                for (int t = 0; t < FOUR; t++)
                    sum[r][t] = add_x ? vec_fma(w[3 * ky + kx], x[t + kx], sum[r][t])
                                      : (vec)(sum[r][t] + w[3 * ky + kx] * x[t + kx]);
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; r++)
#pragma GCC unroll 4
        for (int t = 0; t < FOUR; t++)
            vec_store(y + r * s->line + (int64_t)(g.ox + t) * s->c + g.k, sum[r][t]);
}

/* A group of a row inside the map, and the same group of the row below. */
VEC_INLINE void both_sums(const strip *s, const group g, const float *turned, const bool add_x, float *y)
{
    if (g.count == FOUR && g.lanes == VEC_LANES) {
        sums_of_two(s, g, turned, add_x, y);
        return;
    }
    strip below = *s;
    below.at += s->line;
    sums_of(s, g, turned, add_x, y);
    sums_of(&below, g, turned, add_x, y + s->line);
}

/* Adds the products of a group to sums[9][c]. */
VEC_INLINE void products_of(const strip *s, const group g, const float *dy, float *sums)
{
    vec d[FOUR], x[FOUR + 2];
#pragma GCC unroll 4
    for (int t = 0; t < g.count; t++)
        d[t] = load(dy + (int64_t)(g.ox + t) * s->c + g.k, g.lanes);
#pragma GCC unroll 3
    for (int ky = g.from; ky < g.to; ky++) {
#pragma GCC unroll 6
        for (int i = g.left; i < g.count - 1 + g.right; i++)
            x[i] = load(tap_of(s, ky, g.ox + i - 1, g.k), g.lanes);
#pragma GCC unroll 3
        for (int kx = g.left; kx < g.right; kx++) {
            float *at = sums + (3 * ky + kx) * s->c + g.k;
            vec sum = load(at, g.lanes);
#pragma GCC unroll 4
            for (int t = 0; t < g.count; t++)
                sum = sum + d[t] * x[t + kx];
            store(at, sum, g.lanes);
        }
    }
}

/* Iterates over a row: BODY(group) for all groups and all their channels. */
#define FOR_GROUPS(s, BODY)                                                                                            \
    for (int ox = 0, step; ox < (s)->wide; ox += step) {                                                               \
        const int whole = (s)->c / VEC_LANES * VEC_LANES, rest = (s)->c - whole;                                       \
        const int left = ox == 0 ? 1 : 0, right = ox + 1 == (s)->wide ? 2 : 3, from = (s)->from, to = (s)->to;         \
        const bool four = left == 0 && ox + FOUR < (s)->wide;                                                          \
        step = four ? FOUR : 1;                                                                                        \
        if (four && from == 0 && to == 3)                                                                              \
            for (int k = 0; k < whole; k += VEC_LANES)                                                                 \
                BODY((group){ FOUR, 0, 3, 0, 3, VEC_LANES, ox, k });                                                   \
        else if (four)                                                                                                 \
            for (int k = 0; k < whole; k += VEC_LANES)                                                                 \
                BODY((group){ FOUR, from, to, 0, 3, VEC_LANES, ox, k });                                               \
        else                                                                                                           \
            for (int k = 0; k < whole; k += VEC_LANES)                                                                 \
                BODY((group){ 1, from, to, left, right, VEC_LANES, ox, k });                                           \
        if (rest && four)                                                                                              \
            BODY((group){ FOUR, from, to, 0, 3, rest, ox, whole });                                                    \
        else if (rest)                                                                                                 \
            BODY((group){ 1, from, to, left, right, rest, ox, whole });                                                \
    }

void ZN_KERNEL(depthwise)(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    float *turned = r.scratch; /* [9][c] */
    for (int k = 0; k < a->c; k++)
        for (int i = 0; i < 9; i++)
            turned[i * a->c + k] = a->w[9 * k + (a->flip ? 8 - i : i)];
    for (int64_t row = r.begin, rows; row < r.end; row += rows) {
        const strip s = strip_of(a, row);
        float *y = a->y + row * s.line;
        rows = VEC_REGISTERS == 32 && row + 1 < r.end && row % a->h > 0 && row % a->h + 2 < a->h ? 2 : 1;
#define SUMS(...)       sums_of(&s, __VA_ARGS__, turned, false, y)
#define ADDED(...)      sums_of(&s, __VA_ARGS__, turned, true, y)
#define BOTH_SUMS(...)  both_sums(&s, __VA_ARGS__, turned, false, y)
#define BOTH_ADDED(...) both_sums(&s, __VA_ARGS__, turned, true, y)
        if (rows == 2 && a->add_x)
            FOR_GROUPS(&s, BOTH_ADDED)
        else if (rows == 2)
            FOR_GROUPS(&s, BOTH_SUMS)
        else if (a->add_x)
            FOR_GROUPS(&s, ADDED)
        else
            FOR_GROUPS(&s, SUMS)
#undef SUMS
#undef ADDED
#undef BOTH_SUMS
#undef BOTH_ADDED
    }
}

void ZN_KERNEL(depthwise_weight_grad)(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    const int64_t rows = (int64_t)a->n * a->h, size = zn_sum_block(rows);
    float *sums = r.scratch; /* [9][c] */
    for (int64_t block = r.begin; block < r.end; block++) {
        memset(sums, 0, sizeof(float) * 9 * (size_t)a->c);
        for (int64_t row = block * size; row < (block + 1) * size && row < rows; row++) {
            const strip s = strip_of(a, row);
            const float *dy = a->dy + row * s.line;
#define PRODUCTS(...) products_of(&s, __VA_ARGS__, dy, sums)
            FOR_GROUPS(&s, PRODUCTS)
#undef PRODUCTS
        }
        for (int k = 0; k < a->c; k++)
            for (int i = 0; i < 9; i++)
                a->partial[block * 9 * a->c + 9 * k + i] = sums[i * a->c + k];
    }
}

/* Walsh-Hadamard steps on rows of vectors: butterflies over 2 to 8 rows in registers. Steps of a transform commute,
 * so a long one is done as such passes in any order. */
#ifndef ZN_SIMD_WHT_H
#define ZN_SIMD_WHT_H

#include "kernels/simd/spectral/wht_walk.h"

/* The whole transform over radix (2, 4, 8 or 16, a compile-time constant) values. */
VEC_INLINE void wht_registers(const int radix, vec *v)
{
#pragma GCC unroll 4
    for (int len = 1; len < radix; len *= 2)
#pragma GCC unroll 16
        for (int i = 0; i < radix; i++)
            if (!(i & len)) {
                const vec a = v[i], b = v[i + len];
                v[i] = a + b;
                v[i + len] = a - b;
            }
}

/* The transform over four lines of sixteen floats, from one address to another (or the same). Whole lines are
 * written: stores that alternate between cache lines cost a Neoverse-V1 a cycle or more each. */
enum { WHT_LINE = 16 };
VEC_INLINE void wht_load_lines(const float *from, int64_t step, vec v[WHT_LINE / VEC_LANES][4])
{
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int u = 0; u < WHT_LINE / VEC_LANES; u++)
            v[u][j] = vec_load(from + j * step + u * VEC_LANES);
#pragma GCC unroll 4
    for (int u = 0; u < WHT_LINE / VEC_LANES; u++)
        wht_registers(4, v[u]);
}

VEC_INLINE void wht_lines(const float *from, int64_t from_step, float *to, int64_t to_step)
{
    vec v[WHT_LINE / VEC_LANES][4];
    wht_load_lines(from, from_step, v);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int u = 0; u < WHT_LINE / VEC_LANES; u++)
            vec_store(to + j * to_step + u * VEC_LANES, v[u][j]);
}

/* Row `row` of the block at offset c of run `number`. */
VEC_INLINE vec wht_walk_load(const wht_kind kind, const int radix, const wht_walk *q, int64_t number, int64_t c,
                             int row)
{
    if (kind != WHT_FACTORS)
        return vec_load(q->from + number * q->from_next + c + row * q->from_step);
    const int64_t k = number * radix + row;
    return vec_load(q->from + (int64_t)(q->table[k] & q->mask) * q->from_step + c) * vec_splat(q->factors[k]);
}

/* All blocks of a walk, one vector of each row at a time. kind and radix (at most 8) are compile-time constants. */
VEC_INLINE void wht_walk_blocks(const wht_kind kind, const int radix, const wht_walk *q)
{
    for (int64_t number = 0; number < q->runs; number++)
        for (int64_t c = 0; c < q->run; c += VEC_LANES) {
            vec v[8];
#pragma GCC unroll 8
            for (int j = 0; j < radix; j++)
                v[j] = wht_walk_load(kind, radix, q, number, c, j);
            wht_registers(radix, v);
#pragma GCC unroll 8
            for (int j = 0; j < radix; j++)
                if (kind == WHT_GATE)
                    v[j] = v[j] * vec_splat(q->factors[number * radix + j] * q->scale);
                else if (kind == WHT_SCALE)
                    v[j] = v[j] * vec_splat(q->scale);
            if (kind == WHT_GATE)
                wht_registers(radix, v);
#pragma GCC unroll 8
            for (int j = 0; j < radix; j++)
                vec_store(q->to + number * q->to_next + c + j * q->to_step, v[j]);
            if (wht_fetches(q)) {
                for (int i = 0; i < q->ahead->each; i += 2)
                    __builtin_prefetch(q->ahead->at + 8 * i);
                wht_fetched(q, q->ahead->at + 8 * q->ahead->each);
            }
        }
}

/* All blocks of a walk, by kind and radix. Microkernels (see CMakeLists.txt): spectral/wht_passes.c, in simd/ or in the
 * folder of the ISA. */
void ZN_KERNEL(wht_plain8)(const wht_walk *q);
void ZN_KERNEL(wht_plain4)(const wht_walk *q);
void ZN_KERNEL(wht_plain2)(const wht_walk *q);
void ZN_KERNEL(wht_scale4)(const wht_walk *q);
void ZN_KERNEL(wht_scale2)(const wht_walk *q);
void ZN_KERNEL(wht_gate8)(const wht_walk *q);

static inline void wht_plain(int radix, const wht_walk *q)
{
    if (radix == 8)
        ZN_KERNEL(wht_plain8)(q);
    else if (radix == 4)
        ZN_KERNEL(wht_plain4)(q);
    else
        ZN_KERNEL(wht_plain2)(q);
}

/* A pass over n contiguous rows of `width` floats: rows that are treated alike are merged into one run. */
static inline wht_walk wht_solid(const float *from, float *to, int64_t n, int radix, int64_t len, int64_t width)
{
    const int64_t run = len * width;
    return (wht_walk){ .from = from,
                       .to = to,
                       .from_step = run,
                       .to_step = run,
                       .run = run,
                       .runs = n / (radix * len),
                       .from_next = radix * run,
                       .to_next = radix * run };
}

/* The radix of the next pass when the steps below n remain: eight, but sixteen is done as four by four. */
static inline int wht_next_radix(int64_t n) { return n == 4 || n == 16 ? 4 : n > 4 ? 8 : (int)n; }

/* The steps at distances len, 2 len, ... below end over n rows of `width` floats, whole vectors, without gaps. */
static inline void wht_solid_from(float *x, int64_t n, int64_t len, int64_t end, int64_t width, wht_ahead *ahead)
{
    for (int radix; len < end; len *= radix) {
        radix = wht_next_radix(end / len);
        wht_walk q = wht_solid(x, x, n, radix, len, width);
        q.ahead = ahead;
        wht_plain(radix, &q);
    }
}

/* The steps at distances len, 2 len, ... below n over rows x[i * stride] of `width` floats, whole vectors. */
static inline void wht_rows_from(float *x, int64_t n, int64_t len, int64_t width, int64_t stride)
{
    if (stride == width) {
        wht_solid_from(x, n, len, n, width, NULL);
        return;
    }
    for (int radix; len < n; len *= radix) {
        radix = wht_next_radix(n / len);
        wht_walk q = { .from_step = len * stride, .to_step = len * stride, .run = width, .runs = len };
        q.from_next = q.to_next = stride;
        for (int64_t i = 0; i < n; i += radix * len) {
            q.from = q.to = x + i * stride;
            wht_plain(radix, &q);
        }
    }
}

#endif

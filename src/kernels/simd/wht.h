/* Walsh-Hadamard steps on rows of vectors: butterflies over 2 to 16 rows held in registers. Steps of a transform
 * commute, so a long one is done in any order of such passes. */
#ifndef ZN_SIMD_WHT_H
#define ZN_SIMD_WHT_H

#include "kernels/simd/vec.h"

#include <stdbool.h>

enum { WHT_RADIX = VEC_REGISTERS == 32 ? 16 : 8 }; /* the most that registers hold */

/* All of the transform over radix (2, 4, 8 or 16, a constant) values. */
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

/* The transform over four lines of sixteen floats, from one place to another (or the same). A line is written whole:
 * stores to one line after the other cost a Neoverse-V1 a cycle and more each. */
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

/* One pass over rows x[i * stride], i < n, at distance len: radix * len divides n. width: floats, whole vectors. */
VEC_INLINE void wht_pass(const int radix, float *x, int64_t n, int64_t len, int64_t width, int64_t stride)
{
    const bool solid = stride == width; /* then rows that are treated alike are one run */
    const int64_t runs = solid ? 1 : len, run = solid ? len * width : width;
    for (int64_t i = 0; i < n; i += radix * len)
        for (int64_t k = i; k < i + runs; k++) {
            int64_t c = 0;
            for (; radix == 4 && c + WHT_LINE <= run; c += WHT_LINE)
                wht_lines(x + k * stride + c, len * stride, x + k * stride + c, len * stride);
            for (; c < run; c += VEC_LANES) {
                float *at = x + k * stride + c;
                vec v[WHT_RADIX];
#pragma GCC unroll 16
                for (int j = 0; j < radix; j++)
                    v[j] = vec_load(at + j * len * stride);
                wht_registers(radix, v);
#pragma GCC unroll 16
                for (int j = 0; j < radix; j++)
                    vec_store(at + j * len * stride, v[j]);
            }
        }
}

/* The steps at distances len, 2 len, ... below n. */
static inline void wht_rows_from(float *x, int64_t n, int64_t len, int64_t width, int64_t stride)
{
    for (; len * WHT_RADIX <= n; len *= WHT_RADIX)
        wht_pass(WHT_RADIX, x, n, len, width, stride);
    if (WHT_RADIX > 8 && len * 8 <= n) {
        wht_pass(8, x, n, len, width, stride);
        len *= 8;
    }
    if (len * 4 <= n) {
        wht_pass(4, x, n, len, width, stride);
        len *= 4;
    }
    if (len * 2 <= n)
        wht_pass(2, x, n, len, width, stride);
}

#endif

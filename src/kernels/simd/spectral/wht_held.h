/* Walsh-Hadamard transforms of short consecutive lines: registers hold several lines, or one. */
#ifndef ZN_SIMD_WHT_HELD_H
#define ZN_SIMD_WHT_HELD_H

#include "kernels/simd/spectral/wht_line.h"

enum {
    WHT_VECTORS = VEC_REGISTERS == 32 ? 16 : 8, /* vectors held in registers */
    WHT_HELD = WHT_VECTORS * VEC_LANES          /* floats: the longest line */
};

/* All steps of lines of n positions; a vector holds several lines if n is less than its lanes. */
VEC_INLINE vec wht_within(const int64_t n, vec v)
{
#pragma GCC unroll 4
    for (int d = 1; d < VEC_LANES; d *= 2)
        if (d < n)
            v = vec_fma(v, wht_signs(d), wht_swap(d, v)); /* exact: the product is v or -v */
    return v;
}

/* Groups of WHT_VECTORS vectors: all steps of lines of `n` floats within a vector (VEC_LANES: all), and the steps
 * among `radix` neighbours (a compile-time constant, up to WHT_VECTORS). */
VEC_INLINE void wht_held_vectors(const int radix, const int64_t n, const float *from, float *to, int64_t vectors,
                                 vec scale)
{
    int64_t i = 0;
    for (; i + WHT_VECTORS <= vectors; i += WHT_VECTORS, from += WHT_HELD, to += WHT_HELD) {
        vec v[WHT_VECTORS];
#pragma GCC unroll 16
        for (int j = 0; j < WHT_VECTORS; j++)
            v[j] = wht_within(n, vec_load(from + j * VEC_LANES));
#pragma GCC unroll 16
        for (int j = 0; j < WHT_VECTORS; j += radix)
            wht_registers(radix, v + j);
#pragma GCC unroll 16
        for (int j = 0; j < WHT_VECTORS; j += 2)
            vec_store_pair(to + j * VEC_LANES, v[j] * scale, v[j + 1] * scale);
    }
    for (; i < vectors; i += radix, from += radix * VEC_LANES, to += radix * VEC_LANES) {
        vec v[WHT_VECTORS];
#pragma GCC unroll 16
        for (int j = 0; j < radix; j++)
            v[j] = wht_within(n, vec_load(from + j * VEC_LANES));
        wht_registers(radix, v);
#pragma GCC unroll 16
        for (int j = 0; j < radix; j++)
            vec_store(to + j * VEC_LANES, v[j] * scale);
    }
}

/* Lines of n floats, shorter than a vector; `count` floats in total. */
static inline void wht_held_short(int64_t n, const float *from, float *to, int64_t count, vec scale)
{
    const int64_t whole = count / VEC_LANES;
    const int rest = (int)(count % VEC_LANES);
    if (n == 2)
        wht_held_vectors(1, 2, from, to, whole, scale);
    else if (n == 4)
        wht_held_vectors(1, 4, from, to, whole, scale);
    else if (n == 8)
        wht_held_vectors(1, 8, from, to, whole, scale);
    else
        wht_held_vectors(1, 1, from, to, whole, scale);
    if (rest) {
        const vec v = vec_load_part(from + whole * VEC_LANES, rest);
        vec_store_part(to + whole * VEC_LANES, wht_within(n, v) * scale, rest);
    }
}

/* scale * H x for lines of n floats, at most WHT_HELD; `count` floats in total. y may be x. */
static inline void wht_held(int64_t n, const float *x, float *y, int64_t count, float scale)
{
    const int64_t vectors = count / VEC_LANES;
    const vec s = vec_splat(scale);
    if (n < VEC_LANES)
        wht_held_short(n, x, y, count, s);
    else if (n == VEC_LANES)
        wht_held_vectors(1, VEC_LANES, x, y, vectors, s);
    else if (n == 2 * VEC_LANES)
        wht_held_vectors(2, VEC_LANES, x, y, vectors, s);
    else if (n == 4 * VEC_LANES)
        wht_held_vectors(4, VEC_LANES, x, y, vectors, s);
    else if (n == 8 * VEC_LANES)
        wht_held_vectors(8, VEC_LANES, x, y, vectors, s);
    else
        wht_held_vectors(WHT_VECTORS, VEC_LANES, x, y, vectors, s);
}

#endif

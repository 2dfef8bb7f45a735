/* The middle of spectral mixing in a tile: gate and soft threshold, with the transform steps among neighbouring rows
 * before and after, in registers. */
#ifndef ZN_TILE_GATE_H
#define ZN_TILE_GATE_H

#include "kernels/simd/lanes.h"
#include "kernels/simd/spectral/wht.h"
#include "kernels/simd/vec_math.h"

typedef struct tile_gates {
    const float *gate, *th; /* [P][channels] */
    int64_t channels;
    int64_t row; /* stride of the tile's rows in floats */
    float root;  /* 1 / sqrt(P) */
} tile_gates;

/* Number of neighbours in the middle, or all rows if a tile has fewer. */
enum { TILE_MIDDLE = 8 };

/* sign(x) max(|x| - t, 0), t >= 0. A NaN stays NaN. */
VEC_INLINE vec soft(vec x, vec minus_t, vec t) { return x - vec_min(vec_max(x, minus_t), t); }

/* One vector of `rows` neighbours (a compile-time constant), the first at position k; c: its first channel, n: lanes
 * used. The scales of both transforms are included in gate and threshold. */
VEC_INLINE void tile_gate(const int rows, const tile_gates *g, float *at, int64_t k, int c, const int n)
{
    const float *gate = g->gate + k * g->channels + c, *th = g->th + k * g->channels + c;
    const vec all = vec_splat(g->root * g->root), root = vec_splat(g->root);
    vec v[8];
#pragma GCC unroll 8
    for (int q = 0; q < rows; q++)
        v[q] = vec_load(at + q * g->row);
    wht_registers(rows, v);
#pragma GCC unroll 8
    for (int q = 0; q < rows; q++) {
        const vec coefficient = v[q] * (load(gate + q * g->channels, n) * all);
        const vec t = vec_abs(load(th + q * g->channels, n)) * root;
        v[q] = soft(coefficient, -t, t);
    }
    wht_registers(rows, v);
#pragma GCC unroll 8
    for (int q = 0; q < rows; q++)
        vec_store(at + q * g->row, v[q]);
}

#endif

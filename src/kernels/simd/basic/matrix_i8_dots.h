/* The product of kernels/simd/basic/matrix_i8.h with the dot products of vectors (kernels/simd/dot.h). */
#ifndef ZN_SIMD_MATRIX_I8_DOTS_H
#define ZN_SIMD_MATRIX_I8_DOTS_H

#include "kernels/simd/basic/matrix_i8.h"

_Static_assert(ROWS % DOT_ROWS == 0, "whole tiles");

/* A tile of DOT_ROWS rows by PANEL columns. row: within the scratch. */
typedef struct tile {
    const scratch *t;
    float *sums;
    int row, panel, groups;
} tile;

/* summed: the sums of the rows are used. */
VEC_INLINE void multiply_tile(const int bits, const bool split, const bool summed, const tile *in)
{
    const scratch *t = in->t;
    vec sums[DOT_ROWS][DOT_COLUMNS];
#pragma GCC unroll 6
    for (int r = 0; r < DOT_ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < DOT_COLUMNS; c++)
            sums[r][c] = vec_load(in->sums + r * SUMS + c * VEC_LANES);
    for (int g = 0; g < in->groups; g++) {
        const float(*factors)[PANEL] = t->factors[in->panel][g];
        const int parts = split ? 2 : 1;
        for (int part = 0; part < parts; part++) {
            const int steps = 8 / parts, k = 8 * g + 4 * part;
            ivec dots[DOT_ROWS][DOT_COLUMNS];
            dots_tile(DOT_ROWS, DOT_COLUMNS, steps, bits, t->x[0][in->row] + 4 * k, LINE, sizeof t->x[0],
                      t->codes[in->panel][k][0], dots);
#pragma GCC unroll 6
            for (int r = 0; r < DOT_ROWS; r++)
#pragma GCC unroll 2
                for (int c = 0; c < DOT_COLUMNS; c++) {
                    const vec scale = vec_splat(t->x_scales[in->row + r][g]), dot = dot_to_vec(dots[r][c]);
                    const vec s = vec_load(factors[2 * part] + c * VEC_LANES),
                              less = vec_load(factors[2 * part + 1] + c * VEC_LANES);
                    sums[r][c] = vec_fma(vec_fma(dot, s, less), scale, sums[r][c]);
                }
        }
        if (summed)
#pragma GCC unroll 6
            for (int r = 0; r < DOT_ROWS; r++)
#pragma GCC unroll 2
                for (int c = 0; c < DOT_COLUMNS; c++)
                    sums[r][c] =
                        vec_fma(vec_load(factors[4] + c * VEC_LANES), vec_splat(t->x_sums[in->row + r][g]), sums[r][c]);
    }
#pragma GCC unroll 6
    for (int r = 0; r < DOT_ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < DOT_COLUMNS; c++)
            vec_store(in->sums + r * SUMS + c * VEC_LANES, sums[r][c]);
}

typedef void (*tile_fn)(const tile *in);
#define DEFINE(bits, split, summed)                                                                                    \
    static void tile_##bits##_##split##_##summed(const tile *in) { multiply_tile(bits, split, summed, in); }
DEFINE(4, 0, 0)
DEFINE(4, 0, 1)
DEFINE(5, 0, 0)
DEFINE(5, 0, 1)
DEFINE(6, 1, 0)
DEFINE(6, 0, 1)
DEFINE(8, 0, 1)
#undef DEFINE

static tile_fn choose_tile(const zn_packed *w)
{
    const bool summed = uses_sums(w);
    switch (zn_matrix_i8_bits(w)) {
    case 4:
        return summed ? tile_4_0_1 : tile_4_0_0;
    case 5:
        return summed ? tile_5_0_1 : tile_5_0_0;
    case 6:
        return summed ? tile_6_0_1 : tile_6_1_0;
    default:
        return tile_8_0_1;
    }
}

static void multiply_dots(const zn_packed *w, scratch *t, int rows, int columns, int groups)
{
    const tile_fn run = choose_tile(w);
    for (int panel = 0; panel * PANEL < columns; panel++)
        for (int r = 0; r < rows; r += DOT_ROWS)
            run(&(tile){ t, &t->sums[r][panel * PANEL], r, panel, groups });
}

static const i8_product dots_product = { multiply_dots, DOT_ROWS };

#endif

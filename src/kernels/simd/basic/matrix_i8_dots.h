/* The product of kernels/simd/basic/matrix_i8.h with the dot products of vectors (kernels/simd/dot.h). */
#ifndef ZN_SIMD_MATRIX_I8_DOTS_H
#define ZN_SIMD_MATRIX_I8_DOTS_H

#include "kernels/simd/basic/matrix_i8.h"

/* Whether the operands of the next tile are fetched while one is multiplied: rows lie further apart than the CPU's
 * own prefetching looks. */
#if defined(__AVX512VNNI__)
enum { AHEAD = 1 };
#else
enum { AHEAD = 0 };
#endif

/* Fetches the sums and scales of the rows that follow a tile. */
VEC_INLINE void fetch_sums(const int rows, const bool summed, const block_rows *in)
{
    if (!AHEAD || rows < DOT_ROWS)
        return;
#pragma GCC unroll 8
    for (int r = rows; r < 2 * rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < DOT_COLUMNS; c++)
            __builtin_prefetch(in->y + r * in->y_row + c * VEC_LANES, 1, 3);
        __builtin_prefetch(in->scales + r * in->group_row, 0, 3);
        if (summed)
            __builtin_prefetch(in->sums + r * in->group_row, 0, 3);
    }
}

/* Fetches a cache line of the codes of half of these rows, while group g of the tile is multiplied: a line has two
 * groups. */
VEC_INLINE void fetch_codes(const int rows, const block_rows *in, int g)
{
    if (!AHEAD || rows < DOT_ROWS)
        return;
    const uint8_t *next = in->x + (rows + g % 2 * (rows / 2)) * in->x_row + g / 2 * (2 * ZN_I8_GROUP);
#pragma GCC unroll 4
    for (int r = 0; r < rows / 2; r++)
        __builtin_prefetch(next + r * in->x_row, 0, 3);
}

/* A tile of `rows` rows by a panel. summed: the sums of the rows are used. more: y has sums already. */
VEC_INLINE void multiply_tile(const int rows, const int bits, const bool split, const bool summed, const panel *w,
                              const block_rows *in, int groups, bool more)
{
    vec sums[DOT_ROWS][DOT_COLUMNS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < DOT_COLUMNS; c++)
            sums[r][c] = more ? vec_load(in->y + r * in->y_row + c * VEC_LANES) : vec_splat(0);
    fetch_sums(rows, summed, in);
    for (int g = 0; g < groups; g++) {
        const float(*factors)[PANEL] = w->factors[g];
        fetch_codes(rows, in, g);
        const int parts = split ? 2 : 1;
        for (int part = 0; part < parts; part++) {
            const int steps = STEPS / parts, k = STEPS * g + steps * part;
            ivec dots[DOT_ROWS][DOT_COLUMNS];
            dots_tile(rows, DOT_COLUMNS, steps, bits, in->x + 4 * k, in->x_row, w->codes[0][k][0], sizeof w->codes[0],
                      factors[DOT_STARTS * (START + part)], dots);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int c = 0; c < DOT_COLUMNS; c++) {
                    const vec dot = dots_scaled(dots[r][c], factors[2 * part] + c * VEC_LANES,
                                                factors[2 * part + 1] + c * VEC_LANES);
                    sums[r][c] = vec_fma(dot, vec_splat(in->scales[r * in->group_row + g]), sums[r][c]);
                }
        }
        if (summed)
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int c = 0; c < DOT_COLUMNS; c++)
                    sums[r][c] = vec_fma(vec_load(factors[4] + c * VEC_LANES),
                                         vec_splat(in->sums[r * in->group_row + g]), sums[r][c]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < DOT_COLUMNS; c++)
            vec_store(in->y + r * in->y_row + c * VEC_LANES, sums[r][c]);
}

/* Tiles of DOT_ROWS rows, of two and of one: rows that are not there are not multiplied. */
typedef void (*tile_fn)(const panel *w, const block_rows *in, int groups, bool more);
typedef struct tiles {
    tile_fn most, two, one;
} tiles;
#define TILE(name, rows, bits, split, summed)                                                                          \
    static void name##_##bits##_##split##_##summed(const panel *w, const block_rows *in, int groups, bool more)        \
    {                                                                                                                  \
        multiply_tile(rows, bits, split, summed, w, in, groups, more);                                                 \
    }
#define DEFINE(bits, split, summed)                                                                                    \
    TILE(most, DOT_ROWS, bits, split, summed)                                                                          \
    TILE(two, 2, bits, split, summed)                                                                                  \
    TILE(one, 1, bits, split, summed)                                                                                  \
    static const tiles tiles_##bits##_##split##_##summed = { most_##bits##_##split##_##summed,                         \
                                                             two_##bits##_##split##_##summed,                          \
                                                             one_##bits##_##split##_##summed };
DEFINE(4, 0, 0)
DEFINE(4, 0, 1)
DEFINE(5, 0, 0)
DEFINE(5, 0, 1)
DEFINE(6, 1, 0)
DEFINE(6, 0, 1)
DEFINE(8, 0, 1)
#undef DEFINE
#undef TILE

static const tiles *choose_tiles(const zn_packed *w)
{
    const bool summed = uses_sums(w);
    switch (zn_matrix_i8_bits(w)) {
    case 4:
        return summed ? &tiles_4_0_1 : &tiles_4_0_0;
    case 5:
        return summed ? &tiles_5_0_1 : &tiles_5_0_0;
    case 6:
        return summed ? &tiles_6_0_1 : &tiles_6_1_0;
    default:
        return &tiles_8_0_1;
    }
}

/* A tile whose panel ends after the last output: its sums are computed in a copy. */
static void multiply_part(tile_fn run, const block *b, block_rows in, int rows, int columns)
{
    float sums[DOT_ROWS][PANEL] = { 0 };
    float *y = in.y;
    const int64_t y_row = in.y_row;
    const size_t bytes = sizeof(float) * (size_t)columns;
    for (int r = 0; b->first && r < rows; r++)
        memcpy(sums[r], y + r * y_row, bytes);
    in.y = sums[0];
    in.y_row = PANEL;
    run(b->w, &in, b->groups, b->first > 0);
    for (int r = 0; r < rows; r++)
        memcpy(y + r * y_row, sums[r], bytes);
}

static void multiply_dots(const block *b)
{
    const tiles *t = choose_tiles(&b->a->w);
    const int columns = (int)zn_least(PANEL, b->a->out - b->column);
    for (int r = 0, rows; r < b->rows; r += rows) {
        rows = b->rows - r >= DOT_ROWS ? DOT_ROWS : b->rows - r >= 2 ? 2 : 1;
        const tile_fn run = rows == DOT_ROWS ? t->most : rows == 2 ? t->two : t->one;
        const block_rows in = rows_of(b, r);
        if (columns < PANEL)
            multiply_part(run, b, in, rows, columns);
        else
            run(b->w, &in, b->groups, b->first > 0);
    }
}

#endif

/* The common part of the reduced-precision Winograd kernels for a unit of tiles: transforms its input, then
 * multiplies and transforms back one chunk of columns after another. conv_bf16.c and conv_i8.c each include this
 * once, after they have defined
 *
 *     grid_of, layout_of, scratch and scratch_at    the split, and the scratch of a thread; products is a part of it
 *     input                                         values or digits of a pair of tiles
 *     multiply                                      all products of a chunk of columns; prefetches `far` meanwhile
 *     TILES, COLS, CALLS, M_STRIDE                  of a unit, a chunk, blocks of products in it, floats of a pair */
#ifndef ZN_KERNELS_ARM_LOWP_UNIT_H
#define ZN_KERNELS_ARM_LOWP_UNIT_H

#include "kernels/arm/conv/lowp.h"

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return layout_of(&g).bytes + 64;
}

static void run_unit(const zn_conv_args *a, const zn_lowp_grid *g, int64_t unit, const scratch *t)
{
    const int64_t first = unit * g->unit;
    const int tiles = (int)(g->tiles - first < g->unit ? g->tiles - first : g->unit), pairs = (tiles + 1) / 2;
    zn_lowp_place place[TILES];
    zn_lowp_places(g, first, tiles, place);
    for (int p = 0; p < pairs; p++)
        input(a, g, place + 2 * p, p, t);
    const float *far[CALLS];
    for (int col = 0, ncols = 0; col < g->cols; col += ncols) {
        if (col % (g->cols / g->phases) == 0)
            zn_lowp_ahead(a, g, place, tiles, col, far, CALLS);
        else
            for (int i = 0; i < CALLS; i++) /* the same pixels, the next channels */
                far[i] += ncols * (int)zn_type_size(a->y_type) / (int)sizeof(float);
        ncols = zn_lowp_chunk(g, col, COLS);
        multiply(a, g, t, tiles, col, ncols, far);
        for (int p = 0; p < pairs; p++)
            zn_lowp_output(a, g, place + 2 * p, col, ncols, t->products + p * M_STRIDE);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const zn_lowp_grid g = grid_of(&a->s);
    const scratch t = scratch_at(&g, r.scratch);
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(a, &g, unit, &t);
}

static int64_t units(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return zn_lowp_units(&g);
}

static unsigned narrow(const zn_conv_shape *s)
{
    (void)s;
    return ZN_CONV_NARROW_X | ZN_CONV_NARROW_Y;
}

static int block_side(const zn_conv_shape *s)
{
    const zn_lowp_grid g = grid_of(s);
    return zn_lowp_block(&g);
}

#endif

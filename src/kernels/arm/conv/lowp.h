/* The fp32 part of the reduced-precision ARM convolutions: Winograd tiles of 8 points, 0, +-1, +-2, +-1/2, infinity,
 *
 *     stride 1   8x8 inputs give 6x6 outputs, F(6,3)
 *     up2        one 2x2 kernel on the small map for each parity of output rows and columns; one input transform gives
 *                7x7 outputs of each parity, F(7,2)
 *     stride 2   even and odd rows and columns of the input are four maps with 2x2 kernels, read as channels, F(7,2)
 *
 * or of 6 points, 0, +-NEAR, +-FAR, infinity, which give 4x4 outputs, F(4,3), or 5x5, F(5,2). These points are
 * chosen so that an error of the products is magnified 5 times, while the usual +-1, +-2 magnify it 10.8 times (and
 * the 8 points 20.6 times). Their product is 1, which saves multiplications.
 *
 * Work is split into units of tiles. Tiles are processed in pairs because the matrix instructions compute 2x2
 * results. */
#ifndef ZN_KERNELS_ARM_LOWP_H
#define ZN_KERNELS_ARM_LOWP_H

#include "kernels/conv.h"

#define ZN_LOWP_NEAR 0.7
#define ZN_LOWP_FAR  (1 / ZN_LOWP_NEAR)

enum {
    ZN_LOWP_DEPTH = 256, /* maximum channels: more would overflow the sums of conv_i8.c */
    ZN_LOWP_COLS = 64,   /* maximum output channels transformed back at a time */
};

/* Strides are odd multiples of 16 bytes: L1 serves three loads per cycle, but only one if they are 128 bytes apart.
 * In floats: between rows of the half-transformed input, and between groups of four channels in v. */
#define ZN_LOWP_ROW(points, depth) ((depth) * (points) + 4)
enum { ZN_LOWP_V_STRIDE = 8 * 4 + 4 };
/* Stride between frequencies of the products of a pair: an odd number of whole cache lines. The products of eight
 * columns are one line. */
#define ZN_LOWP_M_ROW(ncols) ((ncols)*2 + 16)

typedef struct zn_lowp_grid {
    int points; /* of a tile along one axis: 6 or 8 */
    int step;   /* outputs of a tile along one axis: points - 2, or points - 1 for two taps (of each parity if up2) */
    int tall, wide; /* tiles down and across */
    int phases;     /* phases of the output: 1, or 4 if up2 */
    int parts;      /* parts of the input: 1, or 4 for stride 2 */
    int cols;       /* columns of the multiplication: phases * cout rounded up to 8 */
    int depth;      /* channels of the multiplication: parts * cin */
    int unit;       /* tiles per unit, except the last */
    int64_t tiles;  /* tiles of all images */
} zn_lowp_grid;

/* Whether tiles of 8 points support the shape. */
bool zn_lowp_supports(const zn_conv_shape *s);
/* Units have at most `tiles` tiles. */
zn_lowp_grid zn_lowp_grid_of(const zn_conv_shape *s, int points, int tiles);
int64_t zn_lowp_units(const zn_lowp_grid *g);
/* Side of the square of outputs that a tile computes. */
int zn_lowp_block(const zn_lowp_grid *g);
/* Number of columns from col that can be processed together: of one phase, at most `most`. */
int zn_lowp_chunk(const zn_lowp_grid *g, int col, int most);
/* The offset of the next piece of scratch, aligned to a cache line. */
static inline size_t zn_lowp_take(size_t *used, size_t bytes)
{
    const size_t at = *used;
    *used += (bytes + 63) & ~(size_t)63;
    return at;
}

/* Transformed weights of one input channel (of depth) and one column for 8 points, u[64]; zeros for padding. */
void zn_lowp_weights(const zn_conv_shape *s, const float *w, int channel, int column, float *u);

/* Tiles are numbered over two rows of the grid at a time, one above the other, so that the two tiles of a pair share
 * rows. */
typedef struct zn_lowp_place {
    int64_t image;
    int x, y;
} zn_lowp_place;

/* The positions of `count` tiles from tile `first`. If count is odd, the last one is repeated. */
void zn_lowp_places(const zn_lowp_grid *g, int64_t first, int count, zn_lowp_place *p);

/* The input transform of two tiles (the same one twice at an odd end), first along the rows of pixels: into t[2 *
 * points][ZN_LOWP_ROW(points, depth)], rows of [depth / 4][points][4]. Returns the row where the second tile begins:
 * tiles share rows if one is above the other. edge: 128 * cin floats of scratch, twice that for stride 2. */
int zn_lowp_rows(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place p[2], float *edge, float *t);

/* Then along column j of 8 points: frequencies 8j to 8j + 7 of each tile, into v[depth / 4][9][4], of which the 9th
 * is padding, and the largest magnitude of each. */
void zn_lowp_column(const zn_lowp_grid *g, const float *t, int second, int j, float *const v[2], float peak[2][8]);
/* The same for 6 points: frequencies 6j to 6j + 5 of both tiles as bf16 [6][2 tiles][4 channels], with groups of
 * four channels `stride` values apart. Values are truncated, not rounded, which takes a third of the instructions.
 * The average loss is ZN_LOWP_CUT of a value, which the weights compensate; the variance is little more than that of
 * rounding. */
void zn_lowp_column_bf16(const zn_lowp_grid *g, const float *t, int second, int j, uint16_t *v, int64_t stride);
#define ZN_LOWP_CUT (1 / 384.0)

/* The output transform of two tiles (the same one twice at an odd end) and columns [col, col + ncols), ncols up to
 * ZN_LOWP_COLS: m[points * points][ncols / 2 + 4][4] holds products in lanes (tile 0, column 0), (0, 1), (1, 0), (1,
 * 1). Adds bias and residual, applies ReLU, stores. */
void zn_lowp_output(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place p[2], int col, int ncols,
                    const float *m);

/* The first `count` pixels that tiles will write from column `col`, padded with harmless addresses. They are
 * prefetched during the multiplication, a few at a time: all at once would stall it. */
void zn_lowp_ahead(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place *p, int tiles, int col,
                   const float **at, int count);

#endif

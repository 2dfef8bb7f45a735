/* The product in bf16 (kernels/matrix_bf16.h); the text of every build. A unit processes its strip of outputs piece by
 * piece: the build unpacks weights and multiplies them with all panels of the unit. Sums are in tiles of 16 outputs by
 * the 16 rows of a panel, in the scratch; at the end they are transposed into y. */
#ifndef ZN_SIMD_MATRIX_BF16_H
#define ZN_SIMD_MATRIX_BF16_H

#include "base/least.h"
#include "kernels/matrix_bf16.h"
#include "kernels/simd/spectral/turn.h"

enum {
    STRIP = ZN_BF16_STRIP,
    DEPTH = ZN_BF16_DEPTH,
    SIDE = ZN_BF16_PANEL, /* of a tile */
    ACROSS = STRIP / SIDE,
    PANELS = ZN_BF16_ROWS / SIDE,
};

/* The scratch of a thread. */
typedef struct scratch {
    float sums[PANELS][ACROSS][SIDE][SIDE]; /* [panel][tile of outputs][output][row] */
    union {
        uint16_t tiles[ACROSS][DEPTH / ZN_BF16_STEP][SIDE][ZN_BF16_STEP];
        float lines[STRIP][DEPTH];
        struct {
            uint16_t w[STRIP / 8][DEPTH / 4][4][2][4], x[4][SIDE / 8][DEPTH / 4][4][2][4]; /* eight outputs or rows */
        } quads;
    } w; /* as the build likes them */
} scratch;
_Static_assert(sizeof(scratch) <= ZN_BF16_SCRATCH, "the scratch of kernels/matrix_bf16.h");

/* Inputs [first,first+depth) of outputs [column,column+columns), for `panels` panels from x on. */
typedef struct piece {
    const zn_matrix_bf16_args *a;
    const uint16_t *x; /* of the first panel, from input `first` on */
    int64_t panel;     /* numbers of a panel */
    int panels, column, columns, first, depth;
} piece;

/* How a build multiplies: adds the products of a piece to the sums, or sets them if first is 0. */
typedef void (*bf16_product)(const piece *p, scratch *t);

static void put_sums(const zn_matrix_bf16_args *a, int64_t row, int rows, int column, int columns, const scratch *t)
{
    for (int r = 0; r < rows; r += SIDE)
        for (int c = 0; c < columns; c += SIDE)
            turn(t->sums[r / SIDE][c / SIDE][0], SIDE, (int)zn_least(SIDE, columns - c), (int)zn_least(SIDE, rows - r),
                 a->y + (row + r) * a->out + column + c, a->out);
}

static void matrix_bf16(const zn_matrix_bf16_args *a, bf16_product product, zn_range r)
{
    const int64_t strips = zn_matrix_bf16_strips(a), padded = zn_matrix_padded(a->in);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t row = u / strips * ZN_BF16_ROWS;
        const int rows = (int)zn_least(ZN_BF16_ROWS, a->rows - row);
        piece p = { .a = a, .panel = SIDE * padded, .panels = (int)zn_matrix_panels(rows) };
        p.column = (int)(u % strips) * STRIP;
        p.columns = (int)zn_least(STRIP, a->out - p.column);
        for (p.first = 0; p.first < a->in; p.first += DEPTH) {
            p.depth = (int)zn_least(DEPTH, a->in - p.first);
            p.x = a->x + row * padded + (int64_t)p.first * SIDE;
            product(&p, r.scratch);
        }
        put_sums(a, row, rows, p.column, p.columns, r.scratch);
    }
}

#endif

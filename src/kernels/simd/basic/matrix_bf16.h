/* The product in bf16 (kernels/matrix_bf16.h); the text of every build. A unit processes its strip of outputs piece by
 * piece: the build unpacks weights and multiplies them with all panels of the unit. Sums are in the scratch; at the
 * end they are brought to y. */
#ifndef ZN_SIMD_MATRIX_BF16_H
#define ZN_SIMD_MATRIX_BF16_H

#include "base/least.h"
#include "kernels/matrix_bf16.h"
#include "kernels/simd/spectral/turn.h"

enum {
    STRIP = ZN_BF16_STRIP,
    DEPTH = ZN_BF16_DEPTH,
    PANEL = ZN_BF16_PANEL,
    RUN = ZN_BF16_RUN,
    SIDE = 16, /* outputs of a tile of sums */
    ACROSS = STRIP / SIDE,
    PANELS = ZN_BF16_ROWS / PANEL,
};
_Static_assert((int)ZN_BF16_ROWS % (int)PANEL == 0 && (int)DEPTH % (int)ZN_PACKED_STEP == 0, "whole panels and steps");

/* The scratch of a thread. */
typedef struct scratch {
    float sums[PANELS][ACROSS][SIDE][PANEL]; /* [panel][tile of outputs][output][row], or as the build likes them */
    union {
        uint16_t tiles[ACROSS][DEPTH / ZN_BF16_STEP][SIDE][ZN_BF16_STEP];
        float lines[STRIP][DEPTH];
        uint16_t quads[STRIP / 8][DEPTH / 4][4][2][4]; /* [eight outputs][four inputs][pair of outputs] */
    } w;                                               /* as the build likes them */
    float x[DEPTH][PANEL];                             /* of a panel, for a build that has no matrix instructions */
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
/* How it writes the sums of a panel, [row,row+rows), and of outputs [column,column+columns) to y. */
typedef void (*bf16_put)(const zn_matrix_bf16_args *a, int64_t row, int rows, int column, int columns,
                         const float sums[ACROSS][SIDE][PANEL]);

/* Transposes the tiles of a panel. */
static inline void put_tiles(const zn_matrix_bf16_args *a, int64_t row, int rows, int column, int columns,
                             const float sums[ACROSS][SIDE][PANEL])
{
    for (int c = 0; c < columns; c += SIDE)
        turn(sums[c / SIDE][0], PANEL, (int)zn_least(SIDE, columns - c), rows, a->y + row * a->out + column + c,
             a->out);
}

static void matrix_bf16(const zn_matrix_bf16_args *a, bf16_product product, bf16_put put, zn_range r)
{
    scratch *t = r.scratch;
    const int64_t strips = zn_matrix_bf16_strips(a), padded = zn_matrix_padded(a->in);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t row = u / strips * ZN_BF16_ROWS;
        const int rows = (int)zn_least(ZN_BF16_ROWS, a->rows - row);
        piece p = { .a = a, .panel = PANEL * padded, .panels = (int)zn_matrix_panels(rows) };
        p.column = (int)(u % strips) * STRIP;
        p.columns = (int)zn_least(STRIP, a->out - p.column);
        for (p.first = 0; p.first < a->in; p.first += DEPTH) {
            p.depth = (int)zn_least(DEPTH, a->in - p.first);
            p.x = a->x + row * padded + (int64_t)p.first * PANEL;
            product(&p, t);
        }
        for (int i = 0; i < rows; i += PANEL)
            put(a, row + i, (int)zn_least(PANEL, rows - i), p.column, p.columns,
                (const float(*)[SIDE][PANEL])t->sums[i / PANEL]);
    }
}

#endif

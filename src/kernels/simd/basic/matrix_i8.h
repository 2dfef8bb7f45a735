/* The product in 8-bit integers (kernels/matrix_i8.h); the text of every build. A unit processes its strip of outputs
 * piece by piece: weights are unpacked to panels (matrix_panel.h) and multiplied with all rows of the unit, a few at a
 * time, by the i8_product of the build. Rows are read where they lie, and intermediate sums are stored in y. */
#ifndef ZN_SIMD_MATRIX_I8_H
#define ZN_SIMD_MATRIX_I8_H

#include "base/least.h"
#include "kernels/simd/basic/matrix_panel.h"
#include "kernels/simd/vec_math.h"

#include <limits.h>

enum { STRIP = ZN_I8_STRIP, PANELS = STRIP / PANEL };
/* What is filled before rows are multiplied with it, and rows that are multiplied with all of that one after the other:
 * pieces of DEPTH inputs, and panels of each. A piece of each row, and its sums, lie in pages of their own: one panel,
 * or one piece, at a time would read all of those pages again and again. */
#if defined(DOT_BY_ELEMENT)
enum { NEAR_PIECES = 8, NEAR_PANELS = PANELS, NEAR_ROWS = 48 };
#else
enum { NEAR_PIECES = 1, NEAR_PANELS = 1, NEAR_ROWS = ZN_I8_ROWS };
#endif
/* Strips that are multiplied together, so that pieces of rows come from the L3 cache once for all of them, and bytes of
 * sums and of pieces of rows that may be used at once: these stay in the L2 cache. With more rows, weights are
 * unpacked again. */
#if defined(__AVX512VNNI__)
enum { NEAR_STRIPS = ZN_I8_WIDE, NEAR_BYTES = 640 << 10 };
#else
enum { NEAR_STRIPS = 1, NEAR_BYTES = INT_MAX };
#endif

/* The scratch of a thread. */
typedef struct scratch {
    panel panels[NEAR_PIECES][NEAR_PANELS];
    unpacked weights;
} scratch;

/* What the sums of the rows are multiplied with, if anything: b, or s * (sum of codes) if the rows are centred. */
static inline bool uses_sums(const zn_packed *w) { return weights_shifted(w) || zn_matrix_i8_centred(w); }

/* Some rows, from `row` on, by one panel, whose first column is `column`; inputs [first,first+32 groups). */
typedef struct block {
    const zn_matrix_i8_args *a;
    const panel *w;
    int64_t row;
    int rows, column, first, groups;
} block;

/* The operands of a row of a block, and its sums; each with the distance of the next row. */
typedef struct block_rows {
    const uint8_t *x;
    const float *scales, *sums; /* of x */
    float *y;
    int64_t x_row, group_row, y_row;
} block_rows;

static inline block_rows rows_of(const block *b, int row)
{
    const zn_matrix_i8_args *a = b->a;
    const int64_t at = b->row + row, groups = a->in / ZN_I8_GROUP, group = at * groups + b->first / ZN_I8_GROUP;
    return (block_rows){ a->x.codes + at * a->in + b->first,
                         a->x.scales + group,
                         a->x.sums + group,
                         a->y + at * a->out + b->column,
                         a->in,
                         groups,
                         a->out };
}

/* How a build multiplies: adds the products of a block to y, or sets it if first is 0. */
typedef void (*i8_product)(const block *b);

/* Fetches the weights that follow the panels of a piece: the next inputs of the same outputs, or those of the outputs
 * `far` further on. */
static inline void fetch_next(const zn_matrix_i8_args *a, int column, int columns, int first, int far)
{
    enum { LINE = 64 };
    const bool more = first + DEPTH < a->in;
    const int from = more ? column : column + far, to = (int)zn_least(from + columns, a->out);
    const int next = more ? first + DEPTH : 0;
    const size_t bytes = a->w.row_bytes * (size_t)zn_least(DEPTH, a->in - next) / (size_t)a->in;
    for (int c = from; c < to; c++) {
        const uint8_t *p = a->w.data + (size_t)c * a->w.row_bytes + a->w.row_bytes * (size_t)next / (size_t)a->in;
        for (size_t i = 0; i < bytes; i += LINE)
            __builtin_prefetch(p + i, 0, 2);
    }
}

/* Rows [row,row+rows) by columns [column,column+columns), at most NEAR_PANELS panels, and inputs [first,end). */
static inline void multiply_near(const zn_matrix_i8_args *a, i8_product product, int64_t row, int rows, int column,
                                 int columns, int first, int end, scratch *t)
{
    for (int k = first; k < end; k += DEPTH)
        for (int c = 0; c < columns; c += PANEL)
            fill_panel(&a->w, column + c, zn_least(PANEL, columns - c), k, (int)zn_least(DEPTH, end - k) / ZN_I8_GROUP,
                       &t->panels[(k - first) / DEPTH][c / PANEL], &t->weights);
    for (int from = 0; from < rows; from += NEAR_ROWS)
        for (int k = first; k < end; k += DEPTH)
            for (int c = 0; c < columns; c += PANEL)
                product(&(block){ a, &t->panels[(k - first) / DEPTH][c / PANEL], row + from,
                                  (int)zn_least(NEAR_ROWS, rows - from), column + c, k,
                                  (int)zn_least(DEPTH, end - k) / ZN_I8_GROUP });
}

/* Rows [row,row+rows) by columns [column,column+columns), which are whole strips or end with the last output. */
static inline void multiply_strips(const zn_matrix_i8_args *a, i8_product product, int64_t row, int rows, int column,
                                   int columns, scratch *t)
{
    const int depth = rows > NEAR_ROWS ? NEAR_PIECES * DEPTH : DEPTH; /* few rows: panels stay in the L1 cache */
    for (int first = 0; first < a->in; first += depth) {
        const int end = (int)zn_least(first + depth, a->in);
        for (int c = 0; c < columns; c += NEAR_PANELS * PANEL) {
            const int count = (int)zn_least(NEAR_PANELS * PANEL, columns - c);
            for (int k = first; k < end; k += DEPTH)
                fetch_next(a, column + c, count, k, columns);
            multiply_near(a, product, row, rows, column + c, count, first, end, t);
        }
    }
}

/* How many rows are multiplied with so many columns at a time: whole tiles. */
static inline int rows_at_once(int rows, int columns)
{
    const int most = NEAR_BYTES / (columns * (int)sizeof(float) + DEPTH), blocks = (rows + most - 1) / most;
    const int tiles = (rows + blocks * DOT_ROWS - 1) / (blocks * DOT_ROWS);
    return tiles * DOT_ROWS;
}

static inline void matrix_i8(const zn_matrix_i8_args *a, i8_product product, zn_range r)
{
    const int64_t strips = zn_matrix_i8_strips(a);
    scratch *t = r.scratch;
    _Static_assert(sizeof *t <= ZN_I8_SCRATCH, "the scratch of kernels/matrix_i8.h");
    for (int64_t u = r.begin, next; u < r.end; u = next) {
        next = zn_least(zn_least(u + NEAR_STRIPS, r.end), (u / strips + 1) * strips);
        const int64_t row = u / strips * ZN_I8_ROWS;
        const int rows = (int)zn_least(ZN_I8_ROWS, a->rows - row), column = (int)(u % strips) * STRIP;
        const int columns = (int)zn_least((next - u) * STRIP, a->out - column), each = rows_at_once(rows, columns);
        for (int from = 0; from < rows; from += each)
            multiply_strips(a, product, row + from, (int)zn_least(each, rows - from), column, columns, t);
    }
}

#endif

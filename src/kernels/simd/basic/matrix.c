/* The product with packed weights. A unit processes its strip of outputs piece by piece. Each piece is unpacked into
 * panels for gemm.h and multiplied with all rows of the unit. Intermediate sums are stored in y. */
#include "kernels/matrix.h"
#include "base/least.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/spectral/turn.h"

void ZN_KERNEL(matrix)(const void *args, zn_range r);

enum {
    STRIP = ZN_MATRIX_STRIP,
    DEPTH = ZN_MATRIX_DEPTH,
    PANELS = (DEPTH + 1) * STRIP, /* floats; one extra row avoids cache conflicts between panels, */
    LINE = DEPTH + 16,            /* like this stride of unpacked outputs, and */
    SUMS = STRIP + 16,            /* that of sums */
    TURNED = 16,                  /* outputs unpacked before they are transposed */
    GROUP = 48,                   /* rows multiplied at a time if the last vector of the strip is not whole */
};
_Static_assert(sizeof(float) * (PANELS + TURNED * LINE + GROUP * SUMS) <= ZN_MATRIX_SCRATCH, "the pieces");
_Static_assert((int)GEMM_NR <= (int)STRIP && (GEMM_NR % TURNED == 0 || TURNED % GEMM_NR == 0), "whole panels");

/* Columns [from,from+count) of the panels from rows of `depth` weights; padded: total width of all panels. */
static void fill(const float *rows, int from, int count, int depth, int padded, float *panels)
{
    for (int j = from; j < from + count; j += GEMM_NR) {
        const int panel = j / GEMM_NR * GEMM_NR, across = zn_least(GEMM_NR, padded - panel);
        turn(rows + (int64_t)(j - from) * LINE, LINE, zn_least(count - (j - from), GEMM_NR), depth,
             panels + (int64_t)panel * (DEPTH + 1) + (j - panel), across);
    }
}

/* Unpacks inputs [first,first+depth) of `columns` outputs; columns that pad the last vector are zero. */
static void unpack(const zn_matrix_args *a, int column, int columns, int first, int depth, float *panels)
{
    float *rows = panels + PANELS;
    const int padded = (columns + VEC_LANES - 1) / VEC_LANES * VEC_LANES;
    for (int j = 0; j < padded; j += TURNED) {
        const int count = zn_least(TURNED, padded - j);
        for (int c = 0; c < count; c++)
            if (j + c < columns)
                zn_packed_row(&a->w, column + j + c, first, depth, rows + c * LINE);
            else
                memset(rows + c * LINE, 0, sizeof(float) * (size_t)depth);
        fill(rows, j, count, depth, padded, panels);
    }
}

/* Adds the product of `rows` rows of x and a piece of the weights to c. */
static void add_product(const zn_matrix_args *a, const float *x, int rows, int columns, int depth, const float *panels,
                        float *c, int64_t c_row)
{
    const gemm_args g = { .a = x,
                          .b = panels,
                          .c = c,
                          .row = a->in,
                          .c_row = c_row,
                          .segments = 1,
                          .k = depth,
                          .depth = DEPTH + 1,
                          .more = true };
    ZN_KERNEL(gemm)(&g, rows, (columns + VEC_LANES - 1) / VEC_LANES * VEC_LANES);
}

/* The same for all outputs of a strip, in y. The product writes whole vectors; where that is too much, into scratch. */
static void multiply(const zn_matrix_args *a, int64_t row, int rows, int column, int columns, int first, int depth,
                     float *panels)
{
    const float *x = a->x + row * a->in + first;
    float *y = a->y + row * a->out + column, *sums = panels + PANELS + TURNED * LINE;
    const size_t bytes = sizeof(float) * (size_t)columns;
    if (columns % VEC_LANES == 0) {
        add_product(a, x, rows, columns, depth, panels, y, a->out);
        return;
    }
    for (int from = 0; from < rows; from += GROUP) {
        const int count = zn_least(GROUP, rows - from);
        for (int t = 0; t < count; t++) {
            memcpy(sums + t * SUMS, y + (from + t) * (int64_t)a->out, bytes);
            memset(sums + t * SUMS + columns, 0, sizeof(float) * (SUMS - (size_t)columns));
        }
        add_product(a, x + from * (int64_t)a->in, count, columns, depth, panels, sums, SUMS);
        for (int t = 0; t < count; t++)
            memcpy(y + (from + t) * (int64_t)a->out, sums + t * SUMS, bytes);
    }
}

/* What the sums of a strip begin with. */
static void begin_sums(const zn_matrix_args *a, int64_t row, int rows, int column, int columns)
{
    for (int64_t t = row; t < row + rows; t++)
        if (a->bias)
            memcpy(a->y + t * a->out + column, a->bias + column, sizeof(float) * (size_t)columns);
        else
            memset(a->y + t * a->out + column, 0, sizeof(float) * (size_t)columns);
}

void ZN_KERNEL(matrix)(const void *args, zn_range r)
{
    const zn_matrix_args *a = args;
    const int64_t strips = zn_matrix_strips(a);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t row = u / strips * ZN_MATRIX_ROWS;
        const int rows = zn_least(ZN_MATRIX_ROWS, a->rows - row);
        const int column = (int)(u % strips) * STRIP, columns = zn_least(STRIP, a->out - column);
        begin_sums(a, row, rows, column, columns);
        for (int first = 0; first < a->in; first += DEPTH) {
            const int depth = zn_least(DEPTH, a->in - first);
            unpack(a, column, columns, first, depth, r.scratch);
            multiply(a, row, rows, column, columns, first, depth, r.scratch);
        }
    }
}

/* The product with packed weights. A unit processes its strip of outputs piece by piece. Each piece is unpacked into
 * panels for gemm.h and multiplied with all rows of the unit, one group at a time. Intermediate sums are stored in
 * y. */
#include "kernels/matrix.h"
#include "base/least.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/spectral/turn.h"

void ZN_KERNEL(matrix)(const void *args, zn_range r);

enum {
    STRIP = ZN_MATRIX_STRIP,
    DEPTH = ZN_MATRIX_DEPTH,
    PANELS = (DEPTH + 1) * STRIP, /* floats; one extra row avoids cache conflicts between panels, and */
    GROUP = 48,                   /* rows multiplied at a time, */
    LINE = DEPTH + 16,            /* stride of such a row, padded to avoid cache conflicts, */
    SUMS = STRIP + 16,            /* like their sums */
    TURNED = 16,                  /* outputs unpacked before they are transposed */
};
_Static_assert(sizeof(float) * (PANELS + TURNED * DEPTH + GROUP * (LINE + SUMS)) <= ZN_MATRIX_SCRATCH, "the pieces");
_Static_assert((int)GEMM_NR <= (int)STRIP && (GEMM_NR % TURNED == 0 || TURNED % GEMM_NR == 0), "whole panels");

/* Columns [from,from+count) of the panels from rows of `depth` weights; padded: total width of all panels. */
static void fill(const float *rows, int from, int count, int depth, int padded, float *panels)
{
    for (int j = from; j < from + count; j += GEMM_NR) {
        const int panel = j / GEMM_NR * GEMM_NR, across = zn_least(GEMM_NR, padded - panel);
        turn(rows + (int64_t)(j - from) * DEPTH, DEPTH, zn_least(count - (j - from), GEMM_NR), depth,
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
                zn_packed_row(&a->w, column + j + c, first, depth, rows + c * DEPTH);
            else
                memset(rows + c * DEPTH, 0, sizeof(float) * (size_t)depth);
        fill(rows, j, count, depth, padded, panels);
    }
}

/* Multiplies a group of rows with a piece of the weights. */
static void multiply(const zn_matrix_args *a, int64_t row, int rows, int column, int columns, int first, int depth,
                     float *panels)
{
    float *x = panels + PANELS + TURNED * DEPTH, *sums = x + GROUP * LINE;
    const int padded = (rows + GEMM_MR - 1) / GEMM_MR * GEMM_MR; /* whole blocks are faster */
    const size_t bytes = sizeof(float) * (size_t)columns;
    for (int t = 0; t < padded; t++) {
        float *sum = sums + t * SUMS;
        if (t >= rows || (first == 0 && !a->bias))
            memset(sum, 0, bytes);
        else
            memcpy(sum, first ? a->y + (row + t) * a->out + column : a->bias + column, bytes);
        memset(sum + columns, 0, sizeof(float) * (SUMS - (size_t)columns));
        if (t < rows)
            memcpy(x + t * LINE, a->x + (row + t) * a->in + first, sizeof(float) * (size_t)depth);
        else
            memset(x + t * LINE, 0, sizeof(float) * (size_t)depth);
    }
    const gemm_args g = { .a = x,
                          .b = panels,
                          .c = sums,
                          .row = LINE,
                          .c_row = SUMS,
                          .segments = 1,
                          .k = depth,
                          .depth = DEPTH + 1,
                          .more = true };
    ZN_KERNEL(gemm)(&g, padded, (columns + VEC_LANES - 1) / VEC_LANES * VEC_LANES);
    for (int t = 0; t < rows; t++)
        memcpy(a->y + (row + t) * a->out + column, sums + t * SUMS, bytes);
}

void ZN_KERNEL(matrix)(const void *args, zn_range r)
{
    const zn_matrix_args *a = args;
    const int64_t strips = zn_matrix_strips(a);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t begin = u / strips * ZN_MATRIX_ROWS, end = begin + zn_least(ZN_MATRIX_ROWS, a->rows - begin);
        const int column = (int)(u % strips) * STRIP, columns = zn_least(STRIP, a->out - column);
        for (int first = 0; first < a->in; first += DEPTH) {
            const int depth = zn_least(DEPTH, a->in - first);
            unpack(a, column, columns, first, depth, r.scratch);
            for (int64_t row = begin; row < end; row += GROUP)
                multiply(a, row, zn_least(GROUP, end - row), column, columns, first, depth, r.scratch);
        }
    }
}

/* The product with packed weights, scalar, with sums in double. */
#include "kernels/matrix.h"
#include "base/least.h"

void zn_ref_matrix(const void *matrix_args, zn_range units);

/* One output for the rows from `first`; sums: one double per row. */
static void column(const zn_matrix_args *a, int64_t first, int64_t rows, int64_t j, double *sums, float *w)
{
    for (int64_t p = 0; p < rows; p++)
        sums[p] = a->bias ? (double)a->bias[j] : 0;
    for (int64_t i = 0; i < a->in; i += ZN_MATRIX_DEPTH) {
        const int64_t depth = zn_least(ZN_MATRIX_DEPTH, a->in - i);
        zn_packed_row(&a->w, j, i, depth, w);
        for (int64_t p = 0; p < rows; p++)
            for (int64_t k = 0; k < depth; k++)
                sums[p] += (double)a->x[(first + p) * a->in + i + k] * (double)w[k];
    }
    for (int64_t p = 0; p < rows; p++)
        a->y[(first + p) * a->out + j] = (float)sums[p];
}

void zn_ref_matrix(const void *args, zn_range r)
{
    const zn_matrix_args *a = args;
    const int64_t strips = zn_matrix_strips(a);
    double *sums = r.scratch;
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t first = u / strips * ZN_MATRIX_ROWS, begin = u % strips * ZN_MATRIX_STRIP;
        for (int64_t j = begin; j < zn_least(begin + ZN_MATRIX_STRIP, a->out); j++)
            column(a, first, zn_least(ZN_MATRIX_ROWS, a->rows - first), j, sums, (float *)(sums + ZN_MATRIX_ROWS));
    }
}

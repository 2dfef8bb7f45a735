/* A matrix product with weights as files hold them (base/packed.h):
 *
 *     y[p][j] = bias[j] + sum over i of x[p][i] w[j][i]          p < rows, i < in, j < out
 *
 * A piece of the weights is unpacked into the cache and multiplied by many rows before the next one, so that unpacking
 * costs little however they are packed. Sums run in the order of i whatever the number of rows. */
#ifndef ZN_KERNELS_MATRIX_H
#define ZN_KERNELS_MATRIX_H

#include "base/packed.h"
#include "base/threads.h"

typedef struct zn_matrix_args {
    const float *x;
    zn_packed w;
    const float *bias; /* [out] or NULL */
    float *y;
    int64_t rows;
    int in, out;
} zn_matrix_args;

/* A unit: that many rows by a strip of outputs; the strip is the inner index. */
enum { ZN_MATRIX_ROWS = 1008, ZN_MATRIX_STRIP = 128 };
static inline int64_t zn_matrix_strips(const zn_matrix_args *a)
{
    return (a->out + ZN_MATRIX_STRIP - 1) / ZN_MATRIX_STRIP;
}
static inline int64_t zn_matrix_units(const zn_matrix_args *a)
{
    return (a->rows + ZN_MATRIX_ROWS - 1) / ZN_MATRIX_ROWS * zn_matrix_strips(a);
}
enum { ZN_MATRIX_DEPTH = 2 * ZN_PACKED_STEP }; /* inputs unpacked at a time */
enum { ZN_MATRIX_SCRATCH = 448 << 10 };        /* bytes for each thread */

void zn_k_matrix(const void *matrix_args, zn_range units);

#endif

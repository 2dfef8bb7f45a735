/* A matrix product with weights in their file format (base/packed.h):
 *
 *     y[p][j] = bias[j] + sum over i of x[p][i] w[j][i]          p < rows, i < in, j < out
 *
 * The kernel unpacks a piece of the weights into the cache and multiplies it with many rows before the next piece,
 * so unpacking costs little for every format. Sums run in the order of i for any number of rows. */
#ifndef ZN_KERNELS_MATRIX_H
#define ZN_KERNELS_MATRIX_H

#include "base/packed.h"
#include "base/threads.h"
#include "kernels/type.h"

typedef struct zn_matrix_args {
    const float *x;
    zn_packed w;
    const float *bias; /* [out] or NULL */
    float *y;
    int64_t rows;
    int in, out;
    /* For a device; all F32 and NULL on the CPU. */
    zn_type type;           /* of the numbers that are multiplied; F32: full precision */
    zn_type x_type, y_type; /* of the maps */
    void *shared;           /* zn_matrix_shared bytes */
} zn_matrix_args;

/* Bytes that a device needs for the weights in the type that is multiplied, and for x. Rows begin at multiples of 16
 * bytes. */
static inline int64_t zn_matrix_stride(int in) { return ((int64_t)in + 7) / 8 * 8; }
static inline size_t zn_matrix_weight_bytes(const zn_matrix_args *a)
{
    return ((size_t)a->out * (size_t)zn_matrix_stride(a->in) * zn_type_size(a->type) + 255) / 256 * 256;
}
static inline size_t zn_matrix_shared(const zn_matrix_args *a)
{
    return zn_matrix_weight_bytes(a) + (size_t)a->rows * (size_t)zn_matrix_stride(a->in) * zn_type_size(a->type);
}

/* A unit is ZN_MATRIX_ROWS rows by a strip of outputs; the strip is the inner index. */
enum { ZN_MATRIX_ROWS = 1536, ZN_MATRIX_STRIP = 128 };
static inline int64_t zn_matrix_strips(const zn_matrix_args *a)
{
    return (a->out + ZN_MATRIX_STRIP - 1) / ZN_MATRIX_STRIP;
}
static inline int64_t zn_matrix_units(const zn_matrix_args *a)
{
    return (a->rows + ZN_MATRIX_ROWS - 1) / ZN_MATRIX_ROWS * zn_matrix_strips(a);
}
enum { ZN_MATRIX_DEPTH = 2 * ZN_PACKED_STEP }; /* inputs unpacked at a time */
enum { ZN_MATRIX_SCRATCH = 448 << 10 };        /* bytes per thread */

void zn_k_matrix(const void *matrix_args, zn_range units);

#endif

/* A matrix product with few rows and many weights, for example a convolution with kernel = stride on a small feature
 * map:
 *
 *     y[p][j] = bias[j] + sum over i of x[p][i] w[i][j]          p < rows, i < k, j < n
 *
 * The weights are read once, in place: packing them would cost more than the product. Sums run in the order of i (j,
 * p for the gradients) for any number of rows, so the result for a pixel does not depend on its neighbours. */
#ifndef ZN_KERNELS_DENSE_H
#define ZN_KERNELS_DENSE_H

#include "base/threads.h"

#include <stddef.h>
#include <stdint.h>

typedef struct zn_dense_args {
    const float *x, *w, *dy;
    const float *bias; /* [n] or NULL */
    float *y;          /* forward: y; grad: dx [rows][k]; weight_grad: dw [k][n] */
    int64_t rows;
    int k, n;
} zn_dense_args;

enum { ZN_DENSE_COLUMNS = 32 }; /* n is a multiple of this */

/* Units of the three products: groups of rows x strips of columns, groups of rows x strips of inputs, strips of
 * inputs. The strip is the inner index. */
enum { ZN_DENSE_GROUP = 48, ZN_DENSE_STRIP = 2048, ZN_DENSE_INPUTS = 96 };
static inline int64_t zn_dense_parts(int64_t size, int64_t part) { return (size + part - 1) / part; }
static inline int64_t zn_dense_units(const zn_dense_args *a)
{
    return zn_dense_parts(a->rows, ZN_DENSE_GROUP) * zn_dense_parts(a->n, ZN_DENSE_STRIP);
}
static inline int64_t zn_dense_grad_units(const zn_dense_args *a)
{
    return zn_dense_parts(a->rows, ZN_DENSE_GROUP) * zn_dense_parts(a->k, ZN_DENSE_INPUTS);
}
static inline int64_t zn_dense_weight_grad_units(const zn_dense_args *a)
{
    return zn_dense_parts(a->k, ZN_DENSE_INPUTS);
}
enum { ZN_DENSE_SCRATCH = 1280 << 10 }; /* bytes per thread */

void zn_k_dense(const void *dense_args, zn_range units);
void zn_k_dense_grad(const void *dense_args, zn_range units);
void zn_k_dense_weight_grad(const void *dense_args, zn_range units);

#endif

/* Products of many pairs of fp32 matrices in one launch: y[rows][columns] = x[rows][depth] w[depth][columns] for every
 * unit, which is a head of a sample. Addresses are those of the device. Included only by .cu files. */
#ifndef ZN_CUDA_PRODUCT_BATCH_H
#define ZN_CUDA_PRODUCT_BATCH_H

#include "kernels/cuda/cuda.h"

struct batch_matrix {
    float *data;          /* of unit 0 */
    int64_t sample, head; /* floats between units */
    int64_t stride;       /* floats between rows in memory */
    /* x: rows in memory are those of the depth, not of the result; w: likewise, not its columns. */
    bool turned;
    bool by_four; /* all rows in memory begin at multiples of 16 bytes, and their length is a multiple of 4 */
};

struct batch_product {
    batch_matrix x, w, y;
    int64_t rows, depth, columns;
    int64_t first, units, heads; /* units from `first` on, and heads of a sample */
    bool full;                   /* in fp32 precision; otherwise numbers are rounded to TF32 */
};

void zn_cuda_product_batch(zn_device *d, const batch_product &p);

#endif

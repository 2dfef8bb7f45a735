/* Products of 16-bit numbers with fp32 sums: y[rows][columns] = x[rows][depth] w + bias + residual. Addresses are those
 * of the device. Included only by .cu files. */
#ifndef ZN_CUDA_HALF_PRODUCT_H
#define ZN_CUDA_HALF_PRODUCT_H

#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/type.h"
}

typedef struct half_product {
    const void *x;              /* [rows][x_stride], or if x_turned [depth][x_stride] */
    const void *w;              /* [columns][w_stride], or if turned [depth][w_stride] */
    int64_t x_stride, w_stride; /* multiples of 8; after the depth, up to one, are zeros. x, w: multiples of 16 bytes */
    int64_t rows, depth, columns;
    bool turned;       /* columns is then a multiple of 8 */
    zn_type type;      /* of x and w: BF16 or F16; E4M3 for cuBLASLt alone */
    const float *bias; /* [columns] or NULL */
    float *y;
    zn_type y_type; /* F32 or `type`; BF16 for E4M3 */
    /* Optional: what is added before y is written, shaped like it, may be y itself; then negative numbers become 0. */
    const float *residual;
    zn_type residual_type;
    bool relu;
    const void *narrow_bias;          /* the bias in the type of a 16-bit y: zn_cuda_blas_product adds no other */
    bool x_turned;                    /* only zn_cuda_blas_product */
    int64_t y_stride;                 /* 0: columns; otherwise even */
    const float *x_scales, *w_scales; /* E4M3: of rows and columns, or NULL */
    /* Only zn_cuda_half_product and _few: [rows][depth - split], what x has no columns for; NULL: none. split: a
     * multiple of 32.
     */
    const void *more;
    int64_t split;
} half_product;

/* Every element is the same sum for any number of rows. */
void zn_cuda_half_product(zn_device *d, const half_product &p);
/* The same where few rows would leave most of the GPU idle, with sums in another order. Returns false if there are
 * many, or the product does not suit it. */
bool zn_cuda_half_product_few(zn_device *d, const half_product &p);

#endif

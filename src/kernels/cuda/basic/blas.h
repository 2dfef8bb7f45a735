/* Products by NVIDIA's cuBLASLt, which is loaded when it is first needed. A program without it uses the kernels of
 * half_product.cu. Included only by .cu files. */
#ifndef ZN_CUDA_BLAS_H
#define ZN_CUDA_BLAS_H

#include "kernels/cuda/basic/half_product.h"

/* Launches the product and returns true, or returns false if the library is not there or has no way to compute it.
 * The same shape is always computed in the same way, but an element's bits depend on the number of rows. */
bool zn_cuda_blas_product(zn_device *d, const half_product &p);
/* Whether the library is there; loads it. */
bool zn_cuda_blas_is_there(zn_device *d);
/* For people: whether it has been loaded, and how it multiplies FP8 numbers; "" if it has not. */
const char *zn_cuda_blas_text(const zn_device *d);
void zn_cuda_blas_close(zn_device *d);

#endif

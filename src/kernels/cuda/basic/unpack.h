/* Rows of numbers in a type that the matrix unit multiplies. Addresses are those of the device. Included only by .cu
 * files. */
#ifndef ZN_CUDA_UNPACK_H
#define ZN_CUDA_UNPACK_H

#include "kernels/cuda/cuda.h"

extern "C" {
#include "base/packed.h"
#include "kernels/type.h"
}

/* Unpacks a matrix (base/packed.h): to[rows][stride], with zeros after the `columns` numbers of a row. stride: a
 * multiple of 8. */
void zn_cuda_unpack(zn_device *d, const zn_packed &from, int64_t rows, int64_t columns, int64_t stride, zn_type type,
                    void *to);
/* The same for a map of floats or of another 16-bit type. */
void zn_cuda_convert_rows(zn_device *d, const void *from, zn_type from_type, int64_t rows, int64_t columns,
                          int64_t stride, zn_type type, void *to);

/* A map of `count` numbers, a multiple of 8, in 16 bits: where it is if it has this type, otherwise the rounded floats
 * in `workspace`. Addresses are multiples of 16. */
const void *zn_cuda_rounded(zn_device *d, const void *map, zn_type from, int64_t count, zn_type type, void *workspace);

#endif

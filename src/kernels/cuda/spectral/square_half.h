/* Spectral mixing of squares of maps of 16 bits, for shapes of zn_tile_square_takes_half. Included only by .cu files.
 */
#ifndef ZN_CUDA_SQUARE_HALF_H
#define ZN_CUDA_SQUARE_HALF_H

#include "kernels/cuda/cuda.h"

void zn_cuda_tile_square_half(zn_device *d, const void *tile_square_args);

#endif

/* The head of a Lite-R block whose maps are of 16 bits, for shapes of zn_lite_head_takes_half. Addresses are those of
 * the device. Included only by .cu files. */
#ifndef ZN_CUDA_LITE_HEAD_H
#define ZN_CUDA_LITE_HEAD_H

#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/lite_head.h"
}

void zn_cuda_lite_head_half(zn_device *d, const zn_lite_head_args &on_device);

#endif

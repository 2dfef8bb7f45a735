/* Attention of 16-bit maps (zn_attention_narrow). Included only by .cu files. */
#ifndef ZN_CUDA_ATTENTION_HALF_H
#define ZN_CUDA_ATTENTION_HALF_H

#include "kernels/cuda/attention.h"

void attention_half(zn_device *d, const attention_task &t);

#endif

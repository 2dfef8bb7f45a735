/* Attention of 16-bit maps (zn_attention_narrow). Included only by .cu files. */
#ifndef ZN_CUDA_ATTENTION_HALF_H
#define ZN_CUDA_ATTENTION_HALF_H

#include "kernels/cuda/attention.h"

void attention_half(zn_device *d, const attention_task &t);
/* The same with the matrix unit of Hopper GPUs. Returns false if it is no such GPU, or the rows do not suit it. */
bool attention_wgmma(zn_device *d, const attention_task &t);

/* The largest, or the sum, over the four lanes that have a row of the matrix unit's sums. */
static inline __device__ float largest_of_four(float x)
{
    for (int mask = 1; mask < 4; mask *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, mask);
        x = other > x ? other : x;
    }
    return x;
}
static inline __device__ float sum_of_four(float x)
{
    for (int mask = 1; mask < 4; mask *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    return x;
}

#endif

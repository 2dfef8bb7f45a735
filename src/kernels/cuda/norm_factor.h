/* What the numbers of a channel are multiplied with, and what is added to them, when they are normalised. Included only
 * by .cu files. */
#ifndef ZN_CUDA_NORM_FACTOR_H
#define ZN_CUDA_NORM_FACTOR_H

extern "C" {
#include "kernels/norm.h"
}

struct alignas(8) factor {
    float by, plus;
};

/* What a channel of a map is multiplied with and what is added to it after its normalisation. */
static __device__ factor own_factor(const zn_norm_args &a, int64_t map, int c)
{
    const float gain = 1 + (a.gain ? a.gain[map * a.gain_step + c] : 0);
    const float own = 1 + (a.scale ? a.scale[map * a.scale_step + c] : 0);
    const float shift = a.shift ? a.shift[map * a.shift_step + c] : 0;
    return factor{ a.gamma[c] * own * gain, (a.beta[c] * own + shift) * gain };
}

/* y = act(by x + plus); rate: 1 / deviation of the group. */
static __device__ factor whole_factor(const factor &own, float mean, float rate)
{
    return factor{ rate * own.by, own.plus - mean * rate * own.by };
}

#endif

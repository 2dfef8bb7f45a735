/* FP8 codes (kernels/fp8.h) on a GPU. Included only by .cu files. */
#ifndef ZN_CUDA_FP8_H
#define ZN_CUDA_FP8_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/fp8.h"
}

/* From the largest magnitude of a row: the scale of its codes, and the factor that makes numbers of that size codes. */
static inline __device__ float scale_of_codes(float largest)
{
    return largest < ZN_E4M3_LEAST ? 1 : largest / ZN_E4M3_MOST;
}
static inline __device__ float inverse_of_codes(float largest)
{
    return largest < ZN_E4M3_LEAST ? 1 : ZN_E4M3_MOST / largest;
}

/* Writes vector i of N numbers, 1 or 4, as codes. */
template <int N> static __device__ void store_codes(void *to, int64_t i, const floats<N> &v, float inverse)
{
    if constexpr (N == 1) {
        static_cast<uint8_t *>(to)[i] = (uint8_t)e4m3_pair(v.v[0] * inverse, 0);
    } else {
        const uint32_t low = e4m3_pair(v.v[0] * inverse, v.v[1] * inverse);
        static_cast<uint32_t *>(to)[i] = low | e4m3_pair(v.v[2] * inverse, v.v[3] * inverse) << 16;
    }
}

#endif

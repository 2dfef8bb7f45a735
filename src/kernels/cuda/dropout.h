/* Which elements dropout sets to 0: as kernels/dropout.h. Included only by .cu files. */
#ifndef ZN_CUDA_DROPOUT_H
#define ZN_CUDA_DROPOUT_H

#include <stdint.h>

static inline __device__ uint32_t dropout_scrambled(uint32_t h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}
static inline __device__ uint32_t dropout_key(float seed, uint32_t place)
{
    return dropout_scrambled(dropout_scrambled((uint32_t)seed) + place);
}
static inline __device__ bool dropout_drops(uint32_t i, uint32_t key, uint32_t limit)
{
    return dropout_scrambled(i * 0x9e3779b1u ^ key) < limit;
}

#endif

/* Positions in arrays. Included only by .cu files. */
#ifndef ZN_CUDA_INDEX_H
#define ZN_CUDA_INDEX_H

#include <stdint.h>

/* The first unit of this thread in a grid-stride loop, and the distance to its next one. */
static inline __device__ int64_t first_unit(void) { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static inline __device__ int64_t unit_step(void) { return (int64_t)gridDim.x * blockDim.x; }

/* i = quotient * by + rest. Divides 32 bits where they suffice, which is several times faster. */
struct division {
    int64_t quotient;
    int rest;
};
static inline __device__ division divide(int64_t i, int by)
{
    const int64_t quotient = i >> 31 ? i / by : (int64_t)((uint32_t)i / (uint32_t)by);
    return { quotient, (int)(i - quotient * by) };
}

#endif

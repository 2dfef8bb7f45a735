/* Sums over a thread block or a warp, in a fixed order. Included only by .cu files. */
#ifndef ZN_CUDA_REDUCE_H
#define ZN_CUDA_REDUCE_H

/* The sum of the values of all threads, always in the same order; every thread gets it. All threads must call it.
 * `sums` is shared memory for one number per thread; blockDim.x is a power of two. */
template <typename T> static __device__ T sum_of(T value, T *sums)
{
    __syncthreads(); /* all threads have read the previous sum */
    sums[threadIdx.x] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

/* The same over the 32 lanes of a warp, all of which must call it. */
template <typename T> static __device__ T sum_of_warp(T value)
{
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

#endif

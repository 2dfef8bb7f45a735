/* Sums over a thread block or a warp, in a fixed order. Included only by .cu files. */
#ifndef ZN_CUDA_REDUCE_H
#define ZN_CUDA_REDUCE_H

#include "kernels/cuda/vector.h"

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

/* The largest value of all threads of a block, which all threads must call; `warps` is shared memory for one number per
 * warp. NaN is ignored. */
static inline __device__ float largest_of_block(float value, float *warps)
{
    for (int mask = 16; mask > 0; mask /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, mask));
    __syncthreads(); /* all threads have read what was there before */
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        value = fmaxf(value, warps[i]);
    return value;
}

/* ---- sums over rows, a column per thread ---- */

/* How the threads of a block share a matrix: each has one column at a time and every `lanes`-th row. */
struct row_share {
    int width, lanes; /* columns at a time, and threads for each of them */
    int column, lane; /* of this thread; it has no work if lane >= lanes */
};

static inline __device__ row_share row_share_of(int columns)
{
    const int threads = (int)blockDim.x, width = columns < threads ? columns : threads;
    return row_share{ width, threads / width, (int)threadIdx.x % width, (int)threadIdx.x / width };
}

/* Adds what the lanes of a column have, always in the same order; lane 0 gets it. All threads must call it. `all` is
 * shared memory for one T per thread, and T has add(const T &). */
template <typename T> static __device__ T merged(const row_share &s, const T &mine, T *all)
{
    __syncthreads(); /* all threads have read the previous ones */
    all[threadIdx.x] = mine;
    for (int count = s.lanes, half; count > 1; count = half) {
        half = (count + 1) / 2;
        __syncthreads();
        if (s.lane + half < count)
            all[threadIdx.x].add(all[(int)threadIdx.x + half * s.width]);
    }
    return all[threadIdx.x];
}

/* K sums of N neighbouring columns each. */
template <typename T, int K, int N> struct sums_of {
    T v[K][N];
    __device__ void add(const sums_of &other)
    {
        for (int i = 0; i < K; i++)
            for (int k = 0; k < N; k++)
                v[i][k] += other.v[i][k];
    }
};

/* A zn_type that is known when a kernel is compiled, so that its loads need no choice between them; ANY_TYPE: it is
 * not.
 */
enum { ANY_TYPE = -1 };
template <int TYPE> static __device__ zn_type type_or(zn_type given) { return TYPE < 0 ? given : (zn_type)TYPE; }

#endif

/* Kernels over rows of columns (pixels of channels, tokens of channels), several neighbouring columns per thread.
 *
 *     struct doubled {
 *         const float *x;
 *         float *y;
 *         int64_t rows;
 *         int columns;
 *         template <int N> __device__ void at(int64_t row, int64_t column) const; // N columns
 *     };
 *     launch_rows(d, doubled{ x, y, rows, columns }, is_aligned(x) && is_aligned(y));
 *
 * Included only by .cu files. */
#ifndef ZN_CUDA_ROWS_H
#define ZN_CUDA_ROWS_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/vector.h"

/* a / b for numbers that are not negative; a GPU divides 64-bit numbers slowly. */
static __device__ int64_t quotient(int64_t a, int64_t b)
{
    return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

template <typename F, int N> __global__ void over_rows(F f)
{
    const int64_t each = f.columns / N, count = f.rows * each, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t row = quotient(i, each);
        f.template at<N>(row, (i - row * each) * N);
    }
}

/* aligned: all maps begin at multiples of 16 bytes. */
template <typename F> static void launch_rows(zn_device *d, const F &f, bool aligned)
{
    if (aligned && f.columns % 4 == 0)
        launch(d, over_rows<F, 4>, dim3(grid_of(f.rows * (f.columns / 4))), THREADS, 0, f);
    else
        launch(d, over_rows<F, 1>, dim3(grid_of(f.rows * f.columns)), THREADS, 0, f);
}

#endif

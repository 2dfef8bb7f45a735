/* Sums over blocks of rows, and over blocks, always in the same order; ref/reduce.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/kernels.h"
}

/* A thread block per unit, which is a block of rows. Threads are channels, and where there are few, several threads
 * share the rows of a channel. */
template <typename A> __global__ void channel_sum(task<zn_reduce_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int c = t.a.c, tid = (int)threadIdx.x, lanes = c < THREADS ? THREADS / c : 1, lane = tid / c;
    const int64_t begin = (int64_t)blockIdx.x * ZN_SUM_ROWS;
    const int64_t end = begin + ZN_SUM_ROWS < t.a.rows ? begin + ZN_SUM_ROWS : t.a.rows;
    float *y = t.a.y + (int64_t)blockIdx.x * c;
    if (lanes == 1) {
        for (int k = tid; k < c; k += THREADS) {
            float sum = 0;
#pragma unroll 8
            for (int64_t row = begin; row < end; row++)
                sum += A::template load<1>(t.a.x, row * c + k).v[0];
            y[k] = sum;
        }
        return;
    }
    float sum = 0;
#pragma unroll 8
    for (int64_t row = begin + lane; row < end && lane < lanes; row += lanes)
        sum += A::template load<1>(t.a.x, row * c + tid % c).v[0];
    zn_cuda_shared[tid] = sum;
    __syncthreads();
    for (int i = 1; i < lanes && tid < c; i++)
        sum += zn_cuda_shared[i * c + tid];
    if (tid < c)
        y[tid] = sum;
}

/* WIDTH elements per block; THREADS / WIDTH threads share the blocks of an element. */
template <int WIDTH> __global__ void sum_partials(task<zn_reduce_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    enum { LANES = THREADS / WIDTH };
    const int tid = (int)threadIdx.x, lane = tid / WIDTH;
    const int64_t i = (int64_t)blockIdx.x * WIDTH + tid % WIDTH;
    double sum = 0;
#pragma unroll 8
    for (int64_t block = lane; block < t.a.c && i < t.a.rows; block += LANES)
        sum += (double)t.a.x[block * t.a.rows + i];
    sums[tid] = sum;
    __syncthreads();
    if (lane > 0 || i >= t.a.rows)
        return;
    for (int k = 1; k < LANES; k++)
        sum += sums[k * WIDTH + tid];
    t.a.y[i] = (float)sum;
}

template <int WIDTH> static void launch_width(zn_device *d, const task<zn_reduce_args> &t)
{
    const unsigned blocks = (unsigned)((t.a.rows + WIDTH - 1) / WIDTH);
    launch(d, sum_partials<WIDTH>, dim3(blocks), THREADS, sizeof(double) * THREADS, t);
}

extern "C" {
void zn_cuda_channel_sum(zn_device *d, const void *args, int64_t units)
{
    task<zn_reduce_args> t = { *static_cast<const zn_reduce_args *>(args), units };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    static void (*const builds[])(task<zn_reduce_args>) = { channel_sum<as_f32>, channel_sum<as_bf16>,
                                                            channel_sum<as_f16> };
    launch(d, builds[t.a.type], dim3((unsigned)units), THREADS, sizeof(float) * THREADS, t);
}

/* All elements: units is their number. */
void zn_cuda_sum_partials(zn_device *d, const void *args, int64_t units)
{
    enum { MANY = 1 << 12 };
    task<zn_reduce_args> t = { *static_cast<const zn_reduce_args *>(args), units };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    if (t.a.rows >= MANY)
        launch_width<32>(d, t);
    else
        launch_width<8>(d, t);
}
}

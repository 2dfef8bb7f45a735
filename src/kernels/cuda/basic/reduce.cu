/* Sums over blocks of rows, and over blocks, always in the same order; ref/basic/reduce.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/kernels.h"
}

/* A thread block per unit, which is a block of rows; N channels per thread. */
template <int N, int TYPE> __global__ void channel_sum(task<zn_reduce_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef sums_of<float, 1, N> sums;
    const int columns = t.a.c / N;
    const int64_t begin = (int64_t)blockIdx.x * ZN_SUM_ROWS;
    const int64_t end = begin + ZN_SUM_ROWS < t.a.rows ? begin + ZN_SUM_ROWS : t.a.rows;
    const row_share s = row_share_of(columns);
    for (int first = 0; first < columns; first += s.width) {
        const int c = first + s.column;
        sums sum = {};
#pragma unroll 8
        for (int64_t row = begin + s.lane; row < (s.lane < s.lanes && c < columns ? end : begin); row += s.lanes) {
            const floats<N> x = load_as<N>(t.a.x, row * columns + c, (zn_type)TYPE);
            for (int k = 0; k < N; k++)
                sum.v[0][k] += x.v[k];
        }
        sum = merged(s, sum, reinterpret_cast<sums *>(zn_cuda_shared));
        for (int k = 0; k < N && s.lane == 0 && c < columns; k++)
            t.a.y[(int64_t)blockIdx.x * t.a.c + c * N + k] = sum.v[0][k];
    }
}

/* WIDTH elements per thread block of ALL threads, of which ALL / WIDTH share the blocks of an element. */
template <int WIDTH, int ALL> __global__ void sum_partials(task<zn_reduce_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    enum { LANES = ALL / WIDTH };
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

template <int WIDTH, int ALL> static void launch_width(zn_device *d, const task<zn_reduce_args> &t)
{
    const unsigned blocks = (unsigned)((t.a.rows + WIDTH - 1) / WIDTH);
    launch(d, sum_partials<WIDTH, ALL>, dim3(blocks), ALL, sizeof(double) * ALL, t);
}

extern "C" {
void zn_cuda_channel_sum(zn_device *d, const void *args, int64_t units)
{
    task<zn_reduce_args> t = { *static_cast<const zn_reduce_args *>(args), units };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    static void (*const builds[][2])(task<zn_reduce_args>) = {
        { channel_sum<1, ZN_TYPE_F32>, channel_sum<4, ZN_TYPE_F32> },
        { channel_sum<1, ZN_TYPE_BF16>, channel_sum<4, ZN_TYPE_BF16> },
        { channel_sum<1, ZN_TYPE_F16>, channel_sum<4, ZN_TYPE_F16> },
    };
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x);
    launch(d, builds[t.a.type][vectors], dim3((unsigned)units), THREADS, THREADS * sizeof(sums_of<float, 1, 4>), t);
}

/* All elements: units is their number. */
void zn_cuda_sum_partials(zn_device *d, const void *args, int64_t units)
{
    enum { MANY = 1 << 12, LONG = 512, FEW = 8 };
    task<zn_reduce_args> t = { *static_cast<const zn_reduce_args *>(args), units };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    if (t.a.rows >= MANY && t.a.c <= FEW)
        launch_width<THREADS, THREADS>(d, t);
    else if (t.a.rows >= MANY)
        launch_width<32, THREADS>(d, t);
    else if (t.a.c >= LONG)
        launch_width<8, 4 * THREADS>(d, t);
    else
        launch_width<8, THREADS>(d, t);
}
}

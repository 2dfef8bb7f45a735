/* Losses: sums over blocks of ZN_REDUCE_BLOCK elements, means, and gradients. ref/basic/reduce.c, ref/loss/distance.c
 * and ref/loss/loss.c are the references. Sums are in double, each thread's part first, then a tree over the thread
 * block. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/kernels.h"
#include "kernels/loss.h"
}

/* ---- one sum for each block of elements ---- */

struct block_task {
    const float *a, *b;
    float *y;
    int64_t count;
    double knee;
};

struct square {
    static __device__ double of(float a, float b, double)
    {
        const double off = (double)a - (double)b;
        return off * off;
    }
};
struct huber {
    static __device__ double of(float a, float b, double knee)
    {
        const double off = fabs((double)a - (double)b);
        return off > knee ? off - 0.5 * knee : 0.5 * off * off / (knee > 0 ? knee : 1);
    }
};

template <typename F, int N> __global__ void block_sums(block_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int64_t begin = (int64_t)blockIdx.x * ZN_REDUCE_BLOCK, left = t.count - begin;
    const int size = left < ZN_REDUCE_BLOCK ? (int)left : (int)ZN_REDUCE_BLOCK;
    const float *pa = t.a + begin, *pb = t.b + begin;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < size / N; i += (int)blockDim.x) {
        const floats<N> a = load<N>(pa, i), b = load<N>(pb, i);
        for (int k = 0; k < N; k++)
            sum += F::of(a.v[k], b.v[k], t.knee);
    }
    for (int i = size / N * N + (int)threadIdx.x; i < size; i += (int)blockDim.x)
        sum += F::of(pa[i], pb[i], t.knee);
    sum = sum_of(sum, reinterpret_cast<double *>(zn_cuda_shared));
    if (threadIdx.x == 0)
        t.y[blockIdx.x] = (float)sum;
}

template <typename F> static void run_blocks(zn_device *d, block_task t, int64_t blocks)
{
    to_device(d, t.a);
    to_device(d, t.b);
    to_device(d, t.y);
    launch(d, is_aligned(t.a) && is_aligned(t.b) ? block_sums<F, 4> : block_sums<F, 1>, dim3((unsigned)blocks), THREADS,
           sizeof(double) * THREADS, t);
}

/* ---- means ---- */

__global__ void partial_totals(zn_total_args a)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int64_t begin = (int64_t)blockIdx.x * ZN_REDUCE_BLOCK, left = a.count - begin;
    const int size = left < ZN_REDUCE_BLOCK ? (int)left : (int)ZN_REDUCE_BLOCK;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x)
        sum += (double)a.x[begin + i];
    sum = sum_of(sum, reinterpret_cast<double *>(zn_cuda_shared));
    if (threadIdx.x == 0)
        a.scratch[blockIdx.x] = sum;
}

/* One thread block sums a.x, or `units` partial totals of it. */
template <typename T> __global__ void total(task<zn_total_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const T *x = sizeof(T) == sizeof(double) ? (const T *)t.a.scratch : (const T *)t.a.x;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < t.units; i += blockDim.x)
        sum += (double)x[i];
    const double mean = sum_of(sum, reinterpret_cast<double *>(zn_cuda_shared)) / t.a.divisor;
    if (threadIdx.x == 0)
        *t.a.y = (float)(t.a.complement ? 1 - mean : mean);
}

/* ---- the logistic loss ---- */

__global__ void logistic_loss(zn_logistic_args a)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) {
        const double x = (double)a.x[i];
        sum += fmax(x, 0.0) + log1p(exp(-fabs(x))) - x * (double)a.t[i];
    }
    sum = sum_of(sum, reinterpret_cast<double *>(zn_cuda_shared));
    if (threadIdx.x == 0)
        *a.y = (float)(sum / (double)a.count);
}

__global__ void logistic_loss_grad(task<zn_logistic_args> t)
{
    const double scale = (double)*t.a.dy / (double)t.a.count;
    for (int64_t i = first_unit(); i < t.units; i += unit_step())
        t.a.y[i] = (float)(scale * (1 / (1 + exp(-(double)t.a.x[i])) - (double)t.a.t[i]));
}

static zn_logistic_args logistic_of(zn_device *d, const void *args)
{
    zn_logistic_args a = *static_cast<const zn_logistic_args *>(args);
    to_device(d, a.x);
    to_device(d, a.t);
    to_device(d, a.dy);
    to_device(d, a.y);
    return a;
}

/* ---- the gradient of a distance ---- */

template <int N> __global__ void distance_grad(task<zn_distance_args> t)
{
    const float scale = *t.a.dy / (float)t.a.count, knee = t.a.knee;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const floats<N> a = load<N>(t.a.a, i), b = load<N>(t.a.b, i);
        floats<N> y;
        for (int k = 0; k < N; k++) {
            const float off = a.v[k] - b.v[k];
            y.v[k] = scale * (off > knee ? 1.0f : off < -knee ? -1.0f : knee > 0 ? off / knee : 0.0f);
        }
        store<N>(t.a.y, i, y);
    }
}

extern "C" {
void zn_cuda_square_difference(zn_device *d, const void *args, int64_t blocks)
{
    const zn_reduce_args *a = static_cast<const zn_reduce_args *>(args);
    run_blocks<square>(d, { a->x, a->b, a->y, a->rows, 0 }, blocks);
}

void zn_cuda_distance(zn_device *d, const void *args, int64_t blocks)
{
    const zn_distance_args *a = static_cast<const zn_distance_args *>(args);
    run_blocks<huber>(d, { a->a, a->b, a->y, a->count, (double)a->knee }, blocks);
}

void zn_cuda_distance_grad(zn_device *d, const void *args, int64_t units)
{
    task<zn_distance_args> t = { *static_cast<const zn_distance_args *>(args), units };
    to_device(d, t.a.a);
    to_device(d, t.a.b);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    const bool vectors = units % 4 == 0 && is_aligned(t.a.a) && is_aligned(t.a.b) && is_aligned(t.a.y);
    t.units /= vectors ? 4 : 1;
    launch(d, vectors ? distance_grad<4> : distance_grad<1>, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_total(zn_device *d, const void *args, int64_t)
{
    task<zn_total_args> t = { *static_cast<const zn_total_args *>(args), 0 };
    const int64_t blocks = zn_reduce_blocks(t.a.count);
    const size_t shared = sizeof(double) * THREADS;
    const bool parts = t.a.scratch && blocks > 1;
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    to_device(d, t.a.scratch);
    if (parts)
        launch(d, partial_totals, dim3((unsigned)blocks), THREADS, shared, t.a);
    t.units = parts ? blocks : t.a.count;
    launch(d, parts ? total<double> : total<float>, dim3(1), THREADS, shared, t);
}

void zn_cuda_logistic_loss(zn_device *d, const void *args, int64_t)
{
    launch(d, logistic_loss, dim3(1), THREADS, sizeof(double) * THREADS, logistic_of(d, args));
}

void zn_cuda_logistic_loss_grad(zn_device *d, const void *args, int64_t units)
{
    launch(d, logistic_loss_grad, dim3(grid_of(units)), THREADS, 0,
           task<zn_logistic_args>{ logistic_of(d, args), units });
}
}

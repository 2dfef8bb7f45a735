/* Kernels of training: optimiser steps, averages and reductions; ref/basic/optim.c is the reference. Tensors are parts
 * of one block at any offset, so elements are read one by one, and all but square_sums can be grouped (group.h). */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/optim.h"
}

/* ---- elementwise: each struct updates element i ---- */

struct adam {
    zn_adam_args a;
    float root, rate, keep; /* as in ref/basic/optim.c */

    __device__ void update(int64_t i) const
    {
        const float w = a.w[i], g = a.g[i] + a.penalty * w;
        const float m = a.beta1 * a.m[i] + (1 - a.beta1) * g;
        float v = a.beta2 * a.v[i] + (1 - a.beta2) * g * g;
        a.m[i] = m;
        a.v[i] = v;
        if (a.v_max)
            a.v_max[i] = v = fmaxf(a.v_max[i], v);
        a.w[i] = keep * w - rate * (m / (root * sqrtf(v) + a.eps));
    }
};

struct sgd {
    zn_sgd_args a;

    __device__ void update(int64_t i) const
    {
        const float w = a.w[i];
        float g = a.g[i] + a.penalty * w;
        if (a.m) {
            const float m = a.m[i] = a.momentum * a.m[i] + g;
            g = a.nesterov ? g + a.momentum * m : m;
        }
        a.w[i] = w - a.lr * g;
    }
};

struct average {
    zn_average_args a;

    __device__ void update(int64_t i) const { a.average[i] = a.keep * a.average[i] + (1 - a.keep) * a.w[i]; }
};

struct swap {
    zn_swap_args a;

    __device__ void update(int64_t i) const
    {
        const float x = a.x[i];
        a.x[i] = a.y[i];
        a.y[i] = x;
    }
};

/* ---- reductions: a thread block for each block of elements ---- */

/* Elements of a block. */
static __device__ int block_size(int64_t block, int64_t count)
{
    const int64_t left = count - block * ZN_REDUCE_BLOCK;
    return left < ZN_REDUCE_BLOCK ? (int)left : (int)ZN_REDUCE_BLOCK;
}

__global__ void square_sums(zn_square_sums_args a)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const float *x = a.x + (int64_t)blockIdx.x * ZN_REDUCE_BLOCK;
    const int size = block_size(blockIdx.x, a.count);
    double sum = 0;
    for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x)
        sum += (double)x[i] * (double)x[i];
    sum = sum_of(sum, reinterpret_cast<double *>(zn_cuda_shared));
    if (threadIdx.x == 0)
        a.y[blockIdx.x] = sum;
}

struct any_extreme {
    enum { SHARED = sizeof(float) * THREADS };
    zn_extreme_args a;

    int64_t blocks() const { return zn_reduce_blocks(a.count); }
    __device__ void run(int64_t block) const
    {
        extern __shared__ __align__(16) float zn_cuda_shared[];
        const float *x = a.x + block * ZN_REDUCE_BLOCK;
        const int size = block_size(block, a.count);
        bool extreme = false;
        for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x)
            extreme |= !(fabsf(x[i]) < a.limit);
        const float count = sum_of(extreme ? 1.0f : 0.0f, zn_cuda_shared);
        if (threadIdx.x == 0)
            a.y[block] = count > 0 ? 1 : 0;
    }
};

extern "C" {
void zn_cuda_adam(zn_device *d, const void *args, int64_t units)
{
    zn_adam_args a = *static_cast<const zn_adam_args *>(args);
    to_device(d, a.w);
    to_device(d, a.m);
    to_device(d, a.v);
    to_device(d, a.v_max);
    to_device(d, a.g);
    const adam f = { a, 1 / sqrtf(a.correction2), a.lr / a.correction1, 1 - a.lr * a.decay };
    submit(d, elements<adam>{ f, units });
}

void zn_cuda_sgd(zn_device *d, const void *args, int64_t units)
{
    zn_sgd_args a = *static_cast<const zn_sgd_args *>(args);
    to_device(d, a.w);
    to_device(d, a.m);
    to_device(d, a.g);
    submit(d, elements<sgd>{ { a }, units });
}

void zn_cuda_average(zn_device *d, const void *args, int64_t units)
{
    zn_average_args a = *static_cast<const zn_average_args *>(args);
    to_device(d, a.average);
    to_device(d, a.w);
    submit(d, elements<average>{ { a }, units });
}

void zn_cuda_swap(zn_device *d, const void *args, int64_t units)
{
    zn_swap_args a = *static_cast<const zn_swap_args *>(args);
    to_device(d, a.x);
    to_device(d, a.y);
    submit(d, elements<swap>{ { a }, units });
}

void zn_cuda_square_sums(zn_device *d, const void *args, int64_t units)
{
    zn_square_sums_args a = *static_cast<const zn_square_sums_args *>(args);
    to_device(d, a.x);
    to_device(d, a.y);
    launch(d, square_sums, dim3((unsigned)units), THREADS, sizeof(double) * THREADS, a);
}

void zn_cuda_any_extreme(zn_device *d, const void *args, int64_t)
{
    zn_extreme_args a = *static_cast<const zn_extreme_args *>(args);
    to_device(d, a.x);
    to_device(d, a.y);
    submit(d, any_extreme{ a });
}
}

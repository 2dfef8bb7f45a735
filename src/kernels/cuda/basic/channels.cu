/* Sums and products with one value per channel, and copies of ranges of channels; ref/basic/mix.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/mix.h"
}

/* ---- y = x + b, y = x w: N channels per thread; units and a.c count vectors of N floats ---- */

template <int N, bool PRODUCT> __global__ void by_channel(task<zn_mix_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const floats<N> x = load_as<N>(t.a.x, i, t.a.x_type);
        const floats<N> own = load<N>(PRODUCT ? t.a.w : t.a.b, divide(i, t.a.c).rest);
        floats<N> y;
        for (int k = 0; k < N; k++)
            y.v[k] = PRODUCT ? own.v[k] * x.v[k] : x.v[k] + own.v[k];
        store_as<N>(t.a.y, i, t.a.y_type, y);
    }
}

template <bool PRODUCT> static void run_by_channel(zn_device *d, const void *args, int64_t pixels)
{
    task<zn_mix_args> t = { *static_cast<const zn_mix_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, PRODUCT ? t.a.w : t.a.b);
    to_device(d, t.a.y);
    const bool vectors =
        t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(PRODUCT ? t.a.w : t.a.b) && is_aligned(t.a.y);
    t.a.c /= vectors ? 4 : 1;
    t.units = pixels * t.a.c;
    launch(d, vectors ? by_channel<4, PRODUCT> : by_channel<1, PRODUCT>, dim3(grid_of(t.units)), THREADS, 0, t);
}

/* ---- the gradient of w: sums over the pixels of a block ---- */

enum { CHANNELS = 32 }; /* of a thread block */

struct sum_task {
    zn_mix_args a;
    int64_t block; /* pixels per block */
    int groups;    /* of CHANNELS channels */
};

/* A thread sums N channels of every PARTS-th pixel; then one thread per channel adds the parts in order. */
template <int N> __global__ void scale_channels_grad(sum_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    enum { LANES = CHANNELS / N, PARTS = THREADS / LANES };
    const division unit = divide(blockIdx.x, t.groups);
    const int part = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES, first = unit.rest * CHANNELS;
    const int64_t begin = unit.quotient * t.block, vectors = t.a.c / N;
    const int64_t end = begin + t.block < t.a.pixels ? begin + t.block : t.a.pixels;
    floats<N> sum = {};
    if (first + lane * N < t.a.c)
        for (int64_t p = begin + part; p < end; p += PARTS) {
            const int64_t at = p * vectors + first / N + lane;
            const floats<N> x = load<N>(t.a.x, at), dy = load<N>(t.a.dy, at);
            for (int k = 0; k < N; k++)
                sum.v[k] += x.v[k] * dy.v[k];
        }
    store<N>(zn_cuda_shared, threadIdx.x, sum);
    __syncthreads();
    const int c = (int)threadIdx.x;
    if (c < CHANNELS && first + c < t.a.c) {
        float total = 0;
        for (int i = 0; i < PARTS; i++)
            total += zn_cuda_shared[i * CHANNELS + c];
        t.a.partial[unit.quotient * t.a.c + first + c] = total;
    }
}

/* ---- copies: a.from, a.to, a.count and a.skip count vectors of N floats ---- */

template <int N> __global__ void copy_channels(task<zn_channel_copy_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.count);
        store<N>(t.a.y, at.quotient * t.a.to + t.a.skip + at.rest, load<N>(t.a.x, at.quotient * t.a.from + at.rest));
    }
}

/* The same in a group, as the parts of a concatenation are. */
template <int N> struct copied_channels {
    enum { SHARED = 0, EACH = 4 };
    const float *x;
    float *y;
    int from, to, count, skip;
    int64_t units;

    int64_t blocks() const { return (units + EACH * THREADS - 1) / (EACH * THREADS); }
    __device__ void run(int64_t block) const
    {
        const int64_t first = block * EACH * THREADS + threadIdx.x;
        floats<N> v[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (first + i * THREADS < units) {
                const division at = divide(first + i * THREADS, count);
                v[i] = load<N>(x, at.quotient * from + at.rest);
            }
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (first + i * THREADS < units) {
                const division at = divide(first + i * THREADS, count);
                store<N>(y, at.quotient * to + skip + at.rest, v[i]);
            }
    }
};
template <int N> static void submit_copy(zn_device *d, const task<zn_channel_copy_args> &t)
{
    submit(d, copied_channels<N>{ t.a.x, t.a.y, t.a.from, t.a.to, t.a.count, t.a.skip, t.units });
}

/* The other channels become 0. */
template <int N> __global__ void place_channels(task<zn_channel_copy_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.to);
        const int c = at.rest - t.a.skip;
        store<N>(t.a.y, i, c >= 0 && c < t.a.count ? load<N>(t.a.x, at.quotient * t.a.from + c) : floats<N>{});
    }
}

extern "C" {
void zn_cuda_add_channels(zn_device *d, const void *args, int64_t pixels) { run_by_channel<false>(d, args, pixels); }
void zn_cuda_scale_channels(zn_device *d, const void *args, int64_t pixels) { run_by_channel<true>(d, args, pixels); }

void zn_cuda_scale_channels_grad(zn_device *d, const void *args, int64_t blocks)
{
    sum_task t = { *static_cast<const zn_mix_args *>(args), 0, 0 };
    t.block = zn_sum_block(t.a.pixels);
    t.groups = (t.a.c + CHANNELS - 1) / CHANNELS;
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.partial);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.dy);
    launch(d, vectors ? scale_channels_grad<4> : scale_channels_grad<1>, dim3((unsigned)(blocks * t.groups)), THREADS,
           sizeof(float) * THREADS * (vectors ? 4 : 1), t);
}

void zn_cuda_copy_channels(zn_device *d, const void *args, int64_t pixels)
{
    task<zn_channel_copy_args> t = { *static_cast<const zn_channel_copy_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    const bool vectors = (t.a.from | t.a.to | t.a.count | t.a.skip) % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.y);
    const int n = vectors ? 4 : 1;
    t.a.from /= n, t.a.to /= n, t.a.count /= n, t.a.skip /= n;
    t.units = pixels * (t.a.clear ? t.a.to : t.a.count);
    if (d->grouping && !t.a.clear) {
        if (vectors)
            submit_copy<4>(d, t);
        else
            submit_copy<1>(d, t);
        return;
    }
    launch(d,
           t.a.clear ? vectors ? place_channels<4> : place_channels<1>
           : vectors ? copy_channels<4>
                     : copy_channels<1>,
           dim3(grid_of(t.units)), THREADS, 0, t);
}
}

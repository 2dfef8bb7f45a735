/* Group norm in the three passes of norm.h. A thread block handles one block of pixels, or one group, depending on
 * the pass. ref/norm.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/norm.h"
}

/* Values that norm.h computes on the host, for functions that run on the GPU. */
struct norm_task {
    zn_norm_args a;
    int64_t units;
    int64_t block, blocks; /* pixels per block, and blocks per map */
};

static norm_task task_of(zn_device *d, const void *args, int64_t units)
{
    norm_task t = { *static_cast<const zn_norm_args *>(args), units, 0, 0 };
    t.block = zn_norm_block(&t.a);
    t.blocks = zn_norm_blocks(&t.a);
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    to_device(d, t.a.gamma);
    to_device(d, t.a.beta);
    to_device(d, t.a.scale);
    to_device(d, t.a.shift);
    to_device(d, t.a.gain);
    to_device(d, t.a.partial);
    to_device(d, t.a.table);
    return t;
}

/* One block of pixels per thread block; threads are channels. */
__global__ void norm_sums(norm_task t)
{
    const int64_t unit = blockIdx.x, map = unit / t.blocks, begin = map * t.a.pixels + unit % t.blocks * t.block;
    const int64_t last = (map + 1) * t.a.pixels, end = begin + t.block < last ? begin + t.block : last;
    for (int c = (int)threadIdx.x; c < t.a.c; c += (int)blockDim.x) {
        float mean = 0, square = 0;
        for (int64_t p = begin; p < end; p++)
            mean += t.a.x[p * t.a.c + c];
        mean /= (float)(end - begin);
        for (int64_t p = begin; p < end; p++) {
            const float off = t.a.x[p * t.a.c + c] - mean;
            square += off * off;
        }
        t.a.partial[unit * 2 * t.a.c + c] = mean;
        t.a.partial[(unit * 2 + 1) * t.a.c + c] = square;
    }
}

/* One thread block per group: its threads share the group's blocks and channels, then its channels. */
__global__ void norm_merge(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    const int64_t map = blockIdx.x / (unsigned)t.a.groups;
    const int width = t.a.c / t.a.groups, first = (int)(blockIdx.x % (unsigned)t.a.groups) * width;
    const float *partial = t.a.partial + map * t.blocks * 2 * t.a.c;
    const int64_t all = t.blocks * width;
    const double count = (double)t.a.pixels * width;
    double sum = 0, square = 0;
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int64_t b = i / width;
        const double pixels = (double)((b + 1) * t.block < t.a.pixels ? t.block : t.a.pixels - b * t.block);
        sum += pixels * (double)partial[b * 2 * t.a.c + first + i % width];
    }
    const double mean = sum_of(sum, sums) / count;
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int64_t b = i / width, at = b * 2 * t.a.c + first + i % width;
        const double pixels = (double)((b + 1) * t.block < t.a.pixels ? t.block : t.a.pixels - b * t.block);
        const double off = (double)partial[at] - mean;
        square += (double)partial[at + t.a.c] + pixels * off * off;
    }
    const double scale = 1 / sqrt(sum_of(square, sums) / count + (double)t.a.eps);
    float *factors = t.a.table + map * 3 * t.a.c, *shifts = factors + t.a.c;
    for (int c = first + (int)threadIdx.x; c < first + width; c += (int)blockDim.x) {
        const int64_t at = map * t.a.c + c;
        const double gain = 1 + (t.a.gain ? (double)t.a.gain[at] : 0);
        const double own = 1 + (t.a.scale ? (double)t.a.scale[at] : 0), shift = t.a.shift ? (double)t.a.shift[at] : 0;
        const double factor = scale * (double)t.a.gamma[c];
        factors[c] = (float)(factor * own * gain);
        shifts[c] = (float)((((double)t.a.beta[c] - mean * factor) * own + shift) * gain);
    }
}

/* Units are elements here. */
__global__ void norm_apply(norm_task t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.units; i += step) {
        const int64_t pixel = i / t.a.c, c = i % t.a.c;
        const float *factors = t.a.table + pixel / t.a.pixels * 3 * t.a.c, *shifts = factors + t.a.c;
        const float v = factors[c] * t.a.x[i] + shifts[c];
        t.a.y[i] = t.a.act == ZN_ACT_SILU ? v / (1 + expf(-v)) : t.a.act == ZN_ACT_RELU && v < 0 ? 0 : v;
    }
}

extern "C" {
void zn_cuda_norm_sums(zn_device *d, const void *args, int64_t units)
{
    launch(d, norm_sums, dim3((unsigned)units), THREADS, 0, task_of(d, args, units));
}

void zn_cuda_norm_merge(zn_device *d, const void *args, int64_t units)
{
    launch(d, norm_merge, dim3((unsigned)units), THREADS, sizeof(double) * THREADS, task_of(d, args, units));
}

void zn_cuda_norm_apply(zn_device *d, const void *args, int64_t units)
{
    norm_task t = task_of(d, args, units);
    t.units *= t.a.c;
    launch(d, norm_apply, dim3(grid_of(t.units)), THREADS, 0, t);
}
}

/* Group norm and its gradient in the passes of norm.h. A thread block handles one block of pixels, or one group; the
 * last pass of each has a thread for a few channels of a pixel. ref/norm.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/norm.h"
}

/* Values that norm.h computes on the host, for functions that run on the GPU. */
struct norm_task {
    zn_norm_args a;
    int64_t block, blocks; /* pixels per block, and blocks per map */
};

static norm_task task_of(zn_device *d, const void *args)
{
    norm_task t = { *static_cast<const zn_norm_args *>(args), 0, 0 };
    t.block = zn_norm_block(&t.a);
    t.blocks = zn_norm_blocks(&t.a);
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    to_device(d, t.a.gamma);
    to_device(d, t.a.beta);
    to_device(d, t.a.scale);
    to_device(d, t.a.shift);
    to_device(d, t.a.gain);
    to_device(d, t.a.partial);
    to_device(d, t.a.table);
    to_device(d, t.a.sums);
    return t;
}

/* ---- sums over a block of pixels ---- */

/* How the threads of a block share its pixels: each has one channel at a time and every `lanes`-th pixel. */
struct share {
    int64_t begin, end; /* pixels */
    int width, lanes;   /* channels at a time, and threads for each of them */
    int channel, lane;  /* of this thread; it has no work if lane >= lanes */
};

static __device__ share share_of(const norm_task &t)
{
    const int64_t unit = blockIdx.x, map = unit / t.blocks, begin = map * t.a.pixels + unit % t.blocks * t.block;
    const int64_t last = (map + 1) * t.a.pixels, end = begin + t.block < last ? begin + t.block : last;
    const int width = t.a.c < THREADS ? t.a.c : THREADS, thread = (int)threadIdx.x;
    return share{ begin, end, width, THREADS / width, thread % width, thread / width };
}

/* The sum of the values of all threads that have this thread's channel. All threads must call it. */
static __device__ float sum_of_lanes(const share &s, float value, float *sums)
{
    float sum = 0;
    __syncthreads(); /* all threads have read the previous sums */
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int i = 0; i < s.lanes; i++)
        sum += sums[i * s.width + s.channel];
    return sum;
}

/* Mean and squared deviations of every channel. */
__global__ void norm_sums(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const share s = share_of(t);
    for (int first = 0; first < t.a.c; first += s.width) {
        const int c = first + s.channel;
        const int64_t begin = s.begin + s.lane, end = s.lane < s.lanes && c < t.a.c ? s.end : 0;
        float sum = 0, square = 0;
#pragma unroll 4
        for (int64_t p = begin; p < end; p += s.lanes)
            sum += read_number(t.a.x, p * t.a.c + c, t.a.x_type);
        const float mean = sum_of_lanes(s, sum, zn_cuda_shared) / (float)(s.end - s.begin);
#pragma unroll 4
        for (int64_t p = begin; p < end; p += s.lanes) {
            const float off = read_number(t.a.x, p * t.a.c + c, t.a.x_type) - mean;
            square += off * off;
        }
        square = sum_of_lanes(s, square, zn_cuda_shared);
        if (s.lane == 0 && c < t.a.c) {
            t.a.partial[(int64_t)blockIdx.x * 2 * t.a.c + c] = mean;
            t.a.partial[((int64_t)blockIdx.x * 2 + 1) * t.a.c + c] = square;
        }
    }
}

/* Sums of dy times the normalised x, and of dy. */
__global__ void norm_grad_sums(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const share s = share_of(t);
    const float *scales = t.a.table + s.begin / t.a.pixels * 3 * t.a.c, *shifts = scales + t.a.c;
    for (int first = 0; first < t.a.c; first += s.width) {
        const int c = first + s.channel;
        const int64_t end = s.lane < s.lanes && c < t.a.c ? s.end : 0;
        const float scale = c < t.a.c ? scales[c] : 0, shift = c < t.a.c ? shifts[c] : 0;
        float product = 0, sum = 0;
#pragma unroll 4
        for (int64_t p = s.begin + s.lane; p < end; p += s.lanes) {
            const float dy = t.a.dy[p * t.a.c + c];
            product += dy * (t.a.x[p * t.a.c + c] * scale + shift);
            sum += dy;
        }
        product = sum_of_lanes(s, product, zn_cuda_shared);
        sum = sum_of_lanes(s, sum, zn_cuda_shared);
        if (s.lane == 0 && c < t.a.c) {
            t.a.partial[(int64_t)blockIdx.x * 2 * t.a.c + c] = product;
            t.a.partial[((int64_t)blockIdx.x * 2 + 1) * t.a.c + c] = sum;
        }
    }
}

/* ---- merging the blocks of a group: one thread block per group ---- */

struct group {
    int64_t map;
    int first, width; /* channels */
};

static __device__ group group_of(const norm_task &t)
{
    const int width = t.a.c / t.a.groups;
    return group{ blockIdx.x / (unsigned)t.a.groups, (int)(blockIdx.x % (unsigned)t.a.groups) * width, width };
}

struct moments {
    double mean, scale; /* scale: 1 / sqrt(variance + eps) */
};

/* The threads share the group's blocks and channels. */
static __device__ moments measured(const norm_task &t, const group &g, double *sums)
{
    const float *partial = t.a.partial + g.map * t.blocks * 2 * t.a.c + g.first;
    const int64_t all = t.blocks * g.width;
    const double count = (double)t.a.pixels * g.width;
    double sum = 0, square = 0;
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int64_t b = quotient(i, g.width);
        const double pixels = (double)((b + 1) * t.block < t.a.pixels ? t.block : t.a.pixels - b * t.block);
        sum += pixels * (double)partial[b * 2 * t.a.c + i - b * g.width];
    }
    const double mean = sum_of(sum, sums) / count;
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int64_t b = quotient(i, g.width), at = b * 2 * t.a.c + i - b * g.width;
        const double pixels = (double)((b + 1) * t.block < t.a.pixels ? t.block : t.a.pixels - b * t.block);
        const double off = (double)partial[at] - mean;
        square += (double)partial[at + t.a.c] + pixels * off * off;
    }
    return moments{ mean, 1 / sqrt(sum_of(square, sums) / count + (double)t.a.eps) };
}

__global__ void norm_merge(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const group g = group_of(t);
    const moments m = measured(t, g, reinterpret_cast<double *>(zn_cuda_shared));
    float *factors = t.a.table + g.map * 3 * t.a.c, *shifts = factors + t.a.c;
    for (int c = g.first + (int)threadIdx.x; c < g.first + g.width; c += (int)blockDim.x) {
        const int64_t at = g.map * t.a.c + c;
        const double gain = 1 + (t.a.gain ? (double)t.a.gain[at] : 0);
        const double own = 1 + (t.a.scale ? (double)t.a.scale[at] : 0), shift = t.a.shift ? (double)t.a.shift[at] : 0;
        const double factor = m.scale * (double)t.a.gamma[c];
        factors[c] = (float)(factor * own * gain);
        shifts[c] = (float)((((double)t.a.beta[c] - m.mean * factor) * own + shift) * gain);
    }
}

__global__ void norm_stats(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const group g = group_of(t);
    const moments m = measured(t, g, reinterpret_cast<double *>(zn_cuda_shared));
    float *scales = t.a.table + g.map * 3 * t.a.c, *shifts = scales + t.a.c;
    for (int c = g.first + (int)threadIdx.x; c < g.first + g.width; c += (int)blockDim.x) {
        scales[c] = (float)m.scale;
        shifts[c] = (float)(-m.mean * m.scale);
    }
}

/* 32 threads share the blocks of a channel. */
__global__ void norm_grad_merge(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const group g = group_of(t);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    const double count = (double)t.a.pixels * g.width;
    const float *partial = t.a.partial + g.map * t.blocks * 2 * t.a.c;
    float *products = t.a.sums + g.map * 2 * t.a.c, *sums = products + t.a.c;
    double mean = 0, mean_product = 0;
    for (int c = g.first + warp; c < g.first + g.width; c += warps) {
        double product = 0, sum = 0;
        for (int64_t b = lane; b < t.blocks; b += 32) {
            product += (double)partial[b * 2 * t.a.c + c];
            sum += (double)partial[(b * 2 + 1) * t.a.c + c];
        }
        product = sum_of_warp(product);
        sum = sum_of_warp(sum);
        if (lane == 0) {
            products[c] = (float)product;
            sums[c] = (float)sum;
            mean += (double)t.a.gamma[c] * sum / count;
            mean_product += (double)t.a.gamma[c] * product / count;
        }
    }
    mean = sum_of(mean, reinterpret_cast<double *>(zn_cuda_shared));
    mean_product = sum_of(mean_product, reinterpret_cast<double *>(zn_cuda_shared));
    float *by_dy = t.a.table + g.map * 3 * t.a.c, *by_x = by_dy + t.a.c, *rest = by_x + t.a.c;
    for (int c = g.first + (int)threadIdx.x; c < g.first + g.width; c += (int)blockDim.x) {
        const double scale = (double)by_dy[c], shift = (double)by_x[c];
        by_dy[c] = (float)(scale * (double)t.a.gamma[c]);
        by_x[c] = (float)(-scale * scale * mean_product);
        rest[c] = (float)(-scale * (mean + shift * mean_product));
    }
}

/* ---- maps ---- */

struct norm_apply {
    zn_norm_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t pixel, int64_t c) const
    {
        const float *factors = a.table + quotient(pixel, a.pixels) * 3 * a.c + c;
        const int64_t in_map = (pixel * a.c + c) / N;
        const floats<N> x = load_as<N>(a.x, in_map, a.x_type), f = load<N>(factors, 0), s = load<N>(factors + a.c, 0);
        floats<N> y;
        for (int k = 0; k < N; k++) {
            const float v = f.v[k] * x.v[k] + s.v[k];
            y.v[k] = a.act == ZN_ACT_SILU ? v / (1 + expf(-v)) : a.act == ZN_ACT_RELU && v < 0 ? 0 : v;
        }
        store_as<N>(a.y, in_map, a.y_type, y);
    }
};

struct norm_grad {
    zn_norm_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t pixel, int64_t c) const
    {
        const int64_t i = pixel * a.c + c;
        const float *by_dy = a.table + quotient(pixel, a.pixels) * 3 * a.c + c;
        const floats<N> p = load<N>(by_dy, 0), q = load<N>(by_dy + a.c, 0), r = load<N>(by_dy + 2 * a.c, 0);
        const floats<N> x = load<N>(a.x + i, 0), dy = load<N>(a.dy + i, 0);
        floats<N> y;
        for (int k = 0; k < N; k++)
            y.v[k] = p.v[k] * dy.v[k] + (q.v[k] * x.v[k] + r.v[k]);
        store(a.y + i, 0, y);
    }
};

/* ---- launching ---- */

static void launch_blocks(zn_device *d, void (*kernel)(norm_task), const void *args, int64_t units)
{
    launch(d, kernel, dim3((unsigned)units), THREADS, THREADS * sizeof(float), task_of(d, args));
}

/* As many threads as have work, a power of two. */
static void launch_groups(zn_device *d, void (*kernel)(norm_task), const void *args, int64_t units)
{
    const norm_task t = task_of(d, args);
    unsigned threads = 32;
    while (threads < THREADS && threads < t.blocks * (t.a.c / t.a.groups))
        threads *= 2;
    launch(d, kernel, dim3((unsigned)units), threads, threads * sizeof(double), t);
}

template <typename F> static void launch_maps(zn_device *d, const void *args, int64_t pixels)
{
    const zn_norm_args a = task_of(d, args).a;
    launch_rows(d, F{ a, pixels, a.c }, is_aligned(a.x) && is_aligned(a.dy) && is_aligned(a.y) && is_aligned(a.table));
}

extern "C" {
void zn_cuda_norm_sums(zn_device *d, const void *args, int64_t units) { launch_blocks(d, norm_sums, args, units); }
void zn_cuda_norm_merge(zn_device *d, const void *args, int64_t units) { launch_groups(d, norm_merge, args, units); }
void zn_cuda_norm_apply(zn_device *d, const void *args, int64_t units) { launch_maps<norm_apply>(d, args, units); }
void zn_cuda_norm_stats(zn_device *d, const void *args, int64_t units) { launch_groups(d, norm_stats, args, units); }
void zn_cuda_norm_grad_sums(zn_device *d, const void *args, int64_t units)
{
    launch_blocks(d, norm_grad_sums, args, units);
}
void zn_cuda_norm_grad_merge(zn_device *d, const void *args, int64_t units)
{
    launch_groups(d, norm_grad_merge, args, units);
}
void zn_cuda_norm_grad(zn_device *d, const void *args, int64_t units) { launch_maps<norm_grad>(d, args, units); }
}

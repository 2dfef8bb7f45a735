/* Group norm and its gradient in the passes of norm.h. A thread block handles one block of pixels, or one group; the
 * last pass of each has a thread for a few channels of a pixel. ref/norm.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/norm.h"
}

/* Blocks are larger than on a CPU: more of them than keep the GPU busy would only have to be merged. */
enum { MOST_BLOCKS = 512 };
struct norm_task {
    zn_norm_args a;
    int64_t block, blocks; /* pixels per block, and blocks per map */
};

static norm_task task_of(zn_device *d, const void *args)
{
    norm_task t = { *static_cast<const zn_norm_args *>(args), 0, 0 };
    const int64_t least = (t.a.pixels + MOST_BLOCKS - 1) / MOST_BLOCKS;
    t.block = zn_norm_block(&t.a) > least ? zn_norm_block(&t.a) : least;
    t.blocks = (t.a.pixels + t.block - 1) / t.block;
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

/* Mean and squared deviations of some numbers of each of N channels. */
template <int N> struct spread {
    float count;
    floats<N> mean, squares;

    /* Adds those of other numbers. */
    __device__ void add(const spread &other)
    {
        const float all = count + other.count, share = all > 0 ? other.count / all : 0;
        for (int k = 0; k < N; k++) {
            const float off = other.mean.v[k] - mean.v[k];
            mean.v[k] += off * share;
            squares.v[k] += other.squares.v[k] + off * off * count * share;
        }
        count = all;
    }
};

enum { TOGETHER = 8 }; /* pixels that a thread reads at a time */

/* Of up to TOGETHER pixels from p on, `step` apart and before `end`; c: first of N channels, in vectors. */
template <int N> static __device__ spread<N> measure(const zn_norm_args &a, int64_t p, int64_t step, int64_t end, int c)
{
    floats<N> x[TOGETHER] = {};
    spread<N> s = {};
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
        if (p + i * step < end) {
            x[i] = load_as<N>(a.x, (p + i * step) * (a.c / N) + c, a.x_type);
            s.count += 1;
        }
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
        for (int k = 0; k < N && p + i * step < end; k++)
            s.mean.v[k] += x[i].v[k];
    for (int k = 0; k < N; k++)
        s.mean.v[k] /= s.count;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
        for (int k = 0; k < N && p + i * step < end; k++)
            s.squares.v[k] += (x[i].v[k] - s.mean.v[k]) * (x[i].v[k] - s.mean.v[k]);
    return s;
}

/* Mean and squared deviations of every channel. A thread has N channels at a time and every `lanes`-th pixel. */
template <int N> __global__ void norm_sums(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    spread<N> *const all = reinterpret_cast<spread<N> *>(zn_cuda_shared);
    const int64_t unit = blockIdx.x, map = unit / t.blocks, begin = map * t.a.pixels + unit % t.blocks * t.block;
    const int64_t last = (map + 1) * t.a.pixels, end = begin + t.block < last ? begin + t.block : last;
    const int columns = t.a.c / N, width = columns < THREADS ? columns : THREADS, lanes = THREADS / width;
    const int column = (int)threadIdx.x % width, lane = (int)threadIdx.x / width;
    for (int first = 0; first < columns; first += width) {
        const int c = first + column;
        spread<N> s = {};
        for (int64_t p = begin + lane; p < end && lane < lanes && c < columns; p += (int64_t)TOGETHER * lanes)
            s.add(measure<N>(t.a, p, lanes, end, c));
        __syncthreads(); /* all threads have read the previous ones */
        all[threadIdx.x] = s;
        __syncthreads();
        if (lane != 0 || c >= columns)
            continue;
        for (int i = 1; i < lanes; i++)
            s.add(all[i * width + column]);
        float *to = t.a.partial + unit * 2 * t.a.c + c * N;
        for (int k = 0; k < N; k++) {
            to[k] = s.mean.v[k];
            to[t.a.c + k] = s.squares.v[k];
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
            const float dy = read_number(t.a.dy, p * t.a.c + c, t.a.dy_type);
            product += dy * (read_number(t.a.x, p * t.a.c + c, t.a.x_type) * scale + shift);
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
    __device__ float silu(float v) const { return a.y_type == ZN_TYPE_F32 ? v / (1 + expf(-v)) : quick_silu(v); }
    template <int N> __device__ void at(int64_t pixel, int64_t c) const
    {
        const float *factors = a.table + quotient(pixel, a.pixels) * 3 * a.c + c;
        const int64_t in_map = (pixel * a.c + c) / N;
        const floats<N> x = load_as<N>(a.x, in_map, a.x_type), f = load<N>(factors, 0), s = load<N>(factors + a.c, 0);
        floats<N> y;
        for (int k = 0; k < N; k++) {
            const float v = f.v[k] * x.v[k] + s.v[k];
            y.v[k] = a.act == ZN_ACT_SILU ? silu(v) : a.act == ZN_ACT_RELU && v < 0 ? 0 : v;
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
        const int64_t i = (pixel * a.c + c) / N;
        const float *by_dy = a.table + quotient(pixel, a.pixels) * 3 * a.c + c;
        const floats<N> p = load<N>(by_dy, 0), q = load<N>(by_dy + a.c, 0), r = load<N>(by_dy + 2 * a.c, 0);
        const floats<N> x = load_as<N>(a.x, i, a.x_type), dy = load_as<N>(a.dy, i, a.dy_type);
        floats<N> y;
        for (int k = 0; k < N; k++)
            y.v[k] = p.v[k] * dy.v[k] + (q.v[k] * x.v[k] + r.v[k]);
        store_as<N>(a.y, i, a.y_type, y);
    }
};

/* ---- launching ---- */

static void launch_sums(zn_device *d, const void *args)
{
    const norm_task t = task_of(d, args);
    const dim3 grid((unsigned)(t.a.n * t.blocks));
    if (t.a.c % 4 == 0 && is_aligned(t.a.x))
        launch(d, norm_sums<4>, grid, THREADS, THREADS * sizeof(spread<4>), t);
    else
        launch(d, norm_sums<1>, grid, THREADS, THREADS * sizeof(spread<1>), t);
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
void zn_cuda_norm_sums(zn_device *d, const void *args, int64_t) { launch_sums(d, args); }
void zn_cuda_norm_merge(zn_device *d, const void *args, int64_t units) { launch_groups(d, norm_merge, args, units); }
void zn_cuda_norm_apply(zn_device *d, const void *args, int64_t units) { launch_maps<norm_apply>(d, args, units); }
void zn_cuda_norm_stats(zn_device *d, const void *args, int64_t units) { launch_groups(d, norm_stats, args, units); }
void zn_cuda_norm_grad_sums(zn_device *d, const void *args, int64_t)
{
    const norm_task t = task_of(d, args);
    launch(d, norm_grad_sums, dim3((unsigned)(t.a.n * t.blocks)), THREADS, THREADS * sizeof(float), t);
}
void zn_cuda_norm_grad_merge(zn_device *d, const void *args, int64_t units)
{
    launch_groups(d, norm_grad_merge, args, units);
}
void zn_cuda_norm_grad(zn_device *d, const void *args, int64_t units) { launch_maps<norm_grad>(d, args, units); }
}

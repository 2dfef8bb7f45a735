/* The gradient of group norm in the passes of norm.h; group_norm.cu has the norm. A thread block handles one block of
 * pixels, or one group; the last pass of each has a thread for a few channels of a pixel. ref/basic/norm.c is the
 * reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/norm.h"
}

/* Blocks are larger than on a CPU: more of them than keep the GPU busy would only have to be merged. */
enum : int64_t { MOST_BLOCKS = 512, ENOUGH_BLOCKS = 2048 /* of all maps */ };
struct norm_task {
    zn_norm_args a;
    int64_t block, blocks; /* pixels per block, and blocks per map */
};

static norm_task task_of(zn_device *d, const void *args)
{
    norm_task t = { *static_cast<const zn_norm_args *>(args), 0, 0 };
    const int64_t each = zn_least(MOST_BLOCKS, ENOUGH_BLOCKS / t.a.n), most = each < 1 ? 1 : each;
    const int64_t least = (t.a.pixels + most - 1) / most;
    t.block = zn_norm_block(&t.a) > least ? zn_norm_block(&t.a) : least;
    t.blocks = (t.a.pixels + t.block - 1) / t.block;
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    to_device(d, t.a.gamma);
    to_device(d, t.a.partial);
    to_device(d, t.a.table);
    to_device(d, t.a.sums);
    return t;
}

/* ---- sums over a block of pixels ---- */

/* Pixels [begin, end) of this thread block. */
struct pixels {
    int64_t begin, end;
};

static __device__ pixels pixels_of(const norm_task &t)
{
    const int64_t unit = blockIdx.x, map = unit / t.blocks, begin = map * t.a.pixels + unit % t.blocks * t.block;
    const int64_t last = (map + 1) * t.a.pixels;
    return pixels{ begin, begin + t.block < last ? begin + t.block : last };
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
template <int N, int X>
static __device__ spread<N> measure(const zn_norm_args &a, int64_t p, int64_t step, int64_t end, int c)
{
    floats<N> x[TOGETHER] = {};
    spread<N> s = {};
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
        if (p + i * step < end) {
            x[i] = load_as<N>(a.x, (p + i * step) * (a.c / N) + c, type_or<X>(a.x_type));
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

/* Mean and squared deviations of every channel. X, here and below: the type of x, or ANY_TYPE. */
template <int N, int X> __global__ void norm_sums(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const pixels part = pixels_of(t);
    const int columns = t.a.c / N;
    const row_share s = row_share_of(columns);
    for (int first = 0; first < columns; first += s.width) {
        const int c = first + s.column;
        const int64_t end = s.lane < s.lanes && c < columns ? part.end : 0;
        spread<N> sum = {};
        for (int64_t p = part.begin + s.lane; p < end; p += (int64_t)TOGETHER * s.lanes)
            sum.add(measure<N, X>(t.a, p, s.lanes, end, c));
        sum = merged(s, sum, reinterpret_cast<spread<N> *>(zn_cuda_shared));
        float *to = t.a.partial + (int64_t)blockIdx.x * 2 * t.a.c + c * N;
        for (int k = 0; k < N && s.lane == 0 && c < columns; k++) {
            to[k] = sum.mean.v[k];
            to[t.a.c + k] = sum.squares.v[k];
        }
    }
}

/* Sums of dy times the normalised x, and of dy. */
template <int N, int X, int DY> __global__ void norm_grad_sums(norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef sums_of<float, 2, N> sums;
    const pixels part = pixels_of(t);
    const int columns = t.a.c / N;
    const row_share s = row_share_of(columns);
    const float *scales = t.a.table + part.begin / t.a.pixels * 3 * t.a.c, *shifts = scales + t.a.c;
    for (int first = 0; first < columns; first += s.width) {
        const int c = first + s.column;
        const int64_t end = s.lane < s.lanes && c < columns ? part.end : 0;
        floats<N> scale = {}, shift = {};
        if (end) {
            scale = load<N>(scales, c);
            shift = load<N>(shifts, c);
        }
        sums sum = {};
#pragma unroll 4
        for (int64_t p = part.begin + s.lane; p < end; p += s.lanes) {
            const floats<N> dy = load_as<N>(t.a.dy, p * columns + c, type_or<DY>(t.a.dy_type));
            const floats<N> x = load_as<N>(t.a.x, p * columns + c, type_or<X>(t.a.x_type));
            for (int k = 0; k < N; k++) {
                sum.v[0][k] += dy.v[k] * (x.v[k] * scale.v[k] + shift.v[k]);
                sum.v[1][k] += dy.v[k];
            }
        }
        sum = merged(s, sum, reinterpret_cast<sums *>(zn_cuda_shared));
        float *to = t.a.partial + (int64_t)blockIdx.x * 2 * t.a.c + c * N;
        for (int k = 0; k < N && s.lane == 0 && c < columns; k++) {
            to[k] = sum.v[0][k];
            to[t.a.c + k] = sum.v[1][k];
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

/* ---- maps of 16 bits: eight channels at a time ---- */

enum { EIGHT = 8, FLIGHT = 4 /* pixels whose loads are in flight */ };

/* Eight numbers of a map, or of a table. */
struct eight {
    float v[EIGHT];
};

template <typename T> static __device__ eight widened(const uint4 &p)
{
    return eight{ { T::low(p.x), T::high(p.x), T::low(p.y), T::high(p.y), T::low(p.z), T::high(p.z), T::low(p.w),
                    T::high(p.w) } };
}
template <typename T> static __device__ uint4 narrowed(const eight &e)
{
    return uint4{ T::of(e.v[0], e.v[1]), T::of(e.v[2], e.v[3]), T::of(e.v[4], e.v[5]), T::of(e.v[6], e.v[7]) };
}
static __device__ eight table_at(const float *table)
{
    const floats<4> a = load<4>(table, 0), b = load<4>(table, 1);
    return eight{ { a.v[0], a.v[1], a.v[2], a.v[3], b.v[0], b.v[1], b.v[2], b.v[3] } };
}
static __device__ const uint4 *pieces_of(const float *map) { return reinterpret_cast<const uint4 *>(map); }

/* norm_grad */
struct two_pieces {
    uint4 x, dy;
};
template <typename T> struct grad_pieces {
    typedef two_pieces taken;
    const zn_norm_args &a;
    eight by_dy, by_x, rest;
    __device__ grad_pieces(const zn_norm_args &args, const float *table)
        : a(args), by_dy(table_at(table)), by_x(table_at(table + args.c)), rest(table_at(table + 2 * args.c))
    {
    }
    __device__ two_pieces take(int64_t piece) const
    {
        return two_pieces{ pieces_of(a.x)[piece], pieces_of(a.dy)[piece] };
    }
    __device__ void give(int64_t piece, const two_pieces &v) const
    {
        const eight x = widened<T>(v.x), dy = widened<T>(v.dy);
        eight y;
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            y.v[k] = by_dy.v[k] * dy.v[k] + (by_x.v[k] * x.v[k] + rest.v[k]);
        reinterpret_cast<uint4 *>(a.y)[piece] = narrowed<T>(y);
    }
};

/* A thread has eight channels at a time, whose numbers of the table it reads once, and every `lanes`-th pixel. */
template <typename F> __global__ void over_pieces(norm_task t)
{
    const pixels part = pixels_of(t);
    const int columns = t.a.c / EIGHT;
    const row_share s = row_share_of(columns);
    if (s.lane >= s.lanes)
        return;
    for (int column = s.column; column < columns; column += s.width) {
        const F f(t.a, t.a.table + part.begin / t.a.pixels * 3 * t.a.c + column * EIGHT);
        for (int64_t p = part.begin + s.lane; p < part.end; p += (int64_t)FLIGHT * s.lanes) {
            typename F::taken v[FLIGHT];
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < part.end)
                    v[i] = f.take((p + (int64_t)i * s.lanes) * columns + column);
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < part.end)
                    f.give((p + (int64_t)i * s.lanes) * columns + column, v[i]);
        }
    }
}

/* ---- launching ---- */

typedef void (*norm_kernel)(norm_task);

static void launch_sums(zn_device *d, const void *args)
{
    static const norm_kernel vectors[] = { norm_sums<4, ZN_TYPE_F32>, norm_sums<4, ZN_TYPE_BF16>,
                                           norm_sums<4, ZN_TYPE_F16> };
    const norm_task t = task_of(d, args);
    const norm_kernel kernel = t.a.c % 4 == 0 && is_aligned(t.a.x) ? vectors[t.a.x_type] : norm_sums<1, ANY_TYPE>;
    launch(d, kernel, dim3((unsigned)(t.a.n * t.blocks)), THREADS, THREADS * sizeof(spread<4>), t);
}

static norm_kernel grad_sums_of(const zn_norm_args &a)
{
    constexpr zn_type F = ZN_TYPE_F32, B = ZN_TYPE_BF16;
    if (a.c % 4 || !is_aligned(a.x) || !is_aligned(a.dy) || !is_aligned(a.table))
        return norm_grad_sums<1, ANY_TYPE, ANY_TYPE>;
    if (a.x_type == a.dy_type && a.x_type != ZN_TYPE_F16)
        return a.x_type == F ? norm_grad_sums<4, F, F> : norm_grad_sums<4, B, B>;
    return norm_grad_sums<4, ANY_TYPE, ANY_TYPE>;
}

/* As many threads as have work, a power of two. */
static void launch_groups(zn_device *d, norm_kernel kernel, const void *args, int64_t units)
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

/* Whether x, y and dy are 16 bits of one type in whole pieces. */
static bool has_pieces(const zn_norm_args &a)
{
    const uintptr_t addresses = (uintptr_t)a.x | (uintptr_t)a.y | (uintptr_t)a.dy;
    return a.x_type != ZN_TYPE_F32 && a.y_type == a.x_type && a.dy_type == a.x_type && a.c % EIGHT == 0 &&
           addresses % sizeof(uint4) == 0 && is_aligned(a.table);
}

template <template <typename> class F> static void launch_pieces(zn_device *d, const norm_task &t)
{
    const norm_kernel kernel = t.a.x_type == ZN_TYPE_BF16 ? over_pieces<F<bf16_pair>> : over_pieces<F<f16_pair>>;
    launch(d, kernel, dim3((unsigned)(t.a.n * t.blocks)), THREADS, 0, t);
}

extern "C" {
void zn_cuda_norm_sums(zn_device *d, const void *args, int64_t) { launch_sums(d, args); }
void zn_cuda_norm_stats(zn_device *d, const void *args, int64_t units) { launch_groups(d, norm_stats, args, units); }
void zn_cuda_norm_grad_sums(zn_device *d, const void *args, int64_t)
{
    const norm_task t = task_of(d, args);
    launch(d, grad_sums_of(t.a), dim3((unsigned)(t.a.n * t.blocks)), THREADS, THREADS * sizeof(sums_of<float, 2, 4>),
           t);
}
void zn_cuda_norm_grad_merge(zn_device *d, const void *args, int64_t units)
{
    launch_groups(d, norm_grad_merge, args, units);
}
void zn_cuda_norm_grad(zn_device *d, const void *args, int64_t units)
{
    const norm_task t = task_of(d, args);
    if (has_pieces(t.a))
        launch_pieces<grad_pieces>(d, t);
    else
        launch_maps<norm_grad>(d, args, units);
}
}

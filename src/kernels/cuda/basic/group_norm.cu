/* Group norm, forward, in one launch or three: that of norm.h, and that of silu_norm.h, which training adds dropout to
 * and whose table its gradient needs again.
 *
 * One, where maps are small: a thread block has a group of a map, or as many as have eight channels, which its threads
 * keep in registers while its numbers are summed, measured and written. Three otherwise: blocks of pixels are measured,
 * all groups of them at once; what was measured is merged; and results are written.
 * norm.cu, silu_norm_grad.cu and silu_norm_back.cu have the gradients. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/early.h"
#include "kernels/cuda/norm_factor.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/norm.h"
#include "kernels/silu_norm.h"
}

struct group_norm_task {
    zn_norm_args a;
    int blocks;           /* three launches: of a map */
    int rows;             /* of a map's table */
    dropout_task dropout; /* TRAINS */
};

/* The numbers of a channel in its map's table. */
template <bool TRAINS>
static __device__ void write_table(const group_norm_task &t, int64_t map, int c, const factor &f, float mean,
                                   float rate)
{
    float *const to = t.a.table + map * t.rows * t.a.c + c;
    to[0] = f.by;
    to[t.a.c] = f.plus;
    if (TRAINS) {
        to[2 * t.a.c] = rate;
        to[3 * t.a.c] = -mean * rate;
    }
}

static __device__ float activated(const zn_norm_args &a, float v)
{
    if (a.act == ZN_ACT_SILU)
        return a.y_type == ZN_TYPE_F32 ? v / (1 + expf(-v)) : quick_silu(v);
    return a.act == ZN_ACT_RELU && v < 0 ? 0 : v;
}

/* Writes N results from number `at` of all maps on, which is a multiple of N. */
template <typename T, int N> static __device__ void write_results(const zn_norm_args &a, int64_t at, const float *v)
{
    if (a.y_type == type_of<T>::TYPE) {
        numbers<T, N> y;
        y.set(v);
        reinterpret_cast<numbers<T, N> *>(a.y)[at / N] = y;
    } else {
        for (int i = 0; i < N; i++)
            write_number(a.y, at + i, a.y_type, v[i]);
    }
}

/* Pieces of x and of the map beside it. */
template <typename T, int N> struct piece_source {
    const numbers<T, N> *at; /* of pixel 0 */
    int row;                 /* from pixel to pixel */
};
template <typename T, int N> static __device__ piece_source<T, N> source_of(const zn_norm_args &a, int column)
{
    const int all = a.c / N, split = a.more ? a.split / N : all;
    return column < split
               ? piece_source<T, N>{ reinterpret_cast<const numbers<T, N> *>(a.x) + column, split }
               : piece_source<T, N>{ reinterpret_cast<const numbers<T, N> *>(a.more) + column - split, all - split };
}

/* ---- one launch ---- */

enum { HELD = 8 /* pieces of a thread */, MOST_THREADS = 1024, MOST_WIDE = 4096 };

/* The sums over all threads, in a fixed order; every thread gets them. warps: a number for each warp and group. */
template <int G> static __device__ void sum_groups(float (&values)[G], float *warps)
{
    const int lane = (int)threadIdx.x % 32, count = (int)blockDim.x / 32;
#pragma unroll
    for (int g = 0; g < G; g++) {
        values[g] = sum_of_warp(values[g]);
        if (lane == 0)
            warps[g * 32 + threadIdx.x / 32] = values[g];
    }
    __syncthreads();
#pragma unroll
    for (int g = 0; g < G; g++)
        values[g] = sum_of_warp(lane < count ? warps[g * 32 + lane] : 0.0f);
}

/* Which pixel and which piece of it number `at` of a slice is; numbers are below 2^22. */
struct piece_place {
    int pixel, column;
    __device__ piece_place(int at, int each, float share) /* of a pixel, and 1 / each */
    {
        pixel = (int)(((float)at + 0.5f) * share);
        column = at - pixel * each;
    }
};

/* G: groups of a piece; if there are more than one, a slice is a piece, otherwise a group. */
template <typename T, int N, int G, bool TRAINS>
__global__ void __launch_bounds__(MOST_THREADS, 1) norm_held(group_norm_task t)
{
    wait_for_last();
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *const warps = zn_cuda_shared;
    factor *const factors = reinterpret_cast<factor *>(warps + 2 * G * 32);
    const zn_norm_args &a = t.a;
    const int width = a.c / a.groups * G, each = width / N, slices = a.groups / G;
    const int64_t map = blockIdx.x / (unsigned)slices;
    const int first = (int)(blockIdx.x % (unsigned)slices) * width, pieces = (int)a.pixels * each;
    const int row = a.c / N, split = a.more ? a.split / N : row, column = first / N;
    const float share = 1.0f / (float)each;
    const numbers<T, N> *const x = reinterpret_cast<const numbers<T, N> *>(a.x) + map * a.pixels * split + column;
    const numbers<T, N> *const more =
        a.more ? reinterpret_cast<const numbers<T, N> *>(a.more) + map * a.pixels * (row - split) + column - split : x;
    numbers<T, N> held[HELD] = {};
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * (int)blockDim.x >= pieces)
            break;
        const int at = (int)threadIdx.x + i * (int)blockDim.x;
        const piece_place p(at, each, share);
        if (at < pieces)
            held[i] =
                column + p.column < split ? x[p.pixel * split + p.column] : more[p.pixel * (row - split) + p.column];
    }
    for (int c = (int)threadIdx.x; c < width; c += (int)blockDim.x)
        factors[c] = own_factor(a, map, first + c);
    float sums[G] = {}, squares[G] = {};
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * (int)blockDim.x >= pieces)
            break;
        float v[N];
        held[i].get(v); /* zeros beyond the last piece */
#pragma unroll
        for (int k = 0; k < N; k++)
            sums[k / (N / G)] += v[k];
    }
    const float count = (float)a.pixels * (float)(a.c / a.groups);
    sum_groups<G>(sums, warps);
#pragma unroll
    for (int g = 0; g < G; g++)
        sums[g] /= count;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * (int)blockDim.x >= pieces)
            break;
        float v[N];
        held[i].get(v);
        if ((int)threadIdx.x + i * (int)blockDim.x < pieces)
#pragma unroll
            for (int k = 0; k < N; k++)
                squares[k / (N / G)] += (v[k] - sums[k / (N / G)]) * (v[k] - sums[k / (N / G)]);
    }
    sum_groups<G>(squares, warps + G * 32);
#pragma unroll
    for (int g = 0; g < G; g++)
        squares[g] = 1 / sqrtf(squares[g] / count + a.eps);
    if (TRAINS)
#pragma unroll
        for (int g = 0; g < G; g++)
            for (int c = (int)threadIdx.x; c < width / G; c += (int)blockDim.x) {
                const int own = g * (width / G) + c;
                write_table<TRAINS>(t, map, first + own, whole_factor(factors[own], sums[g], squares[g]), sums[g],
                                    squares[g]);
            }
    const dropping dropout(t.dropout, TRAINS ? map : 0);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * (int)blockDim.x >= pieces)
            break;
        const int at = (int)threadIdx.x + i * (int)blockDim.x;
        if (at >= pieces)
            continue;
        const piece_place p(at, each, share);
        float v[N];
        held[i].get(v);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const factor f = whole_factor(factors[p.column * N + k], sums[k / (N / G)], squares[k / (N / G)]);
            v[k] = activated(a, f.by * v[k] + f.plus);
        }
        const int64_t to = (int64_t)(p.pixel * row + column + p.column) * N;
        if (TRAINS)
            dropout.apply(v, (uint32_t)to);
        write_results<T, N>(a, map * a.pixels * a.c + to, v);
    }
}

/* ---- three launches ---- */

/* Mean and squared deviations of some numbers of each of N channels. */
template <int N> struct spread {
    float count, mean[N], squares[N];
    __device__ void add(const spread &other)
    {
        const float all = count + other.count, share = all > 0 ? other.count / all : 0;
        for (int k = 0; k < N; k++) {
            const float off = other.mean[k] - mean[k];
            mean[k] += off * share;
            squares[k] += other.squares[k] + off * off * count * share;
        }
        count = all;
    }
};

/* Pixels [begin, end) of a map that are those of block `part` of `parts`, counted over all maps. */
struct span {
    int64_t map, begin, end;
};
static __device__ span span_of(const zn_norm_args &a, int parts)
{
    const int64_t map = blockIdx.x / (unsigned)parts, part = blockIdx.x % (unsigned)parts;
    const int64_t size = (a.pixels + parts - 1) / parts, begin = part * size, end = begin + size;
    return span{ map, begin < a.pixels ? begin : a.pixels, end < a.pixels ? end : a.pixels };
}

enum { FLIGHT = 4 /* pixels whose loads are in flight */, RESIDENT = 4 /* blocks of a multiprocessor */ };

/* Of a thread's pixels of N channels: deviations are taken from the mean of the first of them, which is near enough to
 * the mean of all that no digits are lost. */
template <typename T, int N>
static __device__ spread<N> measure(const zn_norm_args &a, const span &s, int lane, int lanes, int column)
{
    const piece_source<T, N> from = source_of<T, N>(a, column);
    const numbers<T, N> *const x = from.at + s.map * a.pixels * from.row;
    float near[N] = {}, sums[N] = {}, squares[N] = {};
    int count = 0;
    for (int64_t p = s.begin + lane; p < s.end; p += (int64_t)FLIGHT * lanes) {
        numbers<T, N> held[FLIGHT] = {};
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (p + (int64_t)i * lanes < s.end)
                held[i] = x[(p + (int64_t)i * lanes) * from.row];
        if (count == 0) {
            int some = 0;
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * lanes < s.end) {
                    float v[N];
                    held[i].get(v);
                    some++;
#pragma unroll
                    for (int k = 0; k < N; k++)
                        near[k] += v[k];
                }
#pragma unroll
            for (int k = 0; k < N; k++)
                near[k] /= (float)some;
        }
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (p + (int64_t)i * lanes < s.end) {
                float v[N];
                held[i].get(v);
                count++;
#pragma unroll
                for (int k = 0; k < N; k++) {
                    const float off = v[k] - near[k];
                    sums[k] += off;
                    squares[k] += off * off;
                }
            }
    }
    spread<N> result = {};
    result.count = (float)count;
    for (int k = 0; k < N && count > 0; k++) {
        const float off = sums[k] / (float)count;
        result.mean[k] = near[k] + off;
        result.squares[k] = squares[k] - sums[k] * off;
    }
    return result;
}

/* For each block: the means of all groups, then their squared deviations. */
template <typename T, int N> __global__ void __launch_bounds__(THREADS, RESIDENT) norm_measure(group_norm_task t)
{
    wait_for_last();
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_norm_args &a = t.a;
    const span part = span_of(a, t.blocks);
    const int columns = a.c / N, width = a.c / a.groups;
    const row_share s = row_share_of(columns);
    spread<N> *const all = reinterpret_cast<spread<N> *>(zn_cuda_shared);
    float *const means = zn_cuda_shared + THREADS * sizeof(spread<N>) / sizeof(float), *const squares = means + a.c;
    for (int first = 0; first < columns; first += s.width) {
        const int column = first + s.column;
        const bool works = s.lane < s.lanes && column < columns;
        spread<N> own = {};
        if (works)
            own = measure<T, N>(a, part, s.lane, s.lanes, column);
        own = merged(s, own, all);
        for (int k = 0; k < N && works && s.lane == 0; k++) {
            means[column * N + k] = own.mean[k];
            squares[column * N + k] = own.squares[k];
        }
    }
    __syncthreads();
    const float pixels = (float)(part.end - part.begin);
    float *const to = a.partial + (int64_t)blockIdx.x * 2 * a.groups;
    for (int g = (int)threadIdx.x; g < a.groups; g += THREADS) {
        float sum = 0, square = 0;
        for (int c = g * width; c < (g + 1) * width; c++)
            sum += means[c];
        const float mean = sum / (float)width;
        for (int c = g * width; c < (g + 1) * width; c++)
            square += squares[c] + pixels * (means[c] - mean) * (means[c] - mean);
        to[g] = mean;
        to[a.groups + g] = square;
    }
}

struct merging {
    double sum, product, square;
};

/* The factors of all channels of a map, a thread block for each. Lanes have groups, warps share the blocks. */
template <bool TRAINS> __global__ void __launch_bounds__(THREADS, 1) norm_factors(group_norm_task t)
{
    wait_for_last();
    enum { WARPS = THREADS / 32 };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    merging *const parts = reinterpret_cast<merging *>(zn_cuda_shared);
    float *const means = reinterpret_cast<float *>(parts + THREADS), *const rates = means + 32;
    const zn_norm_args &a = t.a;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, width = a.c / a.groups;
    const int64_t map = blockIdx.x, size = (a.pixels + t.blocks - 1) / t.blocks;
    const float *const from = a.partial + map * t.blocks * 2 * a.groups;
    for (int first = 0; first < a.groups; first += 32) {
        const int g = first + lane;
        merging own = {};
        if (g < a.groups) {
#pragma unroll 8
            for (int b = warp; b < t.blocks; b += WARPS) {
                const int64_t left = a.pixels - b * size, pixels = left < size ? (left > 0 ? left : 0) : size;
                const double mean = (double)from[(int64_t)b * 2 * a.groups + g];
                own.sum += (double)pixels * mean;
                own.product += (double)pixels * mean * mean;
                own.square += (double)from[((int64_t)b * 2 + 1) * a.groups + g];
            }
        }
        __syncthreads(); /* all have read the previous ones */
        parts[threadIdx.x] = own;
        __syncthreads();
        if (warp == 0 && g < a.groups) {
            merging all = {};
            for (int i = 0; i < WARPS; i++) {
                all.sum += parts[i * 32 + lane].sum;
                all.product += parts[i * 32 + lane].product;
                all.square += parts[i * 32 + lane].square;
            }
            const double pixels = (double)a.pixels, mean = all.sum / pixels;
            const double between = (all.product - mean * mean * pixels) * width;
            means[lane] = (float)mean;
            rates[lane] =
                (float)(1 / sqrt((all.square + (between > 0 ? between : 0)) / (pixels * width) + (double)a.eps));
        }
        __syncthreads();
        const int last = first + 32 < a.groups ? first + 32 : a.groups;
        for (int c = first * width + (int)threadIdx.x; c < last * width; c += THREADS) {
            const float mean = means[c / width - first], rate = rates[c / width - first];
            write_table<TRAINS>(t, map, c, whole_factor(own_factor(a, map, c), mean, rate), mean, rate);
        }
    }
}

template <typename T, int N, bool TRAINS>
__global__ void __launch_bounds__(THREADS, RESIDENT) norm_write(group_norm_task t)
{
    wait_for_last();
    const zn_norm_args &a = t.a;
    const span part = span_of(a, t.blocks);
    const int columns = a.c / N;
    const row_share s = row_share_of(columns);
    if (s.lane >= s.lanes)
        return;
    const dropping dropout(t.dropout, TRAINS ? part.map : 0);
    for (int column = s.column; column < columns; column += s.width) {
        const float *const table = a.table + part.map * t.rows * a.c + column * N;
        float by[N], plus[N];
        read_table(table, by);
        read_table(table + a.c, plus);
        const piece_source<T, N> from = source_of<T, N>(a, column);
        const numbers<T, N> *const x = from.at + part.map * a.pixels * from.row;
        for (int64_t p = part.begin + s.lane; p < part.end; p += (int64_t)FLIGHT * s.lanes) {
            numbers<T, N> held[FLIGHT] = {};
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < part.end)
                    held[i] = x[(p + (int64_t)i * s.lanes) * from.row];
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < part.end) {
                    float v[N];
                    held[i].get(v);
#pragma unroll
                    for (int k = 0; k < N; k++)
                        v[k] = activated(a, by[k] * v[k] + plus[k]);
                    const int64_t to = ((p + (int64_t)i * s.lanes) * columns + column) * N;
                    if (TRAINS)
                        dropout.apply(v, (uint32_t)to);
                    write_results<T, N>(a, part.map * a.pixels * a.c + to, v);
                }
        }
    }
}

/* ---- launching ---- */

typedef void (*norm_kernel)(group_norm_task);

/* The most neighbours that a load can have: of all pieces of `width` channels, up to 16 bytes. */
static int piece_of(const zn_norm_args &a, int width)
{
    const int most = a.x_type == ZN_TYPE_F32 ? 4 : 8;
    const uintptr_t size = zn_type_size(a.x_type), y_size = zn_type_size(a.y_type);
    int piece = most;
    while (piece > 1 && (width % piece || a.split % piece || (uintptr_t)a.x % (piece * size) ||
                         (uintptr_t)a.more % (piece * size) || (uintptr_t)a.y % (piece * y_size)))
        piece /= 2;
    return a.x_type == ZN_TYPE_F32 && piece == 2 ? 1 : piece;
}

/* How norm_held would do it. */
struct held_plan {
    int piece, groups;      /* channels of a piece, groups of a slice */
    int64_t slices, pieces; /* of all maps; of a slice */
};

static held_plan plan_held(const zn_norm_args &a)
{
    const int width = a.c / a.groups, most = a.x_type == ZN_TYPE_F32 ? 4 : 8;
    held_plan h = { piece_of(a, width), 1, 0, 0 };
    if (width < most && most % width == 0 && a.groups % (most / width) == 0 && piece_of(a, most) == most &&
        a.c % most == 0 && a.pixels <= (int64_t)HELD * MOST_THREADS / 8) {
        h.piece = most;
        h.groups = most / width;
    }
    h.slices = a.n * (a.groups / h.groups);
    h.pieces = a.pixels * (width * h.groups / h.piece);
    return h;
}

/* Large maps are read faster in whole pixels. So are those of training, which are many, unless their pieces have 8
 * bytes and are few. */
static bool fits(const zn_norm_args &a, const held_plan &h, bool trains)
{
    const int64_t size = (int64_t)zn_type_size(a.x_type), bytes = a.n * a.pixels * a.c * size, most = 40 << 20;
    return h.pieces <= (int64_t)HELD * MOST_THREADS && a.c / a.groups <= MOST_WIDE &&
           (bytes <= most || a.pixels == 1) &&
           (!trains || (h.piece * size >= 8 && h.pieces * h.piece <= HELD * MOST_THREADS));
}

template <typename T, bool TRAINS> static norm_kernel held_kernel(const held_plan &h)
{
    if constexpr (type_of<T>::TYPE == ZN_TYPE_F32)
        return h.groups == 4   ? norm_held<T, 4, 4, TRAINS>
               : h.groups == 2 ? norm_held<T, 4, 2, TRAINS>
               : h.piece == 4  ? norm_held<T, 4, 1, TRAINS>
                               : norm_held<T, 1, 1, TRAINS>;
    else
        return h.groups == 8   ? norm_held<T, 8, 8, TRAINS>
               : h.groups == 4 ? norm_held<T, 8, 4, TRAINS>
               : h.groups == 2 ? norm_held<T, 8, 2, TRAINS>
               : h.piece == 8  ? norm_held<T, 8, 1, TRAINS>
               : h.piece == 4  ? norm_held<T, 4, 1, TRAINS>
               : h.piece == 2  ? norm_held<T, 2, 1, TRAINS>
                               : norm_held<T, 1, 1, TRAINS>;
}

/* Threads have several pieces each: all warps do the same sums over warps. With slices for all multiprocessors they
 * have more, so that more thread blocks share a multiprocessor, and some of them load while others compute. */
template <typename T, bool TRAINS> static void launch_held(zn_device *d, const group_norm_task &t, const held_plan &h)
{
    const bool many = h.slices > 528;
    const int least = many ? 32 : 128, each = many ? (int)HELD : 4; /* threads; pieces of a thread */
    int threads = 32;
    while (threads < MOST_THREADS && threads < h.pieces && (threads < least || threads * each < h.pieces))
        threads *= 2;
    launch_early(d, held_kernel<T, TRAINS>(h), dim3((unsigned)h.slices), (unsigned)threads,
                 sizeof(float) * 64 * (size_t)h.groups + sizeof(factor) * (size_t)(t.a.c / t.a.groups * h.groups), t);
}

template <typename T, int N, bool TRAINS> static void launch_three(zn_device *d, const group_norm_task &t)
{
    const norm_kernel measure = norm_measure<T, N>, merge = norm_factors<TRAINS>, write = norm_write<T, N, TRAINS>;
    const dim3 grid((unsigned)(t.a.n * t.blocks));
    launch_early(d, measure, grid, THREADS, THREADS * sizeof(spread<N>) + 2 * sizeof(float) * (size_t)t.a.c, t);
    launch_early(d, merge, dim3((unsigned)t.a.n), THREADS, THREADS * sizeof(merging) + 64 * sizeof(float), t);
    launch_early(d, write, grid, THREADS, 0, t);
}

template <typename T, bool TRAINS> static void launch_type(zn_device *d, const group_norm_task &t)
{
    constexpr int MOST = type_of<T>::TYPE == ZN_TYPE_F32 ? 4 : 8;
    const held_plan h = plan_held(t.a);
    if (fits(t.a, h, TRAINS))
        launch_held<T, TRAINS>(d, t, h);
    else if (piece_of(t.a, t.a.c) == MOST && is_aligned(t.a.table))
        launch_three<T, MOST, TRAINS>(d, t);
    else
        launch_three<T, 1, TRAINS>(d, t);
}

template <bool TRAINS> static void launch_norm(zn_device *d, group_norm_task t)
{
    to_device(d, t.a.x);
    to_device(d, t.a.more);
    to_device(d, t.a.y);
    to_device(d, t.a.gamma);
    to_device(d, t.a.beta);
    to_device(d, t.a.scale);
    to_device(d, t.a.shift);
    to_device(d, t.a.gain);
    to_device(d, t.a.partial);
    to_device(d, t.a.table);
    to_device(d, t.dropout.seeds);
    if (t.a.x_type == ZN_TYPE_F32)
        launch_type<float, TRAINS>(d, t);
    else if (t.a.x_type == ZN_TYPE_BF16)
        launch_type<bf16_pair, TRAINS>(d, t);
    else
        launch_type<f16_pair, TRAINS>(d, t);
}

extern "C" {
void zn_cuda_group_norm(zn_device *d, const void *args, int64_t)
{
    group_norm_task t = { *static_cast<const zn_norm_args *>(args), 0, 3, {} };
    const int64_t blocks = 2048, most = 512, each = blocks / t.a.n > most ? most : blocks / t.a.n;
    t.blocks = (int)zn_least(zn_norm_blocks(&t.a), each < 1 ? 1 : each);
    launch_norm<false>(d, t);
}

void zn_cuda_silu_norm(zn_device *d, const void *args, int64_t)
{
    const zn_silu_norm_args &a = *static_cast<const zn_silu_norm_args *>(args);
    group_norm_task t = { {}, (int)zn_silu_norm_blocks(&a), 4, dropout_of(a.seeds, a.place, a.share) };
    t.a.x = a.x;
    t.a.y = a.y;
    t.a.gamma = a.gamma;
    t.a.beta = a.beta;
    t.a.scale = a.scale;
    t.a.shift = a.shift;
    t.a.gain = a.gain;
    t.a.scale_step = t.a.shift_step = t.a.gain_step = a.c;
    t.a.partial = a.partial;
    t.a.table = a.table;
    t.a.n = a.n;
    t.a.pixels = a.pixels;
    t.a.c = a.c;
    t.a.groups = a.groups;
    t.a.eps = a.eps;
    t.a.act = ZN_ACT_SILU;
    t.a.x_type = a.x_type;
    t.a.y_type = a.y_type;
    launch_norm<true>(d, t);
}
}

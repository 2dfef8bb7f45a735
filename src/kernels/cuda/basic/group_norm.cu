/* Group norm, forward, in one launch or two (norm.h).
 *
 * One, where groups are small: a thread block has a group of a map, which its threads keep in registers while its
 * numbers are summed, measured and written. Two otherwise: blocks of pixels are measured first, all groups of them at
 * once; then blocks that write results merge what was measured, each for itself, which takes less time than a launch.
 * norm.cu has the gradient. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/norm.h"
}

/* N neighbouring numbers of a map as they lie in memory. T: float, bf16_pair or f16_pair. */
template <typename T, int N> struct alignas(2 * N) numbers {
    uint32_t pair[N / 2];
    __device__ void get(float *v) const
    {
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            v[2 * i] = T::low(pair[i]);
            v[2 * i + 1] = T::high(pair[i]);
        }
    }
    __device__ void set(const float *v)
    {
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            pair[i] = T::of(v[2 * i], v[2 * i + 1]);
    }
};
template <typename T> struct numbers<T, 1> {
    uint16_t bits;
    __device__ void get(float *v) const { v[0] = T::low(bits); }
    __device__ void set(const float *v) { bits = (uint16_t)T::of(v[0], 0); }
};
template <int N> struct numbers<float, N> : floats<N> {
    __device__ void get(float *v) const
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = this->v[i];
    }
    __device__ void set(const float *v)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            this->v[i] = v[i];
    }
};
template <> struct numbers<float, 1> : floats<1> {
    __device__ void get(float *to) const { to[0] = v[0]; }
    __device__ void set(const float *from) { v[0] = from[0]; }
};

template <typename T> struct type_of;
template <> struct type_of<float> {
    static constexpr zn_type TYPE = ZN_TYPE_F32;
};
template <> struct type_of<bf16_pair> {
    static constexpr zn_type TYPE = ZN_TYPE_BF16;
};
template <> struct type_of<f16_pair> {
    static constexpr zn_type TYPE = ZN_TYPE_F16;
};

struct group_norm_task {
    zn_norm_args a;
    int measured, written; /* two launches: thread blocks of each for a map */
};

struct factor {
    float by, plus;
};

/* y = act(by x + plus) for a channel of a map; rate: 1 / deviation of its group. */
static __device__ factor factor_of(const zn_norm_args &a, int64_t map, int c, double mean, double rate)
{
    const double gain = 1 + (a.gain ? (double)a.gain[map * a.gain_step + c] : 0);
    const double own = 1 + (a.scale ? (double)a.scale[map * a.scale_step + c] : 0);
    const double shift = a.shift ? (double)a.shift[map * a.shift_step + c] : 0, by = rate * (double)a.gamma[c];
    return factor{ (float)(by * own * gain), (float)((((double)a.beta[c] - mean * by) * own + shift) * gain) };
}

static __device__ float activated(const zn_norm_args &a, float v)
{
    if (a.act == ZN_ACT_SILU)
        return a.y_type == ZN_TYPE_F32 ? v / (1 + expf(-v)) : quick_silu(v);
    return a.act == ZN_ACT_RELU && v < 0 ? 0 : v;
}

/* Writes N results from number `at` of the map on, which is a multiple of N. */
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

/* ---- one launch ---- */

enum { HELD = 8 /* pieces of a thread */, MOST_THREADS = 1024, MOST_WIDE = 4096 };

/* The sum of the values of all threads in a fixed order; every thread gets it. sums: one number per warp. */
static __device__ double sum_of_block(double value, double *sums)
{
    const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    value = sum_of_warp(value);
    __syncthreads(); /* all threads have read the previous sums */
    if (lane == 0)
        sums[threadIdx.x / 32] = value;
    __syncthreads();
    return sum_of_warp(lane < warps ? sums[lane] : 0.0);
}

template <typename T, int N> __global__ void __launch_bounds__(MOST_THREADS, 1) norm_held(group_norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *const sums = reinterpret_cast<double *>(zn_cuda_shared);
    factor *const factors = reinterpret_cast<factor *>(sums + MOST_THREADS / 32);
    const zn_norm_args &a = t.a;
    const int width = a.c / a.groups, each = width / N, row = a.c / N;
    const int64_t map = blockIdx.x / (unsigned)a.groups;
    const int first = (int)(blockIdx.x % (unsigned)a.groups) * width, pieces = (int)a.pixels * each;
    const int64_t start = (map * a.pixels * a.c + first) / N;
    const numbers<T, N> *const x = reinterpret_cast<const numbers<T, N> *>(a.x) + start;
    numbers<T, N> held[HELD];
    float sum = 0, square = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int at = (int)threadIdx.x + i * (int)blockDim.x;
        if (at < pieces)
            held[i] = x[(int64_t)(at / each) * row + at % each];
    }
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if ((int)threadIdx.x + i * (int)blockDim.x < pieces) {
            float v[N];
            held[i].get(v);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum += v[k];
        }
    const double count = (double)a.pixels * width, mean = sum_of_block((double)sum, sums) / count;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if ((int)threadIdx.x + i * (int)blockDim.x < pieces) {
            float v[N];
            held[i].get(v);
#pragma unroll
            for (int k = 0; k < N; k++)
                square += (v[k] - (float)mean) * (v[k] - (float)mean);
        }
    const double rate = 1 / sqrt(sum_of_block((double)square, sums) / count + (double)a.eps);
    for (int c = (int)threadIdx.x; c < width; c += (int)blockDim.x)
        factors[c] = factor_of(a, map, first + c, mean, rate);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int at = (int)threadIdx.x + i * (int)blockDim.x;
        if (at >= pieces)
            continue;
        float v[N];
        held[i].get(v);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const factor f = factors[at % each * N + k];
            v[k] = activated(a, f.by * v[k] + f.plus);
        }
        write_results<T, N>(a, (start + (int64_t)(at / each) * row + at % each) * N, v);
    }
}

/* ---- two launches ---- */

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

enum { FLIGHT = 8 }; /* pixels whose loads are in flight */

/* Of a thread's pixels of N channels: deviations are taken from the mean of the first of them, which is near enough to
 * the mean of all that no digits are lost. */
template <typename T, int N>
static __device__ spread<N> measure(const zn_norm_args &a, const span &s, int lane, int lanes, int column)
{
    const int row = a.c / N;
    const numbers<T, N> *const x = reinterpret_cast<const numbers<T, N> *>(a.x) + s.map * a.pixels * row + column;
    float near[N] = {}, sums[N] = {}, squares[N] = {};
    int count = 0;
    for (int64_t p = s.begin + lane; p < s.end; p += (int64_t)FLIGHT * lanes) {
        numbers<T, N> held[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (p + (int64_t)i * lanes < s.end)
                held[i] = x[(p + (int64_t)i * lanes) * row];
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
template <typename T, int N> __global__ void __launch_bounds__(THREADS, 2) norm_measure(group_norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_norm_args &a = t.a;
    const span part = span_of(a, t.measured);
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
struct moments {
    double mean, rate;
};

/* Mean and 1 / deviation of each group of a map. Lanes have groups, warps share the blocks. */
static __device__ void merge_groups(const group_norm_task &t, int64_t map, merging *shared, moments *to)
{
    enum { WARPS = THREADS / 32 };
    const zn_norm_args &a = t.a;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const float *const from = a.partial + map * t.measured * 2 * a.groups;
    const int64_t size = (a.pixels + t.measured - 1) / t.measured;
    const double count = (double)a.pixels * (a.c / a.groups);
    for (int first = 0; first < a.groups; first += 32) {
        const int g = first + lane;
        merging own = {};
        if (g < a.groups) {
#pragma unroll 8
            for (int b = warp; b < t.measured; b += WARPS) {
                const int64_t left = a.pixels - b * size, pixels = left < size ? (left > 0 ? left : 0) : size;
                const double mean = (double)from[(int64_t)b * 2 * a.groups + g];
                own.sum += (double)pixels * mean;
                own.product += (double)pixels * mean * mean;
                own.square += (double)from[((int64_t)b * 2 + 1) * a.groups + g];
            }
        }
        __syncthreads();
        shared[threadIdx.x] = own;
        __syncthreads();
        if (warp == 0 && g < a.groups) {
            merging all = {};
            for (int i = 0; i < WARPS; i++) {
                all.sum += shared[i * 32 + lane].sum;
                all.product += shared[i * 32 + lane].product;
                all.square += shared[i * 32 + lane].square;
            }
            const double width = (double)(a.c / a.groups), mean = all.sum * width / count;
            const double between = all.product * width - mean * mean * count;
            to[g] = moments{ mean, 1 / sqrt((all.square + (between > 0 ? between : 0)) / count + (double)a.eps) };
        }
    }
    __syncthreads();
}

template <typename T, int N> __global__ void __launch_bounds__(THREADS, 2) norm_write(group_norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    merging *const shared = reinterpret_cast<merging *>(zn_cuda_shared);
    moments *const groups = reinterpret_cast<moments *>(shared + THREADS);
    const zn_norm_args &a = t.a;
    const span part = span_of(a, t.written);
    const int columns = a.c / N, width = a.c / a.groups;
    const row_share s = row_share_of(columns);
    merge_groups(t, part.map, shared, groups);
    if (s.lane >= s.lanes)
        return;
    const int64_t start = part.map * a.pixels * columns;
    const numbers<T, N> *const x = reinterpret_cast<const numbers<T, N> *>(a.x) + start;
    for (int column = s.column; column < columns; column += s.width) {
        factor f[N];
#pragma unroll
        for (int k = 0; k < N; k++) {
            const moments m = groups[(column * N + k) / width];
            f[k] = factor_of(a, part.map, column * N + k, m.mean, m.rate);
        }
        for (int64_t p = part.begin + s.lane; p < part.end; p += (int64_t)FLIGHT * s.lanes) {
            numbers<T, N> held[FLIGHT];
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < part.end)
                    held[i] = x[(p + (int64_t)i * s.lanes) * columns + column];
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < part.end) {
                    float v[N];
                    held[i].get(v);
#pragma unroll
                    for (int k = 0; k < N; k++)
                        v[k] = activated(a, f[k].by * v[k] + f[k].plus);
                    write_results<T, N>(a, (start + (p + (int64_t)i * s.lanes) * columns + column) * N, v);
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
    while (piece > 1 && (width % piece || (uintptr_t)a.x % (piece * size) || (uintptr_t)a.y % (piece * y_size)))
        piece /= 2;
    return a.x_type == ZN_TYPE_F32 && piece == 2 ? 1 : piece;
}

template <typename T> static norm_kernel held_kernel(int piece)
{
    if constexpr (type_of<T>::TYPE == ZN_TYPE_F32)
        return piece == 4 ? norm_held<T, 4> : norm_held<T, 1>;
    else
        return piece == 8   ? norm_held<T, 8>
               : piece == 4 ? norm_held<T, 4>
               : piece == 2 ? norm_held<T, 2>
                            : norm_held<T, 1>;
}

/* Where a group has few neighbouring channels, most of what is read is not used. */
static bool is_held(const zn_norm_args &a, int piece)
{
    enum { SECTOR_HALF = 16, FEW_PIXELS = 1 << 17 };
    const int width = a.c / a.groups;
    return a.pixels * (width / piece) <= (int64_t)HELD * MOST_THREADS && width <= MOST_WIDE &&
           (width * zn_type_size(a.x_type) >= SECTOR_HALF || a.n * a.groups * a.pixels <= FEW_PIXELS);
}

template <typename T> static void launch_held(zn_device *d, const group_norm_task &t, int piece)
{
    const int width = t.a.c / t.a.groups;
    const int64_t pieces = t.a.pixels * (width / piece);
    unsigned threads = 32;
    while (threads < MOST_THREADS && 2 * threads < pieces)
        threads *= 2;
    launch(d, held_kernel<T>(piece), dim3((unsigned)(t.a.n * t.a.groups)), threads,
           sizeof(double) * (MOST_THREADS / 32) + sizeof(factor) * (size_t)width, t);
}

template <typename T, int N> static void launch_both(zn_device *d, group_norm_task t)
{
    const int64_t least = 16, share = 128 / t.a.n;
    t.measured = (int)zn_least(zn_norm_blocks(&t.a), share > least ? share : least);
    t.written = (int)zn_least(t.a.pixels, (4 * (int64_t)d->processors + t.a.n - 1) / t.a.n);
    const norm_kernel measure = norm_measure<T, N>, write = norm_write<T, N>;
    launch(d, measure, dim3((unsigned)(t.a.n * t.measured)), THREADS,
           THREADS * sizeof(spread<N>) + 2 * sizeof(float) * (size_t)t.a.c, t);
    launch(d, write, dim3((unsigned)(t.a.n * t.written)), THREADS,
           THREADS * sizeof(merging) + sizeof(moments) * (size_t)t.a.groups, t);
}

template <typename T> static void launch_type(zn_device *d, const group_norm_task &t)
{
    constexpr int MOST = type_of<T>::TYPE == ZN_TYPE_F32 ? 4 : 8;
    const int piece = piece_of(t.a, t.a.c / t.a.groups);
    if (is_held(t.a, piece))
        launch_held<T>(d, t, piece);
    else if (piece_of(t.a, t.a.c) == MOST)
        launch_both<T, MOST>(d, t);
    else
        launch_both<T, 1>(d, t);
}

extern "C" void zn_cuda_group_norm(zn_device *d, const void *args, int64_t)
{
    group_norm_task t = { *static_cast<const zn_norm_args *>(args), 0, 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    to_device(d, t.a.gamma);
    to_device(d, t.a.beta);
    to_device(d, t.a.scale);
    to_device(d, t.a.shift);
    to_device(d, t.a.gain);
    to_device(d, t.a.partial);
    if (t.a.x_type == ZN_TYPE_F32)
        launch_type<float>(d, t);
    else if (t.a.x_type == ZN_TYPE_BF16)
        launch_type<bf16_pair>(d, t);
    else
        launch_type<f16_pair>(d, t);
}

/* The gradient of group norm with modulation, SiLU and dropout, in the passes of silu_norm.h; group_norm.cu has the
 * norm. A thread block handles one block of pixels, or one group. ref/basic/silu_norm.c is the reference. */
#include "kernels/cuda/basic/silu_norm_grad.h"

/* ---- eight channels of a pixel, or one where pixels have no whole eights or addresses are odd ---- */

/* TYPE: of all maps if it is known when the kernel is compiled, or ANY_TYPE. */
template <int N, int TYPE> struct channels {
    typedef values<N> loaded;
    static __device__ loaded load(const float *map, int64_t i, zn_type type)
    {
        loaded x;
        if constexpr (N == 1) {
            x.v[0] = read_number(map, i, type);
        } else {
            const floats<4> low = load_as<4>(map, 2 * i, type), high = load_as<4>(map, 2 * i + 1, type);
            x = { { low.v[0], low.v[1], low.v[2], low.v[3], high.v[0], high.v[1], high.v[2], high.v[3] } };
        }
        return x;
    }
    static __device__ values<N> widened(const loaded &x) { return x; }
    static __device__ void store(float *map, int64_t i, zn_type type, const values<N> &x)
    {
        if constexpr (N == 1) {
            write_number(map, i, type, x.v[0]);
        } else {
            store_as<4>(map, 2 * i, type, floats<4>{ { x.v[0], x.v[1], x.v[2], x.v[3] } });
            store_as<4>(map, 2 * i + 1, type, floats<4>{ { x.v[4], x.v[5], x.v[6], x.v[7] } });
        }
    }
};

template <int N> struct channels<N, ZN_TYPE_BF16> {
    typedef numbers<bf16_pair, N> loaded;
    static __device__ loaded load(const float *map, int64_t i, zn_type) { return numbers_at<bf16_pair, N>(map, i); }
    static __device__ values<N> widened(const loaded &p) { return values_of(p); }
    static __device__ void store(float *map, int64_t i, zn_type, const values<N> &x) { put<bf16_pair>(map, i, x); }
};

/* ---- what a thread block does for its pixels ---- */

struct pixels {
    int64_t map, begin, end; /* begin, end: of all maps */
};

static __device__ pixels pixels_of(const silu_norm_task &t)
{
    const int64_t unit = blockIdx.x, map = unit / t.blocks, begin = map * t.a.pixels + unit % t.blocks * t.block;
    const int64_t last = (map + 1) * t.a.pixels;
    return pixels{ map, begin, begin + t.block < last ? begin + t.block : last };
}

/* A thread has N channels, whose numbers of the tables it reads once, and every `lanes`-th pixel; the loads of FLIGHT
 * pixels are under way at a time. F: prepare(column) for each N channels, take(index) loads the numbers of a pixel from
 * its maps, give(index, pixel in its map, numbers) uses them, finish(threads, first column) is called by all threads.
 */
template <int N, typename F> static __device__ void each_pixel(const silu_norm_task &t, const pixels &part, F &f)
{
    enum { FLIGHT = F::FLIGHT };
    const int columns = t.a.c / N;
    const row_share s = row_share_of(columns);
    for (int first = 0; first < columns; first += s.width) {
        const int column = first + s.column;
        const bool works = s.lane < s.lanes && column < columns;
        if (works)
            f.prepare(column);
        const int64_t end = works ? part.end : part.begin;
        for (int64_t p = part.begin + s.lane; p < end; p += (int64_t)FLIGHT * s.lanes) {
            typename F::taken v[FLIGHT] = {};
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < end)
                    v[i] = f.take((p + (int64_t)i * s.lanes) * columns + column);
#pragma unroll
            for (int i = 0; i < FLIGHT; i++)
                if (p + (int64_t)i * s.lanes < end) {
                    const int64_t pixel = p + (int64_t)i * s.lanes;
                    f.give(pixel * columns + column, (uint32_t)(pixel - part.map * t.a.pixels), v[i]);
                }
        }
        f.finish(s, first);
    }
}

/* Adds what the lanes of each column have, always in the same order, and calls write(channel, sum, sum) for each
 * channel. All threads must call it. `shared`: 2 N APART floats. */
template <int N, typename F>
static __device__ void merge_sums(const row_share &s, const two_sums<N> &sum, int first, int columns, float *shared,
                                  const F &write)
{
    __syncthreads(); /* all threads have read the previous ones */
    if (s.lane < s.lanes)
#pragma unroll
        for (int i = 0; i < 2 * N; i++)
            shared[i * APART + (int)threadIdx.x] = sum.v[i / N][i % N];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < N * s.width; i += (int)blockDim.x) {
        const int k = i / s.width, column = i % s.width;
        const float *from = shared + k * APART + column;
        float a = 0, b = 0;
#pragma unroll 4
        for (int lane = 0; lane < s.lanes; lane++) {
            a += from[lane * s.width];
            b += from[N * APART + lane * s.width];
        }
        if (first + column < columns)
            write((first + column) * N + k, a, b);
    }
}

/* Blocks of the gradient on a multiprocessor, whose loads and exponentials overlap. */
enum { BUSY = 3 };

template <typename C> struct two_maps {
    typename C::loaded x, dy;
};

template <int N, int TYPE> struct adding {
    enum { FLIGHT = 2 };
    typedef channels<N, TYPE> C;
    typedef two_maps<C> taken;
    const silu_norm_task &t;
    const pixels &part;
    float *shared;
    slope_of_v<N, TYPE> slope;
    values<N> scale = {}, shift = {};
    two_sums<N> sum = {};
    __device__ adding(const silu_norm_task &task, const pixels &p, float *memory)
        : t(task), part(p), shared(memory), slope(task, p.map)
    {
    }
    __device__ void prepare(int column)
    {
        const float *table = t.a.table + part.map * 4 * t.a.c + column * N;
        slope.prepare(table, column);
        read_table(table + 2 * t.a.c, scale.v);
        read_table(table + 3 * t.a.c, shift.v);
    }
    __device__ taken take(int64_t i) const
    {
        return taken{ C::load(t.a.x, i, t.a.x_type), C::load(t.a.dy, i, t.a.dy_type) };
    }
    __device__ void give(int64_t, uint32_t pixel, const taken &v)
    {
        const values<N> x = C::widened(v.x);
        values<N> dv = C::widened(v.dy);
        slope.apply(dv, x, pixel);
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum.v[0][k] += dv.v[k] * (x.v[k] * scale.v[k] + shift.v[k]);
            sum.v[1][k] += dv.v[k];
        }
    }
    __device__ void finish(const row_share &s, int column)
    {
        merge_sums(s, sum, column, t.a.c / N, shared, [&](int c, float product, float all) {
            float *to = t.a.partial + (int64_t)blockIdx.x * 2 * t.a.c + c;
            to[0] = product;
            to[t.a.c] = all;
        });
        sum = two_sums<N>{};
    }
};

template <int N, int TYPE> __global__ void __launch_bounds__(THREADS, BUSY) silu_norm_grad_sums(silu_norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const pixels part = pixels_of(t);
    adding<N, TYPE> f(t, part, zn_cuda_shared);
    each_pixel<N>(t, part, f);
}

template <typename C> struct three_maps {
    typename C::loaded x, dy, more;
};

template <int N, int TYPE> struct turning_back {
    enum { FLIGHT = 2 };
    typedef channels<N, TYPE> C;
    typedef three_maps<C> taken;
    const silu_norm_task &t;
    const pixels &part;
    slope_of_v<N, TYPE> slope;
    values<N> by_x = {}, rest = {};
    __device__ turning_back(const silu_norm_task &task, const pixels &p) : t(task), part(p), slope(task, p.map) {}
    __device__ void prepare(int column)
    {
        const float *line = t.a.line + part.map * 2 * t.a.c + column * N;
        slope.prepare(t.a.table + part.map * 4 * t.a.c + column * N, column);
        read_table(line, by_x.v);
        read_table(line + t.a.c, rest.v);
    }
    __device__ taken take(int64_t i) const
    {
        taken v = { C::load(t.a.x, i, t.a.x_type), C::load(t.a.dy, i, t.a.dy_type), {} };
        if (t.a.more)
            v.more = C::load(t.a.more, i, t.a.more_type);
        return v;
    }
    __device__ void give(int64_t i, uint32_t pixel, const taken &v) const
    {
        const values<N> x = C::widened(v.x), more = C::widened(v.more); /* zeros if there is none */
        values<N> dx = C::widened(v.dy);
        slope.apply(dx, x, pixel);
#pragma unroll
        for (int k = 0; k < N; k++)
            dx.v[k] = slope.factor.v[k] * dx.v[k] + (by_x.v[k] * x.v[k] + rest.v[k]) + more.v[k];
        C::store(t.a.y, i, t.a.y_type, dx);
    }
    __device__ void finish(const row_share &, int) const {}
};

template <int N, int TYPE> __global__ void __launch_bounds__(THREADS, BUSY) silu_norm_grad(silu_norm_task t)
{
    const pixels part = pixels_of(t);
    turning_back<N, TYPE> f(t, part);
    each_pixel<N>(t, part, f);
}

/* ---- merging the blocks of a group: one thread block per group ---- */

/* 32 threads share the blocks of a channel. */
__global__ void silu_norm_grad_merge(silu_norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *const shared = reinterpret_cast<double *>(zn_cuda_shared);
    const zn_silu_norm_args &a = t.a;
    const group g = group_of(a);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    const float *partial = a.partial + g.map * t.blocks * 2 * a.c;
    double mean = 0, mean_product = 0;
    for (int c = g.first + warp; c < g.first + g.width; c += warps) {
        double product = 0, sum = 0;
        for (int64_t b = lane; b < t.blocks; b += 32) {
            product += (double)partial[b * 2 * a.c + c];
            sum += (double)partial[(b * 2 + 1) * a.c + c];
        }
        product = sum_of_warp(product);
        sum = sum_of_warp(sum);
        if (lane == 0) {
            const double by = write_sums(a, g.map, c, product, sum);
            mean += by * sum / g.count;
            mean_product += by * product / g.count;
        }
    }
    mean = sum_of(mean, shared);
    mean_product = sum_of(mean_product, shared);
    const float *table = a.table + g.map * 4 * a.c;
    float *line = a.line + g.map * 2 * a.c;
    for (int c = g.first + (int)threadIdx.x; c < g.first + g.width; c += (int)blockDim.x) {
        const double scale = (double)table[2 * a.c + c], shift = (double)table[3 * a.c + c];
        line[c] = (float)(-scale * scale * mean_product);
        line[a.c + c] = (float)(-scale * (mean + shift * mean_product));
    }
}

/* ---- launching ---- */

/* The kernels of a pass over maps. */
struct builds {
    silu_norm_kernel eights_bf16, eights, ones;
};
#define BUILDS(kernel)                                                                                                 \
    builds { kernel<8, ZN_TYPE_BF16>, kernel<8, ANY_TYPE>, kernel<1, ANY_TYPE> }

/* writes: y; sums: of all threads, in shared memory. */
static void launch_maps(zn_device *d, const void *args, const builds &b, bool writes, bool sums)
{
    const silu_norm_task t = task_of(d, args);
    const zn_silu_norm_args &a = t.a;
    const uintptr_t addresses = (uintptr_t)a.x | (uintptr_t)a.table | (uintptr_t)a.line | (uintptr_t)a.dy |
                                (uintptr_t)a.more | (writes ? (uintptr_t)a.y : 0);
    const bool eights = a.c % 8 == 0 && addresses % 16 == 0;
    const bool bf16 = a.x_type == ZN_TYPE_BF16 && a.dy_type == ZN_TYPE_BF16 && (!writes || a.y_type == ZN_TYPE_BF16) &&
                      (!a.more || a.more_type == ZN_TYPE_BF16);
    const silu_norm_kernel kernel = !eights ? b.ones : bf16 ? b.eights_bf16 : b.eights;
    const size_t shared = 2 * sizeof(float) * APART * (eights ? 8 : 1);
    launch(d, kernel, dim3((unsigned)(a.n * t.blocks)), THREADS, sums ? shared : 0, t);
}

/* As many threads as have work, a power of two. */
static void launch_groups(zn_device *d, silu_norm_kernel kernel, const void *args, int64_t units)
{
    const silu_norm_task t = task_of(d, args);
    unsigned threads = 32;
    while (threads < THREADS && threads < t.blocks * (t.a.c / t.a.groups))
        threads *= 2;
    launch(d, kernel, dim3((unsigned)units), threads, threads * sizeof(double), t);
}

extern "C" {
void zn_cuda_silu_norm_grad_sums(zn_device *d, const void *args, int64_t)
{
    launch_maps(d, args, BUILDS(silu_norm_grad_sums), false, true);
}
void zn_cuda_silu_norm_grad_merge(zn_device *d, const void *args, int64_t units)
{
    launch_groups(d, silu_norm_grad_merge, args, units);
}
void zn_cuda_silu_norm_grad(zn_device *d, const void *args, int64_t)
{
    launch_maps(d, args, BUILDS(silu_norm_grad), true, false);
}
}

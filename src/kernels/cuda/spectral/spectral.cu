/* Walsh-Hadamard transforms along an axis, their gates, and DeepSpectralLinear. A thread block reads a tile of lines
 * once and writes it once; between the steps of a transform the values are in shared memory. ref/spectral/wht.c and
 * ref/spectral/spectral_linear.c are the reference. */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/spectral/spectral.h"

extern "C" {
#include "kernels/spectral.h"
}

static int64_t parts(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Lines per tile: 32 (whole lines of memory), fewer if they would not fit or there are few; a power of two. */
static int lanes_of(int64_t n, int64_t lines, size_t most)
{
    int lanes = 32;
    while (lanes > 1 && (lanes / 2 >= lines || tile_of(n, lanes, true).floats() * sizeof(float) > most))
        lanes /= 2;
    return lanes;
}

/* ---- along an axis ---- */

/* Multiplies by the gates and the scale between two transforms. */
struct gate_and_back {
    const float *gate;
    float scale;
    template <int R> __device__ void operator()(float (&x)[R], int first, int distance) const
    {
#pragma unroll
        for (int m = 0; m < R; m++)
            x[m] *= gate[first + m * distance] * scale;
        transform(x);
    }
};

struct scale_by {
    float scale;
    template <int R> __device__ void operator()(float (&x)[R], int, int) const
    {
#pragma unroll
        for (int m = 0; m < R; m++)
            x[m] *= scale;
    }
};

/* Lines side by side: the first step reads memory, and the last writes it. */
static __device__ void side_by_side(const spectral_task &t, const float *x, float *y, int valid, float *shared)
{
    const tile_of_lines &tile = t.tile;
    const int last = steps_of(tile) - 1;
    const auto get_far = [&](int k, int lane) { return lane < valid ? x[t.k.at(k) + t.lane.at(lane)] : 0; };
    const auto get = [&](int k, int lane) { return shared[tile.at(k, lane)]; };
    const auto put = [&](int k, int lane, float v) { shared[tile.at(k, lane)] = v; };
    const auto put_far = [&](int k, int lane, float v) {
        if (lane >= valid)
            return;
        float *to = y + t.k.at(k) + t.lane.at(lane);
        *to = v;
        if (t.end && k == tile.n - 1)
            to[t.end] = 0;
    };
    const gate_and_back gated = { t.gate, t.scale };
    const scale_by scaled = { t.scale };
    if (last == 0) {
        if (t.gate)
            run_step(tile, 0, get_far, gated, put_far);
        else
            run_step(tile, 0, get_far, scaled, put_far);
        return;
    }
    run_step(tile, 0, get_far, nothing(), put);
    __syncthreads();
    for (int step = 1; step < last; step++) {
        run_step(tile, step, get, nothing(), put);
        __syncthreads();
    }
    if (!t.gate) {
        run_step(tile, last, get, scaled, put_far);
        return;
    }
    run_step(tile, last, get, gated, put);
    __syncthreads();
    for (int step = last - 1; step > 0; step--) {
        run_step(tile, step, get, nothing(), put);
        __syncthreads();
    }
    run_step(tile, 0, get, nothing(), put_far);
}

/* Lines one after the other: the tile is copied, so that neighbouring threads access neighbouring floats. */
static __device__ void one_after_other(const spectral_task &t, const float *x, float *y, int valid, float *shared)
{
    const tile_of_lines &tile = t.tile;
    for (int i = (int)threadIdx.x; i < valid * tile.n; i += (int)blockDim.x)
        shared[tile.at(i % tile.n, i / tile.n)] = x[i];
    __syncthreads();
    transform_shared(tile, shared);
    if (t.gate) {
        for (int i = (int)threadIdx.x; i < valid * tile.n; i += (int)blockDim.x)
            shared[tile.at(i % tile.n, i / tile.n)] *= t.gate[i % tile.n] * t.scale;
        __syncthreads();
        transform_shared(tile, shared);
    }
    const float scale = t.gate ? 1 : t.scale;
    for (int i = (int)threadIdx.x; i < valid * tile.n; i += (int)blockDim.x)
        y[i] = scale * shared[tile.at(i % tile.n, i / tile.n)];
}

__global__ void __launch_bounds__(THREADS, 2) spectral(spectral_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int64_t outer = blockIdx.x / t.chunks, first = blockIdx.x % t.chunks * t.tile.lanes;
    const int valid = (int)(t.lanes - first < t.tile.lanes ? t.lanes - first : t.tile.lanes);
    const int64_t at = t.map.at(outer) + t.lane.at(first);
    if (t.tile.along)
        one_after_other(t, t.x + at, t.y + at, valid, zn_cuda_shared);
    else
        side_by_side(t, t.x + at, t.y + at, valid, zn_cuda_shared);
}

void zn_cuda_spectral_launch(zn_device *d, spectral_task t, int64_t n, bool along)
{
    enum { SHARED = 40 << 10 };
    /* A folded index may not leave its block inside a tile: the offset of the tile's first line is added to those of
     * the others. */
    const int64_t together = t.lane.fold > 1 && t.lane.fold < t.lanes ? t.lane.fold : t.lanes;
    int lanes = lanes_of(n, together, SHARED);
    while (t.lane.fold > 1 && t.lane.fold % lanes)
        lanes /= 2;
    t.tile = tile_of(n, lanes, along);
    t.chunks = parts(t.lanes, lanes);
    launch(d, spectral, dim3((unsigned)(t.outer * t.chunks)), THREADS, sizeof(float) * (size_t)t.tile.floats(), t);
}

/* ---- gradient of the gates ---- */

struct gate_task {
    zn_gate_grad_args g;
    int64_t run, runs; /* lines per unit of the CPU, and units per map */
    int64_t size;      /* units per thread block */
    tile_of_lines tile;
};

static __device__ void load_lines(const gate_task &t, const float *from, int valid, float *to)
{
    const tile_of_lines &tile = t.tile;
    for (int i = (int)threadIdx.x; i < tile.n * tile.lanes; i += (int)blockDim.x) {
        const int k = tile.along ? i % tile.n : i / tile.lanes, lane = tile.along ? i / tile.n : i % tile.lanes;
        to[tile.at(k, lane)] = lane < valid ? from[k * t.g.t.inner + lane] : 0;
    }
}

/* Shared memory: two tiles, and the sums of the block. */
__global__ void __launch_bounds__(THREADS, 3) gate_grad(gate_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const tile_of_lines &tile = t.tile;
    const zn_wht_args &a = t.g.t;
    float *x = zn_cuda_shared, *dy = x + tile.floats(), *sum = dy + tile.floats();
    const int64_t all = a.outer * t.runs, begin = (int64_t)blockIdx.x * t.size;
    for (int k = (int)threadIdx.x; k < tile.n; k += (int)blockDim.x)
        sum[k] = 0;
    for (int64_t unit = begin; unit < begin + t.size && unit < all; unit++) {
        const int64_t start = unit % t.runs * t.run, stop = start + t.run < a.inner ? start + t.run : a.inner;
        for (int64_t first = start; first < stop; first += tile.lanes) {
            const int valid = (int)(stop - first < tile.lanes ? stop - first : tile.lanes);
            const int64_t at = unit / t.runs * a.n * a.inner + first;
            __syncthreads();
            load_lines(t, a.x + at, valid, x);
            load_lines(t, t.g.dy + at, valid, dy);
            __syncthreads();
            transform_shared(tile, x);
            transform_shared(tile, dy);
            for (int k = (int)threadIdx.x; k < tile.n; k += (int)blockDim.x) {
                float products = 0;
                for (int lane = 0; lane < valid; lane++)
                    products += x[tile.at(k, lane)] * dy[tile.at(k, lane)];
                sum[k] += products;
            }
        }
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < tile.n; k += (int)blockDim.x)
        t.g.partial[(int64_t)blockIdx.x * a.n + k] = a.scale * sum[k];
}

/* ---- DeepSpectralLinear: a tile of pixels goes through all stages in shared memory ---- */

struct linear_task {
    zn_spectral_linear_args a;
    int64_t pixels;
    tile_of_lines tile; /* one line per pixel */
};

/* As in ref/spectral/spectral_linear.c: channel k of a pixel, in the map itself or on the other side of the shuffle. */
static __device__ int64_t place(bool shuffled, int64_t pixel, int wide, int channels, int k)
{
    const int64_t row = pixel / wide, x = pixel % wide;
    if (!shuffled)
        return pixel * channels + k;
    const int sub = k % 4;
    return (((row * 2 + sub / 2) * wide + x) * 2 + sub % 2) * (channels / 4) + k / 4;
}

__global__ void __launch_bounds__(THREADS, 3) spectral_linear(linear_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const tile_of_lines &tile = t.tile;
    const zn_spectral_linear_args &a = t.a;
    const int64_t first = (int64_t)blockIdx.x * tile.lanes;
    const int valid = (int)(t.pixels - first < tile.lanes ? t.pixels - first : tile.lanes), d = tile.n;
    float *x = zn_cuda_shared, *u = x + tile.floats();
    for (int i = (int)threadIdx.x; i < d * tile.lanes; i += (int)blockDim.x) {
        const int k = i % d, pixel = i / d;
        x[tile.at(k, pixel)] =
            k < a.cin && pixel < valid ? a.x[place(a.shuffle_in, first + pixel, a.wide, a.cin, k)] : 0;
    }
    for (int stage = 0; stage < a.depth; stage++) {
        __syncthreads();
        for (int i = (int)threadIdx.x; i < d * tile.lanes; i += (int)blockDim.x) {
            const int k = i % d, pixel = i / d, row = stage * d + k;
            u[tile.at(k, pixel)] = a.s[row] * x[tile.at(a.from[row], pixel)];
        }
        __syncthreads();
        transform_shared(tile, u);
        float *other = x;
        x = u;
        u = other;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < valid * a.cout; i += (int)blockDim.x) {
        const int k = i % a.cout, pixel = i / a.cout;
        a.y[place(a.shuffle_out, first + pixel, a.wide, a.cout, k)] = x[tile.at(k, pixel)] + a.bias[k];
    }
}

extern "C" {
void zn_cuda_wht(zn_device *d, const void *args, int64_t)
{
    zn_wht_args a = *static_cast<const zn_wht_args *>(args);
    to_device(d, a.x);
    to_device(d, a.gate);
    to_device(d, a.y);
    spectral_task t = {};
    t.x = a.x;
    t.gate = a.gate;
    t.y = a.y;
    t.scale = a.scale;
    t.outer = a.inner == 1 ? 1 : a.outer;
    t.map = { 1, 0, a.n * a.inner };
    t.lanes = a.inner == 1 ? a.outer : a.inner;
    t.k = { 1, 0, a.inner };
    t.lane = { 1, 0, a.inner == 1 ? a.n : 1 };
    zn_cuda_spectral_launch(d, t, a.n, a.inner == 1);
}

void zn_cuda_gate_grad(zn_device *d, const void *args, int64_t units)
{
    enum { SHARED = 24 << 10 }; /* of each tile */
    gate_task t = {};
    t.g = *static_cast<const zn_gate_grad_args *>(args);
    t.run = zn_wht_run(&t.g.t);
    t.runs = parts(t.g.t.inner, t.run);
    t.size = parts(t.g.t.outer * t.runs, units);
    t.tile = tile_of(t.g.t.n, lanes_of(t.g.t.n, t.g.t.inner, SHARED), t.g.t.inner == 1);
    to_device(d, t.g.t.x);
    to_device(d, t.g.dy);
    to_device(d, t.g.partial);
    launch(d, gate_grad, dim3((unsigned)parts(t.g.t.outer * t.runs, t.size)), THREADS,
           sizeof(float) * (size_t)(2 * t.tile.floats() + t.tile.n), t);
}

void zn_cuda_spectral_linear(zn_device *d, const void *args, int64_t rows)
{
    enum { SHARED = 24 << 10 }; /* of each of the two buffers */
    linear_task t = {};
    t.a = *static_cast<const zn_spectral_linear_args *>(args);
    t.pixels = rows * t.a.wide;
    t.tile = tile_of(t.a.d, lanes_of(t.a.d, t.pixels, SHARED), true);
    to_device(d, t.a.x);
    to_device(d, t.a.s);
    to_device(d, t.a.bias);
    to_device(d, t.a.from);
    to_device(d, t.a.y);
    launch(d, spectral_linear, dim3((unsigned)parts(t.pixels, t.tile.lanes)), THREADS,
           sizeof(float) * (size_t)(2 * t.tile.floats()), t);
}
}

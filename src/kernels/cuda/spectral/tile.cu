/* Spectral mixing in tiles: a thread holds the P values of one tile along the mixed axis in registers. Neighbouring
 * threads have neighbouring channels, so accesses are contiguous. ref/spectral/tile_mix.c and
 * ref/spectral/tile_square.c are the reference. */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/spectral/butterfly.h"
#include "kernels/cuda/spectral/square_half.h"

extern "C" {
#include "kernels/gates.h"
}

static int64_t parts(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- along one axis ---- */

struct mix_task {
    zn_tile_mix_args a;
    int64_t left, tiles; /* positions of the first tile before the start of the line; tiles per line */
    int64_t units;       /* forward: threads; gradient: strips per block */
    int64_t pixels;      /* gradient: lines per outer index, */
    int64_t strips;      /* strips of them, */
    int strip;           /* lines per strip, */
    int channels;        /* and channels per thread block */
    float scale;         /* 1 / sqrt P */
};

static mix_task mix_task_of(zn_device *d, const void *args)
{
    mix_task t = {};
    t.a = *static_cast<const zn_tile_mix_args *>(args);
    t.left = (t.a.p - t.a.offset) % t.a.p;
    t.tiles = parts(t.left + t.a.n, t.a.p);
    t.scale = 1 / sqrtf((float)t.a.p);
    to_device(d, t.a.x);
    to_device(d, t.a.gate);
    to_device(d, t.a.th);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    return t;
}

template <int P> __global__ void tile_mix(mix_task t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t u = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; u < t.units; u += step) {
        const int64_t lane = u % t.a.inner, tile = u / t.a.inner % t.tiles, outer = u / t.a.inner / t.tiles;
        const int64_t line = outer * t.a.n * t.a.inner + lane, first = tile * P - t.left;
        const int channel = (int)(lane % t.a.channels);
        float x[P];
        load_tile(x, t.a.x + line, first, t.a.n, t.a.inner);
        mix_tile(x, t.a.gate + channel, t.a.th + channel, t.a.channels, t.scale);
#pragma unroll
        for (int i = 0; i < P; i++)
            if (first + i >= 0 && first + i < t.a.n)
                t.a.y[line + (first + i) * t.a.inner] = x[i];
    }
}

/* Writes the gradient of one tile; the gradients of reflected positions are added to their sources. A thread has a line
 * to itself and goes through its tiles in order. Where n >= P, a reflection before the start of the line hits every
 * position 1..left once, and the position's own tile comes later or has just been stored; one beyond the end hits
 * tiles that are stored. A shorter line begins with zeros and is only added to. */
template <int P>
static __device__ void store_gradient(const float (&x)[P], float *line, int64_t first, const mix_task &t)
{
    const int64_t n = t.a.n, inner = t.a.inner;
    const bool zeroed = n < P;
#pragma unroll
    for (int i = 0; i < P; i++) {
        const int64_t at = first + i;
        if (at < 0 || at >= n)
            continue;
        const bool add = zeroed || (first >= 0 && at <= t.left && t.left > 0);
        line[at * inner] = add ? line[at * inner] + x[i] : x[i];
    }
    if (first >= 0 && first + P <= n)
        return;
#pragma unroll
    for (int i = 0; i < P; i++) {
        const int64_t at = first + i;
        if (at >= 0 && at < n)
            continue;
        const int64_t to = reflect(at, n);
        const bool fresh = !zeroed && at < 0 && to >= first + P; /* its own tile comes later */
        line[to * inner] = fresh ? x[i] : line[to * inner] + x[i];
    }
}

/* One line: its gradient, and its share of the gradients of the parameters. */
template <int P>
static __device__ void line_gradient(const mix_task &t, int64_t line, int channel, float (&dgate)[P], float (&dth)[P])
{
    for (int64_t i = 0; i < t.a.n && t.a.n < P; i++)
        t.a.y[line + i * t.a.inner] = 0;
    for (int64_t tile = 0; tile < t.tiles; tile++) {
        const int64_t first = tile * P - t.left;
        float x[P], dy[P];
        load_tile(x, t.a.x + line, first, t.a.n, t.a.inner);
        transform(x);
#pragma unroll
        for (int i = 0; i < P; i++)
            dy[i] = first + i >= 0 && first + i < t.a.n ? t.a.dy[line + (first + i) * t.a.inner] : 0;
        transform(dy);
#pragma unroll
        for (int i = 0; i < P; i++) {
            const float gate = t.a.gate[i * t.a.channels + channel], th = t.a.th[i * t.a.channels + channel];
            const float u = x[i] * t.scale, v = gate * u, d = fabsf(v) <= fabsf(th) ? 0 : dy[i] * t.scale;
            dgate[i] += u * d;
            dth[i] -= (v > 0 ? 1.0f : -1.0f) * (th > 0 ? 1.0f : th < 0 ? -1.0f : 0.0f) * d;
            dy[i] = gate * d * t.scale;
        }
        transform(dy);
        store_gradient(dy, t.a.y + line, first, t);
    }
}

enum { GRAD_THREADS = 128 };

/* Adds the sums of threads with the same channel, in a fixed order. All threads must call it. */
template <int P> static __device__ void sum_groups(const float (&sum)[P], const mix_task &t, int64_t at, bool valid)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int lanes = t.channels;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < P; i++)
        zn_cuda_shared[i * GRAD_THREADS + (int)threadIdx.x] = sum[i];
    __syncthreads();
    if ((int)threadIdx.x >= lanes || !valid)
        return;
    for (int i = 0; i < P; i++) {
        float all = 0;
        for (int k = (int)threadIdx.x; k < GRAD_THREADS / lanes * lanes; k += lanes)
            all += zn_cuda_shared[i * GRAD_THREADS + k];
        t.a.partial[at + (int64_t)i * t.a.channels] = all;
    }
}

/* A thread block takes a block of strips and t.channels channels; groups of threads share the lines. */
template <int P> __global__ void __launch_bounds__(GRAD_THREADS, 2) tile_mix_grad(mix_task t)
{
    const int group = (int)threadIdx.x / t.channels, groups = GRAD_THREADS / t.channels;
    const int channel = (int)blockIdx.y * t.channels + (int)threadIdx.x % t.channels;
    const bool valid = group < groups && channel < t.a.channels;
    const int64_t all = t.a.outer * t.strips, begin = (int64_t)blockIdx.x * t.units;
    const int64_t end = begin + t.units < all ? begin + t.units : all;
    float dgate[P], dth[P];
#pragma unroll
    for (int i = 0; i < P; i++)
        dgate[i] = dth[i] = 0;
    for (int64_t s = begin * t.strip + group; valid && s < end * t.strip; s += groups) {
        const int64_t strip = s / t.strip, pixel = strip % t.strips * t.strip + s % t.strip;
        if (pixel < t.pixels)
            line_gradient(t, strip / t.strips * t.a.n * t.a.inner + pixel * t.a.channels + channel, channel, dgate,
                          dth);
    }
    const int64_t count = (int64_t)P * t.a.channels, at = (int64_t)blockIdx.x * 2 * count + channel;
    sum_groups(dgate, t, at, valid);
    sum_groups(dth, t, at + count, valid);
}

/* ---- squares: rows, then columns, then GELU ---- */

struct square_task {
    zn_tile_square_args a;
    int before, down, across; /* positions of the first tile before the map; tiles */
    int channels, chunks;     /* channels per thread block, and thread blocks per tile */
    float scale;
};

/* One row of the tile, then one column of it, and one channel per thread. Rows in shared memory are padded by one
 * pixel, so that the lanes of a warp use different banks. */
template <int P> __global__ void __launch_bounds__(THREADS, P <= 32 ? 4 : 1) tile_square(square_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int lanes = t.channels, row = (P + 1) * lanes, c = t.a.channels;
    const int tile = (int)blockIdx.x / t.chunks, k = (int)blockIdx.x % t.chunks * lanes + (int)threadIdx.x % lanes;
    const int64_t image = tile / (t.across * t.down), base = image * t.a.h * t.a.wide;
    const int top = tile / t.across % t.down * P - t.before, left = tile % t.across * P - t.before;
    const int at = (int)threadIdx.x / lanes;
    const bool valid = at < P && k < c;
    float x[P];
    if (valid) {
        load_tile(x, t.a.x + (base + reflect(top + at, t.a.h) * t.a.wide) * c + k, left, t.a.wide, c);
        mix_tile(x, t.a.gate[0] + k, t.a.th[0] + k, c, t.scale);
#pragma unroll
        for (int i = 0; i < P; i++)
            zn_cuda_shared[at * row + i * lanes + (int)threadIdx.x % lanes] = x[i];
    }
    __syncthreads();
    if (!valid || left + at < 0 || left + at >= t.a.wide)
        return;
#pragma unroll
    for (int i = 0; i < P; i++)
        x[i] = zn_cuda_shared[i * row + (int)threadIdx.x];
    mix_tile(x, t.a.gate[1] + k, t.a.th[1] + k, c, t.scale);
#pragma unroll
    for (int i = 0; i < P; i++)
        if (top + i >= 0 && top + i < t.a.h)
            t.a.y[(base + (int64_t)(top + i) * t.a.wide + left + at) * c + k] =
                0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

/* Channels per thread block: as many as it has threads for, fewer if part of the GPU would be idle. */
static int square_channels(const zn_device *d, const square_task &t)
{
    enum { MOST_LANES = 16, LEAST_LANES = 4 };
    const int64_t tiles = (int64_t)t.a.n * t.down * t.across;
    int lanes = MOST_LANES;
    while (lanes * t.a.p > THREADS || (lanes > 1 && lanes / 2 >= t.a.channels))
        lanes /= 2;
    while (lanes > LEAST_LANES && tiles * parts(t.a.channels, lanes) < 2 * d->processors)
        lanes /= 2;
    return lanes;
}

/* ---- one build for each size of tiles ---- */

enum { MOST = 64 }; /* larger tiles would not fit in registers */

template <int P> struct launch_mix {
    static void run(zn_device *d, const void *args, int64_t)
    {
        mix_task t = mix_task_of(d, args);
        t.units = t.a.outer * t.tiles * t.a.inner;
        launch(d, tile_mix<P>, dim3(grid_of(t.units)), THREADS, 0, t);
    }
};

template <int P> struct launch_grad {
    static void run(zn_device *d, const void *args, int64_t blocks)
    {
        enum { STRIP = 64 }; /* as in ref/spectral/tile_mix.c */
        mix_task t = mix_task_of(d, args);
        t.pixels = t.a.inner / t.a.channels;
        t.strip = t.a.channels < STRIP ? STRIP / t.a.channels : 1;
        t.strips = parts(t.pixels, t.strip);
        t.units = parts(t.a.outer * t.strips, blocks);
        t.channels = t.a.channels < GRAD_THREADS ? t.a.channels : GRAD_THREADS;
        const dim3 grid((unsigned)blocks, (unsigned)parts(t.a.channels, t.channels));
        launch(d, tile_mix_grad<P>, grid, GRAD_THREADS, sizeof(float) * P * GRAD_THREADS, t);
    }
};

template <int P> struct launch_square {
    static void run(zn_device *d, const void *args, int64_t)
    {
        square_task t = {};
        t.a = *static_cast<const zn_tile_square_args *>(args);
        t.before = (P - t.a.offset) % P;
        t.down = (int)parts(t.before + t.a.h, P);
        t.across = (int)parts(t.before + t.a.wide, P);
        t.scale = 1 / sqrtf((float)P);
        t.channels = square_channels(d, t);
        t.chunks = (int)parts(t.a.channels, t.channels);
        to_device(d, t.a.x);
        to_device(d, t.a.y);
        for (int i = 0; i < 2; i++) {
            to_device(d, t.a.gate[i]);
            to_device(d, t.a.th[i]);
        }
        const dim3 grid((unsigned)((int64_t)t.a.n * t.down * t.across * t.chunks));
        launch(d, tile_square<P>, grid, THREADS, sizeof(float) * P * (P + 1) * (size_t)t.channels, t);
    }
};

/* Calls the build for tiles of p. */
template <template <int> class F, int P = 1> static void by_size(zn_device *d, int p, const void *args, int64_t units)
{
    if (p == P)
        F<P>::run(d, args, units);
    else if constexpr (P < MOST)
        by_size<F, 2 * P>(d, p, args, units);
    else
        zn_cuda_check(d, cudaErrorInvalidValue, "a tile of more than 64 values");
}

extern "C" {
void zn_cuda_tile_mix(zn_device *d, const void *args, int64_t units)
{
    by_size<launch_mix>(d, static_cast<const zn_tile_mix_args *>(args)->p, args, units);
}

void zn_cuda_tile_mix_grad(zn_device *d, const void *args, int64_t units)
{
    by_size<launch_grad>(d, static_cast<const zn_tile_mix_args *>(args)->p, args, units);
}

void zn_cuda_tile_square(zn_device *d, const void *args, int64_t units)
{
    if (static_cast<const zn_tile_square_args *>(args)->type != ZN_TYPE_F32)
        zn_cuda_tile_square_half(d, args);
    else
        by_size<launch_square>(d, static_cast<const zn_tile_square_args *>(args)->p, args, units);
}
}

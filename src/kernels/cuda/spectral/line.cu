/* The spectral half of a Prune block: a thread block takes a few pixels and keeps their channels in shared memory.
 * ref/spectral/line.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/spectral/srig.h"
#include "kernels/cuda/spectral/transform.h"

extern "C" {
#include "kernels/line.h"
}

enum { WARP = 32 };

static int64_t parts(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct line_task {
    zn_line_args a;
    int64_t all;        /* pixels of all images */
    tile_of_lines tile; /* one line per pixel */
};

static line_task task_of(zn_device *d, const void *args)
{
    line_task t = {};
    t.a = *static_cast<const zn_line_args *>(args);
    t.all = t.a.n * t.a.pixels;
    const float **inputs[] = {
        &t.a.e, &t.a.mask, &t.a.scale, &t.a.mixer, &t.a.w, &t.a.b, &t.a.gamma, &t.a.beta, &t.a.dy
    };
    float **results[] = { &t.a.y, &t.a.r, &t.a.pruned, &t.a.moments, &t.a.stats, &t.a.sums, &t.a.partial };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        to_device(d, *inputs[i]);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        to_device(d, *results[i]);
    return t;
}

/* ---- forward ---- */

/* Soft threshold or identity; NaN passes through. */
static __device__ float shrink(const zn_line_args &a, float u, int k)
{
    const float size = a.kind == ZN_LINE_THRESHOLD ? fabsf(u) - fabsf(a.w[k]) : fabsf(u);
    return size > 0 ? copysignf(size, u) : size <= 0 ? 0 : size;
}

/* Calls f(k, lane) for all channels of all pixels of the tile. */
template <typename F> static __device__ void for_tile(const tile_of_lines &tile, F f)
{
    for (int i = (int)threadIdx.x; i < tile.n * tile.lanes; i += (int)blockDim.x)
        f(i % tile.n, i / tile.n);
    __syncthreads();
}

/* t = N(u) for the whole tile; t may not be u. `spare`: one more tile. */
static __device__ void nonlinear(const line_task &t, const float *u, float *to, float *spare)
{
    const zn_line_args &a = t.a;
    const tile_of_lines &tile = t.tile;
    if (a.kind != ZN_LINE_SRIG) {
        for_tile(tile, [&](int k, int lane) { to[tile.at(k, lane)] = shrink(a, u[tile.at(k, lane)], k); });
        return;
    }
    float *estimate = spare, *next = to; /* swapped after each round */
    for_tile(tile, [&](int k, int lane) { estimate[tile.at(k, lane)] = fabsf(u[tile.at(k, lane)]); });
    for (int round = 0; round < SRIG_ROUNDS; round++) {
        for_tile(tile, [&](int k, int lane) {
            float around[SRIG_TAPS];
            for (int j = 0; j < SRIG_TAPS; j++) {
                const int q = k + j - SRIG_REACH;
                around[j] = q >= 0 && q < a.c ? estimate[tile.at(q, lane)] : 0;
            }
            const float g = srig_look(around, a.w + SRIG_TAPS * k, a.b[k]).g, own = u[tile.at(k, lane)];
            next[tile.at(k, lane)] = g * (round + 1 < SRIG_ROUNDS ? fabsf(own) : own);
        });
        float *other = estimate;
        estimate = next;
        next = other;
    }
    static_assert(SRIG_ROUNDS % 2 == 1, "the last round must write to the result");
}

/* Mean and sum of squared deviations of each group of each pixel; a warp takes one group. */
static __device__ void moments(const line_task &t, const float *r, const float *pruned, int64_t first)
{
    const zn_line_args &a = t.a;
    const int width = a.c / a.groups, lane = (int)threadIdx.x % WARP;
    for (int i = (int)threadIdx.x / WARP; i < t.tile.lanes * a.groups; i += THREADS / WARP) {
        const int pixel = i / a.groups, g = i % a.groups;
        const bool there = first + pixel < t.all && pruned[pixel] == 0;
        double sum = 0, square = 0;
        for (int k = lane; k < width && there; k += WARP)
            sum += (double)r[t.tile.at(g * width + k, pixel)];
        for (int other = 1; other < WARP; other *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
        const double mean = sum / width;
        for (int k = lane; k < width && there; k += WARP) {
            const double off = (double)r[t.tile.at(g * width + k, pixel)] - mean;
            square += off * off;
        }
        for (int other = 1; other < WARP; other *= 2)
            square += __shfl_xor_sync(0xffffffffu, square, other);
        if (lane == 0 && first + pixel < t.all) {
            float *to = a.moments + ((first + pixel) * a.groups + g) * 2;
            to[0] = (float)mean;
            to[1] = (float)square;
        }
    }
}

/* pruned[pixel] = 1 where every mask of the pixel is 0; 1 beyond the last pixel too. */
static __device__ void find_pruned(const line_task &t, int64_t first, float *pruned)
{
    const zn_line_args &a = t.a;
    const int blocks = a.c / 8;
    for (int pixel = (int)threadIdx.x; pixel < t.tile.lanes; pixel += THREADS)
        pruned[pixel] = first + pixel >= t.all || (a.mask && blocks > 0) ? 1 : 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < t.tile.lanes * blocks && a.mask; i += THREADS)
        if (first + i / blocks < t.all && a.mask[(first + i / blocks) * blocks + i % blocks] != 0)
            pruned[i / blocks] = 0; /* all threads that write it write the same */
    __syncthreads();
}

/* Shared memory: three tiles, and a flag for each pixel. */
__global__ void __launch_bounds__(THREADS, 2) line(line_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_line_args &a = t.a;
    const tile_of_lines &tile = t.tile;
    const float *left = a.mixer, *centre = left + a.c, *right = centre + a.c;
    float *u = zn_cuda_shared, *s = u + tile.floats(), *m = s + tile.floats(), *pruned = m + tile.floats();
    const int64_t first = (int64_t)blockIdx.x * tile.lanes;
    find_pruned(t, first, pruned);
    for_tile(tile,
             [&](int k, int lane) { u[tile.at(k, lane)] = pruned[lane] == 0 ? a.e[(first + lane) * a.c + k] : 0; });
    transform_shared(tile, u);
    for_tile(tile, [&](int k, int lane) { u[tile.at(k, lane)] *= a.unit; });
    nonlinear(t, u, s, m);
    for_tile(tile, [&](int k, int lane) { s[tile.at(k, lane)] *= a.scale[k]; });
    for_tile(tile, [&](int k, int lane) {
        m[tile.at(k, lane)] = centre[k] * s[tile.at(k, lane)] + (k ? left[k] * s[tile.at(k - 1, lane)] : 0) +
                              (k + 1 < a.c ? right[k] * s[tile.at(k + 1, lane)] : 0);
    });
    transform_shared(tile, m);
    for_tile(tile, [&](int k, int lane) {
        const float z = m[tile.at(k, lane)] * a.unit, r = a.gamma && z < 0 ? 0 : z;
        m[tile.at(k, lane)] = r;
        if (pruned[lane] == 0)
            (a.gamma ? a.r : a.y)[(first + lane) * a.c + k] = r;
    });
    if (!a.gamma)
        return;
    for (int pixel = (int)threadIdx.x; pixel < tile.lanes && first + pixel < t.all; pixel += THREADS)
        a.pruned[first + pixel] = pruned[pixel];
    moments(t, m, pruned, first);
}

/* ---- the norm ---- */

/* One thread block per group of an image. */
__global__ void line_stats(line_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    const zn_line_args &a = t.a;
    const int64_t u = blockIdx.x;
    const float *m = a.moments + (u / a.groups * a.pixels * a.groups + u % a.groups) * 2;
    const double width = a.c / a.groups, count = (double)a.pixels;
    double mean = 0, square = 0;
    for (int64_t p = threadIdx.x; p < a.pixels; p += blockDim.x)
        mean += (double)m[p * 2 * a.groups];
    mean = sum_of(mean, sums) / count;
    for (int64_t p = threadIdx.x; p < a.pixels; p += blockDim.x) {
        const double off = (double)m[p * 2 * a.groups] - mean;
        square += (double)m[p * 2 * a.groups + 1] + width * off * off;
    }
    square = sum_of(square, sums);
    if (threadIdx.x == 0) {
        a.stats[4 * u] = (float)mean;
        a.stats[4 * u + 1] = (float)(1 / sqrt(square / (width * count) + (double)a.eps));
    }
}

/* The statistics of the group of channel k of pixel p. */
static __device__ const float *stats_of(const zn_line_args &a, int64_t p, int k)
{
    return a.stats + 4 * (p / a.pixels * a.groups + k / (a.c / a.groups));
}

__global__ void line_norm(line_task t)
{
    const zn_line_args &a = t.a;
    for (int64_t i = first_unit(); i < t.all * a.c; i += unit_step()) {
        const division at = divide(i, a.c);
        const float *s = stats_of(a, at.quotient, at.rest), r = a.pruned[at.quotient] != 0 ? 0 : a.r[i];
        a.y[i] = (r - s[0]) * s[1] * a.gamma[at.rest] + a.beta[at.rest];
    }
}

/* ---- gradient of the norm: sums over pixels, then means over groups ---- */

enum { STRIP = ZN_LINE_STRIP, TEAMS = THREADS / STRIP };

/* A thread block takes a strip of channels of an image; its teams share the pixels. */
__global__ void line_sums(line_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    const zn_line_args &a = t.a;
    const int strips = (a.c + STRIP - 1) / STRIP, k = (int)blockIdx.x % strips * STRIP + (int)threadIdx.x % STRIP;
    const int64_t image = blockIdx.x / (unsigned)strips;
    double sum[2] = {};
    for (int64_t p = threadIdx.x / STRIP; p < a.pixels && k < a.c; p += TEAMS) {
        const int64_t pixel = image * a.pixels + p;
        const float *s = stats_of(a, pixel, k), r = a.pruned[pixel] != 0 ? 0 : a.r[pixel * a.c + k];
        const double dy = (double)a.dy[pixel * a.c + k];
        sum[0] += dy;
        sum[1] += dy * (double)((r - s[0]) * s[1]);
    }
    for (int i = 0; i < 2; i++) {
        __syncthreads();
        sums[threadIdx.x] = sum[i];
        __syncthreads();
        double all = 0;
        for (int team = 0; team < TEAMS && (int)threadIdx.x < STRIP; team++)
            all += sums[team * STRIP + (int)threadIdx.x];
        if ((int)threadIdx.x < STRIP && k < a.c)
            a.sums[(2 * image + i) * a.c + k] = (float)all;
    }
}

/* One thread block per group of an image. */
__global__ void line_means(line_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    const zn_line_args &a = t.a;
    const int64_t u = blockIdx.x;
    const int width = a.c / a.groups, first = (int)(u % a.groups) * width;
    const float *sum = a.sums + u / a.groups * 2 * a.c, *product = sum + a.c;
    double m1 = 0, m2 = 0;
    for (int k = first + (int)threadIdx.x; k < first + width; k += THREADS) {
        m1 += (double)a.gamma[k] * (double)sum[k];
        m2 += (double)a.gamma[k] * (double)product[k];
    }
    m1 = sum_of(m1, sums);
    m2 = sum_of(m2, sums);
    if (threadIdx.x == 0) {
        a.stats[4 * u + 2] = (float)(m1 / ((double)width * (double)a.pixels));
        a.stats[4 * u + 3] = (float)(m2 / ((double)width * (double)a.pixels));
    }
}

/* ---- sums of partial sums ---- */

__global__ void line_fold(task<zn_line_fold_args> t)
{
    for (int64_t i = first_unit(); i < t.a.count; i += unit_step()) {
        float sum = t.a.partial[i];
        for (int64_t block = 1; block < t.a.blocks; block++)
            sum += t.a.partial[block * t.a.count + i];
        t.a.y[i] = sum;
    }
}

extern "C" {
void zn_cuda_line(zn_device *d, const void *args, int64_t)
{
    enum { FLOATS = 2048 }; /* of a tile, unless a pixel has more */
    line_task t = task_of(d, args);
    int lanes = 1;
    while (2 * lanes * t.a.c <= FLOATS)
        lanes *= 2;
    t.tile = tile_of(t.a.c, lanes, true);
    launch(d, line, dim3((unsigned)parts(t.all, lanes)), THREADS, sizeof(float) * (size_t)(3 * t.tile.floats() + lanes),
           t);
}

void zn_cuda_line_stats(zn_device *d, const void *args, int64_t units)
{
    launch(d, line_stats, dim3((unsigned)units), THREADS, sizeof(double) * THREADS, task_of(d, args));
}

void zn_cuda_line_norm(zn_device *d, const void *args, int64_t)
{
    const line_task t = task_of(d, args);
    launch(d, line_norm, dim3(grid_of(t.all * t.a.c)), THREADS, 0, t);
}

void zn_cuda_line_sums(zn_device *d, const void *args, int64_t units)
{
    launch(d, line_sums, dim3((unsigned)units), THREADS, sizeof(double) * THREADS, task_of(d, args));
}

void zn_cuda_line_means(zn_device *d, const void *args, int64_t units)
{
    launch(d, line_means, dim3((unsigned)units), THREADS, sizeof(double) * THREADS, task_of(d, args));
}

void zn_cuda_line_fold(zn_device *d, const void *args, int64_t)
{
    task<zn_line_fold_args> t = { *static_cast<const zn_line_fold_args *>(args), 0 };
    to_device(d, t.a.partial);
    to_device(d, t.a.y);
    launch(d, line_fold, dim3(grid_of(t.a.count)), THREADS, 0, t);
}
}

/* Shared by the convolutions of a GPU: which tile of the result a block computes, and how it is written. A plan P has
 * PIXELS = TILE_ROWS x TILE_COLUMNS pixels and CHANNELS channels. WARPS_M x WARPS_N warps share them, and each has MF
 * fragments of 16 pixels by NF of 8 channels. Included only by .cu files. */
#ifndef ZN_CUDA_CONV_TILE_H
#define ZN_CUDA_CONV_TILE_H

#include "kernels/cuda/tf32.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

struct conv_task {
    zn_conv_args a;    /* the convolution as zn_cuda_conv_seen returns it, with addresses of the device */
    zn_cuda_weights w; /* layout of the packed weights */
    int across, down;  /* tiles per map */
    bool pairs;        /* results are written two at a time */
};

/* Position of a block's tile. */
struct place {
    int image, y, x; /* image and coordinates of its first pixel */
    int channel;     /* first output channel */
};

template <typename P> static __device__ place place_of(const conv_task &t)
{
    const int tile = (int)blockIdx.x, map = t.across * t.down, in_map = tile % map;
    return place{ tile / map, in_map / t.across * P::TILE_ROWS, in_map % t.across * P::TILE_COLUMNS,
                  (int)blockIdx.y * P::CHANNELS };
}

/* Offset of a result. Rows are numbered over all images. With a pixel shuffle, columns are [sub-pixel][channel]. */
static __device__ int64_t result_at(const zn_conv_shape &s, int64_t row, int x, int column)
{
    if (!s.shuffle)
        return (row * s.ow + x) * s.cout + column;
    const int c = s.cout / 4, sub = column / c;
    return ((2 * row + sub / 2) * 2 * s.ow + 2 * x + sub % 2) * c + column % c;
}

static __device__ float bias_of(const zn_conv_args &a, int column)
{
    const int c = a.s.cout / 4;
    return !a.bias ? 0 : a.bias[a.s.shuffle ? column % c * 4 + column / c : column];
}

static __device__ float activate(const zn_conv_args &a, float x) { return a.relu && x < 0 ? 0 : x; } /* NaN passes */

static __device__ void write_one(const zn_conv_args &a, int64_t row, int x, int column, float sum)
{
    if (column >= a.s.cout)
        return;
    const int64_t at = result_at(a.s, row, x, column);
    sum += bias_of(a, column);
    sum += a.residual ? read_number(a.residual, at, a.residual_type) : 0;
    sum = activate(a, sum);
    write_number(a.y, at, a.y_type, !a.mask || read_number(a.mask, at, a.y_type) > 0 ? sum : 0);
}

/* Writes two neighbours at once; used if all pairs are aligned. */
static __device__ void write_two(const zn_conv_args &a, int64_t row, int x, int column, float2 sum)
{
    if (column >= a.s.cout)
        return;
    const int64_t at = result_at(a.s, row, x, column);
    sum.x += bias_of(a, column);
    sum.y += bias_of(a, column + 1);
    if (a.residual) {
        const float2 r = read_pair(a.residual, at, a.residual_type);
        sum.x += r.x;
        sum.y += r.y;
    }
    sum = make_float2(activate(a, sum.x), activate(a, sum.y));
    if (a.mask) {
        const float2 m = read_pair(a.mask, at, a.y_type);
        sum = make_float2(m.x > 0 ? sum.x : 0, m.y > 0 ? sum.y : 0);
    }
    write_pair(a.y, at, a.y_type, sum);
}

template <typename P>
static __device__ void write_tile(const conv_task &t, const place &at, const float sums[P::MF][P::NF][4])
{
    const zn_conv_shape &s = t.a.s;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
#pragma unroll
    for (int m = 0; m < 2 * P::MF; m++) { /* eight pixels at a time */
        const int pixel = warp / P::WARPS_N * P::MF * 16 + m * 8 + g;
        const int oy = at.y + pixel / P::TILE_COLUMNS, ox = at.x + pixel % P::TILE_COLUMNS;
        if (oy >= s.oh || ox >= s.ow)
            continue;
        const int64_t row = (int64_t)at.image * s.oh + oy;
#pragma unroll
        for (int n = 0; n < P::NF; n++) {
            const int column = at.channel + (warp % P::WARPS_N * P::NF + n) * 8 + 2 * q;
            const float *sum = &sums[m / 2][n][m % 2 * 2];
            if (t.pairs) {
                write_two(t.a, row, ox, column, make_float2(sum[0], sum[1]));
            } else {
                write_one(t.a, row, ox, column, sum[0]);
                write_one(t.a, row, ox, column + 1, sum[1]);
            }
        }
    }
}

/* ---- launching ---- */

static inline int parts(int length, int part) { return (length + part - 1) / part; }

static inline conv_task conv_task_of(zn_device *d, const void *args, zn_cuda_weights (*layout)(const zn_conv_shape *))
{
    conv_task t = { *static_cast<const zn_conv_args *>(args), zn_cuda_weights(), 0, 0, false };
    t.w = layout(&t.a.s);
    t.a.s = zn_cuda_conv_seen(&t.a.s);
    to_device(d, t.a.x);
    to_device(d, t.a.packed);
    to_device(d, t.a.bias);
    to_device(d, t.a.residual);
    to_device(d, t.a.y);
    to_device(d, t.a.mask);
    const int channels = t.a.s.shuffle ? t.a.s.cout / 4 : t.a.s.cout;
    t.pairs =
        channels % 2 == 0 && ((uintptr_t)t.a.y | (uintptr_t)t.a.residual | (uintptr_t)t.a.mask) % sizeof(float2) == 0;
    return t;
}

/* Launches a block for each tile. */
template <typename P> static void launch_tiles_of(zn_device *d, void (*kernel)(conv_task), conv_task t, size_t shared)
{
    t.across = parts(t.a.s.ow, P::TILE_COLUMNS);
    t.down = parts(t.a.s.oh, P::TILE_ROWS);
    zn_cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                  "shared memory");
    const dim3 grid((unsigned)t.across * (unsigned)t.down * (unsigned)t.a.s.n, (unsigned)(t.w.columns / P::CHANNELS));
    launch(d, kernel, grid, THREADS, shared, t);
}

#endif

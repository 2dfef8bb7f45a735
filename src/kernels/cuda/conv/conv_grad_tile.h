/* Shared by the gradients of convolution weights on a GPU: what a block computes, how it copies tiles of pixels, and
 * how it writes its sums. A plan P is described in grad_shape. Included only by .cu files. */
#ifndef ZN_CUDA_CONV_GRAD_TILE_H
#define ZN_CUDA_CONV_GRAD_TILE_H

#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/tf32.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/cuda/conv/conv_grad.h"
#include "kernels/kernels.h"
}

enum { HIGH = ZN_CUDA_GRAD_HIGH, WIDE = ZN_CUDA_GRAD_WIDE };

struct grad_task {
    zn_conv_grad_args a;
    zn_cuda_grad_plan p;
    int across, down; /* tiles of pixels per map */
    bool x_by_four, dy_by_four;
};

/* How 8 warps share the work: WARPS_M x WARPS_N warps share a tile of weights, and WAYS such groups share the rows of
 * pixels. A warp has 16 input channels for each of TAPS taps (9 or 1), by NF fragments of 8 output channels. */
template <int WARPS_M_, int WARPS_N_, int NF_, int TAPS_, int STRIDE_> struct grad_shape {
    enum {
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        NF = NF_,
        TAPS = TAPS_,
        SIDE = TAPS == 9 ? 3 : 1,         /* of the kernel within a tile of x */
        STRIDE = TAPS == 9 ? STRIDE_ : 1, /* of the tile of x */
        WAYS = THREADS / WARP / (WARPS_M * WARPS_N),
        IN = 16 * WARPS_M,
        OUT = 8 * NF * WARPS_N,
        X_HIGH = (HIGH - 1) * STRIDE + SIDE,
        X_WIDE = (WIDE - 1) * STRIDE + SIDE
    };
};

/* What a block computes: a tile of weights from some tiles of pixels. */
struct grad_place {
    int tap, in, out; /* first tap and channels */
    int64_t begin, end;
};

template <typename P> static __device__ grad_place place_of(const grad_task &t)
{
    const int outs = (t.a.s.cout + P::OUT - 1) / P::OUT, ins = (t.a.s.cin + P::IN - 1) / P::IN;
    const int tile = (int)blockIdx.y, begin = (int)blockIdx.x;
    const int64_t first = begin * t.p.per_block, last = first + t.p.per_block;
    return grad_place{ tile / outs / ins, tile / outs % ins * P::IN, tile % outs * P::OUT, first,
                       last < t.p.tiles ? last : t.p.tiles };
}

/* copy_four for maps of either type; those of 16 bits are converted, and have arrived when this returns. */
static __device__ void take_four(float *to, const float *from, int64_t at, int count, bool by_four, zn_type type)
{
    if (type == ZN_TYPE_F32) {
        copy_four(to, from, at, count, by_four);
        return;
    }
    floats<4> v = {};
    if (count > 0 && by_four)
        v = type == ZN_TYPE_BF16 ? as_bf16::load<4>(from, at / 4) : as_f16::load<4>(from, at / 4);
    for (int i = 0; i < 4; i++)
        to[i] = by_four ? v.v[i] : i < count ? read_number(from, at + i, type) : 0;
}

/* How copy_tile copies GROUP neighbouring channels, of which there are `count`; the others are zeros. */
struct to_floats {
    typedef float stored;
    enum { GROUP = 4 };
    static __device__ void x(const grad_task &t, float *to, int64_t at, int count)
    {
        take_four(to, t.a.x, at, count, t.x_by_four, t.a.x_type);
    }
    static __device__ void dy(const grad_task &t, float *to, int64_t at, int count)
    {
        take_four(to, t.a.dy, at, count, t.dy_by_four, t.a.dy_type);
    }
};

/* Starts the copies of a tile of pixels: x with X_ROW numbers per pixel, then dy with Y_ROW. */
template <typename P, typename COPY, int X_ROW, int Y_ROW>
static __device__ void copy_tile(const grad_task &t, const grad_place &at, int64_t tile, typename COPY::stored *to)
{
    enum { X_GROUPS = P::IN / COPY::GROUP, Y_GROUPS = P::OUT / COPY::GROUP };
    const zn_conv_shape &s = t.a.s;
    const int map = t.across * t.down, image = (int)(tile / map), in_map = (int)(tile % map);
    const int oy = in_map / t.across * HIGH, ox = in_map % t.across * WIDE;
    const int step = P::TAPS == 9 ? 1 : s.stride, ky = P::TAPS == 9 ? 0 : at.tap / s.kw,
              kx = P::TAPS == 9 ? 0 : at.tap % s.kw;
    const int y = oy * s.stride - s.pad + ky, x = ox * s.stride - s.pad + kx;
    for (int i = (int)threadIdx.x; i < P::X_HIGH * P::X_WIDE * X_GROUPS; i += THREADS) {
        const int pixel = i / X_GROUPS, channel = i % X_GROUPS * COPY::GROUP;
        const int iy = y + pixel / P::X_WIDE * step, ix = x + pixel % P::X_WIDE * step;
        const bool is_there = iy >= 0 && ix >= 0 && iy < s.h && ix < s.w;
        COPY::x(t, to + pixel * X_ROW + channel, (((int64_t)image * s.h + iy) * s.w + ix) * s.cin + at.in + channel,
                is_there ? s.cin - at.in - channel : 0);
    }
    to += P::X_HIGH * P::X_WIDE * X_ROW;
    for (int i = (int)threadIdx.x; i < HIGH * WIDE * Y_GROUPS; i += THREADS) {
        const int pixel = i / Y_GROUPS, channel = i % Y_GROUPS * COPY::GROUP;
        const int py = oy + pixel / WIDE, px = ox + pixel % WIDE;
        COPY::dy(t, to + pixel * Y_ROW + channel,
                 (((int64_t)image * s.oh + py) * s.ow + px) * s.cout + at.out + channel,
                 py < s.oh && px < s.ow ? s.cout - at.out - channel : 0);
    }
}

/* Writes the sums of this warp to its part: [part][tap][cin][cout]. */
template <typename P>
static __device__ void write_sums(const grad_task &t, const grad_place &at, const float sums[P::TAPS][P::NF][4])
{
    const zn_conv_shape &s = t.a.s;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
    const int m = warp / P::WARPS_N % P::WARPS_M, n = warp % P::WARPS_N, way = warp / (P::WARPS_M * P::WARPS_N);
    const int64_t part = (int64_t)blockIdx.x * P::WAYS + way, taps = s.kh * s.kw;
    float *to = static_cast<float *>(t.a.shared) + (part * taps + at.tap) * s.cin * s.cout;
#pragma unroll
    for (int i = 0; i < P::TAPS * P::NF * 4; i++) {
        const int tap = i / 4 / P::NF, f = i / 4 % P::NF, c = at.in + m * 16 + g + i % 4 / 2 * 8;
        const int o = at.out + (n * P::NF + f) * 8 + 2 * q + i % 2;
        if (c < s.cin && o < s.cout)
            to[((int64_t)tap * s.cin + c) * s.cout + o] = sums[tap][f][i % 4];
    }
}

/* ---- launching ---- */

static inline void add_parts(zn_device *d, const grad_task &t, const zn_conv_grad_args *a)
{
    const int64_t count = zn_cuda_grad_part(&a->s, a->sums);
    const zn_reduce_args sum = { static_cast<const float *>(a->shared), NULL,       a->dw, count,
                                 (int)(t.p.parts * t.p.ways),           ZN_TYPE_F32 };
    zn_device_launch(d, zn_k_sum_partials, count, &sum);
}

/* Runs `first` for the sums of parts, or adds these. */
static inline void run_grad(zn_device *d, const void *args, zn_cuda_grad_plan (*plan)(const zn_conv_shape *),
                            void (*first)(zn_device *, const grad_task &))
{
    const zn_conv_grad_args *given = static_cast<const zn_conv_grad_args *>(args);
    grad_task t = { *given, plan(&given->s), 0, 0, false, false };
    const zn_conv_shape &s = t.a.s;
    t.a.s = zn_cuda_conv_folded(&given->s);
    if (t.a.stage == 1) {
        add_parts(d, t, given);
        return;
    }
    t.across = (s.ow + t.p.wide - 1) / t.p.wide;
    t.down = (s.oh + t.p.high - 1) / t.p.high;
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.shared);
    t.x_by_four = s.cin % 4 == 0 && (uintptr_t)t.a.x % 16 == 0;
    t.dy_by_four = s.cout % 4 == 0 && (uintptr_t)t.a.dy % 16 == 0;
    first(d, t);
}

/* The task with x and dy, or one of them, in bf16: rounded into the workspace if they are floats. */
static inline grad_task rounded_task(zn_device *d, const grad_task &given, bool x, bool dy)
{
    grad_task t = given;
    const zn_conv_shape &s = t.a.s;
    const int64_t x_count = (int64_t)s.n * s.h * s.w * s.cin, dy_count = (int64_t)s.n * s.oh * s.ow * s.cout;
    to_device(d, t.a.workspace);
    char *workspace = static_cast<char *>(t.a.workspace);
    if (x) {
        t.a.x = static_cast<const float *>(zn_cuda_rounded(d, t.a.x, t.a.x_type, x_count, ZN_TYPE_BF16, workspace));
        workspace += zn_cuda_rounded_bytes(t.a.x_type, x_count);
        t.a.x_type = ZN_TYPE_BF16;
    }
    if (dy) {
        t.a.dy = static_cast<const float *>(zn_cuda_rounded(d, t.a.dy, t.a.dy_type, dy_count, ZN_TYPE_BF16, workspace));
        t.a.dy_type = ZN_TYPE_BF16;
    }
    return t;
}

/* Launches a block for each tile of weights and part of the pixels. */
static inline void launch_grad(zn_device *d, void (*kernel)(grad_task), size_t shared, const grad_task &t)
{
    zn_cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                  "shared memory");
    launch(d, kernel, dim3((unsigned)t.p.parts, (unsigned)t.p.weight_tiles), THREADS, shared, t);
}

#endif

/* The gradient of a convolution's weights (conv_grad.h). A block walks over tiles of 4 x 16 pixels. Asynchronous copies
 * of the next tile of x, with its border, and of dy overlap with the products of the current one. All nine taps of a
 * 3x3 kernel read the same tile of x; their sums stay in registers until the last tile. Other kernels have one tap per
 * block and a tile of x without a border.
 *
 * Numbers are split as in tf32.h. Full precision adds the sums of 16 pixels in fp32, because the matrix unit
 * truncates. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/cuda/conv_grad.h"
#include "kernels/kernels.h"
}
#include "kernels/cuda/tf32.h"
#include "kernels/cuda/vector.h"

enum { HIGH = ZN_CUDA_GRAD_HIGH, WIDE = ZN_CUDA_GRAD_WIDE };

struct grad_task {
    zn_conv_grad_args a;
    zn_cuda_grad_plan p;
    int across, down; /* tiles of pixels per map */
    bool x_by_four, dy_by_four;
};

/* How 8 warps share the work: WARPS_M x WARPS_N warps share a tile of weights, and 8 / (WARPS_M WARPS_N) such groups
 * share the rows of pixels. A warp has 16 input channels for each of TAPS taps, by NF fragments of 8 output channels.
 * TAPS: 9 or 1. SPLIT: full precision. */
template <int WARPS_M_, int WARPS_N_, int NF_, int TAPS_, int STRIDE_, bool SPLIT_> struct grad_plan {
    enum {
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        NF = NF_,
        TAPS = TAPS_,
        SPLIT = SPLIT_,
        SIDE = TAPS == 9 ? 3 : 1,         /* of the kernel within a tile of x */
        STRIDE = TAPS == 9 ? STRIDE_ : 1, /* of the tile of x */
        WAYS = THREADS / WARP / (WARPS_M * WARPS_N),
        IN = 16 * WARPS_M,
        OUT = 8 * NF * WARPS_N,
        X_HIGH = (HIGH - 1) * STRIDE + SIDE,
        X_WIDE = (WIDE - 1) * STRIDE + SIDE,
        /* Row lengths in shared memory avoid bank conflicts between the lanes of a fragment. */
        X_ROW = IN + 8 / STRIDE,
        Y_ROW = OUT == 8 ? 8 : OUT + 8,
        X_FLOATS = X_HIGH * X_WIDE * X_ROW,
        STAGE = X_FLOATS + HIGH * WIDE * Y_ROW
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

/* Starts the copies of a tile of pixels. */
template <typename P>
static __device__ void copy_tile(const grad_task &t, const grad_place &at, int64_t tile, float *to)
{
    const zn_conv_shape &s = t.a.s;
    const int map = t.across * t.down, image = (int)(tile / map), in_map = (int)(tile % map);
    const int oy = in_map / t.across * HIGH, ox = in_map % t.across * WIDE;
    const int step = P::TAPS == 9 ? 1 : s.stride, ky = P::TAPS == 9 ? 0 : at.tap / s.kw,
              kx = P::TAPS == 9 ? 0 : at.tap % s.kw;
    const int y = oy * s.stride - s.pad + ky, x = ox * s.stride - s.pad + kx;
    for (int i = (int)threadIdx.x; i < P::X_HIGH * P::X_WIDE * (P::IN / 4); i += THREADS) {
        const int pixel = i / (P::IN / 4), channel = i % (P::IN / 4) * 4;
        const int iy = y + pixel / P::X_WIDE * step, ix = x + pixel % P::X_WIDE * step;
        const bool is_there = iy >= 0 && ix >= 0 && iy < s.h && ix < s.w;
        take_four(to + pixel * P::X_ROW + channel, t.a.x,
                  (((int64_t)image * s.h + iy) * s.w + ix) * s.cin + at.in + channel,
                  is_there ? s.cin - at.in - channel : 0, t.x_by_four, t.a.x_type);
    }
    to += P::X_FLOATS;
    for (int i = (int)threadIdx.x; i < HIGH * WIDE * (P::OUT / 4); i += THREADS) {
        const int pixel = i / (P::OUT / 4), channel = i % (P::OUT / 4) * 4;
        const int py = oy + pixel / WIDE, px = ox + pixel % WIDE;
        take_four(to + pixel * P::Y_ROW + channel, t.a.dy,
                  (((int64_t)image * s.oh + py) * s.ow + px) * s.cout + at.out + channel,
                  py < s.oh && px < s.ow ? s.cout - at.out - channel : 0, t.dy_by_four, t.a.dy_type);
    }
}

/* Adds the products of a tile to the sums of this warp. */
template <typename P> static __device__ void multiply_tile(const float *stage, float sums[P::TAPS][P::NF][4])
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
    const int m = warp / P::WARPS_N % P::WARPS_M, n = warp % P::WARPS_N, way = warp / (P::WARPS_M * P::WARPS_N);
    const float *x = stage + q * P::STRIDE * P::X_ROW + m * 16 + g;
    const float *dy = stage + P::X_FLOATS + q * P::Y_ROW + n * P::NF * 8 + g;
    for (int row = way; row < HIGH; row += P::WAYS) {
        float bh[WIDE / 8][P::NF][2], bl[WIDE / 8][P::NF][2];
#pragma unroll
        for (int i = 0; i < WIDE / 4 * P::NF; i++) { /* four pixels by eight channels */
            const int k = i / P::NF, f = i % P::NF;
            split(dy[(row * WIDE + k * 4) * P::Y_ROW + f * 8], bh[k / 2][f][k % 2], bl[k / 2][f][k % 2]);
        }
#pragma unroll
        for (int tap = 0; tap < P::TAPS; tap++) {
            const float *from = x + ((row * P::STRIDE + tap / P::SIDE) * P::X_WIDE + tap % P::SIDE) * P::X_ROW;
            float fresh[P::NF][4] = {};
            float(*to)[4] = P::SPLIT ? fresh : sums[tap];
#pragma unroll
            for (int k = 0; k < WIDE / 8; k++) {
                const float *at = from + k * 8 * P::STRIDE * P::X_ROW;
                float ah[4], al[4];
                split(at[0], ah[0], al[0]);
                split(at[8], ah[1], al[1]);
                split(at[4 * P::STRIDE * P::X_ROW], ah[2], al[2]);
                split(at[4 * P::STRIDE * P::X_ROW + 8], ah[3], al[3]);
#pragma unroll
                for (int f = 0; f < P::NF; f++) {
                    if (P::SPLIT) { /* the small products first */
                        multiply_add(to[f], al, bh[k][f]);
                        multiply_add(to[f], ah, bl[k][f]);
                    }
                    multiply_add(to[f], ah, bh[k][f]);
                }
            }
#pragma unroll
            for (int i = 0; i < P::NF * 4 && P::SPLIT; i++)
                sums[tap][i / 4][i % 4] += fresh[i / 4][i % 4];
        }
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

template <typename P> __global__ void __launch_bounds__(THREADS, 1) conv_grad(grad_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const grad_place at = place_of<P>(t);
    float sums[P::TAPS][P::NF][4] = {};
    copy_tile<P>(t, at, at.begin, zn_cuda_shared);
    copy_commit();
    for (int64_t i = at.begin; i < at.end; i++) {
        float *now = zn_cuda_shared + (i - at.begin) % 2 * P::STAGE,
              *next = zn_cuda_shared + (i + 1 - at.begin) % 2 * P::STAGE;
        copy_wait<0>();  /* tile i has arrived for this thread, */
        __syncthreads(); /* for all threads, and all have read the previous tile */
        if (i + 1 < at.end)
            copy_tile<P>(t, at, i + 1, next);
        copy_commit();
        multiply_tile<P>(now, sums);
    }
    write_sums<P>(t, at, sums);
}

/* ---- launching ---- */

template <typename P> static void launch_plan(zn_device *d, const grad_task &t)
{
    const size_t shared = sizeof(float) * 2 * P::STAGE;
    zn_cuda_check(d, cudaFuncSetAttribute(conv_grad<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                  "shared memory");
    launch(d, conv_grad<P>, dim3((unsigned)t.p.parts, (unsigned)t.p.weight_tiles), THREADS, shared, t);
}

template <int TAPS, int STRIDE, bool SPLIT> static void launch_channels(zn_device *d, const grad_task &t)
{
    if (t.p.in == ZN_CUDA_GRAD_FEW_IN)
        launch_plan<grad_plan<1, 2, 4, TAPS, STRIDE, SPLIT>>(d, t);
    else if (t.p.out == ZN_CUDA_GRAD_FEW_OUT)
        launch_plan<grad_plan<4, 1, 1, TAPS, STRIDE, SPLIT>>(d, t);
    else
        launch_plan<grad_plan<4, 2, 4, TAPS, STRIDE, SPLIT>>(d, t);
}

static void add_parts(zn_device *d, const grad_task &t, const zn_conv_grad_args *a)
{
    const int64_t count = (int64_t)a->s.kh * a->s.kw * a->s.cin * a->s.cout;
    const zn_reduce_args sum = { static_cast<const float *>(a->shared), NULL,       a->dw, count,
                                 (int)(t.p.parts * t.p.ways),           ZN_TYPE_F32 };
    zn_device_launch(d, zn_k_sum_partials, count, &sum);
}

template <bool SPLIT> static void run(zn_device *d, const void *args)
{
    const zn_conv_grad_args *given = static_cast<const zn_conv_grad_args *>(args);
    grad_task t = { *given, zn_cuda_grad_plan_of(&given->s), 0, 0, false, false };
    const zn_conv_shape &s = t.a.s;
    if (t.a.stage == 1) {
        add_parts(d, t, given);
        return;
    }
    t.across = (s.ow + WIDE - 1) / WIDE;
    t.down = (s.oh + HIGH - 1) / HIGH;
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.shared);
    t.x_by_four = s.cin % 4 == 0 && (uintptr_t)t.a.x % 16 == 0;
    t.dy_by_four = s.cout % 4 == 0 && (uintptr_t)t.a.dy % 16 == 0;
    if (!t.p.nine)
        launch_channels<1, 1, SPLIT>(d, t);
    else if (s.stride == 1)
        launch_channels<9, 1, SPLIT>(d, t);
    else
        launch_channels<9, 2, SPLIT>(d, t);
}

extern "C" {
void zn_cuda_conv_grad_tf32x3(zn_device *d, const void *args, int64_t) { run<true>(d, args); }
void zn_cuda_conv_grad_tf32(zn_device *d, const void *args, int64_t) { run<false>(d, args); }
}

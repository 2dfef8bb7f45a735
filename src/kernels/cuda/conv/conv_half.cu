/* Convolution with products of 16-bit numbers and sums in fp32, of maps of either. A block copies the part of x that
 * its tile of pixels reads, with the border, into shared memory once, rounded to 16 bits. All taps then read it there,
 * moved by a few pixels, while asynchronous copies bring the weights of the next taps. More than CHUNK input channels
 * are taken in chunks.
 *
 * As in conv.cu, every sum has the same order for any position of its pixel and any tile. */
#include "kernels/cuda/conv/conv_tile.h"
#include "kernels/cuda/half.h"

enum { STAGES = 3 };

/* How 8 warps share a tile of ROWS x COLUMNS pixels; see conv_tile.h. T: bf16_pair or f16_pair. */
template <typename T_, int CHUNK_, int ROWS, int COLUMNS, int WARPS_M_, int WARPS_N_, int NF_> struct half_plan {
    typedef T_ T;
    enum {
        CHUNK = CHUNK_,
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        TILE_ROWS = ROWS,
        TILE_COLUMNS = COLUMNS,
        PIXELS = ROWS * COLUMNS,
        MF = PIXELS / 16 / WARPS_M,
        NF = NF_,
        CHANNELS = WARPS_N * NF * 8,
        /* Lengths in shared memory avoid bank conflicts between the rows of a matrix. */
        PIXEL = CHUNK + 8,
        B_ROW = CHANNELS == 8 ? 8 : CHANNELS + 8,
        STAGE = CHUNK * B_ROW
    };
    static_assert(WARPS_M_ * WARPS_N_ * WARP == THREADS, "every thread belongs to a warp of the plan");
    static_assert(MF * 16 * WARPS_M_ == PIXELS, "warps have whole fragments");
};

/* Size of the part of x that a tile reads. */
template <typename P> static ZN_ON_BOTH int part_high(const zn_conv_shape &s)
{
    return (P::TILE_ROWS - 1) * s.stride + s.kh;
}
template <typename P> static ZN_ON_BOTH int part_wide(const zn_conv_shape &s)
{
    return (P::TILE_COLUMNS - 1) * s.stride + s.kw;
}

/* Eight neighbouring channels, of which there are `count`. */
struct eight {
    float x[8];
};

static __device__ eight load_eight(const float *from, int count, bool by_four)
{
    eight v = {};
    if (by_four && count >= 8) {
        const float4 low = *reinterpret_cast<const float4 *>(from), high = *reinterpret_cast<const float4 *>(from + 4);
        return eight{ { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w } };
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < count)
            v.x[i] = from[i];
    return v;
}

template <typename T> static __device__ void store_eight(uint16_t *to, const eight &v)
{
    *reinterpret_cast<uint4 *>(to) =
        uint4{ T::of(v.x[0], v.x[1]), T::of(v.x[2], v.x[3]), T::of(v.x[4], v.x[5]), T::of(v.x[6], v.x[7]) };
}

/* Copies channels [first, first + CHUNK) of the part of x that this tile reads. Several loads are in flight. */
template <typename P>
static __device__ void copy_part(const conv_task &t, const place &at, int first, bool by_four, uint16_t *to)
{
    enum { GROUPS = P::CHUNK / 8, FLIGHT = 4 };
    const zn_conv_shape &s = t.a.s;
    const int wide = part_wide<P>(s), count = part_high<P>(s) * wide * GROUPS, up = s.up2 ? 1 : 0;
    const int y = at.y * s.stride - s.pad, x = at.x * s.stride - s.pad, channel = first + (int)threadIdx.x % GROUPS * 8;
    for (int begin = (int)threadIdx.x; begin < count; begin += FLIGHT * THREADS) {
        eight v[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) {
            const int pixel = (begin + i * THREADS) / GROUPS, iy = y + pixel / wide, ix = x + pixel % wide;
            const bool is_there = begin + i * THREADS < count && iy >= 0 && ix >= 0 && iy < s.h << up && ix < s.w << up;
            const int64_t from = ((int64_t)at.image * s.h + (iy >> up)) * s.w + (ix >> up);
            v[i] = load_eight(t.a.x + (is_there ? from * s.cin + channel : 0), is_there ? s.cin - channel : 0, by_four);
        }
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (begin + i * THREADS < count)
                store_eight<typename P::T>(to + (begin + i * THREADS) / GROUPS * P::PIXEL + channel - first, v[i]);
    }
}

/* The same if x has numbers of 16 bits and a multiple of eight channels: the copies are only started. */
template <typename P> static __device__ void start_part(const conv_task &t, const place &at, int first, uint16_t *to)
{
    enum { GROUPS = P::CHUNK / 8 };
    const zn_conv_shape &s = t.a.s;
    const int wide = part_wide<P>(s), count = part_high<P>(s) * wide * GROUPS, up = s.up2 ? 1 : 0;
    const int y = at.y * s.stride - s.pad, x = at.x * s.stride - s.pad, channel = first + (int)threadIdx.x % GROUPS * 8;
    const uint16_t *map = reinterpret_cast<const uint16_t *>(t.a.x);
    for (int i = (int)threadIdx.x; i < count; i += THREADS) {
        const int pixel = i / GROUPS, iy = y + pixel / wide, ix = x + pixel % wide;
        const bool is_there = channel < s.cin && iy >= 0 && ix >= 0 && iy < s.h << up && ix < s.w << up;
        const int64_t from = (((int64_t)at.image * s.h + (iy >> up)) * s.w + (ix >> up)) * s.cin + channel;
        copy_async<16>(reinterpret_cast<float *>(to + pixel * P::PIXEL + channel - first),
                       reinterpret_cast<const float *>(map + (is_there ? from : 0)), is_there);
    }
}

/* Starts the copies of the weights of a step: CHUNK rows. */
template <typename P> static __device__ void copy_weights(const conv_task &t, const place &at, int step, uint16_t *to)
{
    enum { GROUPS = P::CHANNELS / 8 };
    const uint16_t *from =
        static_cast<const uint16_t *>(t.a.packed) + (int64_t)step * P::CHUNK * t.w.columns + at.channel;
    for (int i = (int)threadIdx.x; i < P::CHUNK * GROUPS; i += THREADS)
        copy_async<16>(reinterpret_cast<float *>(to + i / GROUPS * P::B_ROW + i % GROUPS * 8),
                       reinterpret_cast<const float *>(from + (int64_t)(i / GROUPS) * t.w.columns + i % GROUPS * 8),
                       true);
}

/* Adds the products of a tap. pixel: for each fragment, where this lane's pixel of the tap begins. */
template <typename P>
static __device__ void multiply_step(const uint16_t *part, const int pixel[P::MF], const uint16_t *stage,
                                     float sums[P::MF][P::NF][4])
{
    const int warp = (int)threadIdx.x / WARP;
    stage += warp % P::WARPS_N * P::NF * 8;
#pragma unroll
    for (int k = 0; k < P::CHUNK; k += 16) {
        uint32_t a[P::MF][4], b[P::NF][2];
#pragma unroll
        for (int m = 0; m < P::MF; m++)
            load_four(a[m], part + pixel[m] + k);
        load_right<P::NF, P::B_ROW>(stage + k * P::B_ROW, b);
#pragma unroll
        for (int m = 0; m < P::MF; m++)
#pragma unroll
            for (int n = 0; n < P::NF; n++)
                P::T::multiply_add(sums[m][n], a[m], b[n]);
    }
}

template <typename P> __global__ void __launch_bounds__(THREADS, 2) conv_half(conv_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_conv_shape &s = t.a.s;
    const place at = place_of<P>(t);
    const int wide = part_wide<P>(s), taps = s.kh * s.kw, steps = t.w.rows / P::CHUNK;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const bool by_four = s.cin % 4 == 0 && (uintptr_t)t.a.x % 16 == 0, narrow = t.a.x_type != ZN_TYPE_F32;
    uint16_t *part = reinterpret_cast<uint16_t *>(zn_cuda_shared), *stages = part + part_high<P>(s) * wide * P::PIXEL;
    float sums[P::MF][P::NF][4] = {};
    int pixel[P::MF];
#pragma unroll
    for (int m = 0; m < P::MF; m++) {
        const int i = (warp / P::WARPS_N * P::MF + m) * 16 + lane % 16;
        pixel[m] = (i / P::TILE_COLUMNS * wide + i % P::TILE_COLUMNS) * s.stride * P::PIXEL + lane / 16 * 8;
    }
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < steps)
            copy_weights<P>(t, at, i, stages + i * P::STAGE);
        copy_commit();
    }
    for (int step = 0, tap = 0; step < steps; step++, tap = tap + 1 < taps ? tap + 1 : 0) {
        if (tap == 0) {
            __syncthreads(); /* all have read the previous chunk */
            if (narrow) {
                start_part<P>(t, at, step / taps * P::CHUNK, part);
                copy_commit();
                copy_wait<0>();
            } else {
                copy_part<P>(t, at, step / taps * P::CHUNK, by_four, part);
            }
        }
        copy_wait<STAGES - 2>(); /* the weights have arrived for this thread, */
        __syncthreads();         /* for all threads, and all have read the previous stage */
        const int next = step + STAGES - 1;
        if (next < steps)
            copy_weights<P>(t, at, next, stages + next % STAGES * P::STAGE);
        copy_commit();
        multiply_step<P>(part + (tap / s.kw * wide + tap % s.kw) * P::PIXEL, pixel, stages + step % STAGES * P::STAGE,
                         sums);
    }
    write_tile<P>(t, at, sums);
}

/* ---- launching ---- */

template <typename P> static size_t shared_bytes(const zn_conv_shape &s)
{
    return sizeof(uint16_t) * ((size_t)part_high<P>(s) * (size_t)part_wide<P>(s) * P::PIXEL + STAGES * P::STAGE);
}

template <typename P> static void launch_plan(zn_device *d, const conv_task &t)
{
    launch_tiles_of<P>(d, conv_half<P>, t, shared_bytes<P>(t.a.s));
}

/* Whether a plan keeps at least this part of the GPU busy, with two blocks on each multiprocessor. */
template <typename P> static bool fills(const zn_device *d, const conv_task &t, double least)
{
    const zn_conv_shape &s = t.a.s;
    const int64_t tiles =
        (int64_t)s.n * parts(s.oh, P::TILE_ROWS) * parts(s.ow, P::TILE_COLUMNS) * (t.w.columns / P::CHANNELS);
    return t.w.columns % P::CHANNELS == 0 && (double)tiles >= least * d->processors && shared_bytes<P>(s) <= 112 << 10;
}

template <typename T, int CHUNK> static void launch_size(zn_device *d, const conv_task &t)
{
    typedef half_plan<T, CHUNK, 8, 16, 8, 1, 1> few;
    typedef half_plan<T, CHUNK, 16, 16, 8, 1, 8> large;
    typedef half_plan<T, CHUNK, 8, 16, 4, 2, 8> deep;
    typedef half_plan<T, CHUNK, 8, 16, 4, 2, 4> medium;
    typedef half_plan<T, CHUNK, 8, 4, 1, 8, 1> small;
    if (t.w.columns == ZN_CUDA_CONV_FEW)
        launch_plan<few>(d, t);
    else if (fills<deep>(d, t, 1))
        launch_plan<deep>(d, t);
    else if (fills<large>(d, t, 1))
        launch_plan<large>(d, t);
    else if (fills<medium>(d, t, 0.75))
        launch_plan<medium>(d, t);
    else
        launch_plan<small>(d, t);
}

template <typename T> static void run(zn_device *d, const void *args)
{
    const conv_task t = conv_task_of(d, args, zn_cuda_half_weights);
    if (t.w.chunk == 64)
        launch_size<T, 64>(d, t);
    else
        launch_size<T, 32>(d, t);
}

extern "C" {
void zn_cuda_conv_bf16(zn_device *d, const void *args, int64_t) { run<bf16_pair>(d, args); }
void zn_cuda_conv_f16(zn_device *d, const void *args, int64_t) { run<f16_pair>(d, args); }
}

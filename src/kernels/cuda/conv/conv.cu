/* Convolution as a matrix product without storing the patch matrix (implicit GEMM): a thread block computes a tile
 * of pixels by a tile of output channels. It loops over the rows of the weights, ZN_CUDA_CONV_DEPTH at a time.
 * Asynchronous copies of the next patches and weights into shared memory overlap with the products of the current
 * ones (three stages). tf32.h has the products.
 *
 * Every sum is computed in the same order for any position of its pixel and any tile, so a tile of an image has the
 * same bits as the whole image. Upsampling of the input is a shift of its coordinates. */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/conv/conv_tile.h"
#include "kernels/cuda/tf32.h"

enum { DEPTH = ZN_CUDA_CONV_DEPTH, STAGES = 3 };

/* How 8 warps share a tile: WARPS_M x WARPS_N warps, each with MF fragments of 16 pixels by NF of 8 channels. VEC:
 * floats per copy; a copy must stay within a pixel. SPLIT: full precision. */
template <int WARPS_M_, int WARPS_N_, int MF_, int NF_, int VEC_, bool SPLIT_> struct plan {
    enum {
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        MF = MF_,
        NF = NF_,
        VEC = VEC_,
        SPLIT = SPLIT_,
        PIXELS = WARPS_M * MF * 16,
        CHANNELS = WARPS_N * NF * 8,
        TILE_ROWS = 8,
        TILE_COLUMNS = PIXELS / TILE_ROWS,
        /* The row length in shared memory avoids bank conflicts between the lanes of a fragment. */
        A_ROW = DEPTH + 4,
        B_ROW = CHANNELS == 8 ? 8 : CHANNELS + 8,
        A_FLOATS = PIXELS * A_ROW,
        STAGE = A_FLOATS + DEPTH * B_ROW
    };
    static_assert(WARPS_M_ * WARPS_N_ * WARP == THREADS, "every thread belongs to a warp of the plan");
};

/* The patch column that a thread copies; it advances by DEPTH with each chunk. */
struct column {
    int ky, kx, channel;
};

template <typename P> static __device__ column column_of(const zn_conv_shape &s)
{
    const int row = (int)threadIdx.x % (DEPTH / P::VEC) * P::VEC, tap = row / s.cin;
    return column{ tap / s.kw, tap % s.kw, row % s.cin };
}

static __device__ void go_on(const zn_conv_shape &s, column &c)
{
    for (c.channel += DEPTH; c.channel >= s.cin; c.channel -= s.cin)
        if (++c.kx == s.kw) {
            c.kx = 0;
            c.ky++;
        }
}

/* Starts the copies of a chunk of the patches: each thread copies the same column of several pixels. */
template <typename P> static __device__ void copy_patches(const conv_task &t, const place &at, column &c, float *to)
{
    enum { PARTS = DEPTH / P::VEC, STEP = THREADS / PARTS };
    const zn_conv_shape &s = t.a.s;
    const int part = (int)threadIdx.x % PARTS, first = (int)threadIdx.x / PARTS, up = s.up2 ? 1 : 0;
#pragma unroll 4
    for (int i = 0; i < P::PIXELS / STEP; i++) {
        const int pixel = first + i * STEP;
        const int oy = at.y + pixel / P::TILE_COLUMNS, ox = at.x + pixel % P::TILE_COLUMNS;
        const int iy = oy * s.stride - s.pad + c.ky, ix = ox * s.stride - s.pad + c.kx;
        const bool is_there =
            c.ky < s.kh && oy < s.oh && ox < s.ow && iy >= 0 && ix >= 0 && iy < s.h << up && ix < s.w << up;
        const int from = (at.image * s.h + (iy >> up)) * s.w + (ix >> up);
        copy_async<4 * P::VEC>(to + pixel * P::A_ROW + part * P::VEC,
                               t.a.x + (is_there ? (int64_t)from * s.cin + c.channel : 0), is_there);
    }
    go_on(s, c);
}

template <typename P> static __device__ void copy_weights(const conv_task &t, const place &at, int chunk, float *to)
{
    enum { PARTS = P::CHANNELS / 4 };
    const float *from = static_cast<const float *>(t.a.packed) + (int64_t)chunk * DEPTH * t.w.columns + at.channel;
#pragma unroll
    for (int i = (int)threadIdx.x; i < DEPTH * PARTS; i += THREADS) {
        const int row = i / PARTS, part = i % PARTS;
        copy_async<16>(to + row * P::B_ROW + 4 * part, from + (int64_t)row * t.w.columns + 4 * part, true);
    }
}

/* Chunks are copied in order. */
template <typename P>
static __device__ void copy_chunk(const conv_task &t, const place &at, int chunk, column &c, float *stage)
{
    copy_patches<P>(t, at, c, stage);
    copy_weights<P>(t, at, chunk, stage + P::A_FLOATS);
}

template <typename P> static __device__ void multiply_stage(const float *stage, float sums[P::MF][P::NF][4])
{
    typedef slice<P::A_ROW, 1> patches;
    typedef slice<1, P::B_ROW> weights;
    const int warp = (int)threadIdx.x / WARP;
    multiply_slices<patches, weights, DEPTH, P::MF, P::NF, P::SPLIT>(
        stage + warp / P::WARPS_N * P::MF * 16 * P::A_ROW, stage + P::A_FLOATS + warp % P::WARPS_N * P::NF * 8, sums);
}

template <typename P> __global__ void __launch_bounds__(THREADS, 2) conv(conv_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const place at = place_of<P>(t);
    const int chunks = t.w.rows / DEPTH;
    column c = column_of<P>(t.a.s);
    float sums[P::MF][P::NF][4] = {};
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < chunks)
            copy_chunk<P>(t, at, i, c, zn_cuda_shared + i * P::STAGE);
        copy_commit();
    }
    for (int i = 0; i < chunks; i++) {
        copy_wait<STAGES - 2>(); /* chunk i has arrived for this thread, */
        __syncthreads();         /* for all threads, and all have read the previous stage */
        const int next = i + STAGES - 1;
        if (next < chunks)
            copy_chunk<P>(t, at, next, c, zn_cuda_shared + next % STAGES * P::STAGE);
        copy_commit();
        multiply_stage<P>(zn_cuda_shared + i % STAGES * P::STAGE, sums);
    }
    write_tile<P>(t, at, sums);
}

/* ---- launching ---- */

template <typename P> static void launch_plan(zn_device *d, const conv_task &t)
{
    launch_tiles_of<P>(d, conv<P>, t, sizeof(float) * STAGES * P::STAGE);
}

/* Small maps use small tiles; otherwise most of the GPU would be idle. */
template <int VEC, bool SPLIT> static void launch_size(zn_device *d, const conv_task &t)
{
    typedef plan<8, 1, 1, 1, VEC, SPLIT> few;
    typedef plan<4, 2, 2, 4, VEC, SPLIT> large;
    typedef plan<1, 8, 2, 1, VEC, SPLIT> small;
    const zn_conv_shape &s = t.a.s;
    const int64_t tiles =
        (int64_t)s.n * parts(s.oh, large::TILE_ROWS) * parts(s.ow, large::TILE_COLUMNS) * t.w.columns / large::CHANNELS;
    if (t.w.columns == ZN_CUDA_CONV_FEW)
        launch_plan<few>(d, t);
    else if (2 * tiles > d->processors)
        launch_plan<large>(d, t);
    else
        launch_plan<small>(d, t);
}

template <bool SPLIT> static void run(zn_device *d, const void *args)
{
    const conv_task t = conv_task_of(d, args, zn_cuda_conv_weights);
    if (t.a.s.cin % 4 == 0 && (uintptr_t)t.a.x % 16 == 0)
        launch_size<4, SPLIT>(d, t);
    else
        launch_size<1, SPLIT>(d, t);
}

extern "C" {
void zn_cuda_conv_tf32x3(zn_device *d, const void *args, int64_t) { run<true>(d, args); }
void zn_cuda_conv_tf32(zn_device *d, const void *args, int64_t) { run<false>(d, args); }
}

/* 3x3 convolution of few input channels (conv.h): the first layer of an encoder, and the gradient of the last one of a
 * decoder. All products of a pixel fit into a few fragments of the matrix unit, so each warp keeps the weights of 64
 * output channels in registers, and a block walks over tiles of pixels; a copy of the next tile is on its way while it
 * multiplies. Products are of TF32 numbers, as in conv.cu, with the same packed weights.
 *
 * Every sum has the same order for any position of its pixel and any tile. */
#include "kernels/cuda/conv/conv_tile.h"

enum {
    BLOCK = 128,
    SIDE = 3,
    TILE_WIDE = 32,
    TILE_HIGH = 16,
    STEP = 16, /* pixels that a warp multiplies at a time, of a row */
    COLUMNS = ZN_CUDA_CONV_COLUMNS,
    FRAGMENTS = COLUMNS / 8
};

template <int CIN> struct few_plan {
    enum {
        DEPTH = (SIDE * SIDE * CIN + 7) / 8, /* fragments along taps and channels */
        X_WIDE = (TILE_WIDE + SIDE - 1) * CIN,
        X_FLOATS = X_WIDE * (TILE_HIGH + SIDE - 1),
        BLOCKS = CIN < 4 ? 3 : 2 /* on a multiprocessor, as registers allow */
    };
};

struct few_task {
    conv_task t;
    int tiles;
    bool quick; /* maps are read and written in pieces of 16 bytes */
};

static __device__ place place_of_tile(const conv_task &t, int tile)
{
    const int map = t.across * t.down, in_map = tile % map;
    return place{ tile / map, in_map / t.across * TILE_HIGH, in_map % t.across * TILE_WIDE, (int)blockIdx.y * COLUMNS };
}

/* Starts the copies of what a tile reads, with the border. */
template <int CIN> static __device__ void copy_x(const conv_task &t, const place &at, float *to)
{
    typedef few_plan<CIN> P;
    const zn_conv_shape &s = t.a.s;
    for (int i = (int)threadIdx.x; i < P::X_FLOATS; i += BLOCK) {
        const int column = i % P::X_WIDE, iy = at.y - s.pad + i / P::X_WIDE, ix = at.x - s.pad + column / CIN;
        const bool is_there = iy >= 0 && ix >= 0 && iy < s.h && ix < s.w;
        const int64_t from = (((int64_t)at.image * s.h + iy) * s.w + ix) * CIN + column % CIN;
        copy_async<4>(to + i, t.a.x + (is_there ? from : 0), is_there);
    }
}

/* What stays in a thread's registers. Output channels are multiplied in an order that gives a thread eight neighbours
 * in each half of the 64. Rows beyond the last tap are zeros. */
template <int CIN> struct few_weights {
    typedef few_plan<CIN> P;
    float w[P::DEPTH][FRAGMENTS][2], bias[COLUMNS / 4];
    int offset[P::DEPTH][2]; /* of a thread's part of each fragment in a tile of x */

    __device__ few_weights(const conv_task &t)
    {
        const int lane = (int)threadIdx.x % WARP, g = lane / 4, q = lane % 4, first = (int)blockIdx.y * COLUMNS;
        const float *packed = static_cast<const float *>(t.a.packed) + first;
#pragma unroll
        for (int i = 0; i < P::DEPTH * 2; i++) {
            const int row = i / 2 * 8 + i % 2 * 4 + q, tap = row / CIN;
            offset[i / 2][i % 2] = tap < SIDE * SIDE ? tap / SIDE * P::X_WIDE + tap % SIDE * CIN + row % CIN : 0;
#pragma unroll
            for (int j = 0; j < FRAGMENTS; j++)
                w[i / 2][j][i % 2] =
                    to_tf32(packed[(int64_t)row * t.w.columns + j / 4 * 32 + g / 2 * 8 + j % 4 * 2 + g % 2]);
        }
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; i++)
            bias[i] = t.a.bias ? t.a.bias[first + i / 8 * 32 + q * 8 + i % 8] : 0;
    }
};

/* Finishes and writes eight neighbouring results; `at` is the offset of the first. */
static __device__ void write_eight(const zn_conv_args &a, int64_t at, float (&v)[8])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        floats<4> residual = {}, mask = {};
        if (a.residual)
            residual = load_as<4>(a.residual, at / 4 + half, a.residual_type);
        if (a.mask)
            mask = load_as<4>(a.mask, at / 4 + half, a.y_type);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float sum = activate(a, v[half * 4 + i] + residual.v[i]);
            v[half * 4 + i] = !a.mask || mask.v[i] > 0 ? sum : 0;
        }
    }
    if (a.y_type == ZN_TYPE_F32) {
        store<4>(a.y, at / 4, floats<4>{ { v[0], v[1], v[2], v[3] } });
        store<4>(a.y, at / 4 + 1, floats<4>{ { v[4], v[5], v[6], v[7] } });
    } else {
        reinterpret_cast<uint4 *>(a.y)[at / 8] =
            uint4{ pair_of(make_float2(v[0], v[1]), a.y_type), pair_of(make_float2(v[2], v[3]), a.y_type),
                   pair_of(make_float2(v[4], v[5]), a.y_type), pair_of(make_float2(v[6], v[7]), a.y_type) };
    }
}

/* Writes what a thread has of a step's products: pixels g and g + 8 of it. */
template <int CIN>
static __device__ void write_step(const few_task &f, const place &at, int row, int column,
                                  const float (&sums)[FRAGMENTS][4], const few_weights<CIN> &held)
{
    const zn_conv_args &a = f.t.a;
    const int lane = (int)threadIdx.x % WARP, q = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* two halves of the channels of two pixels */
        const int x = column + lane / 4 + i / 2 * 8, first = at.channel + i % 2 * 32 + q * 8;
        const int64_t line = (int64_t)at.image * a.s.oh + row;
        if (x >= a.s.ow)
            continue;
        float v[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = sums[i % 2 * 4 + k / 2][i / 2 * 2 + k % 2];
        if (f.quick) {
#pragma unroll
            for (int k = 0; k < 8; k++)
                v[k] += held.bias[i % 2 * 8 + k];
            write_eight(a, (line * a.s.ow + x) * a.s.cout + first, v);
        } else {
#pragma unroll
            for (int k = 0; k < 8; k++)
                write_one(a, line, x, first + k, v[k]);
        }
    }
}

template <int CIN>
static __device__ void multiply_step(const few_task &f, const place &at, int step, const float *x,
                                     const few_weights<CIN> &held)
{
    typedef few_plan<CIN> P;
    const int row = step / (TILE_WIDE / STEP), column = step % (TILE_WIDE / STEP) * STEP;
    if (at.y + row >= f.t.a.s.oh || at.x + column >= f.t.a.s.ow)
        return;
    const float *from = x + row * P::X_WIDE + (column + (int)threadIdx.x % WARP / 4) * CIN;
    float sums[FRAGMENTS][4] = {};
#pragma unroll
    for (int k = 0; k < P::DEPTH; k++) {
        const int near = held.offset[k][0], far = held.offset[k][1];
        const float pixels[4] = { to_tf32(from[near]), to_tf32(from[near + 8 * CIN]), to_tf32(from[far]),
                                  to_tf32(from[far + 8 * CIN]) };
#pragma unroll
        for (int j = 0; j < FRAGMENTS; j++)
            multiply_add(sums[j], pixels, held.w[k][j]);
    }
    write_step<CIN>(f, at, at.y + row, at.x + column, sums, held);
}

template <int CIN> __global__ void __launch_bounds__(BLOCK, few_plan<CIN>::BLOCKS) conv_few(few_task f)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef few_plan<CIN> P;
    const few_weights<CIN> held(f.t);
    copy_x<CIN>(f.t, place_of_tile(f.t, (int)blockIdx.x), zn_cuda_shared);
    copy_commit();
    for (int tile = (int)blockIdx.x, i = 0; tile < f.tiles; tile += (int)gridDim.x, i++) {
        const int next = tile + (int)gridDim.x;
        if (next < f.tiles)
            copy_x<CIN>(f.t, place_of_tile(f.t, next), zn_cuda_shared + (i + 1) % 2 * P::X_FLOATS);
        copy_commit();
        copy_wait<1>();  /* this tile has arrived for this thread, */
        __syncthreads(); /* and for the others */
        for (int step = (int)threadIdx.x / WARP; step < TILE_HIGH * TILE_WIDE / STEP; step += BLOCK / WARP)
            multiply_step<CIN>(f, place_of_tile(f.t, tile), step, zn_cuda_shared + i % 2 * P::X_FLOATS, held);
        __syncthreads(); /* all have read it */
    }
}

/* ---- launching ---- */

template <int CIN> static void launch_channels(zn_device *d, const few_task &f)
{
    const int columns = f.t.a.s.cout / COLUMNS, most = few_plan<CIN>::BLOCKS * d->processors;
    const int blocks = columns < most ? most / columns : 1;
    launch(d, conv_few<CIN>, dim3((unsigned)(f.tiles < blocks ? f.tiles : blocks), (unsigned)columns), BLOCK,
           sizeof(float) * 2 * few_plan<CIN>::X_FLOATS, f);
}

extern "C" void zn_cuda_conv_few(zn_device *d, const void *args, int64_t)
{
    few_task f = { conv_task_of(d, args, zn_cuda_conv_weights), 0, false };
    const zn_conv_args &a = f.t.a;
    f.t.across = parts(a.s.ow, TILE_WIDE);
    f.t.down = parts(a.s.oh, TILE_HIGH);
    f.tiles = f.t.across * f.t.down * a.s.n;
    f.quick = ((uintptr_t)a.y | (uintptr_t)a.residual | (uintptr_t)a.mask) % 16 == 0;
    if (a.s.cin == 3)
        launch_channels<3>(d, f);
    else
        launch_channels<4>(d, f);
}

/* Shared by the convolutions with the matrix unit of Hopper GPUs: what a tile of pixels is, and how a warpgroup adds
 * bias and residual to its sums and writes them. Rows of the product are output channels, columns are pixels. Included
 * only by .cu files; not emulated. */
#ifndef ZN_CUDA_CONV_WIDE_H
#define ZN_CUDA_CONV_WIDE_H

#include "kernels/cuda/conv/conv_tile.h"
#include "kernels/cuda/lines.h"

enum { TURNS = 2, MOST_STAGES = 8, BLOCK = (TURNS + 1) * WARPGROUP, TILE_WIDE = 8 };
/* Numbers of meet(): one for each turn, for all turns, for the warps that copy. */
enum { TURN_MEETS = 1, TURNS_MEET = 1 + TURNS, COPIERS_MEET };

/* T: bf16_wide, f16_wide or split_wide. CHUNK: input channels at a time. HIGH: rows of a tile. UP: through an
 * up-sampling, as four convolutions of 2x2 (zn_cuda_up_weights): a block has one of the phases, and its tile is of the
 * small map. */
template <typename T_, int CHUNK_, int STRIDE_, int HIGH_, bool UP_ = false> struct wide_plan {
    typedef T_ T;
    enum {
        CHUNK = CHUNK_,
        STRIDE = STRIDE_,
        UP = UP_,
        SIDE = ZN_CUDA_WIDE_SIDE,
        TAPS = UP ? 2 : SIDE, /* of a side of the kernel */
        SPLIT = T::PARTS == 2,
        ROWS = T::PARTS * CHUNK * TAPS * TAPS, /* of the weights of a chunk */
        TILE_ROWS = HIGH_,
        PIXELS = TILE_ROWS * TILE_WIDE,
        SUMS = PIXELS / 2,
        /* What a tile reads: pixels, and bytes of a stage. With a stride of 2, even columns come before odd ones. */
        X_WIDE = (TILE_WIDE - 1) * STRIDE + SIDE,
        X_HIGH = (TILE_ROWS - 1) * STRIDE + SIDE,
        EVEN = (X_WIDE + STRIDE - 1) / STRIDE,
        X_BYTES = (X_WIDE * X_HIGH * LINE + 1023) / 1024 * 1024,
        PIECES = PIXELS * 8 / WARPGROUP,            /* of a tile of results, for each thread */
        BOX = ROWS / TAPS,                          /* rows of weights that a bulk copy brings */
        RESULTS = SPLIT ? 0 : TURNS * PIXELS * LINE /* bytes of tiles of results in shared memory */
    };
    /* Line of a stage for a pixel. */
    static __device__ int line_of(int y, int x) { return y * X_WIDE + x % STRIDE * EVEN + x / STRIDE; }
};

struct wide_task {
    conv_task t;
    int tiles;         /* of all images */
    int stages, bytes; /* number and size of stages */
    int kept;          /* rows of weights that stay: all or none; otherwise those of a chunk follow its pixels */
    int chunks;        /* of input channels */
    CUtensorMap x_map; /* x, if bulk copies bring it, */
    CUtensorMap w_map; /* and the weights of chunks */
    bool bulk, bulk_weights;
    bool quick;            /* y, the residual and the mask have 16 bits and whole pieces */
    float *measured;       /* what was measured of y (kernels/norm_conv.h), or NULL */
    const float2 *factors; /* of each channel of each map that is normalised; NULL: none is */
    const float *more;     /* with factors: a map with the channels from `split` on, or NULL, */
    CUtensorMap more_map;  /* and its description */
    int split;             /* channels of x */
    bool silu;
};

/* First column of the packed weights that this block multiplies with, and its phase: which of the 2x2 results of a
 * pixel of the small map it computes. */
static __device__ int first_column(void) { return (int)blockIdx.y * ZN_CUDA_CONV_COLUMNS; }
template <typename P> static __device__ int phase_of(const wide_task &w)
{
    return P::UP ? first_column() / (w.t.w.columns / 4) : 0;
}

/* The pixels of a tile are those of the small map if UP. */
template <typename P> static __device__ place place_of_tile(const wide_task &w, int tile)
{
    const int map = w.t.across * w.t.down, in_map = tile % map;
    return place{ tile / map, in_map / w.t.across * P::TILE_ROWS, in_map % w.t.across * TILE_WIDE,
                  P::UP ? first_column() % (w.t.w.columns / 4) : first_column() };
}

/* Where a pixel of a tile lies in the result. */
struct spot {
    int y, x;
};
template <typename P> static __device__ spot spot_of(const wide_task &w, const place &at, int row, int column)
{
    const int y = at.y + row, x = at.x + column, phase = phase_of<P>(w);
    return P::UP ? spot{ 2 * y + phase / 2, 2 * x + phase % 2 } : spot{ y, x };
}

/* ---- results ---- */

/* A thread's pieces of a tile in shared memory and in a map: calls f(number of the piece, offset in shared memory,
 * offset in the map). */
template <typename P, typename F>
static __device__ void each_piece(const wide_task &w, const place &at, int thread, F f)
{
    const zn_conv_shape &s = w.t.a.s;
    const int column = at.channel + thread % 8 * 8;
#pragma unroll
    for (int i = 0; i < P::PIECES; i++) {
        const int pixel = i * (WARPGROUP / 8) + thread / 8;
        const spot to = spot_of<P>(w, at, pixel / TILE_WIDE, pixel % TILE_WIDE);
        if (to.y < s.oh && to.x < s.ow && column < s.cout)
            f(i, piece_at(pixel, thread % 8), (((int64_t)at.image * s.oh + to.y) * s.ow + to.x) * s.cout + column);
    }
}

template <typename P> static __device__ void start_residual(const wide_task &w, const place &at, char *to, int thread)
{
    const uint16_t *residual = reinterpret_cast<const uint16_t *>(w.t.a.residual);
    const unsigned start = shared_address(to);
    if (residual)
        each_piece<P>(w, at, thread,
                      [&](int, unsigned offset, int64_t from) { copy_piece(start + offset, residual + from, true); });
    copy_commit();
}

/* Loads what a thread needs of the mask; it is there when the products are. */
template <typename P>
static __device__ void load_mask(const wide_task &w, const place &at, uint4 (&mask)[P::PIECES], int thread)
{
    const uint16_t *from = reinterpret_cast<const uint16_t *>(w.t.a.mask);
    if (from)
        each_piece<P>(w, at, thread, [&](int i, unsigned, int64_t piece) {
            mask[i] = __ldg(reinterpret_cast<const uint4 *>(from + piece));
        });
}

template <typename T> static __device__ uint32_t keep_positive(uint32_t pair, uint32_t mask)
{
    return pair & ((T::low(mask) > 0 ? 0xffffu : 0) | (T::high(mask) > 0 ? 0xffff0000u : 0));
}
template <typename T> static __device__ uint4 keep_positive(const uint4 &v, const uint4 &mask)
{
    return uint4{ keep_positive<T>(v.x, mask.x), keep_positive<T>(v.y, mask.y), keep_positive<T>(v.z, mask.z),
                  keep_positive<T>(v.w, mask.w) };
}

/* Writes what a norm needs to know of a warpgroup's tile, which is whole: a thread has two channels of some pixels. */
template <typename P>
static __device__ void measure_tile(const wide_task &w, const place &at, const float (&sums)[P::SUMS], int thread)
{
    const zn_conv_shape &s = w.t.a.s;
    const int lane = thread % WARP, channel = at.channel + thread / WARP * 16 + lane / 4;
    const int across = (P::UP ? s.w : s.ow) / TILE_WIDE, down = (P::UP ? s.h : s.oh) / P::TILE_ROWS;
    const int block = (phase_of<P>(w) * down + at.y / P::TILE_ROWS) * across + at.x / TILE_WIDE;
    const int64_t before = (int64_t)at.image * (P::UP ? 4 : 1) * down * across + block;
    float *const to = w.measured + before * 2 * s.cout + channel;
    float mean[2] = {}, square[2] = {};
#pragma unroll
    for (int i = 0; i < P::SUMS; i++)
        mean[i % 4 / 2] += sums[i];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        mean[k] += __shfl_xor_sync(~0u, mean[k], 1);
        mean[k] += __shfl_xor_sync(~0u, mean[k], 2);
        mean[k] *= 1.0f / P::PIXELS;
    }
#pragma unroll
    for (int i = 0; i < P::SUMS; i++)
        square[i % 4 / 2] += (sums[i] - mean[i % 4 / 2]) * (sums[i] - mean[i % 4 / 2]);
#pragma unroll
    for (int k = 0; k < 2; k++) {
        square[k] += __shfl_xor_sync(~0u, square[k], 1);
        square[k] += __shfl_xor_sync(~0u, square[k], 2);
        if (lane % 4 == 0) {
            to[8 * k] = mean[k];
            to[8 * k + s.cout] = square[k];
        }
    }
}

/* Adds bias and residual to the sums of a thread, and writes them through shared memory, where `tile` has the residual,
 * in whole pieces. MEASURES: and what was measured of them, if that is asked for. */
template <typename P, bool MEASURES = false>
static __device__ void write_quick(const wide_task &w, const place &at, float (&sums)[P::SUMS],
                                   const uint4 (&mask)[P::PIECES], char *tile, int thread)
{
    typedef typename P::T T;
    const zn_conv_args &a = w.t.a;
    const int warp = thread / WARP, lane = thread % WARP, turn = (int)threadIdx.x / WARPGROUP;
    const int row = at.channel + warp * 16 + lane / 4;
    const float low = a.bias && row < a.s.cout ? a.bias[row] : 0,
                high = a.bias && row + 8 < a.s.cout ? a.bias[row + 8] : 0;
    copy_wait<0>();                     /* the residual has arrived for this thread, */
    meet(TURN_MEETS + turn, WARPGROUP); /* and for the others */
#pragma unroll
    for (int j = 0; j < P::TILE_ROWS; j += 2) {
        const unsigned at_row =
            shared_address(tile) + piece_at((j + lane / 16) * 8 + lane % 8, warp * 2 + lane / 8 % 2);
        uint32_t r[4] = {};
        if (a.residual)
            load_four_turned(r, reinterpret_cast<const uint16_t *>(tile + (at_row - shared_address(tile))));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float bias = i % 2 ? high : low;
            float *const sum = &sums[4 * j + 2 * i];
            r[i] = T::of(activate(a, sum[0] + bias + T::low(r[i])), activate(a, sum[1] + bias + T::high(r[i])));
            if constexpr (MEASURES) {
                sum[0] = T::low(r[i]);
                sum[1] = T::high(r[i]);
            }
        }
        store_four_turned(at_row, r);
    }
    meet(TURN_MEETS + turn, WARPGROUP);
    uint16_t *y = reinterpret_cast<uint16_t *>(a.y);
    each_piece<P>(w, at, thread, [&](int i, unsigned offset, int64_t to) {
        const uint4 v = *reinterpret_cast<const uint4 *>(tile + offset);
        *reinterpret_cast<uint4 *>(y + to) = a.mask ? keep_positive<T>(v, mask[i]) : v;
    });
    if constexpr (MEASURES)
        if (w.measured)
            measure_tile<P>(w, at, sums, thread);
    meet(TURN_MEETS + turn, WARPGROUP); /* all have read the tile */
}

/* The same for any type and number of channels. */
template <typename P>
static __device__ void write_slow(const wide_task &w, const place &at, const float (&sums)[P::SUMS], int thread)
{
    const zn_conv_shape &s = w.t.a.s;
    const int warp = thread / WARP, lane = thread % WARP;
#pragma unroll
    for (int i = 0; i < P::SUMS; i++) {
        const spot to = spot_of<P>(w, at, i / 4, lane % 4 * 2 + i % 2);
        if (to.y < s.oh && to.x < s.ow)
            write_one(w.t.a, (int64_t)at.image * s.oh + to.y, to.x, at.channel + warp * 16 + lane / 4 + i % 4 / 2 * 8,
                      sums[i]);
    }
}

#endif

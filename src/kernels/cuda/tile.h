/* Products of tiles in shared memory with the matrix unit, one warp at a time. Included only by .cu files. */
#ifndef ZN_CUDA_TILE_H
#define ZN_CUDA_TILE_H

#include "kernels/cuda/tf32.h"

enum { LANES = 32 };

/* Precisions of products: three products of TF32 numbers, which is full precision, or one of 16-bit numbers. Numbers
 * are floats in shared memory. PAD_ROW and PAD_COLUMN: floats between rows (of a length that is a multiple of 32) so
 * that the lanes of a fragment have no bank conflicts where depth runs along the rows, or across them. */
struct full_products {
    enum { FULL = 1, PAD_ROW = 4, PAD_COLUMN = 8 };
};
template <typename PAIR> struct pair_products {
    enum { FULL = 0, PAD_ROW = 8, PAD_COLUMN = 4 };
    typedef PAIR pair;
};

/* sums[n] += a b for 16 rows of a and N blocks of 8 columns of b, over DEPTH (a multiple of 32): a[i][k] is at
 * a[i * A_ROW + k], b[k][j] at b[k * B_K + j * B_J]. The layout of sums is that of multiply_add in ptx.h. */
template <int N, int DEPTH, int A_ROW, int B_K, int B_J>
static __device__ void multiply_fully(const float *a, const float *b, float sums[N][4])
{
    for (int k = 0; k < DEPTH; k += 32)
        multiply_slices<slice<A_ROW, 1>, slice<B_J, B_K>, 32, 1, N, true>(a + k, b + k * B_K,
                                                                          reinterpret_cast<float(*)[N][4]>(sums));
}

/* Two numbers STEP floats apart. Neighbours begin at an even offset and are read together. */
template <typename PAIR, int STEP> static __device__ uint32_t pair_at(const float *x)
{
    if (STEP > 1)
        return PAIR::of(x[0], x[STEP]);
    const float2 two = *reinterpret_cast<const float2 *>(x);
    return PAIR::of(two.x, two.y);
}

/* The same with 16-bit numbers. */
template <typename PAIR, int N, int DEPTH, int A_ROW, int B_K, int B_J>
static __device__ void multiply_pairs(const float *a, const float *b, float sums[N][4])
{
    const int lane = (int)threadIdx.x % LANES, g = lane / 4, q = lane % 4;
    a += g * A_ROW + 2 * q;
    b += 2 * q * B_K + g * B_J;
#pragma unroll 2
    for (int k = 0; k < DEPTH; k += 16, a += 16, b += 16 * B_K) {
        const uint32_t x[4] = { pair_at<PAIR, 1>(a), pair_at<PAIR, 1>(a + 8 * A_ROW), pair_at<PAIR, 1>(a + 8),
                                pair_at<PAIR, 1>(a + 8 * A_ROW + 8) };
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float *from = b + n * 8 * B_J;
            const uint32_t y[2] = { pair_at<PAIR, B_K>(from), pair_at<PAIR, B_K>(from + 8 * B_K) };
            PAIR::multiply_add(sums[n], x, y);
        }
    }
}

/* Either of them, in parts that the registers have room for. */
template <typename PRODUCTS, int N, int DEPTH, int A_ROW, int B_K, int B_J>
static __device__ void multiply_tile(const float *a, const float *b, float sums[N][4])
{
    enum { PART = N < 8 ? N : 8 };
    static_assert(N % PART == 0, "parts are of one size");
#pragma unroll
    for (int n = 0; n < N; n += PART)
        if constexpr (PRODUCTS::FULL)
            multiply_fully<PART, DEPTH, A_ROW, B_K, B_J>(a, b + n * 8 * B_J, sums + n);
        else
            multiply_pairs<typename PRODUCTS::pair, PART, DEPTH, A_ROW, B_K, B_J>(a, b + n * 8 * B_J, sums + n);
}

/* Starts asynchronous copies of ROWS rows of `width` floats, `step` apart, into rows of TO_ROW floats. What is beyond
 * `count` rows or `width` columns, up to WIDTH, becomes 0. fours: rows may be copied four floats at a time. All
 * threads of a block of THREADS must call it. */
template <int ROWS, int WIDTH, int TO_ROW>
static __device__ void copy_tile(float *to, const float *from, int64_t step, int64_t count, int width, bool fours)
{
    if (fours)
        for (int i = (int)threadIdx.x; i < ROWS * (WIDTH / 4); i += THREADS) {
            const int row = i / (WIDTH / 4), column = i % (WIDTH / 4) * 4;
            const bool is_there = row < count && column < width;
            copy_async<16>(to + row * TO_ROW + column, is_there ? from + row * step + column : from, is_there);
        }
    else
        for (int i = (int)threadIdx.x; i < ROWS * WIDTH; i += THREADS) {
            const int row = i / WIDTH, column = i % WIDTH;
            const bool is_there = row < count && column < width;
            copy_async<4>(to + row * TO_ROW + column, is_there ? from + row * step + column : from, is_there);
        }
}

#endif

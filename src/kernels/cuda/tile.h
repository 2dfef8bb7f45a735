/* Products of tiles in shared memory with the matrix unit, one warp at a time. Included only by .cu files. */
#ifndef ZN_CUDA_TILE_H
#define ZN_CUDA_TILE_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.h"

enum { LANES = 32 };

/* A number in the two parts that full precision multiplies, each with 11 bits. */
struct parts {
    float high, low;
};
static __device__ parts parts_of(float x)
{
    const float high = to_tf32(x);
    return parts{ high, x - high };
}

/* sums[n] += a b for 16 rows of a and N blocks of 8 columns of b, over DEPTH (a multiple of 32): a[i][k] is at
 * a[i * A_ROW + k], b[k][j] at b[k * B_K + j * B_J]. The layout of sums is that of multiply_add in ptx.h. SPLIT: full
 * precision. The matrix unit truncates its sums, so in full precision every 32 products start a new one. */
template <int N, int DEPTH, int A_ROW, int B_K, int B_J, bool SPLIT>
static __device__ void multiply_some(const float *a, const float *b, float sums[N][4])
{
    const int lane = (int)threadIdx.x % LANES, g = lane / 4, q = lane % 4;
    a += g * A_ROW + q;
    b += q * B_K + g * B_J;
    for (int first = 0; first < DEPTH; first += 32, a += 32, b += 32 * B_K) {
        float fresh[N][4] = {};
        float(*to)[4] = SPLIT ? fresh : sums;
#pragma unroll
        for (int k = 0; k < 32; k += 8) {
            const parts x[4] = { parts_of(a[k]), parts_of(a[k + 8 * A_ROW]), parts_of(a[k + 4]),
                                 parts_of(a[k + 8 * A_ROW + 4]) };
            const float high[4] = { x[0].high, x[1].high, x[2].high, x[3].high };
            const float low[4] = { x[0].low, x[1].low, x[2].low, x[3].low };
#pragma unroll
            for (int n = 0; n < N; n++) {
                const float *from = b + k * B_K + n * 8 * B_J;
                const parts y[2] = { parts_of(from[0]), parts_of(from[4 * B_K]) };
                const float y_high[2] = { y[0].high, y[1].high }, y_low[2] = { y[0].low, y[1].low };
                if (SPLIT) { /* the small products first */
                    multiply_add(to[n], low, y_high);
                    multiply_add(to[n], high, y_low);
                }
                multiply_add(to[n], high, y_high);
            }
        }
#pragma unroll
        for (int i = 0; i < 4 * N && SPLIT; i++)
            sums[i / 4][i % 4] += fresh[i / 4][i % 4];
    }
}

/* The same for any N, in parts that the registers have room for. */
template <int N, int DEPTH, int A_ROW, int B_K, int B_J, bool SPLIT>
static __device__ void multiply_tile(const float *a, const float *b, float sums[N][4])
{
    enum { PART = N < 8 ? N : 8 };
    static_assert(N % PART == 0, "parts are of one size");
#pragma unroll
    for (int n = 0; n < N; n += PART)
        multiply_some<PART, DEPTH, A_ROW, B_K, B_J, SPLIT>(a, b + n * 8 * B_J, sums + n);
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

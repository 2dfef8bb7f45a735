/* Products of fp32 numbers with the matrix unit, which multiplies 11-bit numbers (TF32). Full precision uses two such
 * numbers per value, x = high + low, and three products, high high + high low + low high. Included only by .cu files.
 */
#ifndef ZN_CUDA_TF32_H
#define ZN_CUDA_TF32_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.h"

enum { WARP = 32 };

/* x = high + low, each with 11 bits; the rounding error of low is below the 22nd bit. */
static inline __device__ void split(float x, float &high, float &low)
{
    high = to_tf32(x);
    low = x - high;
}

/* Starts the copy of four neighbours, or of the first `count` of them; the others, and all if count <= 0, are zeros.
 * by_four: count is at least 4 or at most 0, and addresses are aligned for a copy of 16 bytes. */
static inline __device__ void copy_four(float *to, const float *from, int64_t at, int count, bool by_four)
{
    if (by_four) {
        copy_async<16>(to, from + (count > 0 ? at : 0), count > 0);
        return;
    }
    for (int i = 0; i < 4; i++)
        copy_async<4>(to + i, from + (i < count ? at + i : 0), i < count);
}

/* How a matrix lies in shared memory: floats between neighbours along its outer index (a row of the left factor, a
 * column of the right one), and between neighbours along the index that is summed. */
template <int OUTER_, int INNER_> struct slice {
    enum { OUTER = OUTER_, INNER = INNER_ };
};

/* sums[MF 16][NF 8] += a[MF 16][DEPTH] b[DEPTH][NF 8], computed by a warp. The matrix unit truncates its sums, so the
 * errors of a long sum all have the same sign. With SPLIT, which is full precision, each call starts from zero, and the
 * sums of the calls are added here. */
template <typename A, typename B, int DEPTH, int MF, int NF, bool SPLIT>
static __device__ void multiply_slices(const float *a, const float *b, float sums[MF][NF][4])
{
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, q = lane % 4;
    float fresh[MF][NF][4] = {};
    float(*to)[NF][4] = SPLIT ? fresh : sums;
    a += g * A::OUTER + q * A::INNER;
    b += g * B::OUTER + q * B::INNER;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
        float ah[MF][4], al[MF][4], bh[NF][2], bl[NF][2];
#pragma unroll
        for (int i = 0; i < MF * 4; i++)
            split(a[(i / 4 * 16 + i % 2 * 8) * A::OUTER + (k + i % 4 / 2 * 4) * A::INNER], ah[i / 4][i % 4],
                  al[i / 4][i % 4]);
#pragma unroll
        for (int i = 0; i < NF * 2; i++)
            split(b[i / 2 * 8 * B::OUTER + (k + i % 2 * 4) * B::INNER], bh[i / 2][i % 2], bl[i / 2][i % 2]);
#pragma unroll
        for (int m = 0; m < MF; m++)
#pragma unroll
            for (int n = 0; n < NF; n++) {
                if (SPLIT) { /* the small products first */
                    multiply_add(to[m][n], al[m], bh[n]);
                    multiply_add(to[m][n], ah[m], bl[n]);
                }
                multiply_add(to[m][n], ah[m], bh[n]);
            }
    }
#pragma unroll
    for (int i = 0; i < MF * NF * 4 && SPLIT; i++)
        sums[i / 4 / NF][i / 4 % NF][i % 4] += fresh[i / 4 / NF][i / 4 % NF][i % 4];
}

#endif

/* A product of two matrices with fp32 precision: y[rows][columns] = left[rows][depth] right[depth][columns] + bias.
 *
 *     launch_product(d, product<rows_of, columns_of>{ x, w, rows, depth, columns, bias, y });
 *
 * A factor is a struct that copies DEPTH x COUNT numbers of a slice into shared memory, and says how they lie there.
 * Sums run in the order of the depth for any tile. Included only by .cu files. */
#ifndef ZN_CUDA_PRODUCT_H
#define ZN_CUDA_PRODUCT_H

#include "kernels/cuda/tf32.h"

enum { PRODUCT_DEPTH = 32 };

/* A factor in memory of its own: element (outer, inner) at from[outer * stride + inner], where the inner index is the
 * one that is summed. */
struct rows_of {
    const float *from;
    int64_t stride, outers, inners;
    bool by_four; /* rows begin at multiples of 16 bytes, and their length is one */
    template <int COUNT> struct layout {
        typedef slice<PRODUCT_DEPTH + 4, 1> lie;
        enum { FLOATS = COUNT * (PRODUCT_DEPTH + 4) };
    };
    template <int COUNT> __device__ void copy(int64_t outer, int64_t inner, float *to) const
    {
        for (int i = (int)threadIdx.x; i < COUNT * PRODUCT_DEPTH / 4; i += THREADS) {
            const int64_t o = i / (PRODUCT_DEPTH / 4), k = i % (PRODUCT_DEPTH / 4) * 4;
            copy_four(to + o * (PRODUCT_DEPTH + 4) + k, from, (outer + o) * stride + inner + k,
                      outer + o < outers ? (int)(inners - inner - k) : 0, by_four);
        }
    }
};

/* The transposed: element (outer, inner) at from[inner * stride + outer]. */
struct columns_of {
    const float *from;
    int64_t stride, outers, inners;
    bool by_four;
    template <int COUNT> struct layout {
        typedef slice<1, COUNT + 8> lie;
        enum { FLOATS = PRODUCT_DEPTH * (COUNT + 8) };
    };
    template <int COUNT> __device__ void copy(int64_t outer, int64_t inner, float *to) const
    {
        for (int i = (int)threadIdx.x; i < COUNT * PRODUCT_DEPTH / 4; i += THREADS) {
            const int64_t k = i / (COUNT / 4), o = i % (COUNT / 4) * 4;
            copy_four(to + k * (COUNT + 8) + o, from, (inner + k) * stride + outer + o,
                      inner + k < inners ? (int)(outers - outer - o) : 0, by_four);
        }
    }
};

template <typename LEFT, typename RIGHT> struct product {
    LEFT left;
    RIGHT right;
    int64_t rows, depth, columns;
    const float *bias; /* [columns] or NULL */
    float *y;
    int64_t y_stride = columns; /* floats between rows of y */
};

/* How 8 warps share a tile of the result: WARPS_M x WARPS_N warps with MF x NF fragments each. STAGES: slices in shared
 * memory, all but one of which are being copied. */
template <int WARPS_M_, int WARPS_N_, int MF_, int NF_, int STAGES_> struct product_plan {
    enum {
        STAGES = STAGES_,
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        MF = MF_,
        NF = NF_,
        ROWS = WARPS_M * MF * 16,
        COLUMNS = WARPS_N * NF * 8
    };
};
typedef product_plan<4, 2, 2, 4, 3> large_product;
typedef product_plan<1, 8, 2, 1, 3> small_product;
typedef product_plan<1, 8, 2, 1, 12> deep_product; /* few rows, where a block would mostly wait for copies */

template <typename P, typename L, typename R> struct product_stage {
    typedef typename L::template layout<P::ROWS> left;
    typedef typename R::template layout<P::COLUMNS> right;
    enum { FLOATS = left::FLOATS + right::FLOATS };
};

template <typename P, typename L, typename R>
static __device__ void copy_stage(const product<L, R> &t, int64_t row, int64_t column, int64_t k, float *to)
{
    t.left.template copy<P::ROWS>(row, k, to);
    t.right.template copy<P::COLUMNS>(column, k, to + product_stage<P, L, R>::left::FLOATS);
}

template <typename P, typename L, typename R>
static __device__ void write_product(const product<L, R> &t, int64_t row, int64_t column,
                                     const float sums[P::MF][P::NF][4])
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
#pragma unroll
    for (int i = 0; i < P::MF * P::NF * 4; i++) {
        const int m = i / 4 / P::NF, n = i / 4 % P::NF;
        const int64_t p = row + (warp / P::WARPS_N * P::MF + m) * 16 + i % 4 / 2 * 8 + g;
        const int64_t j = column + (warp % P::WARPS_N * P::NF + n) * 8 + 2 * q + i % 2;
        if (p < t.rows && j < t.columns)
            t.y[p * t.y_stride + j] = sums[m][n][i % 4] + (t.bias ? t.bias[j] : 0);
    }
}

/* The tile of the result whose place in the grid is that of the block. SPLIT: three products of TF32 numbers. */
template <typename P, bool SPLIT, typename L, typename R> static __device__ void multiply_block(const product<L, R> &t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef product_stage<P, L, R> stage;
    const int64_t row = (int64_t)blockIdx.y * P::ROWS, column = (int64_t)blockIdx.x * P::COLUMNS;
    const int64_t slices = (t.depth + PRODUCT_DEPTH - 1) / PRODUCT_DEPTH;
    const int warp = (int)threadIdx.x / WARP;
    float sums[P::MF][P::NF][4] = {};
    for (int i = 0; i < P::STAGES - 1; i++) {
        if (i < slices)
            copy_stage<P>(t, row, column, i * PRODUCT_DEPTH, zn_cuda_shared + i * stage::FLOATS);
        copy_commit();
    }
    for (int64_t i = 0; i < slices; i++) {
        copy_wait<P::STAGES - 2>(); /* slice i has arrived for this thread, */
        __syncthreads();            /* for all threads, and all have read the previous stage */
        const int64_t next = i + P::STAGES - 1;
        if (next < slices)
            copy_stage<P>(t, row, column, next * PRODUCT_DEPTH, zn_cuda_shared + next % P::STAGES * stage::FLOATS);
        copy_commit();
        const float *now = zn_cuda_shared + i % P::STAGES * stage::FLOATS;
        typedef typename stage::left::lie left;
        typedef typename stage::right::lie right;
        multiply_slices<left, right, PRODUCT_DEPTH, P::MF, P::NF, SPLIT>(
            now + warp / P::WARPS_N * P::MF * 16 * left::OUTER,
            now + stage::left::FLOATS + warp % P::WARPS_N * P::NF * 8 * right::OUTER, sums);
    }
    write_product<P>(t, row, column, sums);
}

template <typename P, typename L, typename R> __global__ void __launch_bounds__(THREADS, 2) multiply(product<L, R> t)
{
    multiply_block<P, true>(t);
}

/* ---- launching ---- */

template <typename P, typename L, typename R> static constexpr size_t bytes_of_product(void)
{
    return sizeof(float) * P::STAGES * product_stage<P, L, R>::FLOATS;
}

template <typename P, typename L, typename R> static void launch_plan(zn_device *d, const product<L, R> &t)
{
    const size_t shared = bytes_of_product<P, L, R>();
    void (*const kernel)(product<L, R>) = multiply<P, L, R>;
    zn_cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                  "shared memory");
    const dim3 grid((unsigned)((t.columns + P::COLUMNS - 1) / P::COLUMNS),
                    (unsigned)((t.rows + P::ROWS - 1) / P::ROWS));
    launch(d, kernel, grid, THREADS, shared, t);
}

/* Small tiles if large ones would leave most of the GPU idle. */
template <typename L, typename R> static void launch_product(zn_device *d, const product<L, R> &t)
{
    const int64_t tiles = ((t.rows + large_product::ROWS - 1) / large_product::ROWS) *
                          ((t.columns + large_product::COLUMNS - 1) / large_product::COLUMNS);
    if (2 * tiles > d->processors && t.rows > small_product::ROWS)
        launch_plan<large_product>(d, t);
    else if (t.depth > small_product::STAGES * PRODUCT_DEPTH &&
             bytes_of_product<deep_product, L, R>() <= (size_t)d->shared)
        launch_plan<deep_product>(d, t);
    else
        launch_plan<small_product>(d, t);
}

#endif

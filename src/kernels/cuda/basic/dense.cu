/* The dense product and its gradients (kernels/dense.h). */
#include "kernels/cuda/basic/product.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/dense.h"
}

/* A matrix [outers][inners], or [inners][outers] for columns_of. */
template <typename F> static F factor(zn_device *d, const float *from, int64_t stride, int64_t outers, int64_t inners)
{
    to_device(d, from);
    return F{ from, stride, outers, inners, stride % 4 == 0 && (uintptr_t)from % 16 == 0 };
}

/* ---- few rows: limited by the weights ---- */

/* A thread block has 32 columns and up to 16 rows. Eight lanes read a row of its weights, four columns each, so that 32
 * rows of weights are read at a time; each thread adds up every 32nd product of its columns, and then all are merged.
 * The order of a sum is the same for any number of rows. */
struct few_rows {
    enum {
        COLUMNS = ZN_DENSE_COLUMNS,
        ROWS = 16,
        SLICE = 256, /* of the depth: x of a slice is in shared memory */
        STRIDE = ROWS + 4,
        PARTS = THREADS / (COLUMNS / 4), /* threads that share a column */
        SHARED = sizeof(float) * SLICE * STRIDE
    };
    const float *x, *w, *bias;
    float *y;
    int rows, k, n;

    int64_t blocks() const { return (int64_t)(n / COLUMNS) * ((rows + ROWS - 1) / ROWS); }

    /* x of a slice from `first` on, as [depth][row]; rows and depths that are not there are zeros. */
    template <int COUNT> __device__ void load_slice(int row, int first, float *to) const
    {
        for (int i = (int)threadIdx.x; i < SLICE * COUNT; i += THREADS) {
            const int inner = i % SLICE, r = i / SLICE;
            const bool is_there = first + inner < k && row + r < rows;
            to[inner * (COUNT < ROWS ? COUNT : STRIDE) + r] = is_there ? x[(int64_t)(row + r) * k + first + inner] : 0;
        }
    }

    template <int COUNT> __device__ void multiply(int row, int column, float *shared) const
    {
        enum { STEP = COUNT < ROWS ? COUNT : STRIDE, WARPS = THREADS / 32 };
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        const int part = warp * 4 + lane / 8, own = column + lane % 8 * 4;
        float sums[COUNT][4] = {};
        for (int first = 0; first < k; first += SLICE) {
            floats<4> v[SLICE / PARTS];
#pragma unroll
            for (int i = 0; i < SLICE / PARTS; i++) {
                const int inner = first + i * PARTS + part;
                v[i] = inner < k ? load<4>(w + (int64_t)inner * n + own, 0) : floats<4>{};
            }
            __syncthreads(); /* all have read the previous slice */
            load_slice<COUNT>(row, first, shared);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < SLICE / PARTS; i++) {
                const float *at = shared + (i * PARTS + part) * STEP;
#pragma unroll
                for (int r = 0; r < COUNT; r++)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        sums[r][c] += at[r] * v[i].v[c];
            }
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < COUNT; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                sums[r][c] += __shfl_xor_sync(0xffffffffu, sums[r][c], 8);
                sums[r][c] += __shfl_xor_sync(0xffffffffu, sums[r][c], 16);
                if (lane < 8)
                    shared[(warp * COUNT + r) * COLUMNS + lane * 4 + c] = sums[r][c];
            }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < COUNT * COLUMNS && row + i / COLUMNS < rows; i += THREADS) {
            float sum = bias ? bias[column + i % COLUMNS] : 0;
            for (int other = 0; other < WARPS; other++)
                sum += shared[other * COUNT * COLUMNS + i];
            y[(int64_t)(row + i / COLUMNS) * n + column + i % COLUMNS] = sum;
        }
    }

    __device__ void run(int64_t block) const
    {
        extern __shared__ __align__(16) float zn_cuda_shared[];
        const int column = (int)block % (n / COLUMNS) * COLUMNS, row = (int)block / (n / COLUMNS) * ROWS;
        if (rows - row == 1)
            multiply<1>(row, column, zn_cuda_shared);
        else if (rows - row <= 4)
            multiply<4>(row, column, zn_cuda_shared);
        else
            multiply<ROWS>(row, column, zn_cuda_shared);
    }
};

extern "C" {
void zn_cuda_dense(zn_device *d, const void *args, int64_t)
{
    enum { FEW = 64 };
    zn_dense_args a = *static_cast<const zn_dense_args *>(args);
    to_device(d, a.bias);
    to_device(d, a.y);
    if (a.rows <= FEW && is_aligned(zn_cuda_address(d, a.w))) {
        to_device(d, a.x);
        to_device(d, a.w);
        submit(d, few_rows{ a.x, a.w, a.bias, a.y, (int)a.rows, a.k, a.n });
        return;
    }
    launch_product(d, product<rows_of, columns_of>{ factor<rows_of>(d, a.x, a.k, a.rows, a.k),
                                                    factor<columns_of>(d, a.w, a.n, a.n, a.k), a.rows, a.k, a.n, a.bias,
                                                    a.y });
}

void zn_cuda_dense_grad(zn_device *d, const void *args, int64_t)
{
    zn_dense_args a = *static_cast<const zn_dense_args *>(args);
    to_device(d, a.y);
    launch_product(d,
                   product<rows_of, rows_of>{ factor<rows_of>(d, a.dy, a.n, a.rows, a.n),
                                              factor<rows_of>(d, a.w, a.n, a.k, a.n), a.rows, a.n, a.k, nullptr, a.y });
}

void zn_cuda_dense_weight_grad(zn_device *d, const void *args, int64_t)
{
    zn_dense_args a = *static_cast<const zn_dense_args *>(args);
    to_device(d, a.y);
    launch_product(d, product<columns_of, columns_of>{ factor<columns_of>(d, a.x, a.k, a.k, a.rows),
                                                       factor<columns_of>(d, a.dy, a.n, a.n, a.rows), a.k, a.rows, a.n,
                                                       nullptr, a.y });
}
}

/* Products of many pairs of matrices; see product_batch.h. A block has a tile of one of them. */
#include "kernels/cuda/basic/product.h"
#include "kernels/cuda/basic/product_batch.h"

template <typename L, typename R> struct batch_task {
    product<L, R> p; /* of the first unit */
    batch_product of;
};

static __device__ int64_t skipped(const batch_matrix &m, int64_t unit, int64_t heads)
{
    return unit / heads * m.sample + unit % heads * m.head;
}

template <typename P, bool SPLIT, typename L, typename R>
__global__ void __launch_bounds__(THREADS, 2) multiply_batch(const batch_task<L, R> t)
{
    const int64_t unit = t.of.first + blockIdx.z;
    product<L, R> p = t.p;
    p.left.from += skipped(t.of.x, unit, t.of.heads);
    p.right.from += skipped(t.of.w, unit, t.of.heads);
    p.y += skipped(t.of.y, unit, t.of.heads);
    multiply_block<P, SPLIT>(p);
}

template <typename P, bool SPLIT, typename L, typename R>
static void launch_batch(zn_device *d, const batch_task<L, R> &t)
{
    const size_t shared = bytes_of_product<P, L, R>();
    const dim3 grid((unsigned)((t.p.columns + P::COLUMNS - 1) / P::COLUMNS),
                    (unsigned)((t.p.rows + P::ROWS - 1) / P::ROWS), (unsigned)t.of.units);
    launch(d, multiply_batch<P, SPLIT, L, R>, grid, THREADS, shared, t);
}

template <typename L, typename R> static void launch_factors(zn_device *d, const batch_product &b)
{
    batch_task<L, R> t = { { { b.x.data, b.x.stride, b.rows, b.depth, b.x.by_four },
                             { b.w.data, b.w.stride, b.columns, b.depth, b.w.by_four },
                             b.rows,
                             b.depth,
                             b.columns,
                             nullptr,
                             b.y.data,
                             b.y.stride },
                           b };
    const int64_t tiles = ((b.rows + large_product::ROWS - 1) / large_product::ROWS) *
                          ((b.columns + large_product::COLUMNS - 1) / large_product::COLUMNS) * b.units;
    const bool large = 2 * tiles > d->processors && b.rows > small_product::ROWS;
    if (large)
        b.full ? launch_batch<large_product, true>(d, t) : launch_batch<large_product, false>(d, t);
    else
        b.full ? launch_batch<small_product, true>(d, t) : launch_batch<small_product, false>(d, t);
}

void zn_cuda_product_batch(zn_device *d, const batch_product &p)
{
    if (p.x.turned)
        p.w.turned ? launch_factors<columns_of, columns_of>(d, p) : launch_factors<columns_of, rows_of>(d, p);
    else
        p.w.turned ? launch_factors<rows_of, columns_of>(d, p) : launch_factors<rows_of, rows_of>(d, p);
}

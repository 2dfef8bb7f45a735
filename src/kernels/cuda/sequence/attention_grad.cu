/* The gradient of attention in tiles of 32 rows. Weights are recomputed from two numbers for each query, which the
 * first loop over the keys finds:
 *
 *     level = log of the sum of exp(scores), so that p = exp(score - level)      mean = sum of p (dy . v)
 *
 * The second loop sums dq = ds k, ds = scale p (dy . v - mean). Then another kernel has a tile of keys and values and
 * loops over queries: dv = p' dy, dk = ds' q. Every sum is in one block and in a fixed order.
 * ref/sequence/attention.c is the reference. */
#include "kernels/cuda/sequence/attention.h"
#include "kernels/cuda/tile.h"

/* Warps are 2 x 4: each has 16 rows, 8 of the 32 columns of scores and a quarter of the columns of results. */
template <int WIDTH_, typename PRODUCTS> struct plan {
    typedef PRODUCTS products;
    enum {
        WIDTH = WIDTH_,
        BLOCKS = WIDTH <= 128 ? 2 : 1, /* at a time on a multiprocessor */
        TILE = 32,
        COLUMN_WARPS = 4,
        COLUMNS = WIDTH / 8 / COLUMN_WARPS,
        ROW = WIDTH + PRODUCTS::PAD_ROW, /* lengths of rows in shared memory */
        P_ROW = TILE + PRODUCTS::PAD_ROW,
        AREA = TILE * ROW, /* two tiles of the block's own rows, then two of the others */
        P = 4 * AREA,      /* weights */
        DS = P + TILE * P_ROW,
        ROWS = DS + TILE * P_ROW, /* three numbers per row and column warp */
        FLOATS = ROWS + 3 * COLUMN_WARPS * TILE
    };
};

struct place {
    int row_warp, column_warp, g, q;
};

template <typename L> static __device__ place place_of(void)
{
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    return place{ warp / L::COLUMN_WARPS, warp % L::COLUMN_WARPS, lane / 4, lane % 4 };
}

/* Copies two tiles of neighbouring rows, of maps x and y, to areas `area` and `area` + 1. */
template <typename L>
static __device__ void copy_pair(const attention_task &t, const float *x, int64_t x_step, const float *y,
                                 int64_t y_step, int64_t first, int64_t count, int area)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *to = zn_cuda_shared + area * L::AREA;
    copy_tile<L::TILE, L::WIDTH, L::ROW>(to, x + first * x_step, x_step, count - first, t.a.width, t.fours);
    copy_tile<L::TILE, L::WIDTH, L::ROW>(to + L::AREA, y + first * y_step, y_step, count - first, t.a.width, t.fours);
    copy_commit();
}

/* The products of this warp's own rows with others: of area 0 with area 2, and of 1 with 3. */
template <typename L> static __device__ void multiply_pair(const place &at, float scores[1][4], float products[1][4])
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const float *own = zn_cuda_shared + at.row_warp * 16 * L::ROW;
    const float *other = zn_cuda_shared + 2 * L::AREA + at.column_warp * 8 * L::ROW;
    for (int i = 0; i < 4; i++)
        scores[0][i] = products[0][i] = 0;
    multiply_tile<typename L::products, 1, L::WIDTH, L::ROW, 1, L::ROW>(own, other, scores);
    multiply_tile<typename L::products, 1, L::WIDTH, L::ROW, 1, L::ROW>(own + L::AREA, other + L::AREA, products);
}

/* The next pair of tiles of the others, and their products. */
template <typename L>
static __device__ void next_pair(const attention_task &t, const place &at, const float *x, int64_t x_step,
                                 const float *y, int64_t y_step, int64_t first, int64_t count, float scores[1][4],
                                 float products[1][4])
{
    __syncthreads(); /* all have read the previous tiles */
    copy_pair<L>(t, x, x_step, y, y_step, first, count, 2);
    copy_wait<0>();
    __syncthreads();
    multiply_pair<L>(at, scores, products);
}

/* Adds the product of a matrix in shared memory, [TILE][TILE] at `from`, with an area to sums. */
template <typename L> static __device__ void add_product(const place &at, int from, int area, float sums[L::COLUMNS][4])
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    multiply_tile<typename L::products, L::COLUMNS, L::TILE, L::P_ROW, L::ROW, 1>(
        zn_cuda_shared + from + at.row_warp * 16 * L::P_ROW,
        zn_cuda_shared + area * L::AREA + at.column_warp * L::COLUMNS * 8, sums);
}

/* Writes element i of a thread's fragment of a [TILE][TILE] matrix. */
template <typename L> static __device__ void put(const place &at, int to, int i, float value)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    zn_cuda_shared[to + (at.row_warp * 16 + at.g + i / 2 * 8) * L::P_ROW + at.column_warp * 8 + 2 * at.q + i % 2] =
        value;
}

template <typename L>
static __device__ void write_rows(const attention_task &t, const place &at, float *to, int64_t step, int64_t first,
                                  int64_t count, const float sums[L::COLUMNS][4])
{
#pragma unroll
    for (int n = 0; n < L::COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t row = first + at.row_warp * 16 + at.g + i / 2 * 8;
            const int column = (at.column_warp * L::COLUMNS + n) * 8 + 2 * at.q + i % 2;
            if (row < count && column < t.a.width)
                to[row * step + column] = sums[n][i];
        }
}

/* ---- queries ---- */

struct level {
    softmax s;
    float mean; /* times the sum */
};

/* The sums of two disjoint sets of keys together. */
static __device__ void join(level &a, softmax s, float mean)
{
    a.mean *= raise(a.s, s.most);
    const float factor = s.most == -INFINITY ? 0 : expf(s.most - a.s.most);
    a.s.sum += factor * s.sum;
    a.mean += factor * mean;
}

/* Joins what the threads of each row found, and writes it. Each of the two rows gets its level and mean. */
template <typename L>
static __device__ void join_rows(const attention_task &t, const place &at, int64_t unit, int64_t first, level rows[2])
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    for (int i = 0; i < 2; i++) {
        for (int mask = 1; mask < 4; mask *= 2) {
            softmax other;
            other.most = __shfl_xor_sync(0xffffffffu, rows[i].s.most, mask);
            other.sum = __shfl_xor_sync(0xffffffffu, rows[i].s.sum, mask);
            const float mean = __shfl_xor_sync(0xffffffffu, rows[i].mean, mask);
            join(rows[i], other, mean);
        }
        float *to = zn_cuda_shared + L::ROWS + 3 * (at.column_warp * L::TILE + at.row_warp * 16 + at.g + 8 * i);
        if (at.q == 0) {
            to[0] = rows[i].s.most;
            to[1] = rows[i].s.sum;
            to[2] = rows[i].mean;
        }
    }
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        const int row = at.row_warp * 16 + at.g + 8 * i;
        rows[i] = level{ { -INFINITY, 0 }, 0 };
        for (int k = 0; k < L::COLUMN_WARPS; k++) {
            const float *from = zn_cuda_shared + L::ROWS + 3 * (k * L::TILE + row);
            join(rows[i], softmax{ from[0], from[1] }, from[2]);
        }
        const bool none = rows[i].s.sum == 0; /* it attends to nothing */
        rows[i].s.most = none ? 0 : rows[i].s.most + logf(rows[i].s.sum);
        rows[i].mean = none ? 0 : rows[i].mean / rows[i].s.sum;
        if (at.column_warp == 0 && at.q == 0 && first + row < t.a.queries) {
            float *to = t.a.stats + 2 * (unit * t.a.queries + first + row);
            to[0] = rows[i].s.most;
            to[1] = rows[i].mean;
        }
    }
}

/* One block per tile of queries: the level and mean of each, then dq. */
template <typename L> __global__ void __launch_bounds__(THREADS, L::BLOCKS) attention_dq(attention_task t)
{
    const int64_t tiles = (t.a.queries + L::TILE - 1) / L::TILE, unit = blockIdx.x / tiles;
    const int64_t first = blockIdx.x % tiles * L::TILE;
    const int64_t last = first + L::TILE < t.a.queries ? first + L::TILE : t.a.queries, keys = seen_by(t, last - 1);
    const float *k = rows_of(t, t.a.k, unit, t.share), *v = rows_of(t, t.a.v, unit, t.share);
    const place at = place_of<L>();
    const int64_t query = first + at.row_warp * 16 + at.g, seen[2] = { seen_by(t, query), seen_by(t, query + 8) };
    level rows[2] = { { { -INFINITY, 0 }, 0 }, { { -INFINITY, 0 }, 0 } };
    float scores[1][4], products[1][4], dq[L::COLUMNS][4] = {};
    copy_pair<L>(t, rows_of(t, t.a.q, unit, 1), t.a.q.step, rows_of(t, t.a.y, unit, 1), t.a.y.step, first, t.a.queries,
                 0);
    for (int64_t key = 0; key < keys; key += L::TILE) {
        next_pair<L>(t, at, k, t.a.k.step, v, t.a.v.step, key, t.a.keys, scores, products);
        for (int i = 0; i < 4; i++)
            if (key + at.column_warp * 8 + 2 * at.q + i % 2 < seen[i / 2])
                join(rows[i / 2], softmax{ t.a.scale * scores[0][i], 1 }, products[0][i]);
    }
    join_rows<L>(t, at, unit, first, rows);
    for (int64_t key = 0; key < keys; key += L::TILE) {
        next_pair<L>(t, at, k, t.a.k.step, v, t.a.v.step, key, t.a.keys, scores, products);
        for (int i = 0; i < 4; i++) {
            const level &row = rows[i / 2];
            const bool is_seen = key + at.column_warp * 8 + 2 * at.q + i % 2 < seen[i / 2];
            const float p = is_seen ? expf(t.a.scale * scores[0][i] - row.s.most) : 0;
            put<L>(at, L::DS, i, t.a.scale * p * (products[0][i] - row.mean));
        }
        __syncthreads();
        add_product<L>(at, L::DS, 2, dq);
    }
    copy_wait<0>();
    write_rows<L>(t, at, rows_of(t, t.a.dq, unit, 1), t.a.dq.step, first, t.a.queries, dq);
}

/* ---- keys and values ---- */

/* One block per tile of keys of a group of heads. */
template <typename L> __global__ void __launch_bounds__(THREADS, L::BLOCKS) attention_dkv(attention_task t)
{
    const int64_t tiles = (t.a.keys + L::TILE - 1) / L::TILE, group = blockIdx.x / tiles, own = group * t.share;
    const int64_t first = blockIdx.x % tiles * L::TILE, ahead = t.a.keys - t.a.queries;
    const int64_t begin = t.a.causal && first > ahead ? (first - ahead) / L::TILE * L::TILE : 0;
    const place at = place_of<L>();
    const int64_t key = first + at.row_warp * 16 + at.g;
    float scores[1][4], products[1][4], dk[L::COLUMNS][4] = {}, dv[L::COLUMNS][4] = {};
    copy_pair<L>(t, rows_of(t, t.a.k, own, t.share), t.a.k.step, rows_of(t, t.a.v, own, t.share), t.a.v.step, first,
                 t.a.keys, 0);
    for (int64_t unit = own; unit < own + t.share; unit++)
        for (int64_t tile = begin; tile < t.a.queries; tile += L::TILE) {
            next_pair<L>(t, at, rows_of(t, t.a.q, unit, 1), t.a.q.step, rows_of(t, t.a.y, unit, 1), t.a.y.step, tile,
                         t.a.queries, scores, products);
            for (int i = 0; i < 4; i++) {
                const int64_t query = tile + at.column_warp * 8 + 2 * at.q + i % 2;
                const bool is_seen = query < t.a.queries && key + i / 2 * 8 < seen_by(t, query);
                const float *stats = t.a.stats + (is_seen ? 2 * (unit * t.a.queries + query) : 0);
                const float p = is_seen ? expf(t.a.scale * scores[0][i] - stats[0]) : 0;
                put<L>(at, L::P, i, p);
                put<L>(at, L::DS, i, t.a.scale * p * (products[0][i] - stats[1]));
            }
            __syncthreads();
            add_product<L>(at, L::P, 3, dv);
            add_product<L>(at, L::DS, 2, dk);
        }
    copy_wait<0>();
    write_rows<L>(t, at, rows_of(t, t.a.dk, own, t.share), t.a.dk.step, first, t.a.keys, dk);
    write_rows<L>(t, at, rows_of(t, t.a.dv, own, t.share), t.a.dv.step, first, t.a.keys, dv);
}

/* ---- launching ---- */

template <typename L>
static void launch_tiles(zn_device *d, void (*kernel)(attention_task), int64_t units, int64_t rows,
                         const attention_task &t)
{
    const size_t bytes = sizeof(float) * L::FLOATS;
    zn_cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                  "shared memory");
    launch(d, kernel, dim3((unsigned)(units * ((rows + L::TILE - 1) / L::TILE))), THREADS, bytes, t);
}

template <typename L> static void launch_plan(zn_device *d, const attention_task &t)
{
    if (sizeof(float) * L::FLOATS > (size_t)d->shared) {
        attention_grad_any(d, t);
        return;
    }
    launch_tiles<L>(d, attention_dq<L>, t.units, t.a.queries, t);
    launch_tiles<L>(d, attention_dkv<L>, t.units / t.share, t.a.keys, t);
}

template <typename PRODUCTS> static void launch_width(zn_device *d, const attention_task &t)
{
    if (t.a.width <= 32)
        launch_plan<plan<32, PRODUCTS>>(d, t);
    else if (t.a.width <= 64)
        launch_plan<plan<64, PRODUCTS>>(d, t);
    else if (t.a.width <= 128)
        launch_plan<plan<128, PRODUCTS>>(d, t);
    else if (t.a.width <= 256)
        launch_plan<plan<256, PRODUCTS>>(d, t);
    else
        attention_grad_any(d, t); /* heads share keys, or there are too many */
}

extern "C" void zn_cuda_attention_grad(zn_device *d, const void *args, int64_t units)
{
    const zn_attention_args *a = static_cast<const zn_attention_args *>(args);
    const attention_task t = attention_task_of(d, *a, units * zn_attention_share(a));
    if (zn_attention_grad_is_wide(a))
        attention_grad_products(d, t);
    else if (a->math == ZN_PRECISION_F32 || a->math == ZN_PRECISION_DEFAULT)
        launch_width<full_products>(d, t);
    else /* also for f16, which is too narrow for small gradients */
        launch_width<pair_products<bf16_pair>>(d, t);
}

/* Attention in tiles (FlashAttention-2, https://arxiv.org/abs/2307.08691): a thread block has a tile of queries in
 * shared memory and loops over tiles of keys and values. The weights of a tile exist only in shared memory; sums are
 * relative to the largest score so far and are rescaled when it grows. While a tile of keys is multiplied, its values
 * are copied; while these are multiplied, the next keys are. ref/sequence/attention.c is the reference. */
#include "kernels/cuda/sequence/attention_half.h"
#include "kernels/cuda/tile.h"

/* WIDTH: floats of a row, padded with zeros. The warps of a block are ROW_WARPS x COLUMN_WARPS: each has 16 queries,
 * and a part of the keys for scores, a part of the columns for results. */
template <int WIDTH_, int ROW_WARPS_, typename PRODUCTS> struct plan {
    typedef PRODUCTS products;
    enum {
        WIDTH = WIDTH_,
        ROW_WARPS = ROW_WARPS_,
        COLUMN_WARPS = THREADS / LANES / ROW_WARPS,
        BLOCKS = WIDTH <= 128 ? 2 : 1, /* at a time on a multiprocessor */
        QUERIES = 16 * ROW_WARPS,
        KEYS = 32,
        SCORES = KEYS / 8 / COLUMN_WARPS, /* blocks of 8 columns per warp */
        COLUMNS = WIDTH / 8 / COLUMN_WARPS,
        K_ROW = WIDTH + PRODUCTS::PAD_ROW, /* lengths of rows in shared memory */
        V_ROW = WIDTH + PRODUCTS::PAD_COLUMN,
        P_ROW = KEYS + PRODUCTS::PAD_ROW,
        K = QUERIES * K_ROW, /* offsets in shared memory; queries begin at 0 */
        V = K + KEYS * K_ROW,
        P = V + KEYS * V_ROW,
        ROWS = P + QUERIES * P_ROW, /* a number per row and column warp */
        FLOATS = ROWS + COLUMN_WARPS * QUERIES
    };
    static_assert(SCORES > 0 && COLUMNS > 0, "every warp has work");
};

/* The place of a thread: its warp, and its rows first and first + 8 of the tile. */
struct place {
    int row_warp, column_warp, g, q;
};

template <typename L> static __device__ place place_of(void)
{
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    return place{ warp / L::COLUMN_WARPS, warp % L::COLUMN_WARPS, lane / 4, lane % 4 };
}

struct larger {
    static __device__ float of(float a, float b) { return a > b ? a : b; }
};
struct added {
    static __device__ float of(float a, float b) { return a + b; }
};

/* Combines numbers of a thread's two rows over all threads that have the rows. All threads must call it. */
template <typename L, typename F> static __device__ void combine(const place &at, float rows[2], float *shared)
{
    for (int i = 0; i < 2; i++)
        for (int mask = 1; mask < 4; mask *= 2)
            rows[i] = F::of(rows[i], __shfl_xor_sync(0xffffffffu, rows[i], mask));
    if (L::COLUMN_WARPS == 1)
        return;
    float *own = shared + at.row_warp * 16 + at.g;
    if (at.q == 0)
        for (int i = 0; i < 2; i++)
            own[at.column_warp * L::QUERIES + 8 * i] = rows[i];
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        rows[i] = own[8 * i];
        for (int k = 1; k < L::COLUMN_WARPS; k++)
            rows[i] = F::of(rows[i], own[k * L::QUERIES + 8 * i]);
    }
}

/* Turns the scores of a tile into weights relative to the rows' largest scores, and writes them to shared memory. The
 * results so far are rescaled. seen: keys from this tile's first on that each of the two rows attends to. */
template <typename L>
static __device__ void weigh(const place &at, float scale, const int64_t seen[2], float *shared,
                             float scores[L::SCORES][4], softmax rows[2], float y[L::COLUMNS][4])
{
    float top[2] = { -INFINITY, -INFINITY }, factor[2];
#pragma unroll
    for (int n = 0; n < L::SCORES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = (at.column_warp * L::SCORES + n) * 8 + 2 * at.q + i % 2;
            scores[n][i] = key < seen[i / 2] ? scale * scores[n][i] : -INFINITY;
            top[i / 2] = larger::of(scores[n][i], top[i / 2]);
        }
    combine<L, larger>(at, top, shared + L::ROWS);
    for (int i = 0; i < 2; i++)
        factor[i] = raise(rows[i], top[i]);
    float *p = shared + L::P + (at.row_warp * 16 + at.g) * L::P_ROW + at.column_warp * L::SCORES * 8 + 2 * at.q;
#pragma unroll
    for (int n = 0; n < L::SCORES; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float2 two = make_float2(weight(rows[i], scores[n][2 * i]), weight(rows[i], scores[n][2 * i + 1]));
            rows[i].sum += two.x + two.y;
            *reinterpret_cast<float2 *>(p + 8 * i * L::P_ROW + 8 * n) = two;
        }
#pragma unroll
    for (int n = 0; n < L::COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            y[n][i] *= factor[i / 2];
}

/* Divides by the sums of weights and writes the rows. `sum` is of the keys of this thread. */
template <typename L>
static __device__ void write_rows(const attention_task &t, const place &at, int64_t unit, int64_t first,
                                  const softmax rows[2], float *shared, const float y[L::COLUMNS][4])
{
    float sum[2] = { rows[0].sum, rows[1].sum };
    __syncthreads(); /* all threads have read what combine writes to */
    combine<L, added>(at, sum, shared + L::ROWS);
    for (int i = 0; i < 2; i++) {
        const int64_t query = first + at.row_warp * 16 + at.g + 8 * i;
        if (query >= t.a.queries)
            continue;
        float *to = rows_of(t, t.a.y, unit, 1) + query * t.a.y.step;
        const float factor = sum[i] == 0 ? 0 : 1 / sum[i]; /* 0: it attends to nothing */
#pragma unroll
        for (int n = 0; n < L::COLUMNS; n++) {
            const int column = (at.column_warp * L::COLUMNS + n) * 8 + 2 * at.q;
            if (column < t.a.width)
                to[column] = factor * y[n][2 * i];
            if (column + 1 < t.a.width)
                to[column + 1] = factor * y[n][2 * i + 1];
        }
    }
}

/* The sums of a thread's weights are over its own keys until the end; the largest scores are over all keys. */
template <typename L> __global__ void __launch_bounds__(THREADS, L::BLOCKS) attention(attention_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *const shared = zn_cuda_shared;
    const int64_t blocks = (t.a.queries + L::QUERIES - 1) / L::QUERIES, unit = blockIdx.x / blocks;
    const int64_t first = (blocks - 1 - blockIdx.x % blocks) * L::QUERIES; /* the longest loops begin first */
    const int64_t last = first + L::QUERIES < t.a.queries ? first + L::QUERIES : t.a.queries;
    const int64_t keys = seen_by(t, last - 1);
    const float *k = rows_of(t, t.a.k, unit, t.share), *v = rows_of(t, t.a.v, unit, t.share);
    const place at = place_of<L>();
    const int64_t query = first + at.row_warp * 16 + at.g, seen[2] = { seen_by(t, query), seen_by(t, query + 8) };
    softmax rows[2] = { { -INFINITY, 0 }, { -INFINITY, 0 } };
    float y[L::COLUMNS][4] = {};
    copy_tile<L::QUERIES, L::WIDTH, L::K_ROW>(shared, rows_of(t, t.a.q, unit, 1) + first * t.a.q.step, t.a.q.step,
                                              t.a.queries - first, t.a.width, t.fours);
    copy_tile<L::KEYS, L::WIDTH, L::K_ROW>(shared + L::K, k, t.a.k.step, t.a.keys, t.a.width, t.fours);
    copy_commit();
    for (int64_t key = 0; key < keys; key += L::KEYS) {
        float scores[L::SCORES][4] = {};
        copy_wait<0>();  /* the keys have arrived for this thread, */
        __syncthreads(); /* for all, and all have read the previous values and weights */
        copy_tile<L::KEYS, L::WIDTH, L::V_ROW>(shared + L::V, v + key * t.a.v.step, t.a.v.step, t.a.keys - key,
                                               t.a.width, t.fours);
        copy_commit();
        multiply_tile<typename L::products, L::SCORES, L::WIDTH, L::K_ROW, 1, L::K_ROW>(
            shared + at.row_warp * 16 * L::K_ROW, shared + L::K + at.column_warp * L::SCORES * 8 * L::K_ROW, scores);
        const int64_t left[2] = { seen[0] - key, seen[1] - key };
        weigh<L>(at, t.a.scale, left, shared, scores, rows, y);
        copy_wait<0>();  /* the same for the values; */
        __syncthreads(); /* all have written their weights and read the keys */
        if (key + L::KEYS < keys)
            copy_tile<L::KEYS, L::WIDTH, L::K_ROW>(shared + L::K, k + (key + L::KEYS) * t.a.k.step, t.a.k.step,
                                                   t.a.keys - key - L::KEYS, t.a.width, t.fours);
        copy_commit();
        multiply_tile<typename L::products, L::COLUMNS, L::KEYS, L::P_ROW, L::V_ROW, 1>(
            shared + L::P + at.row_warp * 16 * L::P_ROW, shared + L::V + at.column_warp * L::COLUMNS * 8, y);
    }
    copy_wait<0>();
    write_rows<L>(t, at, unit, first, rows, shared, y);
}

/* ---- launching ---- */

template <typename L> static int64_t blocks_of(const attention_task &t)
{
    return t.units * ((t.a.queries + L::QUERIES - 1) / L::QUERIES);
}

template <typename L> static void launch_plan(zn_device *d, const attention_task &t)
{
    const size_t bytes = sizeof(float) * L::FLOATS;
    if (bytes > (size_t)d->shared) {
        attention_any(d, t);
        return;
    }
    zn_cuda_check(d, cudaFuncSetAttribute(attention<L>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                  "shared memory");
    launch(d, attention<L>, dim3((unsigned)blocks_of<L>(t)), THREADS, bytes, t);
}

/* Few queries use small tiles; otherwise most of the GPU would be idle. */
template <typename LARGE, typename SMALL> static void launch_either(zn_device *d, const attention_task &t)
{
    if (blocks_of<LARGE>(t) >= d->processors)
        launch_plan<LARGE>(d, t);
    else
        launch_plan<SMALL>(d, t);
}

template <typename PRODUCTS> static void launch_width(zn_device *d, const attention_task &t)
{
    if (t.a.width <= 32)
        launch_either<plan<32, 8, PRODUCTS>, plan<32, 2, PRODUCTS>>(d, t);
    else if (t.a.width <= 64)
        launch_either<plan<64, 8, PRODUCTS>, plan<64, 2, PRODUCTS>>(d, t);
    else if (t.a.width <= 128)
        launch_either<plan<128, 4, PRODUCTS>, plan<128, 2, PRODUCTS>>(d, t);
    else if (t.a.width <= 256)
        launch_plan<plan<256, 2, PRODUCTS>>(d, t);
    else if (t.a.width <= 512)
        launch_plan<plan<512, 2, PRODUCTS>>(d, t);
    else
        attention_any(d, t);
}

extern "C" void zn_cuda_attention(zn_device *d, const void *args, int64_t units)
{
    const zn_attention_args *a = static_cast<const zn_attention_args *>(args);
    const attention_task t = attention_task_of(d, *a, units / zn_attention_blocks(a));
    if (a->type != ZN_TYPE_F32)
        attention_half(d, t);
    else if (a->math == ZN_PRECISION_F32 || a->math == ZN_PRECISION_DEFAULT)
        launch_width<full_products>(d, t);
    else if (a->math == ZN_PRECISION_F16)
        launch_width<pair_products<f16_pair>>(d, t);
    else
        launch_width<pair_products<bf16_pair>>(d, t);
}

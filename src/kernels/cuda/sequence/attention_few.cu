/* Attention of 16-bit maps with rows of up to 512 numbers over at most 256 keys, as in the small maps of a U-Net: one
 * launch, in which a thread block has 16 queries. Warps share the keys for the scores; weights are in shared memory;
 * then warps share columns of the values, and their keys where there are more warps than that. Where queries are too
 * few for all multiprocessors, the blocks of a cluster share the keys of the same queries; each adds up its part of the
 * columns over all of them, relative to the largest score of all.
 *
 * Keys and values go from memory to the matrix unit. The order of channels in a product is free, as long as both
 * factors have the same, and so is that of keys and of columns: a lane (g = lane / 4, q = lane % 4) reads 8
 * neighbouring channels of key g, 8q to 8q+7 of 32, for two products; of the values it reads 8 neighbouring columns, 8g
 * to 8g+7 of 64, of keys 4q to 4q+3 of 16, which are its parts of eight products. */
#include "kernels/cuda/cluster.h"
#include "kernels/cuda/sequence/attention_half.h"

#include <math.h>

enum { MOST_BLOCKS = 4 }; /* of a cluster; not eight: too few clusters of them would fit */
enum { FEW_THREADS = 512, WARPS = FEW_THREADS / 32, QUERIES = 16, MOST_KEYS = 256, WIDE = 64, P_ROW = MOST_KEYS + 8 };

struct few_task {
    attention_task t;
    int blocks; /* of a cluster */
    int each;   /* keys of a block, a multiple of 16 */
};

/* What a thread block works on. */
struct few_part {
    int64_t unit, first;  /* first: its first query */
    int key, keys, block; /* its first key and how many; its number in the cluster */
};

static __device__ few_part part_of(const few_task &f)
{
    const int64_t tiles = (f.t.a.queries + QUERIES - 1) / QUERIES, tile = blockIdx.x / (unsigned)f.blocks;
    few_part p = {};
    p.unit = tile / tiles, p.first = tile % tiles * QUERIES;
    p.block = (int)(blockIdx.x % (unsigned)f.blocks);
    p.key = p.block * f.each;
    const int left = (int)f.t.a.keys - p.key;
    p.keys = left < 0 ? 0 : left < f.each ? left : f.each;
    return p;
}

struct alignas(16) eight {
    uint32_t pair[4];
};

static __device__ eight load_eight(const uint16_t *from) { return *reinterpret_cast<const eight *>(from); }

static __device__ const uint16_t *head_of(const attention_task &t, const zn_rows &m, int64_t unit, int share)
{
    return reinterpret_cast<const uint16_t *>(m.data) + unit / t.a.heads * m.sample + unit % t.a.heads / share * m.head;
}

/* Shared memory. Blocks of a cluster read each other's parts, scores and sums. */
struct few_memory {
    float *tops, *sums; /* [WARPS][QUERIES] */
    float *own;         /* [2][QUERIES]: the largest score of a query in this block, the sum of its weights */
    uint16_t *weights;  /* [QUERIES][P_ROW] */
    float *parts;       /* [share of the keys][QUERIES][width] */
    __device__ few_memory(float *start)
    {
        tops = start;
        sums = tops + WARPS * QUERIES;
        own = sums + WARPS * QUERIES;
        weights = reinterpret_cast<uint16_t *>(own + 2 * QUERIES);
        parts = own + 2 * QUERIES + QUERIES * P_ROW / 2;
    }
    static size_t bytes(int shares, int64_t width)
    {
        return sizeof(float) *
               (2 * WARPS * QUERIES + 2 * QUERIES + QUERIES * P_ROW / 2 + (size_t)shares * QUERIES * (size_t)width);
    }
};

/* Scores of 16 queries with the keys of this warp: groups of eight, every 16th from `group` on, and of them what the
 * channels [begin, end) add. */
template <typename T>
static __device__ void score(const attention_task &t, const few_part &p, int group, int begin, int end,
                             float scores[2][4])
{
    enum { AHEAD = 4 };
    const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const uint16_t *rows[2], *keys[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int64_t query = p.first + g + 8 * i;
        const int key = (group + WARPS * i) * 8 + g;
        rows[i] = query < t.a.queries ? head_of(t, t.a.q, p.unit, 1) + query * t.a.q.step + 8 * q : nullptr;
        keys[i] = key < p.keys ? head_of(t, t.a.k, p.unit, t.share) + (p.key + key) * t.a.k.step + 8 * q : nullptr;
    }
    for (int from = begin; from < end && group * 8 < p.keys; from += 32 * AHEAD) {
        eight x[AHEAD][2] = {}, k[AHEAD][2] = {};
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                if (from + 32 * i < end && rows[j])
                    x[i][j] = load_eight(rows[j] + from + 32 * i);
                if (from + 32 * i < end && keys[j])
                    k[i][j] = load_eight(keys[j] + from + 32 * i);
            }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int s = 0; s < 2; s++) {
                const uint32_t a[4] = { x[i][0].pair[2 * s], x[i][1].pair[2 * s], x[i][0].pair[2 * s + 1],
                                        x[i][1].pair[2 * s + 1] };
#pragma unroll
                for (int j = 0; j < 2; j++)
                    T::multiply_add(scores[j], a, k[i][j].pair + 2 * s);
            }
    }
}

/* The same by all warps: where a block has at most 64 keys, two share the channels of a group, and the first of them
 * gets the sums. */
template <typename T>
static __device__ void score_all(const attention_task &t, const few_part &p, float scores[2][4], const few_memory &m)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, half = t.a.width / 2;
    if (p.keys > WARPS / 2 * 8) {
        score<T>(t, p, warp, 0, t.a.width, scores);
        return;
    }
    const bool second = warp >= WARPS / 2;
    float *const there = m.parts + (warp % (WARPS / 2) * 32 + lane) * 4;
    score<T>(t, p, warp % (WARPS / 2), second ? half : 0, second ? t.a.width : half, scores);
    if (second)
        store<4>(there, 0, floats<4>{ { scores[0][0], scores[0][1], scores[0][2], scores[0][3] } });
    __syncthreads();
    for (int i = 0; i < 4 && !second; i++)
        scores[0][i] += there[i];
}

/* Turns scores into weights relative to each query's largest in this block. */
template <typename T>
static __device__ void weigh(const attention_task &t, const few_part &p, float scores[2][4], const few_memory &m)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const float scale = t.a.scale * 1.44269504f;
    float most[2] = { -INFINITY, -INFINITY };
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int key = (warp + WARPS * (i / 4)) * 8 + 2 * q + i % 2;
        float &s = scores[i / 4][i % 4];
        s = key < p.keys && p.key + key < seen_by(t, p.first + g + i % 4 / 2 * 8) ? scale * s : -INFINITY;
        most[i % 4 / 2] = s > most[i % 4 / 2] ? s : most[i % 4 / 2];
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        most[i] = largest_of_four(most[i]);
        if (q == 0)
            m.tops[warp * QUERIES + g + 8 * i] = most[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
        for (int w = 0; w < WARPS; w++)
            most[i] = fmaxf(most[i], m.tops[w * QUERIES + g + 8 * i]);
    float sum[2] = {};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float *const two = scores[i / 2] + i % 2 * 2;
        for (int k = 0; k < 2; k++)
            two[k] = two[k] == -INFINITY ? 0 : exp2f(two[k] - most[i % 2]);
        sum[i % 2] += two[0] + two[1];
        *reinterpret_cast<uint32_t *>(m.weights + (g + i % 2 * 8) * P_ROW + (warp + WARPS * (i / 2)) * 8 + 2 * q) =
            T::of(two[0], two[1]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        sum[i] = sum_of_four(sum[i]);
        if (q == 0)
            m.sums[warp * QUERIES + g + 8 * i] = sum[i];
        if (q == 0 && warp == 0)
            m.own[g + 8 * i] = most[i];
    }
    __syncthreads();
    if (threadIdx.x < QUERIES) {
        float all = 0;
        for (int w = 0; w < WARPS; w++)
            all += m.sums[w * QUERIES + threadIdx.x];
        m.own[QUERIES + threadIdx.x] = all;
    }
}

/* y[16][64] of the block's keys [begin, end), columns from `column` on: sums[j] has column 8n + j as its column n. */
template <typename T>
static __device__ void add_values(const attention_task &t, const few_part &p, const uint16_t *weights, int begin,
                                  int end, int column, float sums[8][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const uint16_t *const v = head_of(t, t.a.v, p.unit, t.share) + p.key * t.a.v.step + column + 8 * g;
#pragma unroll 4
    for (int key = begin; key < end; key += 16) {
        eight x[4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (key + 4 * q + i < p.keys)
                x[i] = load_eight(v + (key + 4 * q + i) * t.a.v.step);
        const uint16_t *const w = weights + g * P_ROW + key + 4 * q;
        const two_pairs high = *reinterpret_cast<const two_pairs *>(w),
                        low = *reinterpret_cast<const two_pairs *>(w + 8 * P_ROW);
        const uint32_t a[4] = { high.low, low.low, high.high, low.high };
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t even[2] = { (x[0].pair[j] & 0xffff) | x[1].pair[j] << 16,
                                       (x[2].pair[j] & 0xffff) | x[3].pair[j] << 16 };
            const uint32_t odd[2] = { x[0].pair[j] >> 16 | (x[1].pair[j] & 0xffff0000u),
                                      x[2].pair[j] >> 16 | (x[3].pair[j] & 0xffff0000u) };
            T::multiply_add(sums[2 * j], a, even);
            T::multiply_add(sums[2 * j + 1], a, odd);
        }
    }
}

/* This block's part of the columns of all its queries, from all blocks of the cluster. */
static __device__ void write_columns(const few_task &f, const few_part &p, const few_memory &m, int shares)
{
    const attention_task &t = f.t;
    const int wide = t.a.width / f.blocks / 4;
    const int64_t base = p.unit / t.a.heads * t.a.y.sample + p.unit % t.a.heads * t.a.y.head;
    for (int i = (int)threadIdx.x; i < QUERIES * wide; i += FEW_THREADS) {
        const int row = i / wide, column = (p.block * wide + i % wide) * 4;
        float most = -INFINITY, sum = 0, y[4] = {};
        for (int b = 0; b < f.blocks; b++)
            most = fmaxf(most, cluster_at(m.own, (unsigned)b)[row]);
        for (int b = 0; b < f.blocks; b++) {
            const float *const own = cluster_at(m.own, (unsigned)b), *const parts = cluster_at(m.parts, (unsigned)b);
            const float factor = own[row] == -INFINITY ? 0 : exp2f(own[row] - most);
            sum += factor * own[QUERIES + row];
            for (int s = 0; s < shares; s++) {
                const floats<4> part = load<4>(parts + (s * QUERIES + row) * t.a.width + column, 0);
                for (int k = 0; k < 4; k++)
                    y[k] += factor * part.v[k];
            }
        }
        if (p.first + row >= t.a.queries)
            continue;
        const float whole = sum == 0 ? 0 : 1 / sum; /* 0: it attends to nothing */
        const int64_t to = base + (p.first + row) * t.a.y.step + column;
        write_pair(t.a.y.data, to, t.a.type, make_float2(whole * y[0], whole * y[1]));
        write_pair(t.a.y.data, to + 2, t.a.type, make_float2(whole * y[2], whole * y[3]));
    }
}

template <typename T> __global__ void __launch_bounds__(FEW_THREADS, 1) attend_few(few_task f)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    wait_for_last();
    const attention_task &t = f.t;
    const few_memory m(zn_cuda_shared);
    const few_part p = part_of(f);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    float scores[2][4] = {};
    score_all<T>(t, p, scores, m);
    weigh<T>(t, p, scores, m);
    const int wide = t.a.width / WIDE, shares = WARPS / wide, share = warp / wide, column = warp % wide * WIDE;
    const int each = (f.each + 16 * shares - 1) / (16 * shares) * 16, begin = share * each;
    if (share < shares) {
        float sums[8][4] = {};
        add_values<T>(t, p, m.weights, begin, begin + each < p.keys ? begin + each : p.keys, column, sums);
        float *const to = m.parts + (share * QUERIES + g) * t.a.width + column + 16 * q;
#pragma unroll
        for (int i = 0; i < 4; i++) /* rows g and g + 8, columns 2q and 2q + 1 of each product */
#pragma unroll
            for (int j = 0; j < 8; j += 4)
                store<4>(to + i / 2 * 8 * t.a.width + i % 2 * 8 + j, 0,
                         floats<4>{ { sums[j][i], sums[j + 1][i], sums[j + 2][i], sums[j + 3][i] } });
    }
    cluster_wait();
    write_columns(f, p, m, shares);
    cluster_wait(); /* others read what this block has */
}

/* As many as there are multiprocessors for, of at least 32 keys. */
static int blocks_of_cluster(const zn_device *d, int64_t tiles, int64_t keys)
{
    int blocks = 1;
    while (d->hopper && blocks < MOST_BLOCKS && 2 * blocks * tiles <= d->processors && keys >= 64 * blocks)
        blocks *= 2;
    return blocks;
}

bool attention_few(zn_device *d, const attention_task &t)
{
    const size_t bytes = few_memory::bytes(WARPS / (t.a.width / WIDE), t.a.width);
    if (t.a.width % WIDE || t.a.keys > MOST_KEYS || bytes > (size_t)d->shared)
        return false;
    const int64_t tiles = t.units * ((t.a.queries + QUERIES - 1) / QUERIES);
    few_task f = { t, blocks_of_cluster(d, tiles, t.a.keys), 0 };
    f.each = (int)((t.a.keys + 16 * f.blocks - 1) / (16 * f.blocks) * 16);
    void (*const kernel)(few_task) = t.a.type == ZN_TYPE_BF16 ? attend_few<bf16_pair> : attend_few<f16_pair>;
    launch_clusters(d, kernel, (unsigned)(tiles * f.blocks), (unsigned)f.blocks, FEW_THREADS, bytes, f);
    return true;
}

/* Attention of 16-bit maps with rows of up to 512 numbers over at most 256 keys, as in the small maps of a U-Net: one
 * launch, in which a thread block has 16 queries. Warps share the keys for the scores; weights are in shared memory;
 * then warps share columns of the values, and their keys where there are more warps than that.
 *
 * Keys and values go from memory to the matrix unit. The order of channels in a product is free, as long as both
 * factors have the same, and so is that of keys and of columns: a lane (g = lane / 4, q = lane % 4) reads 8
 * neighbouring channels of key g, 8q to 8q+7 of 32, for two products; of the values it reads 8 neighbouring columns, 8g
 * to 8g+7 of 64, of keys 4q to 4q+3 of 16, which are its parts of eight products. */
#include "kernels/cuda/sequence/attention_half.h"

#include <math.h>

enum { FEW_THREADS = 512, WARPS = FEW_THREADS / 32, QUERIES = 16, MOST_KEYS = 256, WIDE = 64, P_ROW = MOST_KEYS + 8 };

struct alignas(16) eight {
    uint32_t pair[4];
};

static __device__ eight load_eight(const uint16_t *from) { return *reinterpret_cast<const eight *>(from); }

static __device__ const uint16_t *head_of(const attention_task &t, const zn_rows &m, int64_t unit, int share)
{
    return reinterpret_cast<const uint16_t *>(m.data) + unit / t.a.heads * m.sample + unit % t.a.heads / share * m.head;
}

/* Scores of 16 queries with the keys of this warp, every 16th group of eight: scores[i][..] of keys from (warp + 16 i)
 * * 8 on. */
template <typename T>
static __device__ void score(const attention_task &t, int64_t unit, int64_t first, float scores[2][4])
{
    enum { AHEAD = 4 };
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const uint16_t *rows[2], *keys[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int64_t query = first + g + 8 * i, key = (warp + WARPS * i) * 8 + g;
        rows[i] = query < t.a.queries ? head_of(t, t.a.q, unit, 1) + query * t.a.q.step + 8 * q : nullptr;
        keys[i] = key < t.a.keys ? head_of(t, t.a.k, unit, t.share) + key * t.a.k.step + 8 * q : nullptr;
    }
    for (int from = 0; from < t.a.width; from += 32 * AHEAD) {
        eight x[AHEAD][2] = {}, k[AHEAD][2] = {};
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                if (from + 32 * i < t.a.width && rows[j])
                    x[i][j] = load_eight(rows[j] + from + 32 * i);
                if (from + 32 * i < t.a.width && keys[j])
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

/* Turns scores into weights relative to each query's largest, writes them, and returns the sums of all weights of this
 * thread's two queries. rows: [WARPS][QUERIES]. */
template <typename T>
static __device__ void weigh(const attention_task &t, int64_t first, float scores[2][4], float *rows, uint16_t *weights,
                             float sums[2])
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const float scale = t.a.scale * 1.44269504f;
    float most[2] = { -INFINITY, -INFINITY };
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t key = (warp + WARPS * (i / 4)) * 8 + 2 * q + i % 2;
        float &s = scores[i / 4][i % 4];
        s = key < seen_by(t, first + g + i % 4 / 2 * 8) ? scale * s : -INFINITY;
        most[i % 4 / 2] = s > most[i % 4 / 2] ? s : most[i % 4 / 2];
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        most[i] = largest_of_four(most[i]);
        if (q == 0)
            rows[warp * QUERIES + g + 8 * i] = most[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
        for (int w = 0; w < WARPS; w++)
            most[i] = fmaxf(most[i], rows[w * QUERIES + g + 8 * i]);
    __syncthreads(); /* all have read them */
    sums[0] = sums[1] = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float *const two = scores[i / 2] + i % 2 * 2;
        for (int k = 0; k < 2; k++)
            two[k] = two[k] == -INFINITY ? 0 : exp2f(two[k] - most[i % 2]);
        sums[i % 2] += two[0] + two[1];
        *reinterpret_cast<uint32_t *>(weights + (g + i % 2 * 8) * P_ROW + (warp + WARPS * (i / 2)) * 8 + 2 * q) =
            T::of(two[0], two[1]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        sums[i] = sum_of_four(sums[i]);
        if (q == 0)
            rows[warp * QUERIES + g + 8 * i] = sums[i];
    }
    __syncthreads();
}

/* y[16][64] of the keys [begin, end), columns from `column` on: sums[j] has column 8n + j as its column n. */
template <typename T>
static __device__ void add_values(const attention_task &t, int64_t unit, const uint16_t *weights, int begin, int end,
                                  int column, float sums[8][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const uint16_t *const v = head_of(t, t.a.v, unit, t.share) + column + 8 * g;
#pragma unroll 4
    for (int key = begin; key < end; key += 16) {
        eight x[4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (key + 4 * q + i < t.a.keys)
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

/* Shared memory: rows, weights, then parts of the results, [share of the keys][QUERIES][width]. */
template <typename T> __global__ void __launch_bounds__(FEW_THREADS, 1) attend_few(attention_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *const rows = zn_cuda_shared, *const parts = rows + WARPS * QUERIES + QUERIES * P_ROW / 2;
    uint16_t *const weights = reinterpret_cast<uint16_t *>(rows + WARPS * QUERIES);
    const int64_t blocks = (t.a.queries + QUERIES - 1) / QUERIES, unit = blockIdx.x / blocks;
    const int64_t first = blockIdx.x % blocks * QUERIES;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    float scores[2][4] = {}, own[2];
    score<T>(t, unit, first, scores);
    weigh<T>(t, first, scores, rows, weights, own);
    const int wide = t.a.width / WIDE, shares = WARPS / wide, share = warp / wide, column = warp % wide * WIDE;
    const int each = ((int)t.a.keys + 16 * shares - 1) / (16 * shares) * 16, begin = share * each;
    const int last = begin + each < (int)t.a.keys ? begin + each : (int)t.a.keys;
    if (share < shares) {
        float sums[8][4] = {};
        add_values<T>(t, unit, weights, begin, last, column, sums);
        float *const to = parts + (share * QUERIES + g) * t.a.width + column + 16 * q;
#pragma unroll
        for (int i = 0; i < 4; i++) /* rows g and g + 8, columns 2q and 2q + 1 of each product */
#pragma unroll
            for (int j = 0; j < 8; j += 4)
                store<4>(to + i / 2 * 8 * t.a.width + i % 2 * 8 + j, 0,
                         floats<4>{ { sums[j][i], sums[j + 1][i], sums[j + 2][i], sums[j + 3][i] } });
    }
    __syncthreads();
    const int64_t base = unit / t.a.heads * t.a.y.sample + unit % t.a.heads * t.a.y.head;
    for (int i = (int)threadIdx.x; i < QUERIES * t.a.width / 2; i += FEW_THREADS) {
        const int row = i / (t.a.width / 2), c = i % (t.a.width / 2) * 2;
        float2 y = make_float2(0, 0);
        float sum = 0;
        for (int w = 0; w < WARPS; w++)
            sum += rows[w * QUERIES + row];
        for (int s = 0; s < shares; s++) {
            y.x += parts[(s * QUERIES + row) * t.a.width + c];
            y.y += parts[(s * QUERIES + row) * t.a.width + c + 1];
        }
        const float factor = sum == 0 ? 0 : 1 / sum; /* 0: it attends to nothing */
        if (first + row < t.a.queries)
            write_pair(t.a.y.data, base + (first + row) * t.a.y.step + c, t.a.type,
                       make_float2(factor * y.x, factor * y.y));
    }
}

bool attention_few(zn_device *d, const attention_task &t)
{
    const size_t bytes = sizeof(float) * (WARPS * QUERIES + QUERIES * P_ROW / 2 +
                                          (size_t)(WARPS / (t.a.width / WIDE)) * QUERIES * (size_t)t.a.width);
    if (t.a.width % WIDE || t.a.keys > MOST_KEYS || bytes > (size_t)d->shared)
        return false;
    void (*const kernel)(attention_task) = t.a.type == ZN_TYPE_BF16 ? attend_few<bf16_pair> : attend_few<f16_pair>;
    launch(d, kernel, dim3((unsigned)(t.units * ((t.a.queries + QUERIES - 1) / QUERIES))), FEW_THREADS, bytes, t);
    return true;
}

/* Attention of 16-bit maps, for rows of up to 128 numbers. A block has 128 queries, a warp 16 of them in registers, and
 * loops over tiles of 64 keys and values, which are copied one tile ahead. Weights never leave the registers: the sums
 * of one product have the layout of the next one's left factor. Scores, weights' sums and results are fp32. */
#include "kernels/cuda/sequence/attention_half.h"

#include "kernels/cuda/half.h"

enum { WARP = 32, QUERIES = THREADS / WARP * 16, KEYS = 64, EIGHT = 8 };

template <int WIDTH> struct half_layout {
    enum {
        ROW = WIDTH + EIGHT,
        TILE = KEYS * ROW,
        PAIR = 2 * TILE,                   /* keys, then values */
        NUMBERS = QUERIES * ROW + 2 * PAIR /* the queries, then two pairs of tiles */
    };
};

static inline __device__ const uint16_t *numbers_of(const attention_task &t, const zn_rows &m, int64_t unit, int share)
{
    return reinterpret_cast<const uint16_t *>(m.data) + unit / t.a.heads * m.sample + unit % t.a.heads / share * m.head;
}

/* COUNT rows; those from `rows` on and columns from `width` on are zeros. */
template <int COUNT, int WIDTH>
static __device__ void copy_rows(uint16_t *to, const uint16_t *from, int64_t step, int64_t rows, int width)
{
    for (int i = (int)threadIdx.x; i < COUNT * (WIDTH / EIGHT); i += THREADS) {
        const int row = i / (WIDTH / EIGHT), at = i % (WIDTH / EIGHT) * EIGHT;
        const bool is_there = row < rows && at < width;
        copy_async<16>(reinterpret_cast<float *>(to + row * half_layout<WIDTH>::ROW + at),
                       reinterpret_cast<const float *>(from + (is_there ? row * step + at : 0)), is_there);
    }
}

/* scores[16][KEYS] = q k', computed by a warp. */
template <typename T, int WIDTH>
static __device__ void multiply_keys(const uint32_t q[WIDTH / 16][4], const uint16_t *keys, float scores[KEYS / 8][4])
{
    const int lane = (int)threadIdx.x % WARP;
    const uint16_t *from = keys + (lane / 16 * 8 + lane % 8) * half_layout<WIDTH>::ROW + lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n += 2) {
            uint32_t b[4];
            load_four(b, from + n * 8 * half_layout<WIDTH>::ROW + k * 16);
            T::multiply_add(scores[n], q[k], b);
            T::multiply_add(scores[n + 1], q[k], b + 2);
        }
}

/* y[16][WIDTH] += weights v */
template <typename T, int WIDTH>
static __device__ void multiply_values(const float weights[KEYS / 8][4], const uint16_t *values, float y[WIDTH / 8][4])
{
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        const float *low = weights[2 * k], *high = weights[2 * k + 1];
        const uint32_t a[4] = { T::of(low[0], low[1]), T::of(low[2], low[3]), T::of(high[0], high[1]),
                                T::of(high[2], high[3]) };
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n += 2) {
            uint32_t b[2][2];
            load_right<2, half_layout<WIDTH>::ROW>(values + k * 16 * half_layout<WIDTH>::ROW + n * 8, b);
            T::multiply_add(y[n], a, b[0]);
            T::multiply_add(y[n + 1], a, b[1]);
        }
    }
}

/* Turns scores into weights, powers of two relative to the rows' largest scores, and rescales the results so far. scale
 * has the logarithm of e in it. seen: keys from this tile's first on that each of the two rows attends to. */
template <int COLUMNS>
static __device__ void weigh(float scale, const int64_t seen[2], float scores[KEYS / 8][4], softmax rows[2],
                             float y[COLUMNS][4])
{
    const int q = (int)threadIdx.x % 4;
    float top[2] = { -INFINITY, -INFINITY }, factor[2];
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = n * 8 + 2 * q + i % 2;
            scores[n][i] = key < seen[i / 2] ? scale * scores[n][i] : -INFINITY;
            top[i / 2] = scores[n][i] > top[i / 2] ? scores[n][i] : top[i / 2];
        }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float old = rows[i].most, found = largest_of_four(top[i]);
        rows[i].most = found > old ? found : old;
        factor[i] = rows[i].most == -INFINITY ? 1 : exp2f(old - rows[i].most);
        rows[i].sum *= factor[i];
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[n][i] = scores[n][i] == -INFINITY ? 0 : exp2f(scores[n][i] - rows[i / 2].most);
            rows[i / 2].sum += scores[n][i];
        }
#pragma unroll
    for (int n = 0; n < COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            y[n][i] *= factor[i / 2];
}

template <typename T, int WIDTH> __global__ void __launch_bounds__(THREADS, 1) attention_half_kernel(attention_task t)
{
    typedef half_layout<WIDTH> layout;
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const shared = reinterpret_cast<uint16_t *>(zn_cuda_shared), *const tiles =
                                                                               shared + QUERIES * layout::ROW;
    const int64_t blocks = (t.a.queries + QUERIES - 1) / QUERIES, unit = blockIdx.x / blocks;
    const int64_t first = (blocks - 1 - blockIdx.x % blocks) * QUERIES; /* the longest loops begin first */
    const int64_t last = first + QUERIES < t.a.queries ? first + QUERIES : t.a.queries;
    const int64_t keys = seen_by(t, last - 1);
    const uint16_t *k = numbers_of(t, t.a.k, unit, t.share), *v = numbers_of(t, t.a.v, unit, t.share);
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t query = first + warp * 16 + lane / 4, seen[2] = { seen_by(t, query), seen_by(t, query + 8) };
    const float scale = t.a.scale * 1.44269504f;
    const auto copy_keys = [&](int64_t key) {
        uint16_t *to = tiles + key / KEYS % 2 * layout::PAIR;
        copy_rows<KEYS, WIDTH>(to, k + key * t.a.k.step, t.a.k.step, t.a.keys - key, t.a.width);
        copy_rows<KEYS, WIDTH>(to + layout::TILE, v + key * t.a.v.step, t.a.v.step, t.a.keys - key, t.a.width);
    };
    copy_rows<QUERIES, WIDTH>(shared, numbers_of(t, t.a.q, unit, 1) + first * t.a.q.step, t.a.q.step,
                              t.a.queries - first, t.a.width);
    copy_keys(0);
    copy_commit();
    uint32_t q[WIDTH / 16][4];
    softmax rows[2] = { { -INFINITY, 0 }, { -INFINITY, 0 } };
    float y[WIDTH / 8][4] = {};
    for (int64_t key = 0; key < keys; key += KEYS) {
        if (key + KEYS < keys)
            copy_keys(key + KEYS);
        copy_commit();
        copy_wait<1>();  /* this tile has arrived for this thread, */
        __syncthreads(); /* and for all */
        if (key == 0)
#pragma unroll
            for (int i = 0; i < WIDTH / 16; i++)
                load_four(q[i], shared + (warp * 16 + lane % 16) * layout::ROW + lane / 16 * 8 + i * 16);
        const uint16_t *now = tiles + key / KEYS % 2 * layout::PAIR;
        const int64_t left[2] = { seen[0] - key, seen[1] - key };
        float scores[KEYS / 8][4] = {};
        multiply_keys<T, WIDTH>(q, now, scores);
        weigh<WIDTH / 8>(scale, left, scores, rows, y);
        multiply_values<T, WIDTH>(scores, now + layout::TILE, y);
        __syncthreads(); /* all have read this tile before the one after the next is copied to its place */
    }
    copy_wait<0>();
    write_rows<WIDTH>(t, unit / t.a.heads * t.a.y.sample + unit % t.a.heads * t.a.y.head, query, rows, &y[0][0]);
}

/* ---- launching ---- */

template <typename T, int WIDTH> static void launch_half_width(zn_device *d, const attention_task &t)
{
    void (*const kernel)(attention_task) = attention_half_kernel<T, WIDTH>;
    const int64_t blocks = t.units * ((t.a.queries + QUERIES - 1) / QUERIES);
    launch(d, kernel, dim3((unsigned)blocks), THREADS, sizeof(uint16_t) * half_layout<WIDTH>::NUMBERS, t);
}

template <typename T> static void launch_half_type(zn_device *d, const attention_task &t)
{
    if (t.a.width <= 64)
        launch_half_width<T, 64>(d, t);
    else
        launch_half_width<T, 128>(d, t);
}

void attention_half(zn_device *d, const attention_task &t)
{
    if (zn_attention_is_wide(&t.a)) {
        if (!attention_few(d, t))
            attention_products(d, t);
        return;
    }
#if !defined(ZN_CUDA_EMULATED)
    if (attention_wgmma(d, t))
        return;
#endif
    if (t.a.type == ZN_TYPE_BF16)
        launch_half_type<bf16_pair>(d, t);
    else
        launch_half_type<f16_pair>(d, t);
}

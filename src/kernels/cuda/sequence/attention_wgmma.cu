/* Attention of 16-bit maps on Hopper GPUs, for rows of 64 or 128 numbers and many queries. A block has 128 queries: two
 * warpgroups multiply 64 each, and one thread of a third copies tiles of 128 keys and values ahead of them. While the
 * matrix unit multiplies weights and values of one tile, the scores of the next become weights. Scores, sums of weights
 * and results are fp32. attention_half.cu does the same for other GPUs and rows. */
#include "kernels/cuda/lines.h"
#include "kernels/cuda/sequence/attention_half.h"

enum {
    MULTIPLIERS = 2,
    ROWS = 64, /* queries of a warpgroup */
    QUERIES = MULTIPLIERS * ROWS,
    KEYS = 128,
    BLOCK = (MULTIPLIERS + 1) * WARPGROUP,
    STAGES = 2,
    LEAST_QUERIES = 256 /* fewer leave most of the GPU idle, and smaller blocks are faster */
};

struct wide_attention {
    attention_task t;
    CUtensorMap q, k, v;
    float scale; /* with the logarithm of e in it */
};

/* A tile of 128 rows: blocks of 64 numbers, each with a line for every row. */
template <int WIDTH> struct tile {
    enum { BLOCKS = WIDTH / 64, BLOCK_BYTES = KEYS * LINE, BYTES = BLOCKS * BLOCK_BYTES };
};

/* Shared memory: queries, stages of keys, stages of values, barriers. */
template <int WIDTH> struct attention_memory {
    char *q, *k, *v;
    uint64_t *q_full, *k_full, *k_empty, *v_full, *v_empty; /* all but the first for each stage */
    enum { BYTES = (1 + 2 * STAGES) * tile<WIDTH>::BYTES + (1 + 4 * STAGES) * 8 };
    __device__ explicit attention_memory(char *start)
    {
        q = start;
        k = q + tile<WIDTH>::BYTES;
        v = k + STAGES * tile<WIDTH>::BYTES;
        q_full = reinterpret_cast<uint64_t *>(v + STAGES * tile<WIDTH>::BYTES);
        k_full = q_full + 1;
        k_empty = k_full + STAGES;
        v_full = k_empty + STAGES;
        v_empty = v_full + STAGES;
    }
    __device__ void init(void) const
    {
        barrier_init(q_full, 1);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(k_full + i, 1);
            barrier_init(v_full + i, 1);
            barrier_init(k_empty + i, MULTIPLIERS * WARPGROUP / 32);
            barrier_init(v_empty + i, MULTIPLIERS * WARPGROUP / 32);
        }
        publish_shared();
    }
};

/* What a block computes. */
struct assignment {
    int64_t sample, first; /* its first query */
    int head, key_head;
    int tiles; /* of keys */
};

[[maybe_unused]] static __device__ assignment assignment_of(const attention_task &t)
{
    const int64_t blocks = (t.a.queries + QUERIES - 1) / QUERIES, unit = blockIdx.x / blocks;
    const int64_t first = (blocks - 1 - blockIdx.x % blocks) * QUERIES; /* the longest loops begin first */
    const int64_t last = first + QUERIES < t.a.queries ? first + QUERIES : t.a.queries;
    const int head = (int)(unit % t.a.heads);
    const int64_t keys = seen_by(t, last - 1);
    return assignment{ unit / t.a.heads, first, head, head / t.share, (int)((keys + KEYS - 1) / KEYS) };
}

/* ---- copying: one thread ---- */

template <int WIDTH>
static __device__ void copy_tile(char *to, const CUtensorMap *map, int head, int64_t row, int64_t sample,
                                 uint64_t *full)
{
    barrier_arrive_expecting(full, tile<WIDTH>::BYTES);
    for (int i = 0; i < tile<WIDTH>::BLOCKS; i++)
        bulk_copy(to + i * tile<WIDTH>::BLOCK_BYTES, map, head * WIDTH + i * 64, (int)row, 0, (int)sample, full);
}

template <int WIDTH>
static __device__ void copy_all(const wide_attention &w, const attention_memory<WIDTH> &m, const assignment &at)
{
    const auto stage = [&](char *to, const CUtensorMap *map, uint64_t *full, uint64_t *empty, int i) {
        const int s = i % STAGES;
        if (i >= STAGES)
            barrier_wait(empty + s, i / STAGES - 1);
        copy_tile<WIDTH>(to + s * tile<WIDTH>::BYTES, map, at.key_head, (int64_t)i * KEYS, at.sample, full + s);
    };
    copy_tile<WIDTH>(m.q, &w.q, at.head, at.first, at.sample, m.q_full);
    for (int i = 0; i < at.tiles; i++) {
        stage(m.k, &w.k, m.k_full, m.k_empty, i);
        stage(m.v, &w.v, m.v_full, m.v_empty, i);
    }
}

/* ---- multiplying ---- */

/* Starts scores = q k'. */
template <typename T, int WIDTH> static __device__ void start_scores(unsigned q, unsigned k, float (&scores)[KEYS / 2])
{
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        scores[i] = 0;
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < WIDTH / 16; i++) {
        const unsigned at = (unsigned)(i / 4 * tile<WIDTH>::BLOCK_BYTES + i % 4 * 32);
        T::multiply(scores, matrix_at(q + at, 16, 8 * LINE), matrix_at(k + at, 16, 8 * LINE));
    }
    wgmma_commit();
}

/* Starts y += weights v. */
template <typename T, int WIDTH>
static __device__ void start_values(const uint32_t (&weights)[KEYS / 16][4], unsigned v, float (&y)[WIDTH / 2])
{
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        T::multiply_held(y, weights[i], matrix_at(v + (unsigned)(i * 16 * LINE), tile<WIDTH>::BLOCK_BYTES, 8 * LINE));
    wgmma_commit();
}

static __device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

/* Scores from keys on that a row does not attend to are not seen. left: keys from this tile's first on. */
[[maybe_unused]] static __device__ void hide(const int64_t left[2], float (&scores)[KEYS / 2])
{
    const int q = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        if (i / 4 * 8 + 2 * q + i % 2 >= left[i / 2 % 2])
            scores[i] = -INFINITY;
}

/* Turns scores into weights relative to the rows' largest scores so far; factor: of the results before them. */
[[maybe_unused]] static __device__ void weigh(float scale, float (&scores)[KEYS / 2], softmax rows[2], float factor[2])
{
    float top[2] = { rows[0].most, rows[1].most }, base[2];
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        top[i / 2 % 2] = fmaxf(top[i / 2 % 2], scores[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float most = largest_of_four(top[i]);
        base[i] = most == -INFINITY ? 0 : scale * most; /* nothing is seen yet: all weights are 0 */
        factor[i] = power_of_two(scale * rows[i].most - base[i]);
        rows[i].most = most;
        rows[i].sum *= factor[i];
    }
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        scores[i] = power_of_two(scale * scores[i] - base[i / 2 % 2]);
        rows[i / 2 % 2].sum += scores[i];
    }
}

template <typename T> static __device__ void round_weights(const float (&scores)[KEYS / 2], uint32_t (&w)[KEYS / 16][4])
{
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++)
        w[i / 4][i % 4] = T::of(scores[2 * i], scores[2 * i + 1]);
}

template <typename T, int WIDTH>
static __device__ void multiply_all(const wide_attention &w, const attention_memory<WIDTH> &m, const assignment &at)
{
    const attention_task &t = w.t;
    const int thread = (int)threadIdx.x % WARPGROUP, group = (int)threadIdx.x / WARPGROUP, lane = thread % 32;
    const int64_t query = at.first + group * ROWS + thread / 32 * 16 + lane / 4;
    const int64_t seen[2] = { seen_by(t, query), seen_by(t, query + 8) };
    const int64_t all = seen_by(t, at.first + group * ROWS); /* keys that every row of this warpgroup attends to */
    const unsigned q = shared_address(m.q) + (unsigned)(group * ROWS * LINE), k = shared_address(m.k),
                   v = shared_address(m.v);
    const auto stage = [](int i) { return (unsigned)(i % STAGES * tile<WIDTH>::BYTES); };
    const auto release = [&](uint64_t *empty, int i) {
        if (lane == 0)
            barrier_arrive(empty + i % STAGES);
    };
    softmax rows[2] = { { -INFINITY, 0 }, { -INFINITY, 0 } };
    float scores[KEYS / 2], y[WIDTH / 2] = {}, factor[2];
    uint32_t weights[KEYS / 16][4];
    barrier_wait(m.q_full, 0);
    for (int i = 0; i < at.tiles; i++) {
        barrier_wait(m.k_full + i % STAGES, i / STAGES);
        start_scores<T, WIDTH>(q, k + stage(i), scores);
        if (i > 0) {
            barrier_wait(m.v_full + (i - 1) % STAGES, (i - 1) / STAGES);
            start_values<T, WIDTH>(weights, v + stage(i - 1), y);
            wgmma_wait<1>();
        } else {
            wgmma_wait<0>();
        }
        wgmma_settle(scores);
        release(m.k_empty, i);
        const int64_t key = (int64_t)i * KEYS, left[2] = { seen[0] - key, seen[1] - key };
        if (key + KEYS > all)
            hide(left, scores);
        weigh(w.scale, scores, rows, factor);
        wgmma_wait<0>();
        wgmma_settle(y);
        if (i > 0)
            release(m.v_empty, i - 1);
#pragma unroll
        for (int n = 0; n < WIDTH / 2; n++)
            y[n] *= factor[n / 2 % 2];
        round_weights<T>(scores, weights);
    }
    if (at.tiles > 0) {
        barrier_wait(m.v_full + (at.tiles - 1) % STAGES, (at.tiles - 1) / STAGES);
        start_values<T, WIDTH>(weights, v + stage(at.tiles - 1), y);
        wgmma_wait<0>();
        wgmma_settle(y);
    }
    write_rows<WIDTH>(t, at.sample * t.a.y.sample + at.head * t.a.y.head, query, rows, y);
}

template <typename T, int WIDTH>
__global__ void __launch_bounds__(BLOCK, 1) attention_wide(const __grid_constant__ wide_attention w)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char zn_cuda_lines[];
    const attention_memory<WIDTH> m(zn_cuda_lines);
    const assignment at = assignment_of(w.t);
    if (threadIdx.x == 0)
        m.init();
    __syncthreads();
    if (threadIdx.x < MULTIPLIERS * WARPGROUP) {
        take_registers<232>();
        multiply_all<T, WIDTH>(w, m, at);
    } else {
        give_registers<40>();
        if (threadIdx.x == MULTIPLIERS * WARPGROUP)
            copy_all<WIDTH>(w, m, at);
    }
#else
    (void)w;
#endif
}

/* ---- launching ---- */

static bool describe(CUtensorMap *map, const zn_rows &m, const attention_task &t, int64_t heads, int64_t rows)
{
    const int64_t samples = t.units / t.a.heads;
    const int64_t size[] = { heads * t.a.width, rows, 1, samples }, apart[] = { m.step, m.sample, m.sample };
    return m.head == t.a.width && bulk_describe(map, m.data, t.a.type, size, apart, 1, KEYS);
}

template <typename T, int WIDTH> static void launch_wide(zn_device *d, const wide_attention &w)
{
    const int64_t blocks = w.t.units * ((w.t.a.queries + QUERIES - 1) / QUERIES);
    launch(d, attention_wide<T, WIDTH>, dim3((unsigned)blocks), BLOCK, attention_memory<WIDTH>::BYTES, w);
}

bool attention_wgmma(zn_device *d, const attention_task &t)
{
    wide_attention w = {};
    w.t = t;
    w.scale = t.a.scale * 1.44269504f;
    if (!d->hopper || (t.a.width != 64 && t.a.width != 128) || t.a.queries < LEAST_QUERIES ||
        !describe(&w.q, t.a.q, t, t.a.heads, t.a.queries) || !describe(&w.k, t.a.k, t, t.a.heads / t.share, t.a.keys) ||
        !describe(&w.v, t.a.v, t, t.a.heads / t.share, t.a.keys))
        return false;
    if (t.a.type == ZN_TYPE_BF16 && t.a.width == 128)
        launch_wide<bf16_rows, 128>(d, w);
    else if (t.a.type == ZN_TYPE_BF16)
        launch_wide<bf16_rows, 64>(d, w);
    else if (t.a.width == 128)
        launch_wide<f16_rows, 128>(d, w);
    else
        launch_wide<f16_rows, 64>(d, w);
    return true;
}

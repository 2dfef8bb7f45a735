/* Attention of 16-bit maps on Hopper GPUs, for rows of 64 or 128 numbers and many queries. There is a block for each
 * multiprocessor, which takes one tile of 128 queries after the other: two warpgroups multiply 64 each, and one thread
 * of a third copies tiles of keys and values ahead of them. The matrix unit always has the next product waiting: scores
 * of a tile begin before the values of the tile before the last are done, and become weights while values are
 * multiplied. Tiles that are left when every block has had as many are halved: the warpgroups share the keys of 64
 * queries. Scores, sums of weights and results are fp32. attention_half.cu does the same for other GPUs and rows. */
#include "kernels/cuda/lines.h"
#include "kernels/cuda/sequence/attention_half.h"

enum {
    MULTIPLIERS = 2,
    ROWS = 64, /* queries of a warpgroup */
    QUERIES = MULTIPLIERS * ROWS,
    BLOCK = (MULTIPLIERS + 1) * WARPGROUP,
    STAGES = 2,         /* a warpgroup that takes every second tile of keys always uses the same */
    KEYS_OF_64 = 128,   /* keys of a tile, for rows of 64 numbers, */
    KEYS_OF_128 = 176,  /* and of 128: as many as registers allow */
    MEETING = 1,        /* the barrier at which warpgroups merge their results */
    TURN = 2,           /* the first number of the barriers by which warpgroups take turns at the matrix unit */
    LEAST_QUERIES = 256 /* fewer leave most of the GPU idle, and smaller blocks are faster */
};

struct wide_attention {
    attention_task t;
    CUtensorMap q, k, v;
    float scale; /* with the logarithm of e in it */
};

/* Rows in shared memory: blocks of 64 numbers, each with a line for every row. */
template <int WIDTH, int COUNT> struct tile {
    enum { BLOCKS = WIDTH / 64, BLOCK_BYTES = COUNT * LINE, BYTES = BLOCKS * BLOCK_BYTES };
};

/* Shared memory: queries, stages of keys, stages of values, barriers. Results of a warpgroup that are merged with those
 * of the other take the place of keys. */
template <int WIDTH, int KEYS> struct attention_memory {
    typedef tile<WIDTH, QUERIES> query_tile;
    typedef tile<WIDTH, KEYS> key_tile;
    char *q, *k, *v;
    uint64_t *q_full, *q_empty, *k_full, *k_empty, *v_full, *v_empty; /* those of keys and values for each stage */
    enum { BYTES = query_tile::BYTES + 2 * STAGES * key_tile::BYTES + (2 + 4 * STAGES) * 8 };
    __device__ explicit attention_memory(char *start)
    {
        q = start;
        k = q + query_tile::BYTES;
        v = k + STAGES * key_tile::BYTES;
        q_full = reinterpret_cast<uint64_t *>(v + STAGES * key_tile::BYTES);
        q_empty = q_full + 1;
        k_full = q_empty + 1;
        k_empty = k_full + STAGES;
        v_full = k_empty + STAGES;
        v_empty = v_full + STAGES;
    }
    __device__ void init(void) const
    {
        enum { WARPS = MULTIPLIERS * WARPGROUP / 32 };
        barrier_init(q_full, 1);
        barrier_init(q_empty, WARPS);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(k_full + i, 1);
            barrier_init(v_full + i, 1);
            barrier_init(k_empty + i, WARPS);
            barrier_init(v_empty + i, WARPS);
        }
        publish_shared();
    }
};

/* What a block computes at a time. */
struct assignment {
    int sample, first; /* its first query */
    int head;
    int tiles;   /* of keys */
    bool halved; /* 64 queries, of which each warpgroup takes every second tile of keys */
};

/* The assignment number `turn` of this block; false if it has no more. */
template <int KEYS> static __device__ bool assign(const attention_task &t, int turn, assignment &to)
{
    const int queries = (int)t.a.queries, each = (queries + QUERIES - 1) / QUERIES, all = (int)t.units * each,
              blocks = (int)gridDim.x, block = (int)blockIdx.x, whole = all / blocks, rest = all - whole * blocks;
    to.halved = turn == whole && 2 * rest <= blocks;
    const int number = turn * blocks + (to.halved ? block / 2 : block), unit = number / each;
    to.first = (each - 1 - (number - unit * each)) * QUERIES; /* the longest loops begin first */
    to.first += to.halved ? block % 2 * ROWS : 0;
    if (turn > whole || number >= all || to.first >= queries)
        return false;
    const int end = to.first + (to.halved ? ROWS : QUERIES);
    to.sample = unit / t.a.heads;
    to.head = unit - to.sample * t.a.heads;
    to.tiles = ((int)seen_by(t, (end < queries ? end : queries) - 1) + KEYS - 1) / KEYS;
    return true;
}

/* ---- copying: one thread ---- */

template <int WIDTH, typename TILE>
static __device__ void copy_tile(char *to, const CUtensorMap *map, int head, int row, int sample, uint64_t *full)
{
    barrier_arrive_expecting(full, TILE::BYTES);
    for (int i = 0; i < TILE::BLOCKS; i++)
        bulk_copy(to + i * TILE::BLOCK_BYTES, map, head * WIDTH + i * 64, row, 0, sample, full);
}

template <int WIDTH, int KEYS>
static __device__ void copy_all(const wide_attention &w, const attention_memory<WIDTH, KEYS> &m)
{
    typedef typename attention_memory<WIDTH, KEYS>::query_tile query_tile;
    typedef typename attention_memory<WIDTH, KEYS>::key_tile key_tile;
    assignment at = {};
    int step = 0; /* tiles of keys so far */
    const auto stage = [&](char *to, const CUtensorMap *map, uint64_t *full, uint64_t *empty, int i) {
        const int s = step % STAGES;
        if (step >= STAGES)
            barrier_wait(empty + s, step / STAGES - 1);
        copy_tile<WIDTH, key_tile>(to + s * key_tile::BYTES, map, at.head / w.t.share, i * KEYS, at.sample, full + s);
    };
    for (int turn = 0; assign<KEYS>(w.t, turn, at); turn++) {
        if (turn > 0)
            barrier_wait(m.q_empty, turn - 1);
        copy_tile<WIDTH, query_tile>(m.q, &w.q, at.head, at.first, at.sample, m.q_full);
        for (int i = 0; i < at.tiles; i++, step++) {
            stage(m.k, &w.k, m.k_full, m.k_empty, i);
            stage(m.v, &w.v, m.v_full, m.v_empty, i);
        }
    }
}

/* ---- multiplying ---- */

/* A matrix so many bytes after another. */
static __device__ uint64_t matrix_after(uint64_t matrix, unsigned bytes) { return matrix + (bytes >> 4); }

/* Starts scores = q k'. */
template <typename T, int WIDTH, int KEYS>
static __device__ void start_scores(uint64_t q, uint64_t k, float (&scores)[KEYS / 2])
{
    wgmma_begin();
    T::multiply_first(scores, q, k);
#pragma unroll
    for (int i = 1; i < WIDTH / 16; i++)
        T::multiply(scores, matrix_after(q, (unsigned)(i / 4 * QUERIES * LINE + i % 4 * 32)),
                    matrix_after(k, (unsigned)(i / 4 * KEYS * LINE + i % 4 * 32)));
    wgmma_commit();
}

/* Starts y += weights v. */
template <typename T, int WIDTH, int KEYS>
static __device__ void start_values(const uint32_t (&weights)[KEYS / 16][4], uint64_t v, float (&y)[WIDTH / 2])
{
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        T::multiply_held(y, weights[i], matrix_after(v, (unsigned)(i * 16 * LINE)));
    wgmma_commit();
}

static __device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

/* Scores from keys on that a row does not attend to are not seen. left: keys from this tile's first on. */
template <int COUNT> static __device__ void hide(const int left[2], float (&scores)[COUNT])
{
    const int q = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (i / 4 * 8 + 2 * q + i % 2 >= left[i / 2 % 2])
            scores[i] = -INFINITY;
}

/* Turns scores into weights relative to the rows' largest scores so far; factor: of the results before them. */
template <int COUNT> static __device__ void weigh(float scale, float (&scores)[COUNT], softmax rows[2], float factor[2])
{
    float top[2] = { rows[0].most, rows[1].most }, base[2];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
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
    for (int i = 0; i < COUNT; i++) {
        scores[i] = power_of_two(scale * scores[i] - base[i / 2 % 2]);
        rows[i / 2 % 2].sum += scores[i];
    }
}

template <typename T, int COUNT>
static __device__ void round_weights(const float (&scores)[COUNT], uint32_t (&w)[COUNT / 8][4])
{
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
        w[i / 4][i % 4] = T::of(scores[2 * i], scores[2 * i + 1]);
}

/* Adds what the second warpgroup has of its keys to the first's; both call it. Only the first has the result. */
template <int COUNT>
static __device__ void merge(char *memory, int group, float scale, softmax rows[2], float (&y)[COUNT])
{
    float *const other = reinterpret_cast<float *>(memory) + threadIdx.x % WARPGROUP;
    meet(MEETING, MULTIPLIERS * WARPGROUP); /* both have read all keys */
    if (group == 1) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            other[i * WARPGROUP] = y[i];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            other[(COUNT + 2 * i) * WARPGROUP] = rows[i].most;
            other[(COUNT + 2 * i + 1) * WARPGROUP] = rows[i].sum;
        }
    }
    meet(MEETING, MULTIPLIERS * WARPGROUP);
    if (group == 1)
        return;
    float mine[2], its[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float most = other[(COUNT + 2 * i) * WARPGROUP], sum = other[(COUNT + 2 * i + 1) * WARPGROUP],
                    top = fmaxf(most, rows[i].most), base = top == -INFINITY ? 0 : scale * top;
        mine[i] = power_of_two(scale * rows[i].most - base);
        its[i] = power_of_two(scale * most - base);
        rows[i].sum = mine[i] * rows[i].sum + its[i] * sum;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        y[i] = mine[i / 2 % 2] * y[i] + its[i / 2 % 2] * other[i * WARPGROUP];
}

/* One warpgroup's part of an assignment. step: tiles of keys before it. */
template <typename T, int WIDTH, int KEYS>
static __device__ void multiply_one(const wide_attention &w, const attention_memory<WIDTH, KEYS> &m,
                                    const assignment &at, int turn, int step)
{
    typedef typename attention_memory<WIDTH, KEYS>::key_tile key_tile;
    const attention_task &t = w.t;
    const int thread = (int)threadIdx.x % WARPGROUP, lane = thread % 32;
    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0); /* so that it is known to be one */
    const int top = at.first + (at.halved ? 0 : group * ROWS), query = top + thread / 32 * 16 + lane / 4;
    const int seen[2] = { (int)seen_by(t, query), (int)seen_by(t, query + 8) };
    const int all = (int)seen_by(t, top); /* keys that every row of this warpgroup attends to */
    const uint64_t q = matrix_at(shared_address(m.q) + (unsigned)(top - at.first) * LINE, 16, 8 * LINE),
                   k = matrix_at(shared_address(m.k), 16, 8 * LINE),
                   v = matrix_at(shared_address(m.v), KEYS * LINE, 8 * LINE);
    /* Of the tiles of keys this warpgroup takes the one after the first `begin`, and every one that is `apart` on. */
    const int apart = at.halved ? 2 : 1, begin = at.halved ? group : 0, tiles = (at.tiles - begin + apart - 1) / apart;
    const auto step_of = [&](int i) { return step + begin + apart * i; };
    const auto staged = [&](uint64_t matrix, int i) {
        return matrix_after(matrix, (unsigned)(step_of(i) % STAGES * key_tile::BYTES));
    };
    const auto wait_for = [&](uint64_t *full, int i) { barrier_wait(full + step_of(i) % STAGES, step_of(i) / STAGES); };
    const auto release = [&](uint64_t *empty, int i) { /* for the other, too, if it has no use for the tile */
                                                       if (lane < apart)
                                                           barrier_arrive(empty + step_of(i) % STAGES);
    };
    softmax rows[2] = { { -INFINITY, 0 }, { -INFINITY, 0 } };
    float scores[KEYS / 2], y[WIDTH / 2] = {}, factor[2] = { 1, 1 };
    uint32_t weights[KEYS / 16][4];
    const auto add_scores = [&](int i) {
        wait_for(m.k_full, i);
        start_scores<T, WIDTH, KEYS>(q, staged(k, i), scores);
    };
    const auto add_values = [&](int i) {
        wait_for(m.v_full, i);
        start_values<T, WIDTH, KEYS>(weights, staged(v, i), y);
    };
    const auto weigh_tile = [&](int i) {
        wgmma_settle(scores);
        release(m.k_empty, i);
        if (i + 1 == tiles && lane == 0)
            barrier_arrive(m.q_empty);
        const int key = (begin + apart * i) * KEYS, left[2] = { seen[0] - key, seen[1] - key };
        if (key + KEYS > all)
            hide(left, scores);
        weigh(w.scale, scores, rows, factor);
    };
    barrier_wait(m.q_full, turn);
    if (tiles > 0) {
        add_scores(0);
        wgmma_wait<0>();
        weigh_tile(0);
        round_weights<T>(scores, weights);
    } else if (lane == 0) {
        barrier_arrive(m.q_empty);
    }
    for (int i = 1; i < tiles; i++) {
        if (!at.halved)
            meet(TURN + group, MULTIPLIERS * WARPGROUP);
        add_scores(i);
        add_values(i - 1);
        if (!at.halved)
            let_meet(TURN + 1 - group, MULTIPLIERS * WARPGROUP);
        wgmma_wait<1>();
        weigh_tile(i);
        /* Here, because the compiler moves the wait for products up to the last branch. Not with halves: the keys of
         * this warpgroup's next tile are copied after the values that take the place of those being multiplied. */
        if (i + 1 < tiles && !at.halved)
            wait_for(m.k_full, i + 1);
        wgmma_wait<0>();
        wgmma_settle(y);
        release(m.v_empty, i - 1);
#pragma unroll
        for (int n = 0; n < WIDTH / 2; n++)
            y[n] *= factor[n / 2 % 2];
        round_weights<T>(scores, weights);
    }
    if (tiles > 0)
        add_values(tiles - 1);
    wgmma_wait<0>();
    wgmma_settle(y);
    if (tiles > 0)
        release(m.v_empty, tiles - 1);
    if (at.halved) {
        merge(m.k, group, w.scale, rows, y);
        if (group == 1)
            return;
    }
    write_rows<WIDTH>(t, at.sample * t.a.y.sample + at.head * t.a.y.head, query, rows, y);
}

template <typename T, int WIDTH, int KEYS>
__global__ void __launch_bounds__(BLOCK, 1) attention_wide(const __grid_constant__ wide_attention w)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char zn_cuda_lines[];
    const attention_memory<WIDTH, KEYS> m(zn_cuda_lines);
    if (threadIdx.x == 0)
        m.init();
    __syncthreads();
    if (threadIdx.x < MULTIPLIERS * WARPGROUP) {
        take_registers<232>();
        if (threadIdx.x >= WARPGROUP)
            let_meet(TURN, MULTIPLIERS * WARPGROUP); /* the first warpgroup begins */
        assignment at;
        for (int turn = 0, step = 0; assign<KEYS>(w.t, turn, at); turn++, step += at.tiles)
            multiply_one<T, WIDTH, KEYS>(w, m, at, turn, step);
    } else {
        give_registers<40>();
        if (threadIdx.x == MULTIPLIERS * WARPGROUP)
            copy_all<WIDTH, KEYS>(w, m);
    }
#else
    (void)w;
#endif
}

/* ---- launching ---- */

static bool describe(CUtensorMap *map, const zn_rows &m, const attention_task &t, int64_t heads, int64_t rows, int high)
{
    const int64_t samples = t.units / t.a.heads;
    const int64_t size[] = { heads * t.a.width, rows, 1, samples }, apart[] = { m.step, m.sample, m.sample };
    return m.head == t.a.width && bulk_describe(map, m.data, t.a.type, size, apart, 1, high);
}

template <typename T, int WIDTH, int KEYS> static bool launch_wide(zn_device *d, const attention_task &t)
{
    wide_attention w = {};
    w.t = t;
    w.scale = t.a.scale * 1.44269504f;
    const int64_t groups = t.a.heads / t.share, tiles = t.units * ((t.a.queries + QUERIES - 1) / QUERIES);
    if (!describe(&w.q, t.a.q, t, t.a.heads, t.a.queries, QUERIES) ||
        !describe(&w.k, t.a.k, t, groups, t.a.keys, KEYS) || !describe(&w.v, t.a.v, t, groups, t.a.keys, KEYS))
        return false;
    /* A block for each multiprocessor; few tiles are all halved, if there is room for it. */
    const int64_t all = 2 * tiles <= d->processors ? 2 * tiles : tiles,
                  blocks = all < d->processors ? all : d->processors;
    launch(d, attention_wide<T, WIDTH, KEYS>, dim3((unsigned)blocks), BLOCK, attention_memory<WIDTH, KEYS>::BYTES, w);
    return true;
}

template <int WIDTH, int KEYS> static bool launch_type(zn_device *d, const attention_task &t)
{
    return t.a.type == ZN_TYPE_BF16 ? launch_wide<bf16_rows, WIDTH, KEYS>(d, t)
                                    : launch_wide<f16_rows, WIDTH, KEYS>(d, t);
}

bool attention_wgmma(zn_device *d, const attention_task &t)
{
    if (!d->hopper || (t.a.width != 64 && t.a.width != 128) || t.a.queries < LEAST_QUERIES)
        return false;
    return t.a.width == 128 ? launch_type<128, KEYS_OF_128>(d, t) : launch_type<64, KEYS_OF_64>(d, t);
}

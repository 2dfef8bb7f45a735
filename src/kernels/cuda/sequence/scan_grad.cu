/* The gradient of the selective scan; ref/sequence/scan_grad.c is the reference and has the formulas. A thread block
 * has one group of channels of one part, and one chunk at a time in shared memory; four lanes have two channels. Tokens
 * go backwards in stretches: h before each token of a stretch, and its decay, are recomputed in registers from h at its
 * start, and those from the mark of the chunk. */
#include "kernels/cuda/sequence/scan.h"

enum { CHANNELS = ZN_SCAN_GROUP * ZN_SCAN_BLOCK, EACH = 2, LANES = 32 };
enum { GRAD_THREADS = CHANNELS / EACH * SCAN_QUAD, WARPS = GRAD_THREADS / LANES };
enum { STRETCH = 8, STRETCHES = ZN_SCAN_CHUNK / STRETCH };
enum { LOADERS = GRAD_THREADS / CHANNELS }; /* threads that load and store one channel */

/* h of a warp's channels at the start of a stretch, and in the same memory, once that has been read, its sums of db and
 * dc over channels. */
union scan_start {
    floats<4> h[EACH][LANES];
    float both[STRETCH][2][SCAN_STATES];
};

struct scan_chunk {
    float delta[ZN_SCAN_CHUNK][CHANNELS];
    float u[ZN_SCAN_CHUNK][CHANNELS];  /* then du */
    float dy[ZN_SCAN_CHUNK][CHANNELS]; /* then the gradient of delta */
    float b[ZN_SCAN_CHUNK][SCAN_STATES], c[ZN_SCAN_CHUNK][SCAN_STATES];
    scan_start start[STRETCHES][WARPS];
};

/* A thread's two channels, four states of each: their rates, the gradient that comes from the tokens after, and the sum
 * of d a_log over tokens, but for a factor of the rate. */
struct scan_pair {
    float rates[EACH][SCAN_QUAD], carry[EACH][SCAN_QUAD], da[EACH][SCAN_QUAD];
    float d[EACH]; /* of the direct term; 0 in all lanes of a channel but one */
};

/* A thread's column in loads and stores, and its sums over tokens. */
struct scan_column {
    int64_t channel;
    int place, row; /* in the chunk; its first token */
    bool inside;
    float bias, dd, dbias;
};

static __device__ scan_column column_of(const scan_task &t, int64_t first)
{
    scan_column c = {};
    c.place = (int)threadIdx.x % CHANNELS;
    c.row = (int)threadIdx.x / CHANNELS;
    c.channel = first + c.place;
    c.inside = c.channel < t.a.channels;
    c.bias = c.inside ? t.a.bias[c.channel] : 0;
    return c;
}

/* Tokens past the last, and channels past the last, have a delta and all else of 0. */
static __device__ void load_chunk(const scan_task &t, const scan_run &r, scan_chunk &s, scan_column &c, int64_t first)
{
    const int count = (int)(r.end - first < ZN_SCAN_CHUNK ? r.end - first : (int64_t)ZN_SCAN_CHUNK);
    const int64_t at = scan_at(t, r, first, c.channel), few = scan_few_at(t, r, first, t.first);
#pragma unroll 16
    for (int i = 0; i < ZN_SCAN_CHUNK / LOADERS; i++) {
        const int row = c.row + i * LOADERS;
        const int64_t from = at + row * t.a.channels;
        const bool inside = row < count && c.inside;
        const float u = inside ? t.a.u[from] : 0, dy = inside ? t.a.dy[from] : 0;
        s.delta[row][c.place] = softplus(inside ? t.a.dt[from] + c.bias : -INFINITY);
        s.u[row][c.place] = u;
        s.dy[row][c.place] = dy;
        c.dd += u * dy;
    }
#pragma unroll
    for (int i = (int)threadIdx.x; i < ZN_SCAN_CHUNK * SCAN_STATES; i += GRAD_THREADS) {
        const int row = i / SCAN_STATES, state = i % SCAN_STATES;
        const int64_t from = few + row * t.a.states + state;
        const bool inside = row < count && t.first + state < t.a.states;
        s.b[row][state] = inside ? t.a.b[from] : 0;
        s.c[row][state] = inside ? t.a.c[from] : 0;
    }
}

/* Launches after the first add to what is there. */
static __device__ void write_chunk(const scan_task &t, const scan_run &r, const scan_chunk &s, scan_column &c,
                                   int64_t first)
{
#pragma unroll 4
    for (int row = c.row; row < ZN_SCAN_CHUNK; row += LOADERS) {
        if (first + row >= r.end || !c.inside)
            continue;
        const int64_t at = scan_at(t, r, first + row, c.channel);
        const float ddt = s.dy[row][c.place] * -expm1f(-s.delta[row][c.place]); /* the slope of softplus */
        c.dbias += ddt;
        t.a.du[at] = s.u[row][c.place] + (t.first ? t.a.du[at] : 0);
        t.a.ddt[at] = ddt + (t.first ? t.a.ddt[at] : 0);
    }
}

/* Adds the warps' sums of db and dc, and writes them. */
static __device__ void write_both(const scan_task &t, const scan_run &r, const scan_chunk &s, int64_t group,
                                  int64_t first)
{
    const int64_t map = t.a.sequences * t.a.length * t.a.states;
    float *db = t.a.partial_bc + 2 * group * map;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < ZN_SCAN_CHUNK * 2 * SCAN_STATES; i += GRAD_THREADS) {
        const int row = i / (2 * SCAN_STATES), which = i / SCAN_STATES % 2, state = i % SCAN_STATES;
        float sum = 0;
        for (int w = 0; w < WARPS; w++)
            sum += s.start[row / STRETCH][w].both[row % STRETCH][which][state];
        if (first + row < r.end && t.first + state < t.a.states)
            db[which * map + scan_few_at(t, r, first + row, t.first + state)] = sum;
    }
}

/* One token forwards. decay: of this token. */
static __device__ void step_forward(const scan_chunk &s, int token, const scan_pair &p, float h[EACH][SCAN_QUAD],
                                    float decay[EACH][SCAN_QUAD])
{
    const floats<2> delta = load<2>(s.delta[token], threadIdx.x / SCAN_QUAD),
                    u = load<2>(s.u[token], threadIdx.x / SCAN_QUAD);
    const floats<4> b = load<4>(s.b[token], threadIdx.x % SCAN_QUAD);
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const float w = delta.v[k] * u.v[k];
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++) {
            decay[k][i] = quick_power2(delta.v[k] * p.rates[k][i]);
            h[k][i] = decay[k][i] * h[k][i] + w * b.v[i];
        }
    }
}

/* Adds 8 numbers of each lane over the 8 lanes of a warp with the same states: returns to the lanes 4 i to 4 i + 3 the
 * sums of their numbers i. The lanes of a pair exchange the half that the other keeps. */
static __device__ float sum_over_channels(float v[2 * SCAN_QUAD])
{
#pragma unroll
    for (int half = SCAN_QUAD; half > 0; half /= 2) {
        const bool upper = threadIdx.x & (half * SCAN_QUAD);
#pragma unroll
        for (int i = 0; i < half; i++) {
            const float other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + half], half * SCAN_QUAD);
            v[i] = (upper ? v[i + half] : v[i]) + other;
        }
    }
    return v[0];
}

/* What a lane has of the sums of a token: one of du and the gradient of delta of its channels, one of db and dc. */
struct scan_sums {
    float map, few;
};

/* One token backwards: h before and after it. */
static __device__ scan_sums step_back(const scan_chunk &s, int token, scan_pair &p, const float before[EACH][SCAN_QUAD],
                                      const float after[EACH][SCAN_QUAD], const float decay[EACH][SCAN_QUAD])
{
    const int pair = (int)threadIdx.x / SCAN_QUAD, quad = (int)threadIdx.x % SCAN_QUAD;
    const floats<2> delta = load<2>(s.delta[token], pair), u = load<2>(s.u[token], pair),
                    dy = load<2>(s.dy[token], pair);
    const floats<4> b = load<4>(s.b[token], quad), c = load<4>(s.c[token], quad);
    const float ln2 = 0.693147181f;
    float few[2 * SCAN_QUAD] = {}, maps[SCAN_QUAD]; /* db and dc; du of both channels, and d delta */
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const float w = delta.v[k] * u.v[k];
        float through = 0, by_rate = 0;
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++) {
            const float g = c.v[i] * dy.v[k] + p.carry[k][i];
            p.carry[k][i] = decay[k][i] * g;
            const float kept = p.carry[k][i] * before[k][i];
            few[i] += g * w;
            few[SCAN_QUAD + i] += dy.v[k] * after[k][i];
            through += g * b.v[i];
            by_rate += kept * p.rates[k][i];
            p.da[k][i] += kept * delta.v[k];
        }
        maps[k] = p.d[k] * dy.v[k] + delta.v[k] * through;
        maps[EACH + k] = ln2 * by_rate + u.v[k] * through;
    }
    const float map = scan_sum_of_four(maps);
    return scan_sums{ map, sum_over_channels(few) };
}

/* The tokens of a stretch backwards. Writes du and the gradient of delta over u and dy, which only the four lanes of
 * the channels read, and the warp's sums of db and dc: at the end, so that no token's loads wait for the sums of
 * another. */
static __device__ void stretch_back(scan_chunk &s, int stretch, scan_pair &p)
{
    scan_start &start = s.start[stretch][threadIdx.x / LANES];
    float h[STRETCH + 1][EACH][SCAN_QUAD],
        decay[STRETCH][EACH][SCAN_QUAD]; /* h before each token, and after the last */
#pragma unroll
    for (int k = 0; k < EACH; k++)
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++)
            h[0][k][i] = start.h[k][threadIdx.x % LANES].v[i];
    __syncwarp(); /* the sums take the place of the starts */
#pragma unroll
    for (int j = 0; j < STRETCH; j++) {
#pragma unroll
        for (int k = 0; k < EACH; k++)
#pragma unroll
            for (int i = 0; i < SCAN_QUAD; i++)
                h[j + 1][k][i] = h[j][k][i];
        step_forward(s, stretch * STRETCH + j, p, h[j + 1], decay[j]);
    }
    scan_sums sums[STRETCH];
#pragma unroll
    for (int j = STRETCH - 1; j >= 0; j--)
        sums[j] = step_back(s, stretch * STRETCH + j, p, h[j], h[j + 1], decay[j]);
    const int pair = (int)threadIdx.x / SCAN_QUAD, quad = (int)threadIdx.x % SCAN_QUAD, i = pair % (2 * SCAN_QUAD);
    float(*const maps)[CHANNELS] = quad < EACH ? s.u : s.dy;
#pragma unroll
    for (int j = 0; j < STRETCH; j++) {
        maps[stretch * STRETCH + j][pair * EACH + quad % EACH] = sums[j].map;
        start.both[j][i / SCAN_QUAD][quad * SCAN_QUAD + i % SCAN_QUAD] = sums[j].few;
    }
}

/* h at the starts of the stretches, from h at the start of the chunk. */
static __device__ void find_starts(scan_chunk &s, int stretches, const scan_pair &p, float h[EACH][SCAN_QUAD])
{
    for (int stretch = 0; stretch < stretches; stretch++) {
#pragma unroll
        for (int k = 0; k < EACH; k++)
            s.start[stretch][threadIdx.x / LANES].h[k][threadIdx.x % LANES] = { h[k][0], h[k][1], h[k][2], h[k][3] };
        if (stretch + 1 == stretches)
            return;
#pragma unroll
        for (int j = 0; j < STRETCH; j++) {
            float decay[EACH][SCAN_QUAD];
            step_forward(s, stretch * STRETCH + j, p, h, decay);
        }
    }
}

/* The sums of a part over its tokens. */
static __device__ void write_sums(const scan_task &t, const scan_run &r, scan_chunk &s, const scan_column &c,
                                  const scan_pair &p, const scan_four f[EACH])
{
    float *da = t.a.partial + r.index * t.a.channels * (t.a.states + 2), *dd = da + (int64_t)t.a.channels * t.a.states,
          *dbias = dd + t.a.channels;
    const float ln2 = 0.693147181f;
#pragma unroll
    for (int k = 0; k < EACH; k++)
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++)
            if (scan_is_state(t, f[k], i)) {
                da[scan_state_at(t, f[k], i)] = ln2 * p.rates[k][i] * p.da[k][i];
                if (t.a.dfirst && !t.a.apart)
                    t.a.dfirst[r.sequence * t.a.channels * t.a.states + scan_state_at(t, f[k], i)] = p.carry[k][i];
            }
    __syncthreads(); /* the last chunk has been read */
    s.u[c.row][c.place] = c.dd;
    s.dy[c.row][c.place] = c.dbias;
    __syncthreads();
    if (c.row > 0 || !c.inside)
        return;
    float sum = 0, sum_bias = t.first ? dbias[c.channel] : 0;
    for (int i = 0; i < LOADERS; i++) {
        sum += s.u[i][c.place];
        sum_bias += s.dy[i][c.place];
    }
    dd[c.channel] = sum;
    dbias[c.channel] = sum_bias;
}

__global__ void __launch_bounds__(GRAD_THREADS, 2) scan_grad(scan_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    scan_chunk &s = *reinterpret_cast<scan_chunk *>(zn_cuda_shared);
    const int64_t group = blockIdx.x % t.groups, own = group * CHANNELS + threadIdx.x / SCAN_QUAD * EACH;
    const scan_run r = scan_run_of(t, blockIdx.x / t.groups);
    const int quad = (int)threadIdx.x % SCAN_QUAD, state = t.first + quad * SCAN_QUAD;
    const scan_four f[EACH] = { { own, state }, { own + 1, state } };
    scan_column c = column_of(t, group * CHANNELS);
    scan_pair p = {};
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        scan_rates(t, f[k], p.rates[k]);
        p.d[k] = f[k].channel < t.a.channels && state == 0 ? t.a.d[f[k].channel] : 0;
        if (t.a.apart)
            scan_load(t, t.a.ends, scan_inner(t, r.sequence, r.chunk), f[k], p.carry[k]);
    }
    for (int64_t chunk = (r.end - 1) / ZN_SCAN_CHUNK; chunk >= r.chunk; chunk--) {
        const int64_t first = chunk * ZN_SCAN_CHUNK, count = r.end - first;
        const int stretches = (int)(count < ZN_SCAN_CHUNK ? (count + STRETCH - 1) / STRETCH : (int64_t)STRETCHES);
        float h[EACH][SCAN_QUAD];
#pragma unroll
        for (int k = 0; k < EACH; k++)
            scan_load(t, t.a.marks, scan_mark(t, r.sequence, chunk), f[k], h[k]);
        load_chunk(t, r, s, c, first);
        __syncthreads();
        find_starts(s, stretches, p, h);
        for (int i = stretches - 1; i >= 0; i--)
            stretch_back(s, i, p);
        __syncthreads();
        write_chunk(t, r, s, c, first);
        write_both(t, r, s, group, first);
        __syncthreads(); /* all have read the chunk */
    }
    write_sums(t, r, s, c, p, f);
}

extern "C" void zn_cuda_scan_grad(zn_device *d, const void *args, int64_t)
{
    const scan_task t = scan_task_of(d, args);
    scan_launch(d, scan_grad, t, t.runs * t.groups, GRAD_THREADS, sizeof(scan_chunk));
}

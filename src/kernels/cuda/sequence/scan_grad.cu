/* The gradient of the selective scan; ref/sequence/scan_grad.c is the reference and has the formulas. A thread block
 * has one group of channels of one part, and one chunk at a time in shared memory. A thread has four states of four
 * channels, of which it adds most sums without other lanes. Tokens go backwards in stretches: h before each token of a
 * stretch, and its decay, are recomputed in registers from h at its start, and those from the mark of the chunk. Four
 * thread blocks fill the registers and the shared memory of a multiprocessor, so 64 sequences of 512 channels fill an
 * H200 once. */
#include "kernels/cuda/sequence/scan.h"

enum { CHANNELS = ZN_SCAN_GROUP * ZN_SCAN_BLOCK, EACH = 4, LANES = 32, WARPS = CHANNELS / LANES };
enum { STRETCH = 4, STRETCHES = ZN_SCAN_DEVICE_CHUNK / STRETCH };

/* h of a warp's channels at the start of a stretch after the first, and in the same memory, once that has been read,
 * its sums of db and dc over channels; the second half of the first start has those of the first stretch. */
union scan_start {
    floats<4> h[EACH][LANES];
    float both[2][STRETCH][2][SCAN_STATES];
};

struct scan_chunk {
    float delta[ZN_SCAN_DEVICE_CHUNK][CHANNELS], u[ZN_SCAN_DEVICE_CHUNK][CHANNELS], dy[ZN_SCAN_DEVICE_CHUNK][CHANNELS];
    float b[ZN_SCAN_DEVICE_CHUNK][SCAN_STATES], c[ZN_SCAN_DEVICE_CHUNK][SCAN_STATES];
    scan_start start[STRETCHES - 1][WARPS];
};

/* A thread's channels and states: their rates, the gradient that comes from the tokens after, and the sum of d a_log
 * over tokens, but for a factor of the rate. */
struct scan_patch {
    float rates[EACH][SCAN_QUAD], carry[EACH][SCAN_QUAD], da[EACH][SCAN_QUAD];
};

/* The channel that a thread loads, and whose du and ddt it writes; its sums over tokens. */
struct scan_column {
    int64_t channel;
    bool inside;
    float bias, dd, dbias;
    float d; /* of the direct term; 0 in launches after the first */
};

static __device__ int warp_of(void) { return (int)threadIdx.x / LANES; }
static __device__ int quad_of(void) { return (int)threadIdx.x % SCAN_QUAD; }

static __device__ scan_column column_of(const scan_task &t, int64_t channel)
{
    scan_column c = { channel, channel < t.a.channels, 0, 0, 0, 0 };
    if (c.inside)
        c.bias = t.a.bias[channel];
    if (c.inside && t.first == 0)
        c.d = t.a.d[channel];
    return c;
}

/* Tokens past the last, and channels past the last, have a delta and all else of 0. */
static __device__ void load_chunk(const scan_task &t, const scan_run &r, scan_chunk &s, const scan_column &c,
                                  int64_t first)
{
    const int tokens = (int)(r.end - first < ZN_SCAN_DEVICE_CHUNK ? r.end - first : (int64_t)ZN_SCAN_DEVICE_CHUNK);
    const int count = c.inside ? tokens : 0;
    const int64_t at = scan_at(t, r, first, c.channel);
    const float *u = t.a.u + at, *raw = t.a.dt + at, *dy = t.a.dy + at;
    scan_fetch<ZN_SCAN_DEVICE_CHUNK, CHANNELS>(t, r, first, tokens, s.b, s.c);
#pragma unroll 16
    for (int i = 0; i < ZN_SCAN_DEVICE_CHUNK; i++, u += t.a.channels, raw += t.a.channels, dy += t.a.channels) {
        s.delta[i][threadIdx.x] = softplus(i < count ? *raw + c.bias : -INFINITY);
        s.u[i][threadIdx.x] = i < count ? *u : 0;
        s.dy[i][threadIdx.x] = i < count ? *dy : 0;
    }
    copy_wait<0>();
}

/* One token forwards. decay: of this token. */
static __device__ void step_forward(const scan_chunk &s, int token, const scan_patch &p, float h[EACH][SCAN_QUAD],
                                    float decay[EACH][SCAN_QUAD])
{
    const floats<4> delta = load<4>(s.delta[token], threadIdx.x / SCAN_QUAD),
                    u = load<4>(s.u[token], threadIdx.x / SCAN_QUAD), b = load<4>(s.b[token], quad_of());
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

/* The lanes of a pair, `apart` lanes from each other, add their numbers; the upper one returns the sum of the second
 * numbers, the other that of the first. */
static __device__ float exchange(float first, float second, int apart)
{
    const bool upper = threadIdx.x & apart;
    return (upper ? second : first) + __shfl_xor_sync(0xffffffffu, upper ? first : second, apart);
}

/* Adds N numbers of each lane over the lanes that differ in the bits of N/2 GROUP to GROUP: returns to those whose bits
 * have the value i the sums of their numbers i. */
template <int N, int GROUP> static __device__ float sum_over_lanes(const float v[N])
{
    if constexpr (N == 1) {
        return v[0];
    } else {
        float half[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            half[i] = exchange(v[i], v[i + N / 2], N / 2 * GROUP);
        return sum_over_lanes<N / 2, GROUP>(half);
    }
}

/* What a lane has of the sums of a token: of its column, over states, and one of db and dc. */
struct scan_sums {
    float through, by_rate, few;
};

/* One token backwards: h before and after it. */
static __device__ scan_sums step_back(const scan_chunk &s, int token, scan_patch &p,
                                      const float before[EACH][SCAN_QUAD], const float after[EACH][SCAN_QUAD],
                                      const float decay[EACH][SCAN_QUAD])
{
    const int four = (int)threadIdx.x / SCAN_QUAD;
    const floats<4> delta = load<4>(s.delta[token], four), u = load<4>(s.u[token], four),
                    dy = load<4>(s.dy[token], four), b = load<4>(s.b[token], quad_of()),
                    c = load<4>(s.c[token], quad_of());
    float few[2 * SCAN_QUAD] = {}, through[EACH] = {}, by_rate[EACH] = {}; /* few: db and dc */
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const float w = delta.v[k] * u.v[k];
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++) {
            const float g = c.v[i] * dy.v[k] + p.carry[k][i];
            p.carry[k][i] = decay[k][i] * g;
            const float kept = p.carry[k][i] * before[k][i];
            few[i] += g * w;
            few[SCAN_QUAD + i] += dy.v[k] * after[k][i];
            through[k] += g * b.v[i];
            by_rate[k] += kept * p.rates[k][i];
            p.da[k][i] += kept * delta.v[k];
        }
    }
    return scan_sums{ sum_over_lanes<EACH, 1>(through), sum_over_lanes<EACH, 1>(by_rate),
                      sum_over_lanes<2 * SCAN_QUAD, SCAN_QUAD>(few) };
}

/* 1 - exp(-x) for x >= 0, to 1e-6 of it. */
static __device__ float softplus_slope(float x)
{
    float p = -1.0f / 720;
    p = p * x + 1.0f / 120;
    p = p * x - 1.0f / 24;
    p = p * x + 1.0f / 6;
    p = p * x - 0.5f;
    p = p * x + 1;
    return x < 0.25f ? p * x : 1 - quick_power2(-1.44269504f * x);
}

/* Writes du and ddt of the thread's own column. Launches after the first add to what is there. */
static __device__ void write_stretch(const scan_task &t, const scan_chunk &s, scan_column &c, int first, int64_t at,
                                     int count, const scan_sums sums[STRETCH])
{
    const float ln2 = 0.693147181f;
    float du[STRETCH], ddt[STRETCH], *to_u = t.a.du + at, *to_dt = t.a.ddt + at;
#pragma unroll
    for (int j = 0; j < STRETCH; j++) {
        const float delta = s.delta[first + j][threadIdx.x], u = s.u[first + j][threadIdx.x],
                    dy = s.dy[first + j][threadIdx.x];
        du[j] = c.d * dy + delta * sums[j].through;
        ddt[j] = (ln2 * sums[j].by_rate + u * sums[j].through) * softplus_slope(delta);
        c.dbias += ddt[j];
        c.dd += u * dy;
    }
    if (t.first)
#pragma unroll
        for (int j = 0; j < STRETCH; j++) {
            du[j] += j < count ? to_u[j * t.a.channels] : 0;
            ddt[j] += j < count ? to_dt[j * t.a.channels] : 0;
        }
#pragma unroll
    for (int j = 0; j < STRETCH; j++, to_u += t.a.channels, to_dt += t.a.channels)
        if (j < count) {
            *to_u = du[j];
            *to_dt = ddt[j];
        }
}

static __device__ float (*sums_of_stretch(scan_chunk &s, int stretch, int warp))[2][SCAN_STATES]
{
    return s.start[stretch ? stretch - 1 : 0][warp].both[stretch == 0];
}

/* The tokens of a stretch backwards, from h before it. Writes at the end, so that no token waits for the sums of
 * another. at: of the stretch in the thread's own column, which has `count` tokens from there. */
static __device__ void stretch_back(const scan_task &t, scan_chunk &s, int stretch, scan_patch &p, scan_column &c,
                                    const float first[EACH][SCAN_QUAD], int64_t at, int count)
{
    float h[STRETCH + 1][EACH][SCAN_QUAD], decay[STRETCH][EACH][SCAN_QUAD]; /* h before each token, and after all */
#pragma unroll
    for (int k = 0; k < EACH; k++)
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++)
            h[0][k][i] = first[k][i];
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
    const int i = (int)threadIdx.x % LANES / SCAN_QUAD; /* of db and dc */
    float(*const both)[2][SCAN_STATES] = sums_of_stretch(s, stretch, warp_of());
#pragma unroll
    for (int j = 0; j < STRETCH; j++)
        both[j][i / SCAN_QUAD][quad_of() * SCAN_QUAD + i % SCAN_QUAD] = sums[j].few;
    write_stretch(t, s, c, stretch * STRETCH, at, count, sums);
}

/* h at the starts of the stretches after the first, from h at the start of the chunk. */
static __device__ void find_starts(scan_chunk &s, int stretches, const scan_patch &p, float h[EACH][SCAN_QUAD])
{
    for (int stretch = 0; stretch + 1 < stretches; stretch++) {
#pragma unroll
        for (int j = 0; j < STRETCH; j++) {
            float decay[EACH][SCAN_QUAD];
            step_forward(s, stretch * STRETCH + j, p, h, decay);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++)
            s.start[stretch][warp_of()].h[k][threadIdx.x % LANES] = { h[k][0], h[k][1], h[k][2], h[k][3] };
    }
}

/* Reads the start that find_starts has left for a stretch after the first. */
static __device__ void take_start(const scan_chunk &s, int stretch, float h[EACH][SCAN_QUAD])
{
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const floats<4> four = s.start[stretch - 1][warp_of()].h[k][threadIdx.x % LANES];
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++)
            h[k][i] = four.v[i];
    }
    __syncwarp(); /* sums take the place of the start */
}

/* Adds the warps' sums of db and dc, and writes them. */
static __device__ void write_both(const scan_task &t, const scan_run &r, scan_chunk &s, int64_t group, int64_t first)
{
    const int64_t map = t.a.sequences * t.a.length * t.a.states;
    float *const db = t.a.partial_bc + 2 * group * map + scan_few_at(t, r, first, t.first);
    const int tokens = (int)(r.end - first < ZN_SCAN_DEVICE_CHUNK ? r.end - first : (int64_t)ZN_SCAN_DEVICE_CHUNK);
    const int which = (int)threadIdx.x / SCAN_STATES % 2, state = (int)threadIdx.x % SCAN_STATES;
    if (t.first + state >= t.a.states)
        return;
#pragma unroll 4
    for (int row = warp_of(); row < tokens; row += WARPS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            sum += sums_of_stretch(s, row / STRETCH, w)[row % STRETCH][which][state];
        db[which * map + row * t.a.states + state] = sum;
    }
}

/* The sums of a part over its tokens. */
static __device__ void write_sums(const scan_task &t, const scan_run &r, const scan_column &c, const scan_patch &p,
                                  int64_t channel, int state)
{
    float *da = t.a.partial + r.index * t.a.channels * (t.a.states + 2), *dd = da + (int64_t)t.a.channels * t.a.states,
          *dbias = dd + t.a.channels;
    const float ln2 = 0.693147181f;
#pragma unroll
    for (int k = 0; k < EACH; k++)
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++) {
            const scan_four f = { channel + k, state };
            if (!scan_is_state(t, f, i))
                continue;
            da[scan_state_at(t, f, i)] = ln2 * p.rates[k][i] * p.da[k][i];
            if (t.a.dfirst && !t.a.apart)
                t.a.dfirst[r.sequence * t.a.channels * t.a.states + scan_state_at(t, f, i)] = p.carry[k][i];
        }
    if (c.inside) {
        dd[c.channel] = c.dd;
        dbias[c.channel] = c.dbias + (t.first ? dbias[c.channel] : 0);
    }
}

/* The thread's part of a list of cells. Its channels are of one block. */
static __device__ void load_patch(const scan_task &t, const float *cells, int64_t part, int64_t channel, int state,
                                  float v[EACH][SCAN_QUAD])
{
    const scan_four f = { channel, state };
    const float *const from = cells + scan_cell_at(t, part, f, 0);
#pragma unroll
    for (int i = 0; i < SCAN_QUAD; i++) {
        const bool is_there = scan_is_cell(t, f, i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            v[k][i] = is_there ? from[i * ZN_SCAN_BLOCK + k] : 0;
    }
}

__global__ void __launch_bounds__(CHANNELS, 4) scan_grad(scan_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    scan_chunk &s = *reinterpret_cast<scan_chunk *>(zn_cuda_shared);
    const int64_t group = blockIdx.x % t.groups, channel = group * CHANNELS + threadIdx.x / SCAN_QUAD * EACH;
    const scan_run r = scan_run_of(t, blockIdx.x / t.groups);
    const int state = t.first + quad_of() * SCAN_QUAD;
    scan_column c = column_of(t, group * CHANNELS + threadIdx.x);
    scan_patch p = {};
#pragma unroll
    for (int k = 0; k < EACH; k++)
        scan_rates(t, scan_four{ channel + k, state }, p.rates[k]);
    if (t.a.apart)
        load_patch(t, t.a.ends, scan_inner(t, r.sequence, r.chunk), channel, state, p.carry);
    for (int64_t chunk = (r.end - 1) / ZN_SCAN_DEVICE_CHUNK; chunk >= r.chunk; chunk--) {
        const int64_t first = chunk * ZN_SCAN_DEVICE_CHUNK, at = scan_at(t, r, first, c.channel);
        const int tokens = (int)(r.end - first < ZN_SCAN_DEVICE_CHUNK ? r.end - first : (int64_t)ZN_SCAN_DEVICE_CHUNK);
        const int stretches = (tokens + STRETCH - 1) / STRETCH, count = c.inside ? tokens : 0;
        float h[EACH][SCAN_QUAD];
        load_patch(t, t.a.marks, scan_mark(t, r.sequence, chunk), channel, state, h);
        load_chunk(t, r, s, c, first);
        __syncthreads();
        find_starts(s, stretches, p, h);
        for (int i = stretches - 1; i >= 0; i--) {
            if (i > 0)
                take_start(s, i, h);
            else
                load_patch(t, t.a.marks, scan_mark(t, r.sequence, chunk), channel, state, h);
            stretch_back(t, s, i, p, c, h, at + i * STRETCH * t.a.channels, count - i * STRETCH);
        }
        __syncthreads();
        write_both(t, r, s, group, first);
        __syncthreads(); /* all have read the sums */
    }
    write_sums(t, r, c, p, channel, state);
}

extern "C" void zn_cuda_scan_grad(zn_device *d, const void *args, int64_t)
{
    const scan_task t = scan_task_of(d, args);
    zn_cuda_check(d, cudaFuncSetAttribute(scan_grad, cudaFuncAttributePreferredSharedMemoryCarveout, 100),
                  "shared memory");
    scan_launch(d, scan_grad, t, t.runs * t.groups, CHANNELS, sizeof(scan_chunk));
}

/* The selective scan; ref/sequence/scan.c is the reference. A thread block has COLUMNS channels of one part and goes
 * through its tokens in tiles. While it computes one, it loads the next. Four lanes share a channel, each with four of
 * its states in registers: even few sequences then have threads for all multiprocessors, and a token of a lane is
 * short. Values that the lanes share, softplus above all, are computed once and passed through shared memory. */
#include "kernels/cuda/sequence/scan.h"

enum { TILE = 32, COLUMNS = 32, SCAN_THREADS = COLUMNS * SCAN_QUAD };
/* Of a tile, a thread loads ROWS tokens of a column, and FEW values of b and of c. */
enum { ROWS = TILE * COLUMNS / SCAN_THREADS, FEW = TILE * SCAN_STATES / SCAN_THREADS };

/* The last two run chunks from 0, the last one backwards for the gradient. */
enum scan_kind { WHOLE, ENDS, GRAD_ENDS };

struct scan_tile {
    float2 step[TILE][COLUMNS]; /* delta, and delta u (GRAD_ENDS: dy) */
    float b[TILE][SCAN_STATES], c[TILE][SCAN_STATES];
    float y[TILE][COLUMNS + 8]; /* lanes of a warp write 4 tokens of 8 channels: to different banks */
};

/* What a thread has loaded of a tile. */
struct scan_loaded {
    float x[ROWS], raw[ROWS], b[FEW], c[FEW];
};

/* A thread's column in loads and stores. */
struct scan_column {
    int64_t channel;
    int place, row; /* in the tile; its first token */
    float bias, d;
};

static __device__ scan_column column_of(const scan_task &t, int64_t first)
{
    scan_column c;
    c.place = (int)threadIdx.x % COLUMNS;
    c.row = (int)threadIdx.x / COLUMNS;
    c.channel = first + c.place;
    const bool inside = c.channel < t.a.channels;
    c.bias = inside ? t.a.bias[c.channel] : 0;
    c.d = inside ? t.a.d[c.channel] : 0;
    return c;
}

/* Tokens past the last, and channels past the last, have a delta and all else of 0: they change nothing. */
template <int KIND>
static __device__ scan_loaded load_tile(const scan_task &t, const scan_run &r, const scan_column &c, int64_t first)
{
    const float *const maps = KIND == GRAD_ENDS ? t.a.dy : t.a.u;
    const int count = (int)(r.end - first < TILE ? r.end - first : (int64_t)TILE), step = TILE / ROWS * t.a.channels;
    const int64_t at = scan_at(t, r, first + c.row, c.channel), few = scan_few_at(t, r, first, t.first);
    const bool inside = c.channel < t.a.channels;
    scan_loaded l;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const bool is_there = inside && c.row + i * (TILE / ROWS) < count;
        l.x[i] = is_there ? maps[at + i * step] : 0;
        l.raw[i] = is_there ? t.a.dt[at + i * step] + c.bias : -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < FEW; i++) {
        const int index = (int)threadIdx.x + i * SCAN_THREADS, row = index / SCAN_STATES, state = index % SCAN_STATES;
        const bool is_there = row < count && t.first + state < t.a.states;
        const int64_t from = few + row * t.a.states + state;
        l.b[i] = is_there && KIND != GRAD_ENDS ? t.a.b[from] : 0;
        l.c[i] = is_there && KIND != ENDS ? t.a.c[from] : 0;
    }
    return l;
}

template <int KIND> static __device__ void put_tile(scan_tile &s, const scan_column &c, const scan_loaded &l)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const float delta = softplus(l.raw[i]);
        s.step[c.row + i * (TILE / ROWS)][c.place] = make_float2(delta, KIND == GRAD_ENDS ? l.x[i] : delta * l.x[i]);
    }
#pragma unroll
    for (int i = 0; i < FEW; i++) {
        const int index = (int)threadIdx.x + i * SCAN_THREADS;
        if (KIND != GRAD_ENDS)
            s.b[index / SCAN_STATES][index % SCAN_STATES] = l.b[i];
        if (KIND != ENDS)
            s.c[index / SCAN_STATES][index % SCAN_STATES] = l.c[i];
    }
}

/* Adds four numbers of each lane over four neighbouring lanes: returns to lane i the sum of the numbers i. The lanes of
 * a pair exchange what the other keeps. */
static __device__ float sum_of_four(const float v[SCAN_QUAD])
{
    const bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
    const float low = (upper ? v[2] : v[0]) + __shfl_xor_sync(0xffffffffu, upper ? v[0] : v[2], 2);
    const float high = (upper ? v[3] : v[1]) + __shfl_xor_sync(0xffffffffu, upper ? v[1] : v[3], 2);
    return (odd ? high : low) + __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
}

/* One token forwards; returns this lane's share of y. */
static __device__ float step_forward(const scan_tile &s, int token, const float rates[SCAN_QUAD], float h[SCAN_QUAD])
{
    const int quad = (int)threadIdx.x % SCAN_QUAD;
    const float2 step = s.step[token][threadIdx.x / SCAN_QUAD];
    const floats<4> b = load<4>(s.b[token], quad), c = load<4>(s.c[token], quad);
    float y = 0;
#pragma unroll
    for (int i = 0; i < SCAN_QUAD; i++) {
        h[i] = quick_power2(step.x * rates[i]) * h[i] + step.y * b.v[i];
        y += c.v[i] * h[i];
    }
    return y;
}

/* A tile forwards: y without the direct term to shared memory. Nothing is written between the tokens of a turn, so that
 * their loads need not wait for the sums of others. */
static __device__ void tile_forward(scan_tile &s, const float rates[SCAN_QUAD], float h[SCAN_QUAD])
{
    enum { TURN = 2 * SCAN_QUAD };
    for (int k = 0; k < TILE; k += TURN) {
        float y[TURN];
#pragma unroll
        for (int i = 0; i < TURN; i++)
            y[i] = step_forward(s, k + i, rates, h);
        const float first = sum_of_four(y), second = sum_of_four(y + SCAN_QUAD);
        s.y[k + threadIdx.x % SCAN_QUAD][threadIdx.x / SCAN_QUAD] = first;
        s.y[k + SCAN_QUAD + threadIdx.x % SCAN_QUAD][threadIdx.x / SCAN_QUAD] = second;
    }
}

/* A tile of which only h after it, or the gradient before it, is needed. sum: of delta. */
template <int KIND>
static __device__ void tile_ends(const scan_tile &s, const float rates[SCAN_QUAD], float h[SCAN_QUAD], float &sum)
{
    const int quad = (int)threadIdx.x % SCAN_QUAD;
#pragma unroll 4
    for (int k = 0; k < TILE; k++) {
        const int token = KIND == GRAD_ENDS ? TILE - 1 - k : k;
        const float2 step = s.step[token][threadIdx.x / SCAN_QUAD];
        const floats<4> v = load<4>(KIND == GRAD_ENDS ? s.c[token] : s.b[token], quad);
        sum += step.x;
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++) {
            const float decay = quick_power2(step.x * rates[i]), in = step.y * v.v[i];
            h[i] = KIND == GRAD_ENDS ? decay * (in + h[i]) : decay * h[i] + in;
        }
    }
}

/* Launches after the first add to what is there. */
static __device__ void write_tile(const scan_task &t, const scan_run &r, const scan_tile &s, const scan_column &c,
                                  int64_t first, const float direct[ROWS])
{
    const int count = (int)(r.end - first < TILE ? r.end - first : (int64_t)TILE), step = TILE / ROWS * t.a.channels;
    const int64_t at = scan_at(t, r, first + c.row, c.channel);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int row = c.row + i * (TILE / ROWS);
        if (row >= count || c.channel >= t.a.channels)
            continue;
        const float y = s.y[row][c.place] + (t.first ? t.a.y[at + i * step] : direct[i]);
        t.a.y[at + i * step] = y;
    }
}

/* h before the first token. */
static __device__ void first_state(const scan_task &t, const scan_run &r, const scan_four &f, float h[SCAN_QUAD])
{
    if (t.a.apart)
        scan_load(t, t.a.marks, scan_mark(t, r.sequence, r.chunk), f, h);
#pragma unroll
    for (int i = 0; i < SCAN_QUAD && !t.a.apart; i++)
        h[i] = t.a.first && scan_is_state(t, f, i)
                   ? t.a.first[r.sequence * t.a.channels * t.a.states + scan_state_at(t, f, i)]
                   : 0;
}

template <int KIND> __global__ void __launch_bounds__(SCAN_THREADS, 4) scan_tiles(scan_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    scan_tile &s = *reinterpret_cast<scan_tile *>(zn_cuda_shared);
    const int64_t groups = (t.a.channels + COLUMNS - 1) / COLUMNS, first = blockIdx.x % groups * COLUMNS;
    const scan_run r = scan_run_of(t, blockIdx.x / groups);
    const scan_column column = column_of(t, first);
    const scan_four f = { first + threadIdx.x / SCAN_QUAD, t.first + (int)threadIdx.x % SCAN_QUAD * SCAN_QUAD };
    const int tiles = (int)((r.end - r.begin + TILE - 1) / TILE);
    const auto tile_at = [&](int k) { return r.begin + (int64_t)(KIND == GRAD_ENDS ? tiles - 1 - k : k) * TILE; };
    float rates[SCAN_QUAD], h[SCAN_QUAD] = {}, sum = 0;
    scan_rates(t, f, rates);
    if (KIND == WHOLE)
        first_state(t, r, f, h);
    scan_loaded l = load_tile<KIND>(t, r, column, tile_at(0));
    for (int k = 0; k < tiles; k++) {
        const int64_t token = tile_at(k);
        float direct[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            direct[i] = column.d * l.x[i];
        put_tile<KIND>(s, column, l);
        if (k + 1 < tiles)
            l = load_tile<KIND>(t, r, column, tile_at(k + 1));
        __syncthreads();
        if (KIND != WHOLE) {
            tile_ends<KIND>(s, rates, h, sum);
            __syncthreads(); /* all have read the tile */
            continue;
        }
        if (!t.a.apart && token % ZN_SCAN_DEVICE_CHUNK == 0)
            scan_save(t, t.a.marks, scan_mark(t, r.sequence, token / ZN_SCAN_DEVICE_CHUNK), f, h);
        tile_forward(s, rates, h);
        __syncthreads();
        write_tile(t, r, s, column, token, direct);
    }
    if (KIND == WHOLE) {
        if (!t.a.apart)
            scan_save(t, t.a.marks, scan_mark(t, r.sequence, t.chunks), f, h);
        return;
    }
#pragma unroll
    for (int i = 0; i < SCAN_QUAD; i++) /* the product of the decays */
        rates[i] = quick_power2(rates[i] * sum);
    scan_save(t, t.a.decay, scan_inner(t, r.sequence, r.chunk), f, rates);
    scan_save(t, t.a.ends, scan_inner(t, r.sequence, r.chunk), f, h);
}

/* ---- chunks in order; a thread has one state of one channel ---- */

enum { JOIN_THREADS = 64 }; /* few: all multiprocessors should have some */

struct joint {
    int64_t sequence, channel;
    int state;
};

/* index: over sequences, states and padded channels. */
static __device__ joint joint_of(const scan_task &t, int64_t index)
{
    const int64_t channels = t.blocks * ZN_SCAN_BLOCK;
    return joint{ index / channels / t.a.states, index % channels, (int)(index / channels % t.a.states) };
}

__global__ void scan_join(scan_task t)
{
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= t.a.sequences * t.a.states * t.blocks * ZN_SCAN_BLOCK)
        return;
    const joint j = joint_of(t, index);
    const scan_four f = { j.channel, j.state };
    float h = t.a.first && j.channel < t.a.channels
                  ? t.a.first[j.sequence * t.a.channels * t.a.states + scan_state_at(t, f, 0)]
                  : 0;
    t.a.marks[scan_cell_at(t, scan_mark(t, j.sequence, 0), f, 0)] = h;
#pragma unroll 4
    for (int64_t chunk = 0; chunk < t.chunks; chunk++) {
        const int64_t at = scan_cell_at(t, scan_inner(t, j.sequence, chunk), f, 0);
        h = t.a.ends[at] + t.a.decay[at] * h;
        t.a.marks[scan_cell_at(t, scan_mark(t, j.sequence, chunk + 1), f, 0)] = h;
    }
}

__global__ void scan_grad_join(scan_task t)
{
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= t.a.sequences * t.a.states * t.blocks * ZN_SCAN_BLOCK)
        return;
    const joint j = joint_of(t, index);
    const scan_four f = { j.channel, j.state };
    float carry = 0;
    for (int64_t chunk = t.chunks - 1; chunk >= 0; chunk--) {
        const int64_t at = scan_cell_at(t, scan_inner(t, j.sequence, chunk), f, 0);
        const float next = t.a.ends[at] + t.a.decay[at] * carry;
        t.a.ends[at] = carry;
        carry = next;
    }
    if (t.a.dfirst && j.channel < t.a.channels)
        t.a.dfirst[j.sequence * t.a.channels * t.a.states + scan_state_at(t, f, 0)] = carry;
}

/* ---- launching ---- */

template <int KIND> static void launch_tiles(zn_device *d, const void *args)
{
    const scan_task t = scan_task_of(d, args);
    scan_launch(d, scan_tiles<KIND>, t, t.runs * ((t.a.channels + COLUMNS - 1) / COLUMNS), SCAN_THREADS,
                sizeof(scan_tile));
}

static void launch_joints(zn_device *d, void (*kernel)(scan_task), const void *args)
{
    const scan_task t = scan_task_of(d, args);
    const int64_t joints = t.a.sequences * t.a.states * t.blocks * ZN_SCAN_BLOCK;
    launch(d, kernel, dim3((unsigned)((joints + JOIN_THREADS - 1) / JOIN_THREADS)), JOIN_THREADS, 0, t);
}

extern "C" {
void zn_cuda_scan(zn_device *d, const void *args, int64_t) { launch_tiles<WHOLE>(d, args); }
void zn_cuda_scan_ends(zn_device *d, const void *args, int64_t) { launch_tiles<ENDS>(d, args); }
void zn_cuda_scan_grad_ends(zn_device *d, const void *args, int64_t) { launch_tiles<GRAD_ENDS>(d, args); }
void zn_cuda_scan_join(zn_device *d, const void *args, int64_t) { launch_joints(d, scan_join, args); }
void zn_cuda_scan_grad_join(zn_device *d, const void *args, int64_t) { launch_joints(d, scan_grad_join, args); }
}

/* The selective scan; ref/sequence/scan.c is the reference. A thread block has COLUMNS channels of one part and goes
 * through its tokens in tiles; while it computes one, the next is copied to shared memory. Two lanes share a channel,
 * each with half of its states in registers. What they share, softplus above all, is computed once and passed through
 * shared memory. Of its maps a warp reads only what it has copied itself; b and c are of the whole block. */
#include "kernels/cuda/sequence/scan.h"

enum { TILE = 16, LANES = 32, WARPS = 2, SCAN_THREADS = WARPS * LANES, SHARERS = 2 };
enum { WIDE = LANES / SHARERS, COLUMNS = WARPS * WIDE };       /* channels of a warp, and of a thread block */
enum { OWN = SCAN_STATES / SHARERS, QUADS = OWN / SCAN_QUAD }; /* states of a lane */

/* The last two run chunks from 0, the last one backwards for the gradient. */
enum scan_kind { WHOLE, ENDS, GRAD_ENDS };

/* A tile as it is copied. x: u, or dy for GRAD_ENDS. */
struct scan_stage {
    float x[WARPS][TILE][WIDE], dt[WARPS][TILE][WIDE];
    float b[TILE][SCAN_STATES], c[TILE][SCAN_STATES];
};

struct scan_tile {
    scan_stage stage[2];
    float2 step[WARPS][TILE][WIDE]; /* delta, and delta u (GRAD_ENDS: dy) */
};

static __device__ int warp_of(void) { return (int)threadIdx.x / LANES; }
static __device__ int lane_of(void) { return (int)threadIdx.x % LANES; }

/* Where a thread copies from: its first vectors of WIDTH numbers in the maps and in b and c; the next are those of
 * ROWS and FEW_ROWS tokens later. */
template <int KIND, int WIDTH> struct scan_source {
    enum {
        LINE = WIDE / WIDTH, /* vectors of a token */
        ROWS = LANES / LINE,
        FEW_LINE = SCAN_STATES / WIDTH,
        FEW_ROWS = SCAN_THREADS / FEW_LINE
    };
    const float *x, *dt, *b, *c;
    int row, place, few_row, few_place;
    bool inside, few_inside;

    __device__ scan_source(const scan_task &t, const scan_run &r, int64_t token, int64_t channel)
    {
        row = lane_of() / LINE, place = lane_of() % LINE * WIDTH;
        few_row = (int)threadIdx.x / FEW_LINE, few_place = (int)threadIdx.x % FEW_LINE * WIDTH;
        const int64_t at = scan_at(t, r, token + row, channel + place),
                      few = scan_few_at(t, r, token + few_row, t.first + few_place);
        x = (KIND == GRAD_ENDS ? t.a.dy : t.a.u) + at, dt = t.a.dt + at;
        b = t.a.b + few, c = t.a.c + few;
        inside = channel + place < t.a.channels, few_inside = t.first + few_place < t.a.states;
    }

    /* Starts the copies of a tile of `count` tokens, and turns to the next. What is not there becomes 0. */
    __device__ void fetch(const scan_task &t, scan_stage &s, int count)
    {
        const int left = inside ? count - row : 0, few_left = few_inside ? count - few_row : 0;
#pragma unroll
        for (int k = 0; k < TILE; k += ROWS) {
            copy_async<WIDTH * sizeof(float)>(s.x[warp_of()][row + k] + place, x + k * t.a.channels, k < left);
            copy_async<WIDTH * sizeof(float)>(s.dt[warp_of()][row + k] + place, dt + k * t.a.channels, k < left);
        }
#pragma unroll
        for (int k = 0; k < TILE; k += FEW_ROWS) {
            if (KIND != GRAD_ENDS)
                copy_async<WIDTH * sizeof(float)>(s.b[few_row + k] + few_place, b + k * t.a.states, k < few_left);
            if (KIND != ENDS)
                copy_async<WIDTH * sizeof(float)>(s.c[few_row + k] + few_place, c + k * t.a.states, k < few_left);
        }
        copy_commit();
        const int64_t tile = KIND == GRAD_ENDS ? -TILE : TILE;
        x += tile * t.a.channels, dt += tile * t.a.channels;
        b += tile * t.a.states, c += tile * t.a.states;
    }
};

/* The steps of the warp's channels. Those of tokens past the last are 0, and channels past the last have a u of 0: they
 * change nothing. In launches after the first, x becomes y as it is: of the channel of this lane from `y` on, if it is
 * inside. */
template <int KIND>
static __device__ void put_steps(const scan_task &t, scan_tile &s, scan_stage &from, const float *y, bool inside,
                                 int count, float bias)
{
    enum { EACH = TILE / SHARERS };
    float(*const x)[WIDE] = from.x[warp_of()], (*const dt)[WIDE] = from.dt[warp_of()];
    float2(*const step)[WIDE] = s.step[warp_of()];
    const int place = lane_of() % WIDE, first = lane_of() / WIDE;
    float u[EACH], delta[EACH]; /* all are read before one is written, which the next might have to wait for */
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        u[i] = x[first + i * SHARERS][place];
        delta[i] = dt[first + i * SHARERS][place] + bias;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        delta[i] = softplus(delta[i]);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        step[first + i * SHARERS][place] = make_float2(delta[i], KIND == GRAD_ENDS ? u[i] : delta[i] * u[i]);
    if (count < TILE)
#pragma unroll 1
        for (int row = first; row < TILE; row += SHARERS)
            if (row >= count)
                step[row][place] = make_float2(0, 0);
    if (KIND == WHOLE && t.first && inside)
#pragma unroll 1
        for (int row = first; row < count; row += SHARERS)
            x[row][place] = y[row * t.a.channels];
    __syncwarp();
}

/* One token forwards; returns this lane's share of y. */
static __device__ float step_forward(const scan_tile &s, const scan_stage &from, int token, const float rates[OWN],
                                     float h[OWN])
{
    const int part = lane_of() % SHARERS;
    const float2 step = s.step[warp_of()][token][lane_of() / SHARERS];
    float y = 0;
#pragma unroll
    for (int j = 0; j < QUADS; j++) {
        const floats<4> b = load<4>(from.b[token], part * QUADS + j), c = load<4>(from.c[token], part * QUADS + j);
#pragma unroll
        for (int i = 0; i < SCAN_QUAD; i++) {
            float &each = h[j * SCAN_QUAD + i];
            each = quick_power2(step.x * rates[j * SCAN_QUAD + i]) * each + step.y * b.v[i];
            y += c.v[i] * each;
        }
    }
    return y;
}

/* A tile forwards. The lanes of a channel take turns in writing: `to` is this lane's first y, with `count` tokens from
 * there. d: factor of x. Nothing is written between the tokens of a turn, so that their loads need not wait. */
static __device__ void tile_forward(const scan_task &t, const scan_tile &s, const scan_stage &from,
                                    const float rates[OWN], float h[OWN], float d, float *to, int count)
{
    enum { TURN = 8 };
    const bool odd = lane_of() % SHARERS;
    const int next = SHARERS * t.a.channels;
#pragma unroll
    for (int k = 0; k < TILE; k += TURN) {
        float y[TURN / SHARERS];
#pragma unroll
        for (int i = 0; i < TURN; i += SHARERS) {
            const float first = step_forward(s, from, k + i, rates, h),
                        second = step_forward(s, from, k + i + 1, rates, h);
            y[i / SHARERS] = d * from.x[warp_of()][k + i + odd][lane_of() / SHARERS] + (odd ? second : first) +
                             __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
        }
#pragma unroll
        for (int i = 0; i < TURN; i += SHARERS, to += next)
            if (k + i < count)
                *to = y[i / SHARERS];
    }
}

/* A tile of which only h after it, or the gradient before it, is needed. sum: of delta. */
template <int KIND>
static __device__ void tile_ends(const scan_tile &s, const scan_stage &from, const float rates[OWN], float h[OWN],
                                 float &sum)
{
#pragma unroll 4
    for (int k = 0; k < TILE; k++) {
        const int token = KIND == GRAD_ENDS ? TILE - 1 - k : k;
        const float2 step = s.step[warp_of()][token][lane_of() / SHARERS];
        sum += step.x;
#pragma unroll
        for (int j = 0; j < QUADS; j++) {
            const floats<4> v =
                load<4>(KIND == GRAD_ENDS ? from.c[token] : from.b[token], lane_of() % SHARERS * QUADS + j);
#pragma unroll
            for (int i = 0; i < SCAN_QUAD; i++) {
                float &each = h[j * SCAN_QUAD + i];
                const float decay = quick_power2(step.x * rates[j * SCAN_QUAD + i]), in = step.y * v.v[i];
                each = KIND == GRAD_ENDS ? decay * (in + each) : decay * each + in;
            }
        }
    }
}

/* h before the first token. */
static __device__ void first_state(const scan_task &t, const scan_run &r, const scan_four &f, float h[OWN])
{
    const int64_t mark = scan_cell_at(t, scan_mark(t, r.sequence, r.chunk), f, 0),
                  first = r.sequence * t.a.channels * t.a.states + scan_state_at(t, f, 0);
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (t.a.apart)
            h[i] = scan_is_cell(t, f, i) ? t.a.marks[mark + i * ZN_SCAN_BLOCK] : 0;
        else
            h[i] = t.a.first && scan_is_state(t, f, i) ? t.a.first[first + i] : 0;
}

/* to: of the first state in a list of cells. */
static __device__ void save_states(const scan_task &t, float *to, const scan_four &f, const float h[OWN])
{
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (scan_is_cell(t, f, i))
            to[i * ZN_SCAN_BLOCK] = h[i];
}

template <int KIND, int WIDTH> __global__ void __launch_bounds__(SCAN_THREADS, 8) scan_tiles(scan_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    scan_tile &s = *reinterpret_cast<scan_tile *>(zn_cuda_shared);
    const int part = lane_of() % SHARERS;
    const int64_t groups = (t.a.channels + COLUMNS - 1) / COLUMNS;
    const int64_t first = (blockIdx.x % groups * WARPS + warp_of()) * WIDE; /* channel of the warp */
    const scan_run r = scan_run_of(t, blockIdx.x / groups);
    const scan_four f = { first + lane_of() / SHARERS, t.first + part * OWN };
    const bool inside = f.channel < t.a.channels;
    const int64_t own = first + lane_of() % WIDE; /* the channel of which this lane computes softplus */
    const float bias = own < t.a.channels ? t.a.bias[own] : 0;
    const float d = t.first ? 1 : inside ? t.a.d[f.channel] : 0;
    const int tokens = (int)(r.end - r.begin), tiles = (tokens + TILE - 1) / TILE;
    const auto begin_of = [&](int k) { return (KIND == GRAD_ENDS ? tiles - 1 - k : k) * TILE; };
    const auto count_of = [&](int k) { return tokens - begin_of(k) < TILE ? tokens - begin_of(k) : (int)TILE; };
    float rates[OWN], h[OWN] = {}, sum = 0;
#pragma unroll
    for (int j = 0; j < QUADS; j++)
        scan_rates(t, scan_four{ f.channel, f.state + j * SCAN_QUAD }, rates + j * SCAN_QUAD);
    float *y = NULL, *mark = NULL;
    const float *old = NULL;
    if (KIND == WHOLE) {
        first_state(t, r, f, h);
        y = t.a.y + scan_at(t, r, r.begin + part, f.channel);
        old = t.a.y + scan_at(t, r, r.begin, own);
        mark = t.a.marks + scan_cell_at(t, scan_mark(t, r.sequence, 0), f, 0);
    }
    scan_source<KIND, WIDTH> source(t, r, r.begin + begin_of(0), first);
    source.fetch(t, s.stage[0], count_of(0));
    for (int k = 0; k < tiles; k++) {
        const int count = count_of(k);
        scan_stage &from = s.stage[k % 2];
        copy_wait<0>();
        __syncthreads(); /* all have copied this tile, and read the one before */
        if (k + 1 < tiles)
            source.fetch(t, s.stage[(k + 1) % 2], count_of(k + 1));
        put_steps<KIND>(t, s, from, old, own < t.a.channels, count, bias);
        if (KIND != WHOLE) {
            tile_ends<KIND>(s, from, rates, h, sum);
            continue;
        }
        if (!t.a.apart && k % (ZN_SCAN_DEVICE_CHUNK / TILE) == 0) {
            save_states(t, mark, f, h);
            mark += t.blocks * t.a.states * ZN_SCAN_BLOCK;
        }
        tile_forward(t, s, from, rates, h, d, y, inside ? count - part : 0);
        y += TILE * (int64_t)t.a.channels;
        old += TILE * (int64_t)t.a.channels;
    }
    if constexpr (KIND == WHOLE) {
        if (!t.a.apart)
            save_states(t, t.a.marks + scan_cell_at(t, scan_mark(t, r.sequence, t.chunks), f, 0), f, h);
    } else {
#pragma unroll
        for (int i = 0; i < OWN; i++) /* the product of the decays */
            rates[i] = quick_power2(rates[i] * sum);
        const int64_t at = scan_cell_at(t, scan_inner(t, r.sequence, r.chunk), f, 0);
        save_states(t, t.a.decay + at, f, rates);
        save_states(t, t.a.ends + at, f, h);
    }
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
    scan_launch(d, t.vectors && t.wide ? scan_tiles<KIND, SCAN_QUAD> : scan_tiles<KIND, 1>, t,
                t.runs * ((t.a.channels + COLUMNS - 1) / COLUMNS), SCAN_THREADS, sizeof(scan_tile));
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

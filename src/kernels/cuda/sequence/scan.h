/* Shared by the CUDA builds of the selective scan. A launch has SCAN_STATES states; of more, launches follow each other
 * and add to the results of the first. Included only by .cu files. */
#ifndef ZN_CUDA_SCAN_H
#define ZN_CUDA_SCAN_H

#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/scan.h"
}

enum { SCAN_QUAD = 4, SCAN_STATES = SCAN_QUAD * SCAN_QUAD };

struct scan_task {
    zn_scan_args a;
    int64_t blocks, groups, chunks, runs;
    int first;    /* state of this launch */
    bool vectors; /* b and c can be read with load<4> */
    bool wide;    /* and so can u, dt and dy */
};

static inline scan_task scan_task_of(zn_device *d, const void *args)
{
    scan_task t = { *static_cast<const zn_scan_args *>(args), 0, 0, 0, 0, 0, false, false };
    t.blocks = zn_scan_blocks(&t.a);
    t.groups = zn_scan_groups(&t.a);
    t.chunks = zn_scan_chunks(&t.a);
    t.runs = zn_scan_runs(&t.a);
    const float **const read[] = {
        &t.a.u, &t.a.dt, &t.a.b, &t.a.c, &t.a.a_log, &t.a.d, &t.a.bias, &t.a.first, &t.a.dy
    };
    float **const written[] = { &t.a.y,   &t.a.marks,  &t.a.decay,   &t.a.ends,      &t.a.du,
                                &t.a.ddt, &t.a.dfirst, &t.a.partial, &t.a.partial_bc };
    for (const float **p : read)
        to_device(d, *p);
    for (float **p : written)
        to_device(d, *p);
    t.vectors = t.a.states % SCAN_QUAD == 0 && is_aligned(t.a.b) && is_aligned(t.a.c);
    t.wide = t.a.channels % SCAN_QUAD == 0 && is_aligned(t.a.u) && is_aligned(t.a.dt) && is_aligned(t.a.dy);
    return t;
}

/* The tokens [begin,end) of a part. */
struct scan_run {
    int64_t index, sequence;
    int64_t chunk; /* of the first token */
    int64_t begin, end;
};

static inline __device__ scan_run scan_run_of(const scan_task &t, int64_t index)
{
    scan_run r = { index, index, 0, 0, t.a.length };
    if (t.a.apart) {
        r.sequence = index / t.chunks;
        r.chunk = index % t.chunks;
        r.begin = r.chunk * ZN_SCAN_DEVICE_CHUNK;
        r.end = r.begin + ZN_SCAN_DEVICE_CHUNK < t.a.length ? r.begin + ZN_SCAN_DEVICE_CHUNK : t.a.length;
    }
    return r;
}

/* Offset of a channel of a token in maps; of a state of a token in b and c. */
static inline __device__ int64_t scan_at(const scan_task &t, const scan_run &r, int64_t token, int64_t channel)
{
    return (r.sequence * t.a.length + token) * t.a.channels + channel;
}
static inline __device__ int64_t scan_few_at(const scan_task &t, const scan_run &r, int64_t token, int state)
{
    return (r.sequence * t.a.length + token) * t.a.states + state;
}

/* The states [state, state + 4) of a channel. Those past the last, and channels that only pad a thread block, have no
 * memory: they read as 0 and are not written. Channels that pad the last block of cells have some. */
struct scan_four {
    int64_t channel;
    int state;
};

static inline __device__ bool scan_is_cell(const scan_task &t, const scan_four &f, int i)
{
    return f.channel < t.blocks * ZN_SCAN_BLOCK && f.state + i < t.a.states;
}
/* Offset of state i of the four in a list of cells, [parts][blocks][states][ZN_SCAN_BLOCK]. */
static inline __device__ int64_t scan_cell_at(const scan_task &t, int64_t part, const scan_four &f, int i)
{
    return ((part * t.blocks + f.channel / ZN_SCAN_BLOCK) * t.a.states + f.state + i) * ZN_SCAN_BLOCK +
           f.channel % ZN_SCAN_BLOCK;
}
/* Parts of marks, and of decay and ends. */
static inline __device__ int64_t scan_mark(const scan_task &t, int64_t sequence, int64_t chunk)
{
    return chunk == t.chunks ? sequence : t.a.sequences + sequence * t.chunks + chunk;
}
static inline __device__ int64_t scan_inner(const scan_task &t, int64_t sequence, int64_t chunk)
{
    return sequence * t.chunks + chunk;
}

/* Offset of state i of the four in arrays [channels][states]; whether it is there. */
static inline __device__ bool scan_is_state(const scan_task &t, const scan_four &f, int i)
{
    return f.channel < t.a.channels && f.state + i < t.a.states;
}
static inline __device__ int64_t scan_state_at(const scan_task &t, const scan_four &f, int i)
{
    return f.channel * t.a.states + f.state + i;
}

/* log(1 + exp(x)) to 5e-7 of it where |x| is small: max(x, 0) + log(1 + e) with e = exp(-|x|), by a polynomial for
 * log(1 + e) / e in [0,1]. */
static inline __device__ float softplus(float x)
{
    const float e = quick_power2(-1.44269504f * fabsf(x));
    float p = 0.00203769043f;
    p = p * e - 0.0134448307f;
    p = p * e + 0.0415576219f;
    p = p * e - 0.0825353315f;
    p = p * e + 0.124251029f;
    p = p * e - 0.161086319f;
    p = p * e + 0.198915375f;
    p = p * e - 0.249873928f;
    p = p * e + 0.333325692f;
    p = p * e - 0.499999817f;
    p = p * e + 0.999999999f;
    return fmaxf(x, 0) + e * p;
}

/* rates[i] = -exp(a_log) / ln(2): a token's decay is 2^(delta rate). 0 where there is no state. */
static inline __device__ void scan_rates(const scan_task &t, const scan_four &f, float rates[SCAN_QUAD])
{
    const float per_ln2 = 1.44269504f;
#pragma unroll
    for (int i = 0; i < SCAN_QUAD; i++)
        rates[i] = scan_is_state(t, f, i) ? -per_ln2 * expf(t.a.a_log[scan_state_at(t, f, i)]) : 0;
}

/* Starts the copies of b and c of the tokens [first, first + ROWS) to shared memory, with all THREADS of the thread
 * block. Tokens past `count`, and states past the last, become 0. */
template <int ROWS, int THREADS, int WIDTH>
static __device__ void scan_fetch_by(const scan_task &t, int64_t at, int count, float (*b)[SCAN_STATES],
                                     float (*c)[SCAN_STATES])
{
    enum { LINE = SCAN_STATES / WIDTH };
#pragma unroll
    for (int k = 0; k < 2 * ROWS * LINE / THREADS; k++) {
        const int i = k * THREADS + (int)threadIdx.x, row = i / LINE % ROWS, state = i % LINE * WIDTH;
        const bool is_c = i >= ROWS * LINE;
        copy_async<WIDTH * sizeof(float)>((is_c ? c : b)[row] + state,
                                          (is_c ? t.a.c : t.a.b) + at + row * t.a.states + state,
                                          row < count && t.first + state < t.a.states);
    }
}

template <int ROWS, int THREADS>
static __device__ void scan_fetch(const scan_task &t, const scan_run &r, int64_t first, int count,
                                  float (*b)[SCAN_STATES], float (*c)[SCAN_STATES])
{
    const int64_t at = scan_few_at(t, r, first, t.first);
    if (t.vectors)
        scan_fetch_by<ROWS, THREADS, SCAN_QUAD>(t, at, count, b, c);
    else
        scan_fetch_by<ROWS, THREADS, 1>(t, at, count, b, c);
    copy_commit();
}

/* Launches once for every SCAN_STATES states. */
static inline void scan_launch(zn_device *d, void (*kernel)(scan_task), scan_task t, int64_t blocks, unsigned threads,
                               size_t shared)
{
    for (t.first = 0; t.first < t.a.states; t.first += SCAN_STATES)
        launch(d, kernel, dim3((unsigned)blocks), threads, shared, t);
}

#endif

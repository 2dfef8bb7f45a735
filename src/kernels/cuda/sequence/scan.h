/* Shared by the CUDA builds of the selective scan: a thread has one channel of one part (kernels/scan.h) with all its
 * states in registers. Included only by .cu files. */
#ifndef ZN_CUDA_SCAN_H
#define ZN_CUDA_SCAN_H

#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/scan.h"
}

struct scan_task {
    zn_scan_args a;
    int64_t blocks, groups, chunks, runs;
};

static inline scan_task scan_task_of(zn_device *d, const void *args)
{
    scan_task t = { *static_cast<const zn_scan_args *>(args), 0, 0, 0, 0 };
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
    return t;
}

/* One channel of one part. `inside` is false for the channels that pad the last block, whose values are all 0. */
struct scan_lane {
    int64_t sequence, run;
    int64_t begin, end; /* tokens */
    int64_t chunk;      /* of the first */
    int64_t channel;
    bool inside;
};

/* index: over runs and padded channels, `channels` of them in each run. */
static inline __device__ scan_lane scan_lane_of(const scan_task &t, int64_t index, int64_t channels)
{
    scan_lane l;
    l.run = index / channels;
    l.channel = index % channels;
    l.sequence = t.a.apart ? l.run / t.chunks : l.run;
    l.chunk = t.a.apart ? l.run % t.chunks : 0;
    l.begin = l.chunk * ZN_SCAN_CHUNK;
    l.end = t.a.apart && l.begin + ZN_SCAN_CHUNK < t.a.length ? l.begin + ZN_SCAN_CHUNK : t.a.length;
    l.inside = l.channel < t.a.channels;
    return l;
}

/* Offset of state 0 of a channel in a list of cells, [parts][blocks][states][ZN_SCAN_BLOCK]; states are ZN_SCAN_BLOCK
 * floats apart. */
static inline __device__ int64_t scan_cell_of(const scan_task &t, int64_t part, int64_t channel)
{
    return (part * t.blocks + channel / ZN_SCAN_BLOCK) * t.a.states * ZN_SCAN_BLOCK + channel % ZN_SCAN_BLOCK;
}
static inline __device__ float *scan_mark_of(const scan_task &t, const scan_lane &l, int64_t chunk)
{
    return t.a.marks + scan_cell_of(t, l.sequence * (t.chunks + 1) + chunk, l.channel);
}
static inline __device__ int64_t scan_inner_of(const scan_task &t, const scan_lane &l)
{
    return scan_cell_of(t, l.sequence * t.chunks + l.chunk, l.channel);
}

/* Offset of a token of the lane's channel in maps. */
static inline __device__ int64_t scan_at(const scan_task &t, const scan_lane &l, int64_t token)
{
    return (l.sequence * t.a.length + token) * t.a.channels + l.channel;
}
/* Offset of a token in b and c. */
static inline __device__ int64_t scan_row(const scan_task &t, const scan_lane &l, int64_t token)
{
    return (l.sequence * t.a.length + token) * t.a.states;
}

static inline __device__ float scan_raw_delta(const scan_task &t, const scan_lane &l, int64_t token)
{
    return l.inside ? t.a.dt[scan_at(t, l, token)] + t.a.bias[l.channel] : 0;
}
static inline __device__ float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* rates[i] = -exp(a_log); 0 beyond the last state. */
template <int S> static __device__ void scan_rates(const scan_task &t, const scan_lane &l, float rates[S])
{
#pragma unroll
    for (int i = 0; i < S; i++)
        rates[i] = l.inside && i < t.a.states ? -expf(t.a.a_log[l.channel * t.a.states + i]) : 0;
}

/* One token: updates h; returns y without the direct term. */
template <int S>
static __device__ float scan_step(const scan_task &t, const scan_lane &l, int64_t token, const float rates[S],
                                  float h[S])
{
    const float *b = t.a.b + scan_row(t, l, token), *c = t.a.c + scan_row(t, l, token);
    const float delta = softplus(scan_raw_delta(t, l, token));
    const float w = l.inside ? delta * t.a.u[scan_at(t, l, token)] : 0;
    float y = 0;
#pragma unroll
    for (int i = 0; i < S; i++)
        if (i < t.a.states) {
            h[i] = expf(delta * rates[i]) * h[i] + w * b[i];
            y += c[i] * h[i];
        }
    return y;
}

#endif

/* The selective scan; ref/sequence/scan.c is the reference. */
#include "kernels/cuda/sequence/scan.h"

enum { SCAN_THREADS = 64 }; /* few: there are not many channels, and all multiprocessors should have some */

static __device__ int64_t index_of(void) { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }

template <int S> static __device__ void save(const scan_task &t, const scan_lane &l, const float h[S], int64_t chunk)
{
    float *to = scan_mark_of(t, l, chunk);
#pragma unroll
    for (int i = 0; i < S; i++)
        if (i < t.a.states)
            to[i * ZN_SCAN_BLOCK] = h[i];
}

static __device__ float first_at(const scan_task &t, const scan_lane &l, int i)
{
    return l.inside && t.a.first ? t.a.first[(l.sequence * t.a.channels + l.channel) * t.a.states + i] : 0;
}

template <int S> __global__ void scan(scan_task t)
{
    const int64_t channels = t.blocks * ZN_SCAN_BLOCK;
    if (index_of() >= t.runs * channels)
        return;
    const scan_lane l = scan_lane_of(t, index_of(), channels);
    const float d = l.inside ? t.a.d[l.channel] : 0;
    float rates[S], h[S];
    scan_rates<S>(t, l, rates);
#pragma unroll
    for (int i = 0; i < S; i++)
        h[i] = i >= t.a.states ? 0 : t.a.apart ? scan_mark_of(t, l, l.chunk)[i * ZN_SCAN_BLOCK] : first_at(t, l, i);
    for (int64_t token = l.begin; token < l.end; token++) {
        if (!t.a.apart && token % ZN_SCAN_CHUNK == 0)
            save<S>(t, l, h, token / ZN_SCAN_CHUNK);
        const float y = scan_step<S>(t, l, token, rates, h);
        if (l.inside)
            t.a.y[scan_at(t, l, token)] = y + d * t.a.u[scan_at(t, l, token)];
    }
    if (!t.a.apart)
        save<S>(t, l, h, t.chunks);
}

/* exp(rate * sum of delta), which is the product of the decays over the tokens of the chunk. */
template <int S> static __device__ void write_decay(const scan_task &t, const scan_lane &l, const float rates[S])
{
    float sum = 0;
    for (int64_t token = l.begin; token < l.end; token++)
        sum += softplus(scan_raw_delta(t, l, token));
#pragma unroll
    for (int i = 0; i < S; i++)
        if (i < t.a.states)
            t.a.decay[scan_inner_of(t, l) + i * ZN_SCAN_BLOCK] = expf(rates[i] * sum);
}

template <int S> __global__ void scan_ends(scan_task t)
{
    const int64_t channels = t.blocks * ZN_SCAN_BLOCK;
    if (index_of() >= t.runs * channels)
        return;
    const scan_lane l = scan_lane_of(t, index_of(), channels);
    float rates[S], h[S] = {};
    scan_rates<S>(t, l, rates);
    write_decay<S>(t, l, rates);
    for (int64_t token = l.begin; token < l.end; token++)
        scan_step<S>(t, l, token, rates, h);
#pragma unroll
    for (int i = 0; i < S; i++)
        if (i < t.a.states)
            t.a.ends[scan_inner_of(t, l) + i * ZN_SCAN_BLOCK] = h[i];
}

/* The gradient that leaves the start of the chunk if none enters its end. */
template <int S> __global__ void scan_grad_ends(scan_task t)
{
    const int64_t channels = t.blocks * ZN_SCAN_BLOCK;
    if (index_of() >= t.runs * channels)
        return;
    const scan_lane l = scan_lane_of(t, index_of(), channels);
    float rates[S], g[S] = {};
    scan_rates<S>(t, l, rates);
    write_decay<S>(t, l, rates);
    for (int64_t token = l.end - 1; token >= l.begin; token--) {
        const float delta = softplus(scan_raw_delta(t, l, token)), dy = l.inside ? t.a.dy[scan_at(t, l, token)] : 0;
        const float *c = t.a.c + scan_row(t, l, token);
#pragma unroll
        for (int i = 0; i < S; i++)
            if (i < t.a.states)
                g[i] = expf(delta * rates[i]) * (c[i] * dy + g[i]);
    }
#pragma unroll
    for (int i = 0; i < S; i++)
        if (i < t.a.states)
            t.a.ends[scan_inner_of(t, l) + i * ZN_SCAN_BLOCK] = g[i];
}

/* ---- chunks in order; a thread has one state of one channel ---- */

struct joint {
    scan_lane l;
    int state;
};

/* index: over sequences, states and padded channels. */
static __device__ joint joint_of(const scan_task &t, int64_t index)
{
    const int64_t channels = t.blocks * ZN_SCAN_BLOCK;
    joint j;
    j.l.channel = index % channels;
    j.state = (int)(index / channels % t.a.states);
    j.l.sequence = index / channels / t.a.states;
    j.l.chunk = 0;
    j.l.inside = j.l.channel < t.a.channels;
    return j;
}

__global__ void scan_join(scan_task t)
{
    if (index_of() >= t.a.sequences * t.a.states * t.blocks * ZN_SCAN_BLOCK)
        return;
    joint j = joint_of(t, index_of());
    const int64_t at = (int64_t)j.state * ZN_SCAN_BLOCK;
    float h = first_at(t, j.l, j.state);
    scan_mark_of(t, j.l, 0)[at] = h;
    for (j.l.chunk = 0; j.l.chunk < t.chunks; j.l.chunk++) {
        const int64_t inner = scan_inner_of(t, j.l) + at;
        h = t.a.ends[inner] + t.a.decay[inner] * h;
        scan_mark_of(t, j.l, j.l.chunk + 1)[at] = h;
    }
}

__global__ void scan_grad_join(scan_task t)
{
    if (index_of() >= t.a.sequences * t.a.states * t.blocks * ZN_SCAN_BLOCK)
        return;
    joint j = joint_of(t, index_of());
    float carry = 0;
    for (j.l.chunk = t.chunks - 1; j.l.chunk >= 0; j.l.chunk--) {
        const int64_t inner = scan_inner_of(t, j.l) + (int64_t)j.state * ZN_SCAN_BLOCK;
        const float next = t.a.ends[inner] + t.a.decay[inner] * carry;
        t.a.ends[inner] = carry;
        carry = next;
    }
    if (t.a.dfirst && j.l.inside)
        t.a.dfirst[(j.l.sequence * t.a.channels + j.l.channel) * t.a.states + j.state] = carry;
}

/* ---- launching ---- */

static void launch_lanes(zn_device *d, void (*kernel)(scan_task), const scan_task &t, int64_t lanes)
{
    launch(d, kernel, dim3((unsigned)((lanes + SCAN_THREADS - 1) / SCAN_THREADS)), SCAN_THREADS, 0, t);
}

/* `few` has registers for 16 states, `many` for all that the op sends to a device. */
static void launch_runs(zn_device *d, void (*few)(scan_task), void (*many)(scan_task), const void *args)
{
    const scan_task t = scan_task_of(d, args);
    launch_lanes(d, t.a.states <= 16 ? few : many, t, t.runs * t.blocks * ZN_SCAN_BLOCK);
}

static void launch_joints(zn_device *d, void (*kernel)(scan_task), const void *args)
{
    const scan_task t = scan_task_of(d, args);
    launch_lanes(d, kernel, t, t.a.sequences * t.a.states * t.blocks * ZN_SCAN_BLOCK);
}

extern "C" {
void zn_cuda_scan(zn_device *d, const void *args, int64_t)
{
    launch_runs(d, scan<16>, scan<ZN_SCAN_DEVICE_STATES>, args);
}
void zn_cuda_scan_ends(zn_device *d, const void *args, int64_t)
{
    launch_runs(d, scan_ends<16>, scan_ends<ZN_SCAN_DEVICE_STATES>, args);
}
void zn_cuda_scan_grad_ends(zn_device *d, const void *args, int64_t)
{
    launch_runs(d, scan_grad_ends<16>, scan_grad_ends<ZN_SCAN_DEVICE_STATES>, args);
}
void zn_cuda_scan_join(zn_device *d, const void *args, int64_t) { launch_joints(d, scan_join, args); }
void zn_cuda_scan_grad_join(zn_device *d, const void *args, int64_t) { launch_joints(d, scan_grad_join, args); }
}

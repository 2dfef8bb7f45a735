/* The gradient of the selective scan; ref/sequence/scan_grad.c is the reference and has the formulas. A thread block
 * has one group of channels of one part, a thread has one channel. Tokens go backwards in stretches: h before each
 * token of a stretch is recomputed from h at its start, which is recomputed from the mark of its chunk. */
#include "kernels/cuda/sequence/scan.h"

enum { CHANNELS = ZN_SCAN_GROUP * ZN_SCAN_BLOCK, LANES = 32, WARPS = CHANNELS / LANES };
enum { STRETCH = 16, STRETCHES = ZN_SCAN_CHUNK / STRETCH };

/* Adds 32 numbers of each lane over the lanes of a warp: returns to lane i the sum of the numbers i. In each step the
 * lanes of a pair exchange the half that the other keeps. */
static __device__ float sum_by_lane(float v[LANES])
{
    const int lane = (int)threadIdx.x % LANES;
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2)
#pragma unroll
        for (int i = 0; i < mask; i++) {
            const bool upper = lane & mask;
            const float other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + mask], mask);
            v[i] = (upper ? v[i + mask] : v[i]) + other;
        }
    return v[0];
}

/* Sums of a channel over the tokens of its part, and the gradient that comes from the tokens after. */
template <int S> struct sums {
    float carry[S], da[S], dd, dbias;
};

/* Backward step of one token. h: the state before it. `to`: where this warp's sums over channels of db and dc go,
 * [2][S] floats in shared memory. */
template <int S>
static __device__ void step_back(const scan_task &t, const scan_lane &l, int64_t token, const float rates[S],
                                 const float h[S], sums<S> &sum, float *to)
{
    const int64_t at = scan_at(t, l, token);
    const float *b = t.a.b + scan_row(t, l, token), *c = t.a.c + scan_row(t, l, token);
    const float raw = scan_raw_delta(t, l, token), delta = softplus(raw), slope = 1 / (1 + expf(-raw));
    const float u = l.inside ? t.a.u[at] : 0, dy = l.inside ? t.a.dy[at] : 0;
    float through = 0, ddelta = 0, both[2 * S];
#pragma unroll
    for (int i = 0; i < S; i++) {
        both[i] = both[S + i] = 0;
        if (i < t.a.states) {
            const float decay = expf(delta * rates[i]), g = c[i] * dy + sum.carry[i];
            const float after = decay * h[i] + delta * u * b[i];
            both[i] = g * delta * u;
            both[S + i] = dy * after;
            through += g * b[i];
            ddelta += g * rates[i] * decay * h[i];
            sum.da[i] += g * h[i] * decay * delta * rates[i];
            sum.carry[i] = decay * g;
        }
    }
    const float ddt = (ddelta + u * through) * slope;
    sum.dd += u * dy;
    sum.dbias += l.inside ? ddt : 0;
    if (l.inside) {
        t.a.du[at] = t.a.d[l.channel] * dy + delta * through;
        t.a.ddt[at] = ddt;
    }
#pragma unroll
    for (int i = 0; i < 2 * S; i += LANES)
        to[i + threadIdx.x % LANES] = sum_by_lane(both + i);
}

/* Adds the warps' sums of db and dc of `count` tokens from `first` on, and writes them. */
template <int S>
static __device__ void write_both(const scan_task &t, const scan_lane &l, int64_t group, int64_t first, int count,
                                  const float *shared)
{
    const int64_t map = t.a.length * t.a.states;
    float *db = t.a.partial_bc + (2 * group * t.a.sequences + l.sequence) * map + first * t.a.states;
    for (int i = (int)threadIdx.x; i < 2 * count * t.a.states; i += CHANNELS) {
        const int which = i / (count * t.a.states), token = i / t.a.states % count, state = i % t.a.states;
        float sum = 0;
        for (int w = 0; w < WARPS; w++)
            sum += shared[((w * STRETCH + token) * 2 + which) * S + state];
        db[which * t.a.sequences * map + token * t.a.states + state] = sum;
    }
}

template <int S>
static __device__ void stretch_back(const scan_task &t, const scan_lane &l, int64_t group, int64_t first, int count,
                                    const float rates[S], const float start[S], sums<S> &sum)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float h[STRETCH][S], now[S]; /* h before each token */
#pragma unroll
    for (int i = 0; i < S; i++)
        now[i] = start[i];
    for (int k = 0; k < count; k++) {
#pragma unroll
        for (int i = 0; i < S; i++)
            h[k][i] = now[i];
        scan_step<S>(t, l, first + k, rates, now);
    }
    float *own = zn_cuda_shared + (threadIdx.x / LANES) * STRETCH * 2 * S;
    __syncthreads(); /* the sums of the stretch before have been read */
    for (int k = count - 1; k >= 0; k--)
        step_back<S>(t, l, first + k, rates, h[k], sum, own + k * 2 * S);
    __syncthreads();
    write_both<S>(t, l, group, first, count, zn_cuda_shared);
}

template <int S> __global__ void scan_grad(scan_task t)
{
    const int64_t group = blockIdx.x % t.groups, run = blockIdx.x / t.groups, padded = t.groups * CHANNELS;
    const scan_lane l = scan_lane_of(t, run * padded + group * CHANNELS + threadIdx.x, padded);
    float rates[S], h[STRETCHES][S]; /* h at the start of each stretch of a chunk */
    sums<S> sum = {};
    scan_rates<S>(t, l, rates);
#pragma unroll
    for (int i = 0; i < S; i++)
        if (t.a.apart && l.inside && i < t.a.states)
            sum.carry[i] = t.a.ends[scan_inner_of(t, l) + i * ZN_SCAN_BLOCK];
    for (int64_t begin = (l.end - 1) / ZN_SCAN_CHUNK * ZN_SCAN_CHUNK; begin >= l.begin; begin -= ZN_SCAN_CHUNK) {
        const int count = (int)(l.end - begin < ZN_SCAN_CHUNK ? l.end - begin : (int64_t)ZN_SCAN_CHUNK);
        float now[S];
#pragma unroll
        for (int i = 0; i < S; i++)
            now[i] = l.inside && i < t.a.states ? scan_mark_of(t, l, begin / ZN_SCAN_CHUNK)[i * ZN_SCAN_BLOCK] : 0;
        for (int k = 0; k < count; k++) {
            if (k % STRETCH == 0)
#pragma unroll
                for (int i = 0; i < S; i++)
                    h[k / STRETCH][i] = now[i];
            scan_step<S>(t, l, begin + k, rates, now);
        }
        for (int first = (count - 1) / STRETCH * STRETCH; first >= 0; first -= STRETCH)
            stretch_back<S>(t, l, group, begin + first, count - first < STRETCH ? count - first : (int)STRETCH, rates,
                            h[first / STRETCH], sum);
    }
    if (!l.inside)
        return;
    const int64_t channels = t.a.channels, states = t.a.states;
    float *da = t.a.partial + l.run * channels * (states + 2), *dd = da + channels * states;
#pragma unroll
    for (int i = 0; i < S; i++)
        if (i < states) {
            da[l.channel * states + i] = sum.da[i];
            if (t.a.dfirst && !t.a.apart)
                t.a.dfirst[(l.sequence * channels + l.channel) * states + i] = sum.carry[i];
        }
    dd[l.channel] = sum.dd;
    dd[channels + l.channel] = sum.dbias;
}

template <int S> static void launch_groups(zn_device *d, const scan_task &t)
{
    launch(d, scan_grad<S>, dim3((unsigned)(t.runs * t.groups)), CHANNELS, WARPS * STRETCH * 2 * S * sizeof(float), t);
}

extern "C" void zn_cuda_scan_grad(zn_device *d, const void *args, int64_t)
{
    const scan_task t = scan_task_of(d, args);
    if (t.a.states <= 16)
        launch_groups<16>(d, t);
    else
        launch_groups<ZN_SCAN_DEVICE_STATES>(d, t);
}

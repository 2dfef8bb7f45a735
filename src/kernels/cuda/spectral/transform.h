/* Walsh-Hadamard transforms of up to 2^15 values in shared memory, each step of up to 16 values in registers. Included
 * only by .cu files, after cuda.h.
 *
 * A tile is [n][lanes]: `lanes` independent lines of n values. `along`: neighbouring threads have neighbouring values
 * of a line instead of neighbouring lines. */
#ifndef ZN_CUDA_TRANSFORM_H
#define ZN_CUDA_TRANSFORM_H

#include "kernels/cuda/spectral/butterfly.h"

struct tile_of_lines {
    int n, bits, lanes; /* n = 2^bits */
    bool along;

    /* After every 32 values of a line there is room for one more, so that steps of 32 use all banks. */
    __host__ __device__ int length(void) const { return n + n / 32 + 1; }
    __host__ __device__ int floats(void) const { return length() * lanes; }
    __device__ int at(int k, int lane) const
    {
        return along ? lane * length() + k + k / 32 : (k + k / 32) * lanes + lane;
    }
};

static inline tile_of_lines tile_of(int64_t n, int lanes, bool along)
{
    tile_of_lines t = { (int)n, 0, lanes, along };
    while ((int64_t)1 << t.bits < n)
        t.bits++;
    return t;
}

/* The index bits of a line are handled in steps of at most 4 bits, of equal size as far as possible, the highest
 * first. */
enum { STEP_BITS = 4 };
static inline __device__ int steps_of(const tile_of_lines &t)
{
    return t.bits ? (t.bits + STEP_BITS - 1) / STEP_BITS : 1;
}
/* The lowest bit of a step; the one before it has the lowest of step - 1. */
static inline __device__ int low_bit(const tile_of_lines &t, int step)
{
    const int steps = steps_of(t);
    return t.bits - (t.bits * (step + 1) + steps - 1) / steps;
}

/* R = 2^r values of each line, 2^low apart: x = get(k, lane), then work(x, k of x[0], distance), then put(k, lane, x).
 */
template <int R, typename Get, typename Work, typename Put>
static __device__ void step_of(const tile_of_lines &t, int low, Get get, Work work, Put put)
{
    const int each = t.n / R;
    for (int i = (int)threadIdx.x; i < each * t.lanes; i += (int)blockDim.x) {
        const int j = t.along ? i % each : i / t.lanes, lane = t.along ? i / each : i % t.lanes;
        const int first = (j >> low) * (R << low) + (j & ((1 << low) - 1));
        float x[R];
#pragma unroll
        for (int m = 0; m < R; m++)
            x[m] = get(first + (m << low), lane);
        transform(x);
        work(x, first, 1 << low);
#pragma unroll
        for (int m = 0; m < R; m++)
            put(first + (m << low), lane, x[m]);
    }
}

/* What a step does besides the transform. */
struct nothing {
    template <int R> __device__ void operator()(float (&)[R], int, int) const {}
};

/* One step of a transform; all threads of the block call it. */
template <typename Get, typename Work, typename Put>
static __device__ void run_step(const tile_of_lines &t, int step, Get get, Work work, Put put)
{
    const int low = low_bit(t, step), bits = (step ? low_bit(t, step - 1) : t.bits) - low;
    switch (bits) {
    case 0:
        step_of<1>(t, low, get, work, put);
        break;
    case 1:
        step_of<2>(t, low, get, work, put);
        break;
    case 2:
        step_of<4>(t, low, get, work, put);
        break;
    case 3:
        step_of<8>(t, low, get, work, put);
        break;
    default:
        step_of<16>(t, low, get, work, put);
        break;
    }
}

/* A whole transform in place in shared memory. Ends with a barrier. */
static inline __device__ void transform_shared(const tile_of_lines &t, float *x)
{
    const auto get = [&](int k, int lane) { return x[t.at(k, lane)]; };
    const auto put = [&](int k, int lane, float v) { x[t.at(k, lane)] = v; };
    for (int step = 0; step < steps_of(t); step++) {
        run_step(t, step, get, nothing(), put);
        __syncthreads();
    }
}

#endif

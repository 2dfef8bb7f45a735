/* Several steps of a transformer's block in one pass (kernels/token.h). ref/sequence/token.c is the reference. */
#include "kernels/cuda/basic/fp8.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/token.h"
}

enum { FOUR = 4, HELD = ZN_GATED_NORM_MOST / FOUR / THREADS };

/* A thread block per token, which is read once: threads keep their channels until the sum of squares is known, and
 * their results until the largest one is, if these become codes. */
template <int N, bool CODES> __global__ void gated_norm(zn_gated_norm_args a)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int each = a.c / N;
    const int64_t first = (int64_t)blockIdx.x * each;
    floats<N> x[HELD * FOUR / N];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < HELD * FOUR / N; i++) {
        const int at = i * THREADS + (int)threadIdx.x;
        if (at < each) {
            x[i] = load_as<N>(a.x, first + at, a.x_type);
            for (int k = 0; k < N; k++)
                squares += x[i].v[k] * x[i].v[k];
        }
    }
    squares = sum_of_warp(squares);
    if (threadIdx.x % 32 == 0)
        zn_cuda_shared[threadIdx.x / 32] = squares;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < THREADS / 32; i++)
        sum += zn_cuda_shared[i];
    const float s = 1 / sqrtf(sum / (float)a.c + a.eps);
    float largest = 0;
#pragma unroll
    for (int i = 0; i < HELD * FOUR / N; i++) {
        const int at = i * THREADS + (int)threadIdx.x;
        if (at >= each)
            continue;
        const floats<N> w = load<N>(a.w, at), scale = load<N>(a.scale, at);
        floats<N> r = {};
        if (a.residual)
            r = load_as<N>(a.residual, first + at, a.residual_type);
        for (int k = 0; k < N; k++) {
            r.v[k] += ((a.plus_one ? 1.0f : 0.0f) + scale.v[k]) * (x[i].v[k] * s * w.v[k]);
            largest = fmaxf(largest, fabsf(r.v[k]));
        }
        if constexpr (CODES)
            x[i] = r;
        else
            store_as<N>(a.y, first + at, a.y_type, r);
    }
    if constexpr (CODES) {
        largest = largest_of_block(largest, zn_cuda_shared);
        if (threadIdx.x == 0)
            a.scales[blockIdx.x] = scale_of_codes(largest);
#pragma unroll
        for (int i = 0; i < HELD * FOUR / N; i++) {
            const int at = i * THREADS + (int)threadIdx.x;
            if (at < each)
                store_codes<N>(a.y, first + at, x[i], inverse_of_codes(largest));
        }
    }
}

extern "C" void zn_cuda_gated_norm(zn_device *d, const void *args, int64_t tokens)
{
    zn_gated_norm_args a = *static_cast<const zn_gated_norm_args *>(args);
    to_device(d, a.x);
    to_device(d, a.w);
    to_device(d, a.scale);
    to_device(d, a.residual);
    to_device(d, a.y);
    to_device(d, a.scales);
    const bool fours = a.c % FOUR == 0 && is_aligned(a.x) && is_aligned(a.w) && is_aligned(a.scale) &&
                       is_aligned(a.residual) && is_aligned(a.y);
    const bool codes = a.y_type == ZN_TYPE_E4M3;
    void (*const kernel)(zn_gated_norm_args) = fours && codes ? gated_norm<FOUR, true>
                                               : fours        ? gated_norm<FOUR, false>
                                               : codes        ? gated_norm<1, true>
                                                              : gated_norm<1, false>;
    launch(d, kernel, dim3((unsigned)tokens), THREADS, sizeof(float) * (THREADS / 32), a);
}

/* ---- norm_rope ---- */

/* A lane has four neighbouring channels of a head, c / 4 lanes have them all, and `AHEAD` heads are read at a time. */
enum { AHEAD = 2 };

/* Rotates a lane's four channels. With `halves` the other number of each pair is lanes / 2 lanes away; all lanes of a
 * warp take part. */
static __device__ floats<4> turned(const zn_rope_args &a, const floats<4> &x, int64_t token, int column, int lanes)
{
    floats<4> y;
    const int64_t table = token % a.period * a.pairs;
    if (!a.halves) {
        const floats<2> c = load<2>(a.cos + table, column), s = load<2>(a.sin + table, column);
        for (int k = 0; k < 2; k++) {
            const float u = x.v[2 * k], v = x.v[2 * k + 1], sine = a.back ? -s.v[k] : s.v[k];
            y.v[2 * k] = u * c.v[k] - v * sine;
            y.v[2 * k + 1] = v * c.v[k] + u * sine;
        }
        return y;
    }
    const bool second = column >= lanes / 2;
    const floats<4> c = load<4>(a.cos + table, column % (lanes / 2)), s = load<4>(a.sin + table, column % (lanes / 2));
    for (int k = 0; k < 4; k++) {
        const float other = __shfl_xor_sync(0xffffffffu, x.v[k], lanes / 2);
        y.v[k] = x.v[k] * c.v[k] + (second != a.back ? other : -other) * s.v[k];
    }
    return y;
}

__global__ void norm_rope(task<zn_norm_rope_args> t)
{
    const zn_norm_rope_args &a = t.a;
    const int64_t heads = t.units;
    const int c = 2 * a.rope.pairs, lanes = c / 4, column = (int)threadIdx.x % lanes, each = (int)blockDim.x / lanes;
    const floats<4> w = load<4>(a.w, column);
    const int64_t step = (int64_t)gridDim.x * each;
    for (int64_t first = (int64_t)blockIdx.x * each; first < heads; first += AHEAD * step) {
        floats<4> x[AHEAD] = {};
        int64_t head[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            head[i] = first + i * step + (int)threadIdx.x / lanes;
            if (head[i] < heads)
                x[i] = load_as<4>(a.rope.x, head[i] * lanes + column, a.rope.type);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) { /* all lanes of a warp take part in its sums */
            float squares = 0;
            for (int k = 0; k < 4; k++)
                squares += x[i].v[k] * x[i].v[k];
            for (int mask = lanes / 2; mask > 0; mask /= 2)
                squares += __shfl_xor_sync(0xffffffffu, squares, mask);
            const float s = 1 / sqrtf(squares / (float)c + a.eps);
            for (int k = 0; k < 4; k++)
                x[i].v[k] *= s * w.v[k];
            const floats<4> y = turned(a.rope, x[i], quotient(head[i], a.rope.heads), column, lanes);
            if (head[i] < heads)
                store_as<4>(a.rope.y, head[i] * lanes + column, a.rope.type, y);
        }
    }
}

extern "C" void zn_cuda_norm_rope(zn_device *d, const void *args, int64_t tokens)
{
    task<zn_norm_rope_args> t = { *static_cast<const zn_norm_rope_args *>(args), 0 };
    zn_norm_rope_args &a = t.a;
    to_device(d, a.rope.x);
    to_device(d, a.rope.cos);
    to_device(d, a.rope.sin);
    to_device(d, a.rope.y);
    to_device(d, a.w);
    t.units = tokens * a.rope.heads;
    launch(d, norm_rope, dim3(grid_of((t.units + AHEAD - 1) / AHEAD * (a.rope.pairs / 2))), THREADS, 0, t);
}

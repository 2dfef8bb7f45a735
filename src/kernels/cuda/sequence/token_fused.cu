/* Several steps of a transformer's block in one pass (kernels/token.h). ref/sequence/token.c is the reference. */
#include "kernels/cuda/basic/fp8.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/token.h"
}

enum { FOUR = 4, HELD = ZN_GATED_NORM_MOST / FOUR / THREADS };

/* How many blocks share a multiprocessor; each takes one token after the other. */
enum { RESIDENT = 3, WARPS = THREADS / 32 };

/* Types of maps that are known when this is compiled, or not: then each read is a branch, and waits for the one before.
 */
template <bool BF16, int N> static __device__ floats<N> load_known(const float *map, int64_t i, zn_type type)
{
    if constexpr (BF16)
        return as_bf16::load<N>(map, i);
    else
        return load_as<N>(map, i, type);
}
template <bool BF16, int N> static __device__ void store_known(float *map, int64_t i, zn_type type, const floats<N> &v)
{
    if constexpr (BF16)
        as_bf16::store<N>(map, i, v);
    else
        store_as<N>(map, i, type, v);
}

/* A token is read once: threads keep their channels until the sum of squares is known, and their results until the
 * largest one is, if these become codes. Weights and scales are read once for all tokens of a block. */
template <int N, bool CODES, bool BF16>
__global__ void __launch_bounds__(THREADS, RESIDENT) gated_norm(task<zn_gated_norm_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    enum { COUNT = HELD * FOUR / N };
    const zn_gated_norm_args &a = t.a;
    const int each = a.c / N, thread = (int)threadIdx.x;
    floats<N> w[COUNT] = {}, scale[COUNT] = {};
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (i * THREADS + thread < each) {
            w[i] = load<N>(a.w, i * THREADS + thread);
            scale[i] = load<N>(a.scale, i * THREADS + thread);
            for (int k = 0; k < N && a.limit > 0; k++)
                scale[i].v[k] = a.limit * tanhf(scale[i].v[k] / a.limit);
        }
    int turn = 0; /* sums of warps of one token are read while those of the next are written */
    for (int64_t token = blockIdx.x; token < t.units; token += gridDim.x, turn ^= 1) {
        const int64_t first = token * each;
        floats<N> x[COUNT] = {}, r[COUNT] = {};
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (i * THREADS + thread < each)
                x[i] = load_known<BF16, N>(a.x, first + i * THREADS + thread, a.x_type);
        if (a.residual)
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                if (i * THREADS + thread < each)
                    r[i] = load_known<BF16, N>(a.residual, first + i * THREADS + thread, a.residual_type);
        float squares = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            for (int k = 0; k < N; k++)
                squares += x[i].v[k] * x[i].v[k];
        squares = sum_of_warp(squares);
        if (thread % 32 == 0)
            zn_cuda_shared[turn * WARPS + thread / 32] = squares;
        __syncthreads();
        float sum = 0;
        for (int i = 0; i < WARPS; i++)
            sum += zn_cuda_shared[turn * WARPS + i];
        const float s = 1 / sqrtf(sum / (float)a.c + a.eps);
        float largest = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            for (int k = 0; k < N; k++) {
                r[i].v[k] += ((a.plus_one ? 1.0f : 0.0f) + scale[i].v[k]) * (x[i].v[k] * s * w[i].v[k]);
                largest = fmaxf(largest, fabsf(r[i].v[k]));
            }
            if constexpr (!CODES)
                if (i * THREADS + thread < each)
                    store_known<BF16, N>(a.y, first + i * THREADS + thread, a.y_type, r[i]);
        }
        if constexpr (CODES) {
            largest = largest_of_block(largest, zn_cuda_shared + 2 * WARPS);
            if (thread == 0)
                a.scales[token] = scale_of_codes(largest);
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                if (i * THREADS + thread < each)
                    store_codes<N>(a.y, first + i * THREADS + thread, r[i], inverse_of_codes(largest));
        }
    }
}

template <int N> static void launch_gated_norm(zn_device *d, const task<zn_gated_norm_args> &t)
{
    const zn_gated_norm_args &a = t.a;
    const bool codes = a.y_type == ZN_TYPE_E4M3, bf16 = a.x_type == ZN_TYPE_BF16 &&
                                                        (!a.residual || a.residual_type == ZN_TYPE_BF16) &&
                                                        (codes || a.y_type == ZN_TYPE_BF16);
    void (*const kernel)(task<zn_gated_norm_args>) = codes && bf16 ? gated_norm<N, true, true>
                                                     : codes       ? gated_norm<N, true, false>
                                                     : bf16        ? gated_norm<N, false, true>
                                                                   : gated_norm<N, false, false>;
    const int64_t most = (int64_t)RESIDENT * d->processors, blocks = t.units < most ? t.units : most;
    launch(d, kernel, dim3((unsigned)blocks), THREADS, sizeof(float) * 3 * WARPS, t);
}

extern "C" void zn_cuda_gated_norm(zn_device *d, const void *args, int64_t tokens)
{
    task<zn_gated_norm_args> t = { *static_cast<const zn_gated_norm_args *>(args), tokens };
    zn_gated_norm_args &a = t.a;
    to_device(d, a.x);
    to_device(d, a.w);
    to_device(d, a.scale);
    to_device(d, a.residual);
    to_device(d, a.y);
    to_device(d, a.scales);
    if (a.c % FOUR == 0 && is_aligned(a.x) && is_aligned(a.w) && is_aligned(a.scale) && is_aligned(a.residual) &&
        is_aligned(a.y))
        launch_gated_norm<FOUR>(d, t);
    else
        launch_gated_norm<1>(d, t);
}

/* ---- norm_rope ---- */

/* A lane has four neighbouring channels of a head, c / 4 lanes have them all, and `AHEAD` heads are read at a time. */
enum { AHEAD = 4 };

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

template <bool BF16> __global__ void norm_rope(task<zn_norm_rope_args> t)
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
                x[i] = load_known<BF16, 4>(a.rope.x, head[i] * lanes + column, a.rope.type);
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
                store_known<BF16, 4>(a.rope.y, head[i] * lanes + column, a.rope.type, y);
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
    void (*const kernel)(task<zn_norm_rope_args>) = a.rope.type == ZN_TYPE_BF16 ? norm_rope<true> : norm_rope<false>;
    launch(d, kernel, dim3(grid_of((t.units + AHEAD - 1) / AHEAD * (a.rope.pairs / 2))), THREADS, 0, t);
}

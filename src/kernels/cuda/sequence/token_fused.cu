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

/* RMS norm over the channels of each pixel and its gradient: some lanes of a warp per pixel. ref/basic/mix.c is the
 * reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/mix.h"
}

enum { LANES = 32 };

struct rms_task {
    zn_mix_args a;
    int64_t block; /* gradient: pixels per block */
    bool silu;     /* of the result */
};

static rms_task task_of(zn_device *d, const void *args)
{
    rms_task t = { *static_cast<const zn_mix_args *>(args), 0, false };
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.w);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    return t;
}

/* 1 / sqrt(mean of squares + eps), at most `most`; NaN passes through. squares: the sum of a pixel. */
static __device__ float limited(const zn_mix_args &a, float squares)
{
    const float s = 1 / sqrtf(squares / (float)a.c + a.eps);
    return s > a.most ? a.most : s;
}

/* The same where a warp has a pixel. All lanes get it. */
static __device__ float factor_of(const zn_mix_args &a, float squares) { return limited(a, sum_of_warp(squares)); }

static __device__ float result_of(const rms_task &t, float x, float factor, float gain)
{
    const float y = x * factor * gain;
    return t.silu ? y / (1 + expf(-y)) : y;
}

template <int N> static __device__ void write_results(const rms_task &t, int64_t i, const floats<N> &y)
{
    if (t.a.y_type != ZN_TYPE_E4M3) {
        store_as<N>(t.a.y, i, t.a.y_type, y);
        return;
    }
    const float by = t.a.inverse;
    if constexpr (N == 1)
        reinterpret_cast<uint8_t *>(t.a.y)[i] = (uint8_t)e4m3_pair(y.v[0] * by, 0);
    else
        reinterpret_cast<uint32_t *>(t.a.y)[i] =
            e4m3_pair(y.v[0] * by, y.v[1] * by) | e4m3_pair(y.v[2] * by, y.v[3] * by) << 16;
}

/* G lanes share a pixel; each keeps up to K vectors of its channels, which are read once. */
template <int G, int K> __global__ void rms_norm_held(rms_task t)
{
    const zn_mix_args &a = t.a;
    const int vectors = a.c / 4, column = (int)threadIdx.x % G, each = (int)blockDim.x / G;
    floats<4> w[K] = {};
#pragma unroll
    for (int j = 0; j < K; j++)
        if (column + j * G < vectors)
            w[j] = load<4>(a.w, column + j * G);
    for (int64_t first = (int64_t)blockIdx.x * each; first < a.pixels; first += (int64_t)gridDim.x * each) {
        const int64_t p = first + (int)threadIdx.x / G; /* all lanes of a warp take part in its sums */
        const bool is_there = p < a.pixels;
        floats<4> x[K] = {};
        float squares = 0;
#pragma unroll
        for (int j = 0; j < K; j++)
            if (is_there && column + j * G < vectors)
                x[j] = load_as<4>(a.x, p * vectors + column + j * G, a.x_type);
#pragma unroll
        for (int j = 0; j < K; j++)
            for (int k = 0; k < 4; k++)
                squares += x[j].v[k] * x[j].v[k];
        for (int mask = G / 2; mask > 0; mask /= 2)
            squares += __shfl_xor_sync(0xffffffffu, squares, mask);
        const float factor = limited(a, squares);
#pragma unroll
        for (int j = 0; j < K; j++) {
            floats<4> y;
            for (int k = 0; k < 4; k++)
                y.v[k] = result_of(t, x[j].v[k], factor, w[j].v[k]);
            if (is_there && column + j * G < vectors)
                write_results<4>(t, p * vectors + column + j * G, y);
        }
    }
}

/* A warp per pixel, for any number of channels: N per lane at a time. */
template <int N> __global__ void rms_norm(rms_task t)
{
    const zn_mix_args &a = t.a;
    const int lane = (int)threadIdx.x % LANES, warps = (int)blockDim.x / LANES;
    for (int64_t p = (int64_t)blockIdx.x * warps + threadIdx.x / LANES; p < a.pixels; p += (int64_t)gridDim.x * warps) {
        const int64_t first = p * (a.c / N);
        float squares = 0;
        for (int i = lane; i < a.c / N; i += LANES) {
            const floats<N> v = load_as<N>(a.x, first + i, a.x_type);
            for (int k = 0; k < N; k++)
                squares += v.v[k] * v.v[k];
        }
        const float s = factor_of(a, squares);
        for (int i = lane; i < a.c / N; i += LANES) {
            const floats<N> w = load<N>(a.w, i);
            floats<N> v = load_as<N>(a.x, first + i, a.x_type);
            for (int k = 0; k < N; k++)
                v.v[k] = result_of(t, v.v[k], s, w.v[k]);
            write_results<N>(t, first + i, v);
        }
    }
}

/* G lanes share a pixel; each keeps up to K vectors of its channels, and their sums of dw over its pixels. One thread
 * block per block of pixels. */
template <int G, int K> __global__ void rms_norm_grad(rms_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef sums_of<float, K, 4> sums;
    const zn_mix_args &a = t.a;
    const int vectors = a.c / 4;
    const row_share s = row_share_of(G);
    const int64_t begin = blockIdx.x * t.block, end = begin + t.block < a.pixels ? begin + t.block : a.pixels;
    sums dw = {};
    for (int64_t first = begin; first < end; first += s.lanes) { /* all lanes of a warp take part in its sums */
        const int64_t p = first + s.lane;
        floats<4> x[K] = {}, dy[K] = {}, w[K] = {};
        float squares = 0, dot = 0;
#pragma unroll
        for (int j = 0; j < K; j++)
            if (p < end && s.column + j * G < vectors) {
                x[j] = load_as<4>(a.x, p * vectors + s.column + j * G, a.x_type);
                dy[j] = load_as<4>(a.dy, p * vectors + s.column + j * G, a.dy_type);
                w[j] = load<4>(a.w, s.column + j * G);
            }
#pragma unroll
        for (int j = 0; j < K; j++)
            for (int k = 0; k < 4; k++) {
                squares += x[j].v[k] * x[j].v[k];
                dot += w[j].v[k] * dy[j].v[k] * x[j].v[k];
            }
        for (int mask = G / 2; mask > 0; mask /= 2) {
            squares += __shfl_xor_sync(0xffffffffu, squares, mask);
            dot += __shfl_xor_sync(0xffffffffu, dot, mask);
        }
        const float factor = limited(a, squares),
                    back = factor < a.most ? dot * factor * factor * factor / (float)a.c : 0;
#pragma unroll
        for (int j = 0; j < K; j++) {
            floats<4> y;
            for (int k = 0; k < 4; k++) {
                dw.v[j][k] += p < end ? dy[j].v[k] * x[j].v[k] * factor : 0;
                y.v[k] = factor * w[j].v[k] * dy[j].v[k] - x[j].v[k] * back;
            }
            if (p < end && s.column + j * G < vectors)
                store_as<4>(a.y, p * vectors + s.column + j * G, a.y_type, y);
        }
    }
    dw = merged(s, dw, reinterpret_cast<sums *>(zn_cuda_shared));
    for (int j = 0; j < K && s.lane == 0; j++)
        for (int k = 0; k < 4 && s.column + j * G < vectors; k++)
            a.partial[(int64_t)blockIdx.x * a.c + (s.column + j * G) * 4 + k] = dw.v[j][k];
}

/* For any number of channels. Each warp sums dw of its pixels in shared memory, [warps][c]. */
__global__ void rms_norm_grad_any(rms_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_mix_args &a = t.a;
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES, warps = (int)blockDim.x / LANES;
    const int64_t begin = blockIdx.x * t.block, end = begin + t.block < a.pixels ? begin + t.block : a.pixels;
    float *dw = zn_cuda_shared + warp * a.c;
    for (int k = lane; k < a.c; k += LANES)
        dw[k] = 0;
    for (int64_t p = begin + warp; p < end; p += warps) {
        const auto x_at = [&](int k) { return read_number(a.x, p * a.c + k, a.x_type); };
        const auto dy_at = [&](int k) { return read_number(a.dy, p * a.c + k, a.dy_type); };
        float squares = 0, dot = 0;
        for (int k = lane; k < a.c; k += LANES) {
            const float x = x_at(k);
            squares += x * x;
            dot += a.w[k] * dy_at(k) * x;
        }
        const float s = factor_of(a, squares), back = s < a.most ? sum_of_warp(dot) * s * s * s / (float)a.c : 0;
        for (int k = lane; k < a.c; k += LANES) {
            const float x = x_at(k), dy = dy_at(k);
            dw[k] += dy * x * s;
            write_number(a.y, p * a.c + k, a.y_type, s * a.w[k] * dy - x * back);
        }
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < a.c; k += (int)blockDim.x) {
        float sum = 0;
        for (int i = 0; i < warps; i++)
            sum += zn_cuda_shared[i * a.c + k];
        a.partial[(int64_t)blockIdx.x * a.c + k] = sum;
    }
}

template <int G> static void launch_held(zn_device *d, const rms_task &t, int64_t pixels)
{
    launch(d, rms_norm_held<G, 4>, dim3(grid_of(pixels * G)), THREADS, 0, t);
}

static void run_norm(zn_device *d, const void *args, int64_t pixels, bool silu)
{
    rms_task t = task_of(d, args);
    t.silu = silu;
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.w) && is_aligned(t.a.y);
    const dim3 grid(grid_of(pixels * LANES));
    if (!vectors)
        launch(d, rms_norm<1>, grid, THREADS, 0, t);
    else if (t.a.c <= 4 * 4 * 4)
        launch_held<4>(d, t, pixels);
    else if (t.a.c <= 4 * 8 * 4)
        launch_held<8>(d, t, pixels);
    else if (t.a.c <= 4 * 16 * 4)
        launch_held<16>(d, t, pixels);
    else if (t.a.c <= 4 * 32 * 4)
        launch_held<32>(d, t, pixels);
    else
        launch(d, rms_norm<4>, grid, THREADS, 0, t);
}

extern "C" {
void zn_cuda_rms_norm(zn_device *d, const void *args, int64_t pixels) { run_norm(d, args, pixels, false); }
void zn_cuda_rms_norm_silu(zn_device *d, const void *args, int64_t pixels) { run_norm(d, args, pixels, true); }
}

template <int G, int K> static void launch_grad(zn_device *d, const rms_task &t, int64_t blocks)
{
    launch(d, rms_norm_grad<G, K>, dim3((unsigned)blocks), THREADS, THREADS * sizeof(sums_of<float, K, 4>), t);
}

/* As many warps as shared memory can hold. */
static void launch_grad_any(zn_device *d, const rms_task &t, int64_t blocks)
{
    unsigned warps = THREADS / LANES;
    while (warps > 1 && warps * t.a.c * sizeof(float) > 48 << 10)
        warps /= 2;
    const size_t bytes = warps * t.a.c * sizeof(float);
    zn_cuda_check(d, cudaFuncSetAttribute(rms_norm_grad_any, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                  "shared memory");
    launch(d, rms_norm_grad_any, dim3((unsigned)blocks), warps * LANES, bytes, t);
}

extern "C" void zn_cuda_rms_norm_grad(zn_device *d, const void *args, int64_t blocks)
{
    rms_task t = task_of(d, args);
    t.block = blocks ? (t.a.pixels + blocks - 1) / blocks : 0;
    const bool vectors =
        t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.dy) && is_aligned(t.a.w) && is_aligned(t.a.y);
    if (!vectors || t.a.c > 4 * 32 * 4)
        launch_grad_any(d, t, blocks);
    else if (t.a.c <= 4 * 4 * 4)
        launch_grad<4, 4>(d, t, blocks);
    else if (t.a.c <= 4 * 8 * 4)
        launch_grad<8, 4>(d, t, blocks);
    else if (t.a.c <= 4 * 16 * 4)
        launch_grad<16, 4>(d, t, blocks);
    else
        launch_grad<32, 4>(d, t, blocks);
}

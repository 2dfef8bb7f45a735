/* Factors, shifts and sums per sample, and dropout; ref/sample.c and ref/dropout.c are the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/dropout.h"
#include "kernels/sample.h"
}

static zn_sample_args args_of(zn_device *d, const void *args)
{
    zn_sample_args a = *static_cast<const zn_sample_args *>(args);
    to_device(d, a.x);
    to_device(d, a.other);
    to_device(d, a.scale);
    to_device(d, a.shift);
    to_device(d, a.y);
    return a;
}

/* ---- y = x (1 + scale) + shift ---- */

struct modulated {
    zn_sample_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t pixel, int64_t c) const
    {
        const int64_t in_table = quotient(pixel, a.pixels) * a.c + c;
        const int64_t in_map = (pixel * a.c + c) / N;
        const floats<N> x = load_as<N>(a.x, in_map, a.x_type), scale = load<N>(a.scale + in_table, 0);
        floats<N> shift = {}, y;
        if (a.shift)
            shift = load<N>(a.shift + in_table, 0);
        for (int k = 0; k < N; k++)
            y.v[k] = x.v[k] * (1 + scale.v[k]) + shift.v[k];
        store_as<N>(a.y, in_map, a.y_type, y);
    }
};

/* ---- y[sample][pixel][c] = factor * x[sample][c] ---- */

struct broadcast {
    zn_sample_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t pixel, int64_t c) const
    {
        floats<N> y = load<N>(a.x + quotient(pixel, a.pixels) * a.c + c, 0);
        for (int k = 0; k < N; k++)
            y.v[k] *= a.factor;
        store(a.y + pixel * a.c + c, 0, y);
    }
};

/* ---- sums over a sample ---- */

/* One thread block per sample and 32 channels; each warp sums every eighth pixel. */
enum { SUM_CHANNELS = 32, SUM_LANES = THREADS / SUM_CHANNELS };

__global__ void sample_sum(task<zn_sample_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    const zn_sample_args &a = t.a;
    const int parts = (a.c + SUM_CHANNELS - 1) / SUM_CHANNELS, lane = (int)threadIdx.x / SUM_CHANNELS;
    const int64_t sample = blockIdx.x / (unsigned)parts, first = sample * a.pixels;
    const int c = (int)(blockIdx.x % (unsigned)parts) * SUM_CHANNELS + (int)threadIdx.x % SUM_CHANNELS;
    double sum = 0;
#pragma unroll 4
    for (int64_t p = lane; p < (c < a.c ? a.pixels : 0); p += SUM_LANES) {
        const int64_t at = (first + p) * a.c + c;
        const float x = read_number(a.x, at, a.x_type);
        sum += (double)(a.other ? x * read_number(a.other, at, a.other_type) : x);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (lane > 0 || c >= a.c)
        return;
    for (int i = 1; i < SUM_LANES; i++)
        sum += sums[i * SUM_CHANNELS + threadIdx.x];
    a.y[sample * a.c + c] = (float)(sum * (double)a.factor);
}

/* ---- dropout ---- */

struct dropped {
    zn_dropout_args a;
    uint32_t limit;
    float factor;
    int64_t rows, columns;
    static __device__ uint32_t scrambled(uint32_t h)
    {
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        return h ^ h >> 16;
    }
    template <int N> __device__ void at(int64_t sample, int64_t i) const
    {
        const uint32_t key = scrambled(scrambled((uint32_t)a.seeds[sample]) + a.place);
        const int64_t at = (sample * a.each + i) / N;
        floats<N> x = load_as<N>(a.x, at, a.type);
        for (int k = 0; k < N; k++)
            x.v[k] = scrambled((uint32_t)(i + k) * 0x9e3779b1u ^ key) < limit ? 0 : factor * x.v[k];
        store_as<N>(a.y, at, a.type, x);
    }
};

extern "C" {
void zn_cuda_modulate(zn_device *d, const void *args, int64_t pixels)
{
    const zn_sample_args a = args_of(d, args);
    launch_rows(d, modulated{ a, pixels, a.c },
                is_aligned(a.x) && is_aligned(a.y) && is_aligned(a.scale) && is_aligned(a.shift));
}

void zn_cuda_spread(zn_device *d, const void *args, int64_t pixels)
{
    const zn_sample_args a = args_of(d, args);
    launch_rows(d, broadcast{ a, pixels, a.c }, is_aligned(a.x) && is_aligned(a.y));
}

void zn_cuda_sample_sum(zn_device *d, const void *args, int64_t units)
{
    const task<zn_sample_args> t = { args_of(d, args), 0 };
    const int64_t samples = units / zn_sample_parts(t.a.c), parts = (t.a.c + SUM_CHANNELS - 1) / SUM_CHANNELS;
    launch(d, sample_sum, dim3((unsigned)(samples * parts)), THREADS, THREADS * sizeof(double), t);
}

void zn_cuda_dropout(zn_device *d, const void *args, int64_t elements)
{
    zn_dropout_args a = *static_cast<const zn_dropout_args *>(args);
    to_device(d, a.x);
    to_device(d, a.seeds);
    to_device(d, a.y);
    launch_rows(d,
                dropped{ a, (uint32_t)((double)a.share * 4294967296.0), 1 / (1 - a.share), elements / a.each, a.each },
                is_aligned(a.x) && is_aligned(a.y));
}
}

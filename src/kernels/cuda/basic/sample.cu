/* Factors, shifts and sums per sample, and dropout; ref/basic/sample.c and ref/basic/dropout.c are the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/reduce.h"
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

/* One thread block per sample and `columns` columns of N channels. */
struct sum_task {
    zn_sample_args a;
    int columns;
};

enum { SUM_THREADS = 512, MOST_COLUMNS = 16, LEAST_COLUMNS = 4, BUSY = 264 /* thread blocks that keep a GPU busy */ };

/* X, OTHER: types, or ANY_TYPE. */
template <int N, int X, int OTHER> __global__ void sample_sum(sum_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef sums_of<double, 1, N> sums;
    const zn_sample_args &a = t.a;
    const int columns = a.c / N, parts = (columns + t.columns - 1) / t.columns;
    const int64_t sample = blockIdx.x / (unsigned)parts, first = sample * a.pixels;
    const row_share s = row_share_of(t.columns);
    const int c = (int)(blockIdx.x % (unsigned)parts) * t.columns + s.column;
    const int64_t end = first + (s.lane < s.lanes && c < columns ? a.pixels : 0);
    sums sum = {};
#pragma unroll 8
    for (int64_t p = first + s.lane; p < end; p += s.lanes) {
        floats<N> x = load_as<N>(a.x, p * columns + c, type_or<X>(a.x_type));
        if (a.other) {
            const floats<N> other = load_as<N>(a.other, p * columns + c, type_or<OTHER>(a.other_type));
            for (int k = 0; k < N; k++)
                x.v[k] *= other.v[k];
        }
        for (int k = 0; k < N; k++)
            sum.v[0][k] += (double)x.v[k];
    }
    sum = merged(s, sum, reinterpret_cast<sums *>(zn_cuda_shared));
    if (s.lane == 0 && c < columns)
        for (int k = 0; k < N; k++)
            a.y[sample * a.c + c * N + k] = (float)(sum.v[0][k] * (double)a.factor);
}

typedef void (*sum_kernel)(sum_task);

/* For maps whose channels are read four at a time, by the types of both. */
static sum_kernel sum_kernel_of(const zn_sample_args &a)
{
    constexpr zn_type F = ZN_TYPE_F32, B = ZN_TYPE_BF16;
    const zn_type other = a.other ? a.other_type : a.x_type;
    if (a.x_type == F && other == F)
        return sample_sum<4, F, F>;
    if (a.x_type == B && other == B)
        return sample_sum<4, B, B>;
    return sample_sum<4, ANY_TYPE, ANY_TYPE>;
}

/* ---- dropout ---- */

struct dropped {
    zn_dropout_args a;
    uint32_t limit;
    float factor;
    int64_t rows, columns;
    template <int N> __device__ void at(int64_t sample, int64_t i) const
    {
        const uint32_t key = dropout_key(a.seeds[sample], a.place);
        const int64_t at = (sample * a.each + i) / N;
        floats<N> x = load_as<N>(a.x, at, a.type);
        for (int k = 0; k < N; k++)
            x.v[k] = dropout_drops((uint32_t)(i + k), key, limit) ? 0 : factor * x.v[k];
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
    sum_task t = { args_of(d, args), MOST_COLUMNS };
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.other);
    const int64_t samples = units / zn_sample_parts(t.a.c), columns = vectors ? t.a.c / 4 : t.a.c;
    while (t.columns > LEAST_COLUMNS && samples * ((columns + t.columns - 1) / t.columns) < BUSY)
        t.columns /= 2;
    const dim3 grid((unsigned)(samples * ((columns + t.columns - 1) / t.columns)));
    if (vectors)
        launch(d, sum_kernel_of(t.a), grid, SUM_THREADS, SUM_THREADS * sizeof(sums_of<double, 1, 4>), t);
    else
        launch(d, sample_sum<1, ANY_TYPE, ANY_TYPE>, grid, SUM_THREADS, SUM_THREADS * sizeof(double), t);
}

void zn_cuda_dropout(zn_device *d, const void *args, int64_t elements)
{
    zn_dropout_args a = *static_cast<const zn_dropout_args *>(args);
    to_device(d, a.x);
    to_device(d, a.seeds);
    to_device(d, a.y);
    launch_rows(d, dropped{ a, zn_dropout_limit(a.share), 1 / (1 - a.share), elements / a.each, a.each },
                is_aligned(a.x) && is_aligned(a.y));
}
}

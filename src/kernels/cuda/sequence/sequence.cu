/* Sequences of tokens: causal convolution, reordering, means, Fourier features; ref/sequence/sequence.c is the
 * reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/mix.h"
#include "kernels/sequence.h"
}

/* ---- causal convolution ---- */

struct convolved {
    zn_causal_conv_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t row, int64_t c) const
    {
        const int64_t token = row - quotient(row, a.length) * a.length;
        floats<N> y = {};
        if (a.bias)
            y = load<N>(a.bias + c, 0);
        for (int k = 0; k < a.taps; k++) {
            const int64_t away = a.back ? a.taps - 1 - k : k - a.taps + 1;
            if (token + away < 0 || token + away >= a.length)
                continue;
            const floats<N> w = load<N>(a.w + (int64_t)k * a.channels + c, 0);
            const floats<N> x = load<N>(a.x + (row + away) * a.channels + c, 0);
            for (int i = 0; i < N; i++)
                y.v[i] += w.v[i] * x.v[i];
        }
        store(a.y + row * a.channels + c, 0, y);
    }
};

/* Rows are blocks of tokens and groups of GRAD_TAPS taps, which share what is loaded of dy. */
enum { GRAD_TAPS = 4 };

struct weight_sums {
    zn_causal_conv_args a;
    int64_t block; /* tokens */
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t row, int64_t c) const
    {
        const int groups = (a.taps + GRAD_TAPS - 1) / GRAD_TAPS, first = (int)(row % groups) * GRAD_TAPS;
        const int64_t unit = row / groups, tokens = a.sequences * a.length, begin = unit * block;
        const int64_t end = begin + block < tokens ? begin + block : tokens;
        float sum[GRAD_TAPS] = {};
        int64_t token = begin % a.length;
#pragma unroll 4
        for (int64_t i = begin; i < end; i++) {
            const float dy = a.dy[i * a.channels + c];
#pragma unroll
            for (int k = 0; k < GRAD_TAPS; k++) {
                const int away = first + k - a.taps + 1;
                sum[k] += away <= 0 && token + away >= 0 ? dy * a.x[(i + away) * a.channels + c] : 0;
            }
            token = token + 1 < a.length ? token + 1 : 0;
        }
        for (int k = 0; k < GRAD_TAPS && first + k < a.taps; k++)
            a.partial[(unit * a.taps + first + k) * a.channels + c] = sum[k];
    }
};

static zn_causal_conv_args conv_args(zn_device *d, const void *args)
{
    zn_causal_conv_args a = *static_cast<const zn_causal_conv_args *>(args);
    to_device(d, a.x);
    to_device(d, a.dy);
    to_device(d, a.w);
    to_device(d, a.bias);
    to_device(d, a.y);
    to_device(d, a.partial);
    return a;
}

/* ---- reordering ---- */

/* The index stored in a table, or -1. */
static __device__ int64_t index_at(const float *table, int64_t length)
{
    return *table >= 0 && *table < (float)length ? (int64_t)*table : -1;
}

/* Rows are GATHER_TOKENS neighbouring tokens: a thread waits for their indices, and then for their values, at once. */
enum { GATHER_TOKENS = 4 };

struct gathered {
    zn_gather_args a;
    int64_t tokens, rows;
    int columns;
    template <int N> __device__ void at(int64_t row, int64_t c) const
    {
        const int64_t begin = row * GATHER_TOKENS;
        int64_t sequence = quotient(begin, a.length), place = begin - sequence * a.length;
        const float *table[GATHER_TOKENS];
        int64_t first[GATHER_TOKENS]; /* of the token's sequence */
        floats<N> y[GATHER_TOKENS] = {};
#pragma unroll
        for (int j = 0; j < GATHER_TOKENS; j++) {
            table[j] = a.table + (sequence * a.rows + a.row) * a.length + place;
            first[j] = sequence * a.length;
            place = place + 1 < a.length ? place + 1 : 0;
            sequence += place == 0;
        }
#pragma unroll
        for (int k = 0; k < ZN_GATHER_SOURCES; k++) { /* a.x is indexed by constants, or it would be copied */
            if (k >= a.count)
                break;
            int64_t from[GATHER_TOKENS];
#pragma unroll
            for (int j = 0; j < GATHER_TOKENS; j++)
                from[j] = begin + j < tokens ? index_at(table[j] + k * a.length, a.length) : -1;
#pragma unroll
            for (int j = 0; j < GATHER_TOKENS; j++) {
                floats<N> x = {};
                if (from[j] >= 0)
                    x = load<N>(a.x[k] + (first[j] + from[j]) * a.channels + c, 0);
                for (int i = 0; i < N; i++)
                    y[j].v[i] += a.scale * x.v[i];
            }
        }
#pragma unroll
        for (int j = 0; j < GATHER_TOKENS; j++)
            if (begin + j < tokens)
                store(a.y + (begin + j) * a.channels + c, 0, y[j]);
    }
};

/* ---- means ---- */

enum { MEAN_CHANNELS = 32, MEAN_LANES = THREADS / MEAN_CHANNELS };

/* The number of tokens with a valid index; all threads get it. */
static __device__ double valid_count(const zn_mean_tokens_args &a, int64_t sequence, double *sums)
{
    double count = 0;
    for (int64_t t = threadIdx.x; t < a.length; t += blockDim.x)
        count += index_at(a.table + sequence * a.rows * a.length + t, a.length) >= 0;
    return sum_of(count, sums);
}

/* One thread block per sequence and MEAN_CHANNELS channels. */
__global__ void mean_tokens(task<zn_mean_tokens_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    double *sums = reinterpret_cast<double *>(zn_cuda_shared);
    const zn_mean_tokens_args &a = t.a;
    const int parts = (a.channels + MEAN_CHANNELS - 1) / MEAN_CHANNELS, lane = (int)threadIdx.x / MEAN_CHANNELS;
    const int64_t sequence = blockIdx.x / (unsigned)parts;
    const int c = (int)(blockIdx.x % (unsigned)parts) * MEAN_CHANNELS + (int)threadIdx.x % MEAN_CHANNELS;
    const double count = valid_count(a, sequence, sums);
    double sum = 0;
    for (int64_t i = lane; i < (c < a.channels ? a.length : 0); i += MEAN_LANES)
        if (index_at(a.table + sequence * a.rows * a.length + i, a.length) >= 0)
            sum += (double)a.x[(sequence * a.length + i) * a.channels + c];
    __syncthreads(); /* all have read the count */
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (lane > 0 || c >= a.channels)
        return;
    for (int i = 1; i < MEAN_LANES; i++)
        sum += sums[i * MEAN_CHANNELS + threadIdx.x];
    a.y[sequence * a.channels + c] = count > 0 ? (float)(sum / count) : 0;
}

enum { MEAN_TOKENS = 64 }; /* per thread block of the gradient */

__global__ void mean_tokens_grad(task<zn_mean_tokens_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_mean_tokens_args &a = t.a;
    const int64_t parts = (a.length + MEAN_TOKENS - 1) / MEAN_TOKENS, sequence = blockIdx.x / parts;
    const int64_t begin = blockIdx.x % parts * MEAN_TOKENS,
                  end = begin + MEAN_TOKENS < a.length ? begin + MEAN_TOKENS : a.length;
    const double count = valid_count(a, sequence, reinterpret_cast<double *>(zn_cuda_shared));
    const float share = count > 0 ? 1.0f / (float)count : 0;
    for (int64_t i = threadIdx.x; i < (end - begin) * a.channels; i += THREADS) {
        const int64_t token = begin + quotient(i, a.channels), c = i % a.channels;
        const bool valid = index_at(a.table + sequence * a.rows * a.length + token, a.length) >= 0;
        a.y[(sequence * a.length + token) * a.channels + c] = valid ? share * a.x[sequence * a.channels + c] : 0;
    }
}

static task<zn_mean_tokens_args> mean_args(zn_device *d, const void *args, int64_t units)
{
    task<zn_mean_tokens_args> t = { *static_cast<const zn_mean_tokens_args *>(args), units };
    to_device(d, t.a.x);
    to_device(d, t.a.table);
    to_device(d, t.a.y);
    return t;
}

/* ---- Fourier features ---- */

#define WHOLE_TURN 6.283185307179586

/* Columns are features. Whole turns are removed before the angle is computed, so that large values lose no precision.
 */
struct fourier_of {
    zn_fourier_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t token, int64_t f) const
    {
        double turns = 0;
        for (int j = 0; j < a.sides; j++)
            turns += (double)a.b[f * a.sides + j] * (double)a.p[token * a.sides + j];
        const float angle = (float)(WHOLE_TURN * (turns - rint(turns)));
        a.to[2 * token * a.features + f] = cosf(angle);
        a.to[(2 * token + 1) * a.features + f] = sinf(angle);
    }
};

/* Columns are sides. */
struct fourier_back {
    zn_fourier_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t token, int64_t j) const
    {
        const float *cosine = a.y + 2 * token * a.features, *dcosine = a.dy + 2 * token * a.features;
        const float *sine = cosine + a.features, *dsine = dcosine + a.features;
        double sum = 0;
        for (int f = 0; f < a.features; f++)
            sum += (double)(cosine[f] * dsine[f] - sine[f] * dcosine[f]) * (double)a.b[f * a.sides + j];
        a.to[token * a.sides + j] = (float)(WHOLE_TURN * sum);
    }
};

static zn_fourier_args fourier_args(zn_device *d, const void *args)
{
    zn_fourier_args a = *static_cast<const zn_fourier_args *>(args);
    to_device(d, a.p);
    to_device(d, a.b);
    to_device(d, a.y);
    to_device(d, a.dy);
    to_device(d, a.to);
    return a;
}

extern "C" {
void zn_cuda_causal_conv(zn_device *d, const void *args, int64_t tokens)
{
    const zn_causal_conv_args a = conv_args(d, args);
    launch_rows(d, convolved{ a, tokens, a.channels },
                is_aligned(a.x) && is_aligned(a.w) && is_aligned(a.bias) && is_aligned(a.y));
}

void zn_cuda_causal_conv_weight_grad(zn_device *d, const void *args, int64_t blocks)
{
    const zn_causal_conv_args a = conv_args(d, args);
    const int64_t tokens = a.sequences * a.length, groups = (a.taps + GRAD_TAPS - 1) / GRAD_TAPS;
    launch_rows(d, weight_sums{ a, blocks ? (tokens + blocks - 1) / blocks : 0, blocks * groups, a.channels }, false);
}

void zn_cuda_gather(zn_device *d, const void *args, int64_t tokens)
{
    zn_gather_args a = *static_cast<const zn_gather_args *>(args);
    bool aligned = true;
    for (int i = 0; i < a.count; i++) {
        to_device(d, a.x[i]);
        aligned &= is_aligned(a.x[i]);
    }
    to_device(d, a.table);
    to_device(d, a.y);
    launch_rows(d, gathered{ a, tokens, (tokens + GATHER_TOKENS - 1) / GATHER_TOKENS, a.channels },
                aligned && is_aligned(a.y));
}

void zn_cuda_mean_tokens(zn_device *d, const void *args, int64_t units)
{
    const task<zn_mean_tokens_args> t = mean_args(d, args, units);
    const int64_t sequences = units / ((t.a.channels + ZN_MEAN_STRIP - 1) / ZN_MEAN_STRIP);
    const int64_t parts = (t.a.channels + MEAN_CHANNELS - 1) / MEAN_CHANNELS;
    launch(d, mean_tokens, dim3((unsigned)(sequences * parts)), THREADS, THREADS * sizeof(double), t);
}

void zn_cuda_mean_tokens_grad(zn_device *d, const void *args, int64_t sequences)
{
    const task<zn_mean_tokens_args> t = mean_args(d, args, sequences);
    const int64_t parts = (t.a.length + MEAN_TOKENS - 1) / MEAN_TOKENS;
    launch(d, mean_tokens_grad, dim3((unsigned)(sequences * parts)), THREADS, THREADS * sizeof(double), t);
}

void zn_cuda_fourier(zn_device *d, const void *args, int64_t tokens)
{
    const zn_fourier_args a = fourier_args(d, args);
    launch_rows(d, fourier_of{ a, tokens, a.features }, false);
}

void zn_cuda_fourier_grad(zn_device *d, const void *args, int64_t tokens)
{
    const zn_fourier_args a = fourier_args(d, args);
    launch_rows(d, fourier_back{ a, tokens, a.sides }, false);
}
}

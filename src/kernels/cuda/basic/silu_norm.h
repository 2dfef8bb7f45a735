/* Shared by the kernels of silu_norm.h: what they get, and what they do for some channels of a pixel, and for a channel
 * of a map. Included only by .cu files. */
#ifndef ZN_CUDA_SILU_NORM_H
#define ZN_CUDA_SILU_NORM_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/dropout.h"
#include "kernels/silu_norm.h"
}

struct silu_norm_task {
    zn_silu_norm_args a;
    int64_t block, blocks; /* pixels per block, and blocks per map */
    uint32_t limit;        /* of dropout */
    float factor;          /* what it multiplies with what it keeps */
    bool exact;            /* some map is F32 */
};

static inline silu_norm_task task_of(zn_device *d, const void *args)
{
    silu_norm_task t = { *static_cast<const zn_silu_norm_args *>(args), 0, 0, 0, 1, false };
    t.block = zn_silu_norm_block(&t.a);
    t.blocks = zn_silu_norm_blocks(&t.a);
    t.limit = zn_dropout_limit(t.a.share);
    t.factor = 1 / (1 - t.a.share);
    t.exact = t.a.y_type == ZN_TYPE_F32 || t.a.x_type == ZN_TYPE_F32;
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.more);
    to_device(d, t.a.y);
    to_device(d, t.a.gamma);
    to_device(d, t.a.beta);
    to_device(d, t.a.scale);
    to_device(d, t.a.shift);
    to_device(d, t.a.gain);
    to_device(d, t.a.seeds);
    to_device(d, t.a.partial);
    to_device(d, t.a.table);
    to_device(d, t.a.line);
    to_device(d, t.a.sums);
    to_device(d, t.a.d_scale);
    to_device(d, t.a.d_shift);
    to_device(d, t.a.d_gain);
    return t;
}

typedef void (*silu_norm_kernel)(silu_norm_task);

/* ---- N neighbouring channels of a pixel ---- */

template <int N> struct numbers {
    float v[N];
};

/* N numbers of a table of floats. */
template <int N> static __device__ numbers<N> of_table(const float *table)
{
    numbers<N> x;
    if constexpr (N == 1)
        x.v[0] = table[0];
    else
        for (int i = 0; i < N; i += 4) {
            const floats<4> part = load<4>(table + i, 0);
            for (int k = 0; k < 4; k++)
                x.v[i + k] = part.v[k];
        }
    return x;
}

static inline __device__ float sigmoid(float v, bool exact)
{
    return exact ? 1 / (1 + expf(-v)) : quick_inverse(1 + quick_power2(-1.44269504f * v));
}

/* Dropout of the map of a thread block. */
struct dropping {
    bool drops;
    uint32_t key, limit;
    float factor;
    __device__ dropping(const silu_norm_task &t, int64_t map)
        : drops(t.a.seeds != NULL), key(drops ? dropout_key(t.a.seeds[map], t.a.place) : 0), limit(t.limit),
          factor(t.factor)
    {
    }
    /* i: index of the first of the numbers in its sample */
    template <int N> __device__ void apply(numbers<N> &x, uint32_t i) const
    {
        if (!drops)
            return;
#pragma unroll
        for (int k = 0; k < N; k++)
            x.v[k] = dropout_drops(i + (uint32_t)k, key, limit) ? 0 : factor * x.v[k];
    }
};

/* Two sums of N channels. */
template <int N> using two_sums = sums_of<float, 2, N>;
enum { APART = THREADS + 8 }; /* floats between the sums of neighbouring channels: in other banks */

/* The gradient of v, for both passes. */
template <int N, int TYPE> struct slope_of_v {
    const silu_norm_task &t;
    const dropping d;
    numbers<N> factor = {}, offset = {};
    int channel = 0;
    __device__ slope_of_v(const silu_norm_task &task, int64_t map) : t(task), d(task, map) {}
    __device__ void prepare(const float *table, int column)
    {
        channel = column * N;
        factor = of_table<N>(table);
        offset = of_table<N>(table + t.a.c);
    }
    /* dy becomes dv. */
    __device__ void apply(numbers<N> &dy, const numbers<N> &x, uint32_t pixel) const
    {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float v = factor.v[k] * x.v[k] + offset.v[k], s = sigmoid(v, TYPE != ZN_TYPE_BF16 && t.exact);
            dy.v[k] *= s * (1 + v * (1 - s));
        }
        d.apply(dy, pixel * (uint32_t)t.a.c + (uint32_t)channel);
    }
};

/* ---- a channel of a map ---- */

struct group {
    int64_t map;
    int first, width; /* channels */
    double count;     /* numbers */
};

static inline __device__ group group_of(const zn_silu_norm_args &a)
{
    const int width = a.c / a.groups;
    return group{ blockIdx.x / (unsigned)a.groups, (int)(blockIdx.x % (unsigned)a.groups) * width, width,
                  (double)a.pixels * width };
}

static inline __device__ double or_zero(const float *values, int64_t at) { return values ? (double)values[at] : 0; }

/* The numbers of a channel; table: that of its map. */
static inline __device__ void write_table(const zn_silu_norm_args &a, int64_t map, int c, double mean, double scale,
                                          float *table)
{
    const int64_t at = map * a.c + c;
    const double own = 1 + or_zero(a.scale, at), gain = 1 + or_zero(a.gain, at);
    const double factor = scale * (double)a.gamma[c];
    table[c] = (float)(factor * own * gain);
    table[a.c + c] = (float)((((double)a.beta[c] - mean * factor) * own + or_zero(a.shift, at)) * gain);
    table[2 * a.c + c] = (float)scale;
    table[3 * a.c + c] = (float)(-mean * scale);
}

/* What follows from the sums of a channel; returns what dv is multiplied with to be the gradient of xh. */
static inline __device__ double write_sums(const zn_silu_norm_args &a, int64_t map, int c, double product, double sum)
{
    const int64_t at = map * a.c + c;
    const double gamma = (double)a.gamma[c], both = gamma * product + (double)a.beta[c] * sum;
    const double own = 1 + or_zero(a.scale, at), gain = 1 + or_zero(a.gain, at);
    a.sums[map * 2 * a.c + c] = (float)(product * own * gain);
    a.sums[(map * 2 + 1) * a.c + c] = (float)(sum * own * gain);
    if (a.scale)
        a.d_scale[at] = (float)(both * gain);
    if (a.shift)
        a.d_shift[at] = (float)(sum * gain);
    if (a.gain)
        a.d_gain[at] = (float)(both * own + or_zero(a.shift, at) * sum);
    return gamma * own * gain;
}

#endif

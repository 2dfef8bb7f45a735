/* Shared by the kernels of the gradient in silu_norm.h: what they get, and what they do for some channels of a pixel,
 * and for a channel of a map. Included only by .cu files. */
#ifndef ZN_CUDA_SILU_NORM_GRAD_H
#define ZN_CUDA_SILU_NORM_GRAD_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/silu_norm.h"
}

struct silu_norm_task {
    zn_silu_norm_args a;
    int64_t block, blocks; /* pixels per block, and blocks per map */
    bool exact;            /* some map is F32 */
    dropout_task dropout;
};

static inline silu_norm_task task_of(zn_device *d, const void *args)
{
    silu_norm_task t = { *static_cast<const zn_silu_norm_args *>(args), 0, 0, false, {} };
    t.block = zn_silu_norm_block(&t.a);
    t.blocks = zn_silu_norm_blocks(&t.a);
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
    to_device(d, t.a.partial);
    to_device(d, t.a.table);
    to_device(d, t.a.line);
    to_device(d, t.a.sums);
    to_device(d, t.a.d_scale);
    to_device(d, t.a.d_shift);
    to_device(d, t.a.d_gain);
    t.dropout = dropout_of(t.a.seeds, t.a.place, t.a.share);
    to_device(d, t.dropout.seeds);
    return t;
}

typedef void (*silu_norm_kernel)(silu_norm_task);

/* ---- N neighbouring channels of a pixel ---- */

template <int N> struct values {
    float v[N];
};

/* Piece i of N channels of a map. */
template <typename T, int N> static __device__ numbers<T, N> numbers_at(const float *map, int64_t i)
{
    return reinterpret_cast<const numbers<T, N> *>(map)[i];
}
template <typename T, int N> static __device__ values<N> values_of(const numbers<T, N> &x)
{
    values<N> v;
    x.get(v.v);
    return v;
}
template <typename T, int N> static __device__ void put(float *map, int64_t i, const values<N> &v)
{
    numbers<T, N> x;
    x.set(v.v);
    reinterpret_cast<numbers<T, N> *>(map)[i] = x;
}

static inline __device__ float sigmoid(float v, bool exact)
{
    return exact ? 1 / (1 + expf(-v)) : quick_inverse(1 + quick_power2(-1.44269504f * v));
}

/* Two sums of N channels. */
template <int N> using two_sums = sums_of<float, 2, N>;
enum { APART = THREADS + 8 }; /* floats between the sums of neighbouring channels: in other banks */

/* The gradient of v, for both passes. */
template <int N, int TYPE> struct slope_of_v {
    const silu_norm_task &t;
    const dropping d;
    values<N> factor = {}, offset = {};
    int channel = 0;
    __device__ slope_of_v(const silu_norm_task &task, int64_t map) : t(task), d(task.dropout, map) {}
    __device__ void prepare(const float *table, int column)
    {
        channel = column * N;
        read_table(table, factor.v);
        read_table(table + t.a.c, offset.v);
    }
    /* dy becomes dv. */
    __device__ void apply(values<N> &dy, const values<N> &x, uint32_t pixel) const
    {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float v = factor.v[k] * x.v[k] + offset.v[k], s = sigmoid(v, TYPE != ZN_TYPE_BF16 && t.exact);
            dy.v[k] *= s * (1 + v * (1 - s));
        }
        d.apply(dy.v, pixel * (uint32_t)t.a.c + (uint32_t)channel);
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

/* Shared by the convolutions that normalise what they read (kernels/norm_conv.h): the statistics of a group from what
 * was measured of its channels, and the change of a tile in shared memory. Included only by .cu files; not emulated. */
#ifndef ZN_CUDA_CONV_NORMED_H
#define ZN_CUDA_CONV_NORMED_H

#include "kernels/cuda/conv/conv_tile.h"
#include "kernels/cuda/lines.h"
#include "kernels/cuda/norm_factor.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/norm_conv.h"
}

/* n.gamma NULL: nothing is normalised. */
struct norm_source {
    zn_norm_args n;
    zn_measured x, more;
    __device__ __host__ bool is_there(void) const { return n.gamma; }
    __device__ __host__ int split(void) const { return n.more ? n.split : n.c; }
};

/* Means and squared deviations of the channels of whole groups that have the channels [begin, end), from `low` on. */
struct group_span {
    int low, high;
    __device__ __host__ group_span(const norm_source &s, int begin, int end)
    {
        const int width = s.n.c / s.n.groups;
        low = begin / width * width;
        high = (end + width - 1) / width * width;
    }
};
/* The most numbers that it can have. */
static inline int group_span_most(const norm_source &s, int channels) { return channels + 2 * (s.n.c / s.n.groups); }

static __device__ float2 measured_channel(const norm_source &s, int64_t map, int c)
{
    const bool more = c >= s.split();
    const zn_measured &m = more ? s.more : s.x;
    const float *const from = m.at + map * m.blocks * 2 * m.c + (more ? c - s.split() : c);
    const float pixels = (float)(s.n.pixels / m.blocks), near = from[0];
    float off = 0, squares = 0;
#pragma unroll 8
    for (int b = 0; b < m.blocks; b++) {
        const float d = from[(int64_t)b * 2 * m.c] - near;
        off += d;
        squares += from[((int64_t)b * 2 + 1) * m.c] + pixels * d * d;
    }
    const float mean = off / (float)m.blocks;
    return make_float2(near + mean, squares - pixels * off * mean);
}

/* The factors of the channels [begin, end) of a map, by all threads of a block; `room` has group_span_most numbers.
 * They are there after the next barrier. */
static __device__ void make_factors(const norm_source &s, int64_t map, int begin, int end, float2 *room, factor *to)
{
    const int width = s.n.c / s.n.groups, thread = (int)threadIdx.x, threads = (int)blockDim.x;
    const group_span all(s, begin, end);
    factor own = {};
    if (begin + thread < end)
        own = own_factor(s.n, map, begin + thread);
    for (int c = all.low + thread; c < all.high; c += threads)
        room[c - all.low] = measured_channel(s, map, c);
    __syncthreads();
    for (int c = begin + thread; c < end; c += threads) {
        const float2 *const group = room + (c / width * width - all.low);
        float mean = 0, squares = 0;
        for (int i = 0; i < width; i++)
            mean += group[i].x;
        mean /= (float)width;
        for (int i = 0; i < width; i++)
            squares += group[i].y + (float)s.n.pixels * (group[i].x - mean) * (group[i].x - mean);
        if (c != begin + thread)
            own = own_factor(s.n, map, c);
        const float rate = 1 / sqrtf(squares / ((float)s.n.pixels * (float)width) + s.n.eps);
        to[c - begin] = whole_factor(own, mean, rate);
    }
}

/* ---- a tile in shared memory ---- */

/* The factors of eight neighbours; with SiLU half of them, as v / (1 + exp(-v)) = v/2 + v/2 tanh(v/2). */
struct factors_of_piece {
    float by[8], plus[8];
    __device__ void load(const factor *from, bool silu)
    {
        const float unit = silu ? 0.5f : 1;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const float4 two = *reinterpret_cast<const float4 *>(from + i);
            by[i] = two.x * unit;
            plus[i] = two.y * unit;
            by[i + 1] = two.z * unit;
            plus[i + 1] = two.w * unit;
        }
    }
};

static __device__ float half_silu(float half)
{
    float t;
    asm("tanh.approx.f32 %0, %1;\n" : "=f"(t) : "f"(half));
    return half + half * t;
}

template <typename T> static __device__ uint4 normed(const uint4 &v, const factors_of_piece &f, bool silu)
{
    const uint32_t from[4] = { v.x, v.y, v.z, v.w };
    uint32_t to[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float low = f.by[2 * i] * T::low(from[i]) + f.plus[2 * i];
        float high = f.by[2 * i + 1] * T::high(from[i]) + f.plus[2 * i + 1];
        if (silu) {
            low = half_silu(low);
            high = half_silu(high);
        }
        to[i] = T::of(low, high);
    }
    return uint4{ to[0], to[1], to[2], to[3] };
}

/* Normalises what a tile of plan P reads, by a number of threads; f are the factors of piece thread % 8 of its lines.
 * What lies outside of the map stays zero. */
template <typename P>
static __device__ void normalise_tile(char *lines, const zn_conv_shape &s, const place &at, const factors_of_piece &f,
                                      bool silu, int thread, int threads)
{
    enum { FLIGHT = 3 };
    const int top = at.y - s.pad, left = at.x - s.pad, piece = thread % 8;
    for (int first = thread / 8; first < P::X_WIDE * P::X_HIGH; first += FLIGHT * (threads / 8)) {
        uint4 v[FLIGHT];
        bool is_there[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) {
            const int pixel = first + i * (threads / 8), y = top + pixel / P::X_WIDE, x = left + pixel % P::X_WIDE;
            is_there[i] = pixel < P::X_WIDE * P::X_HIGH && y >= 0 && x >= 0 && y < s.h && x < s.w;
            if (is_there[i])
                v[i] = *reinterpret_cast<const uint4 *>(lines + piece_at(pixel, piece));
        }
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (is_there[i])
                *reinterpret_cast<uint4 *>(lines + piece_at(first + i * (threads / 8), piece)) =
                    normed<typename P::T>(v[i], f, silu);
    }
}

/* ---- launching ---- */

static inline norm_source norm_source_of(zn_device *d, const zn_norm_conv_args &a)
{
    norm_source s = { a.n, a.x, a.more };
    to_device(d, s.n.more);
    to_device(d, s.n.gamma);
    to_device(d, s.n.beta);
    to_device(d, s.n.scale);
    to_device(d, s.n.shift);
    to_device(d, s.n.gain);
    to_device(d, s.n.table);
    to_device(d, s.x.at);
    to_device(d, s.more.at);
    return s;
}

static inline bool has_narrow_maps(const zn_conv_args &a)
{
    return a.x_type == ZN_TYPE_BF16 && a.y_type == ZN_TYPE_BF16 && (!a.residual || a.residual_type == ZN_TYPE_BF16);
}

/* Writes the factors of all channels of all maps to n.table (norm_measured.cu). */
void merge_measured(zn_device *d, const norm_source &s);

#endif

/* Numbers of fp32 as sums of two of f16, for convolutions in full precision with the matrix unit of Hopper GPUs:
 *
 *     x scale = high + low / 2^11        11 bits each; a line of a stage is the highs of 32 channels, then their lows
 *
 * f16 has a small range, so what a tile reads of a chunk has a scale, a power of two. It is always the same, unless the
 * largest number is far from 1: numbers of a tile then do not depend on their neighbours, and two tiles that overlap
 * have the same bits. Low parts are stored 2^11 times as large so that they do not leave the range before the high
 * ones. All bits are kept of numbers down to 2^-29 of the largest one of their tile, or to 2^-18 if that is less;
 * smaller ones have an error of 2^-22 of that. Included only by .cu files; not emulated. */
#ifndef ZN_CUDA_CONV_SPLIT_H
#define ZN_CUDA_CONV_SPLIT_H

#include "kernels/cuda/conv/conv_wide.h"

/* In shared memory: of each stage, 1 / scale; and the largest number that each warp has found, of two steps. */
struct split_words {
    float units[MOST_STAGES];
    uint32_t largest[2][WARPGROUP / WARP];
};

static __device__ float power_of_two(int exponent) { return __uint_as_float((uint32_t)(127 + exponent) << 23); }

/* The exponent of the scale for numbers of which the largest magnitude has these bits. */
static __device__ int split_exponent(uint32_t largest)
{
    enum { PLAIN = 4, LEAST = -12, MOST = 10, TOP = 126 }; /* f16 goes up to 2^15 */
    const int exponent = (int)(largest >> 23) - 127;
    const bool is_plain = (exponent >= LEAST && exponent <= MOST) || exponent > 127; /* infinite */
    return is_plain ? (int)PLAIN : min(PLAIN + MOST - exponent, (int)TOP);
}

/* The largest magnitude of eight numbers, as bits. */
static __device__ uint32_t largest_of(const float4 (&x)[2])
{
    const float most = fmaxf(fmaxf(fmaxf(fabsf(x[0].x), fabsf(x[0].y)), fmaxf(fabsf(x[0].z), fabsf(x[0].w))),
                             fmaxf(fmaxf(fabsf(x[1].x), fabsf(x[1].y)), fmaxf(fabsf(x[1].z), fabsf(x[1].w))));
    return __float_as_uint(most);
}

/* Two numbers: the highs in `high`, the lows are returned. */
static __device__ uint32_t split_pair(float a, float b, uint32_t &high)
{
    high = f16_pair::of(a, b);
    return f16_pair::of((a - f16_pair::low(high)) * ZN_CUDA_SPLIT_LOW, (b - f16_pair::high(high)) * ZN_CUDA_SPLIT_LOW);
}

/* What a thread of the warpgroup that copies has of a stage: eight channels of every so many pixels. */
template <typename P> struct split_part {
    enum {
        PIECES = P::CHUNK / 8,
        STEP = WARPGROUP / PIECES,
        PIXELS = P::X_WIDE * P::X_HIGH,
        COUNT = (PIXELS + STEP - 1) / STEP
    };
    float4 x[COUNT][2];

    __device__ void load(const wide_task &w, const place &at, int chunk, int thread)
    {
        const zn_conv_shape &s = w.t.a.s;
        const int channel = chunk * P::CHUNK + thread % PIECES * 8, up = s.up2 && !P::UP ? 1 : 0;
        const int top = at.y * P::STRIDE - s.pad, left = at.x * P::STRIDE - s.pad;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int pixel = i * STEP + thread / PIECES, iy = top + pixel / P::X_WIDE, ix = left + pixel % P::X_WIDE;
            const bool is_there =
                pixel < PIXELS && channel < s.cin && iy >= 0 && ix >= 0 && iy < s.h << up && ix < s.w << up;
            const int64_t from = (((int64_t)at.image * s.h + (iy >> up)) * s.w + (ix >> up)) * s.cin + channel;
            const float4 *map = reinterpret_cast<const float4 *>(w.t.a.x + (is_there ? from : 0));
            x[i][0] = is_there ? map[0] : float4{};
            x[i][1] = is_there ? map[1] : float4{};
        }
    }

    /* The exponent of the scale of all threads. */
    __device__ int exponent(split_words &words, int step, int thread) const
    {
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            most = max(most, largest_of(x[i]));
        most = __reduce_max_sync(~0u, most);
        uint32_t *largest = words.largest[step % 2];
        if (thread % WARP == 0)
            largest[thread / WARP] = most;
        meet(COPIERS_MEET, WARPGROUP);
        return split_exponent(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
    }

    __device__ void store(char *stage, float scale, int thread) const
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int pixel = i * STEP + thread / PIECES, line = P::line_of(pixel / P::X_WIDE, pixel % P::X_WIDE);
            uint4 high, low;
            low.x = split_pair(x[i][0].x * scale, x[i][0].y * scale, high.x);
            low.y = split_pair(x[i][0].z * scale, x[i][0].w * scale, high.y);
            low.z = split_pair(x[i][1].x * scale, x[i][1].y * scale, high.z);
            low.w = split_pair(x[i][1].z * scale, x[i][1].w * scale, high.w);
            if (pixel < PIXELS) {
                *reinterpret_cast<uint4 *>(stage + piece_at(line, thread % PIECES)) = high;
                *reinterpret_cast<uint4 *>(stage + piece_at(line, PIECES + thread % PIECES)) = low;
            }
        }
    }
};

/* The scales of the two rows of weights, which are channels of the result, that a thread has sums of. */
struct split_rows {
    float scale[2];
    __device__ split_rows times(float unit) const { return split_rows{ { scale[0] * unit, scale[1] * unit } }; }
    __device__ float of_sum(int i) const { return scale[i % 4 / 2]; }
};
static __device__ split_rows split_rows_of(const wide_task &w, int thread)
{
    const char *scales = static_cast<const char *>(w.t.a.packed) + zn_cuda_split_bytes(&w.t.w);
    const float *first =
        reinterpret_cast<const float *>(scales) + first_column() + thread / WARP * 16 + thread % WARP / 4;
    return split_rows{ { first[0], first[8] } };
}

/* Adds the products of a stage to sums, times the scales of their rows: low high + high low, then high high. The matrix
 * unit truncates its sums, so the errors of a long one all have the same sign: each row of the kernel begins a new one.
 */
template <typename P>
static __device__ void multiply_parts(unsigned weights, unsigned stage, const split_rows &rows, float (&sums)[P::SUMS])
{
    enum { STEPS = P::CHUNK / 16, TAP = ZN_CUDA_SPLIT_PARTS * P::CHUNK * LINE, PART = P::CHUNK * 2 };
    const unsigned group = P::STRIDE * P::X_WIDE * LINE;
    float part[P::SUMS] = {};
#pragma unroll
    for (int round = 0; round <= P::TAPS; round++) {
        const bool low = round == 0;
        const int first = low ? 0 : (round - 1) * P::TAPS, count = low ? P::TAPS * P::TAPS : (int)P::TAPS;
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < count * STEPS; i++) {
            const int tap = first + i / STEPS, k = i % STEPS;
            const unsigned from = stage + (unsigned)(P::line_of(tap / P::TAPS, tap % P::TAPS) * LINE + k * 32);
            const unsigned line = weights + (unsigned)(tap * TAP + k * 16 * LINE);
            const uint64_t x_high = matrix_at(from, 16, group), x_low = matrix_at(from + PART, 16, group);
            const uint64_t w_high = matrix_at(line, 16, 8 * LINE), w_low = matrix_at(line + TAP / 2, 16, 8 * LINE);
            if (i == 0)
                P::T::multiply_new(part, w_high, low ? x_low : x_high);
            else
                P::T::multiply(part, w_high, low ? x_low : x_high);
            if (low)
                P::T::multiply(part, w_low, x_high);
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(part);
#pragma unroll
        for (int i = 0; i < P::SUMS; i++)
            sums[i] += part[i] * (low ? rows.of_sum(i) / ZN_CUDA_SPLIT_LOW : rows.of_sum(i));
    }
}

/* Calls f(number of a sum of this thread, its offset in the map). */
template <typename P, typename F> static __device__ void each_sum(const wide_task &w, const place &at, int thread, F f)
{
    const zn_conv_shape &s = w.t.a.s;
    const int lane = thread % WARP, row = at.channel + thread / WARP * 16 + lane / 4, apart = P::UP ? 2 : 1;
    const spot first = spot_of<P>(w, at, 0, lane % 4 * 2);
    const int64_t corner = (((int64_t)at.image * s.oh + first.y) * s.ow + first.x) * s.cout + row;
#pragma unroll
    for (int i = 0; i < P::SUMS; i++) {
        const int y = i / 4 * apart, x = i % 2 * apart, channel = i % 4 / 2 * 8;
        if (first.y + y < s.oh && first.x + x < s.ow && row + channel < s.cout)
            f(i, corner + (int64_t)(y * s.ow + x) * s.cout + channel);
    }
}

/* Adds bias and residual and writes a tile of fp32 straight from registers: eight lanes have eight channels of a pixel,
 * which are a whole sector. */
template <typename P>
static __device__ void write_floats(const wide_task &w, const place &at, float (&sums)[P::SUMS], int thread)
{
    const zn_conv_args &a = w.t.a;
    const int row = at.channel + thread / WARP * 16 + thread % WARP / 4;
    const float bias[2] = { a.bias && row < a.s.cout ? a.bias[row] : 0,
                            a.bias && row + 8 < a.s.cout ? a.bias[row + 8] : 0 };
    if (a.residual)
        each_sum<P>(w, at, thread, [&](int i, int64_t from) { sums[i] += a.residual[from]; });
    each_sum<P>(w, at, thread, [&](int i, int64_t to) { a.y[to] = activate(a, sums[i] + bias[i % 4 / 2]); });
}

#endif

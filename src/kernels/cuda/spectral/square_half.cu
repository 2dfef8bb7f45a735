/* Spectral mixing of squares of 32x32 whose maps are of 16 bits (tile.cu: fp32). A thread has a row, then a column, of
 * one or two neighbouring channels in registers. Between the two, the square is in shared memory, in fp32. */
#include "kernels/cuda/spectral/square_half.h"

#include "kernels/cuda/quick.h"
#include "kernels/cuda/spectral/butterfly.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/gates.h"
}

enum { SIDE = 32, LANES = 4 }; /* LANES threads have neighbouring channels */

struct half_square_task {
    zn_tile_square_args a;
    int before, down, across; /* positions of the first tile before the map; tiles */
    int chunks;               /* thread blocks of a tile */
    bool aligned;             /* gates and thresholds of two channels can be read at once */
};

/* CH numbers of 16 bits of a map. */
template <typename T, int CH> static __device__ floats<CH> read_few(const uint16_t *from)
{
    if constexpr (CH == 2) {
        const uint32_t pair = *reinterpret_cast<const uint32_t *>(from);
        return floats<2>{ { T::low(pair), T::high(pair) } };
    } else {
        return floats<1>{ { T::low(*from) } };
    }
}

template <typename T, int CH> static __device__ void write_few(uint16_t *to, const float (&v)[CH])
{
    if constexpr (CH == 2)
        *reinterpret_cast<uint32_t *>(to) = T::of(v[0], v[1]);
    else
        *to = (uint16_t)T::of(v[0], 0);
}

template <int CH> static __device__ floats<CH> read_parameters(const float *from, bool aligned)
{
    if constexpr (CH == 2)
        return aligned ? load<2>(from, 0) : floats<2>{ { from[0], from[1] } };
    else
        return load<1>(from, 0);
}

/* Q soft(gate .* Q x, |th|) with Q = H / sqrt(32): 1/32 is part of the gate. NaN passes through. */
template <int CH>
static __device__ void mix_half(float (&x)[CH][SIDE], const float *gate, const float *th, int step, bool aligned)
{
    const float root = 0.176776695f; /* 1 / sqrt(32) */
#pragma unroll
    for (int c = 0; c < CH; c++)
        transform(x[c]);
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        const floats<CH> g = read_parameters<CH>(gate + i * step, aligned);
        const floats<CH> limits = read_parameters<CH>(th + i * step, aligned);
#pragma unroll
        for (int c = 0; c < CH; c++) {
            const float v = g.v[c] * (1.0f / SIDE) * x[c][i], limit = fabsf(limits.v[c]) * root;
            x[c][i] = v - fmaxf(fminf(v, limit), -limit);
        }
    }
#pragma unroll
    for (int c = 0; c < CH; c++)
        transform(x[c]);
}

/* v Phi(v), with the tail of the normal distribution by formula 26.2.17 of Abramowitz and Stegun, to 8e-8 |v|. */
static __device__ float quick_gelu(float v)
{
    const float size = fabsf(v), t = quick_inverse(1.0f + 0.2316419f * size);
    const float p =
        t * (0.127414796f + t * (-0.142248368f + t * (0.710706871f + t * (-0.726576014f + t * 0.530702715f))));
    return fmaxf(v, 0.0f) - size * p * quick_power2(-0.721347520f * v * v);
}

/* Rows of a square in shared memory are padded by one pixel, so that the lanes of a warp use different banks. */
template <typename T, int CH> __global__ void __launch_bounds__(SIDE *LANES, 5) half_square(half_square_task t)
{
    enum { PIXEL = CH * LANES, ROW = (SIDE + 1) * PIXEL };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int c = t.a.channels, lane = (int)threadIdx.x % LANES * CH, at = (int)threadIdx.x / LANES;
    const int tile = (int)blockIdx.x / t.chunks, k = (int)blockIdx.x % t.chunks * PIXEL + lane;
    const int64_t base = (int64_t)(tile / (t.across * t.down)) * t.a.h * t.a.wide;
    const int top = tile / t.across % t.down * SIDE - t.before, left = tile % t.across * SIDE - t.before;
    const bool valid = k < c;
    float x[CH][SIDE];
    if (valid) {
        const uint16_t *const line =
            reinterpret_cast<const uint16_t *>(t.a.x) + (base + reflect(top + at, t.a.h) * t.a.wide) * c + k;
        const bool inside = left >= 0 && left + SIDE <= t.a.wide;
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            const floats<CH> v =
                read_few<T, CH>(line + (inside ? left + i : (int)reflect(left + i, t.a.wide)) * (int64_t)c);
#pragma unroll
            for (int j = 0; j < CH; j++)
                x[j][i] = v.v[j];
        }
        mix_half(x, t.a.gate[0] + k, t.a.th[0] + k, c, t.aligned);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            floats<CH> v;
#pragma unroll
            for (int j = 0; j < CH; j++)
                v.v[j] = x[j][i];
            store<CH>(zn_cuda_shared + at * ROW + i * PIXEL + lane, 0, v);
        }
    }
    __syncthreads();
    if (!valid || left + at < 0 || left + at >= t.a.wide)
        return;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        const floats<CH> v = load<CH>(zn_cuda_shared + i * ROW + at * PIXEL + lane, 0);
#pragma unroll
        for (int j = 0; j < CH; j++)
            x[j][i] = v.v[j];
    }
    mix_half(x, t.a.gate[1] + k, t.a.th[1] + k, c, t.aligned);
    uint16_t *const column = reinterpret_cast<uint16_t *>(t.a.y) + (base + left + at) * c + k;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        float v[CH];
#pragma unroll
        for (int j = 0; j < CH; j++)
            v[j] = quick_gelu(x[j][i]);
        if (top + i >= 0 && top + i < t.a.h)
            write_few<T>(column + (int64_t)(top + i) * t.a.wide * c, v);
    }
}

/* ---- launching ---- */

template <typename T, int CH> static void launch_channels(zn_device *d, half_square_task t)
{
    void (*const kernel)(half_square_task) = half_square<T, CH>;
    t.chunks = (t.a.channels + CH * LANES - 1) / (CH * LANES);
    launch(d, kernel, dim3((unsigned)((int64_t)t.a.n * t.down * t.across * t.chunks)), SIDE * LANES,
           sizeof(float) * SIDE * (SIDE + 1) * CH * LANES, t);
}

/* Two channels a thread, unless part of the GPU would be idle. */
template <typename T> static void launch_type(zn_device *d, const half_square_task &t)
{
    const int64_t tiles = (int64_t)t.a.n * t.down * t.across;
    if (tiles * (t.a.channels / 8) >= 3 * d->processors)
        launch_channels<T, 2>(d, t);
    else
        launch_channels<T, 1>(d, t);
}

void zn_cuda_tile_square_half(zn_device *d, const void *args)
{
    half_square_task t = {};
    t.a = *static_cast<const zn_tile_square_args *>(args);
    t.before = (SIDE - t.a.offset) % SIDE;
    t.down = (t.before + t.a.h + SIDE - 1) / SIDE;
    t.across = (t.before + t.a.wide + SIDE - 1) / SIDE;
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    t.aligned = true;
    for (int i = 0; i < 2; i++) {
        to_device(d, t.a.gate[i]);
        to_device(d, t.a.th[i]);
        t.aligned &= is_aligned(t.a.gate[i]) && is_aligned(t.a.th[i]);
    }
    if (t.a.type == ZN_TYPE_BF16)
        launch_type<bf16_pair>(d, t);
    else
        launch_type<f16_pair>(d, t);
}

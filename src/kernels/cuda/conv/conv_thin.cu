/* 1x1 convolutions of few channels in 16 bits, with bias, residual, ReLU and pixel shuffle: limited by the maps, not by
 * the products. The weights of a thread block's columns are in shared memory; pixels go from memory to the matrix unit
 * without it.
 *
 * The order of channels in a product is free, as long as both factors have the same. A lane (g = lane / 4, q = lane %
 * 4) therefore reads 8 neighbouring channels of pixel g, 8q to 8q+7 of 32, and uses them as its parts of two products
 * of 16 channels. Columns are exchanged in the same way: of 32 neighbouring ones, a lane gets 8q to 8q+7. */
#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

enum { THIN_THREADS = 128, WARPS = THIN_THREADS / 32, GROUP = 32, SPARE = 8 };

struct thin_task {
    zn_conv_args a;
    int64_t pixels;
};

struct alignas(16) eight {
    uint32_t pair[4];
};

/* Where channel k of a chunk lies in shared memory, so that a lane's channels are those that it has read. */
template <int CHUNK> static __device__ int row_of(int k)
{
    return CHUNK == 32 ? k % 8 / 4 * 16 + k % 4 / 2 * 8 + k / 8 * 2 + k % 2 : k % 4 / 2 * 8 + k / 4 * 2 + k % 2;
}

/* Columns [first, first + COLUMNS) of the weights [cin][cout]. */
template <int CHUNK, int COLUMNS> static __device__ void load_weights(const thin_task &t, int first, uint16_t *to)
{
    enum { ROW = COLUMNS + SPARE };
    const uint16_t *const w = static_cast<const uint16_t *>(t.a.packed);
    for (int i = (int)threadIdx.x; i < t.a.s.cin * (COLUMNS / 8); i += THIN_THREADS) {
        const int k = i / (COLUMNS / 8), part = i % (COLUMNS / 8), q = part % 4;
        const eight v = *reinterpret_cast<const eight *>(w + (int64_t)k * t.a.s.cout + first + part * 8);
        uint32_t *const row =
            reinterpret_cast<uint32_t *>(to + (k / CHUNK * CHUNK + row_of<CHUNK>(k % CHUNK)) * ROW + part / 4 * GROUP);
#pragma unroll
        for (int f = 0; f < 4; f++)
            row[f * 4 + q] = v.pair[f];
    }
}

/* This lane's part of a chunk of channels of a pixel. */
template <int CHUNK> static __device__ eight load_pixel(const thin_task &t, int64_t pixel, int chunk)
{
    const int q = (int)threadIdx.x % 4;
    eight v = {};
    if (pixel >= t.pixels)
        return v;
    const uint16_t *const x = reinterpret_cast<const uint16_t *>(t.a.x) + pixel * t.a.s.cin + chunk * CHUNK;
    if constexpr (CHUNK == 32) {
        v = *reinterpret_cast<const eight *>(x + 8 * q);
    } else {
        const two_pairs p = *reinterpret_cast<const two_pairs *>(x + 4 * q);
        v.pair[0] = p.low;
        v.pair[1] = p.high;
    }
    return v;
}

/* Where column `first` of a pixel lies in y; a group of columns has one sub-pixel. */
static __device__ int64_t result_at(const zn_conv_shape &s, int64_t pixel, int first)
{
    if (!s.shuffle)
        return pixel * s.cout + first;
    const int c = s.cout / 4, sub = first / c;
    const uint32_t row = (uint32_t)pixel / (uint32_t)s.w, x = (uint32_t)pixel - row * (uint32_t)s.w;
    return ((2 * (int64_t)row + sub / 2) * 2 * s.w + 2 * x + sub % 2) * c + first % c;
}

template <typename T> static __device__ void read_eight(const float *map, int64_t at, zn_type type, float v[8])
{
    if (type == ZN_TYPE_F32) {
        const floats<4> low = load<4>(map, at / 4), high = load<4>(map, at / 4 + 1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = low.v[i];
            v[i + 4] = high.v[i];
        }
    } else {
        const eight e = reinterpret_cast<const eight *>(map)[at / 8];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[2 * i] = T::low(e.pair[i]);
            v[2 * i + 1] = T::high(e.pair[i]);
        }
    }
}

template <typename T> static __device__ void write_eight(float *map, int64_t at, zn_type type, const float v[8])
{
    if (type == ZN_TYPE_F32) {
        store<4>(map, at / 4, floats<4>{ { v[0], v[1], v[2], v[3] } });
        store<4>(map, at / 4 + 1, floats<4>{ { v[4], v[5], v[6], v[7] } });
    } else {
        eight e;
#pragma unroll
        for (int i = 0; i < 4; i++)
            e.pair[i] = T::of(v[2 * i], v[2 * i + 1]);
        reinterpret_cast<eight *>(map)[at / 8] = e;
    }
}

/* Eight neighbouring columns of a pixel: two numbers of each of four fragments. */
template <typename T>
static __device__ void write_part(const thin_task &t, int64_t pixel, int column, const float sums[4][4], int half,
                                  const float bias[8])
{
    if (pixel >= t.pixels)
        return;
    const int64_t at = result_at(t.a.s, pixel, column);
    float v[8], more[8] = {};
    if (t.a.residual)
        read_eight<T>(t.a.residual, at, t.a.residual_type, more);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = sums[i / 2][half * 2 + i % 2] + bias[i] + more[i];
        v[i] = t.a.relu && v[i] < 0 ? 0 : v[i]; /* NaN passes */
    }
    write_eight<T>(t.a.y, at, t.a.y_type, v);
}

/* The bias of eight columns; a shuffle takes them from channels that are four apart. */
static __device__ void load_bias(const thin_task &t, int column, float bias[8])
{
    const int c = t.a.s.shuffle ? t.a.s.cout / 4 : t.a.s.cout, step = t.a.s.shuffle ? 4 : 1;
    const int from = column % c * step + column / c;
#pragma unroll
    for (int i = 0; i < 8; i++)
        bias[i] = t.a.bias ? t.a.bias[from + i * step] : 0;
}

/* MF: fragments of 16 pixels of a warp. CHUNK: channels of a pixel that are read at a time, 32 or 16. */
template <typename T, int CHUNK, int MF, int COLUMNS>
__global__ void __launch_bounds__(THIN_THREADS, MF *COLUMNS > 64 ? 3 : 5) multiply_thin(thin_task t)
{
    enum { ROW = COLUMNS + SPARE, NF = COLUMNS / 8, AHEAD = 2 };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const weights = reinterpret_cast<uint16_t *>(zn_cuda_shared);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4;
    const int64_t pixel = ((int64_t)blockIdx.x * WARPS + warp) * MF * 16 + g;
    const int first = (int)blockIdx.y * COLUMNS, chunks = t.a.s.cin / CHUNK;
    eight x[AHEAD][MF][2];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int m = 0; m < MF * 2; m++)
            x[i][m / 2][m % 2] = i < chunks ? load_pixel<CHUNK>(t, pixel + m * 8, i) : eight{};
    load_weights<CHUNK, COLUMNS>(t, first, weights);
    __syncthreads();
    float sums[MF][NF][4] = {};
    for (int chunk = 0; chunk < chunks; chunk += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (chunk + i >= chunks)
                break;
#pragma unroll
            for (int step = 0; step < CHUNK / 16; step++) {
                uint32_t b[NF][2];
                load_right<NF, ROW>(weights + ((chunk + i) * CHUNK + step * 16) * ROW, b);
#pragma unroll
                for (int m = 0; m < MF; m++) {
                    const uint32_t a[4] = { x[i][m][0].pair[2 * step], x[i][m][1].pair[2 * step],
                                            x[i][m][0].pair[2 * step + 1], x[i][m][1].pair[2 * step + 1] };
#pragma unroll
                    for (int n = 0; n < NF; n++)
                        T::multiply_add(sums[m][n], a, b[n]);
                }
            }
            if (chunk + i + AHEAD < chunks) {
#pragma unroll
                for (int m = 0; m < MF * 2; m++)
                    x[i][m / 2][m % 2] = load_pixel<CHUNK>(t, pixel + m * 8, chunk + i + AHEAD);
            }
        }
    }
#pragma unroll
    for (int group = 0; group < COLUMNS / GROUP; group++) {
        const int column = first + group * GROUP + lane % 4 * 8;
        float bias[8];
        load_bias(t, column, bias);
#pragma unroll
        for (int m = 0; m < MF * 2; m++)
            write_part<T>(t, pixel + m * 8, column, sums[m / 2] + group * 4, m % 2, bias);
    }
}

/* ---- launching ---- */

template <typename T, int CHUNK, int MF, int COLUMNS> static void launch_plan(zn_device *d, const thin_task &t)
{
    void (*const kernel)(thin_task) = multiply_thin<T, CHUNK, MF, COLUMNS>;
    const int64_t pixels = WARPS * MF * 16;
    const dim3 grid((unsigned)((t.pixels + pixels - 1) / pixels), (unsigned)(t.a.s.cout / COLUMNS));
    launch(d, kernel, grid, THIN_THREADS, sizeof(uint16_t) * (size_t)t.a.s.cin * (COLUMNS + SPARE), t);
}

/* Half as many pixels for a warp where there are too few thread blocks otherwise. */
template <typename T, int CHUNK, int COLUMNS> static void launch_columns(zn_device *d, const thin_task &t)
{
    if (t.pixels / (WARPS * 32) * (t.a.s.cout / COLUMNS) >= 2 * d->processors)
        launch_plan<T, CHUNK, 2, COLUMNS>(d, t);
    else
        launch_plan<T, CHUNK, 1, COLUMNS>(d, t);
}

template <typename T, int CHUNK> static void launch_chunk(zn_device *d, const thin_task &t)
{
    if (t.a.s.cout % 64 == 0)
        launch_columns<T, CHUNK, 64>(d, t);
    else
        launch_columns<T, CHUNK, 32>(d, t);
}

template <typename T> static void launch_thin(zn_device *d, const void *args, zn_type type)
{
    thin_task t = {};
    t.a = *static_cast<const zn_conv_args *>(args);
    to_device(d, t.a.x);
    to_device(d, t.a.packed);
    to_device(d, t.a.bias);
    to_device(d, t.a.residual);
    to_device(d, t.a.y);
    to_device(d, t.a.workspace);
    t.pixels = (int64_t)t.a.s.n * t.a.s.h * t.a.s.w;
    t.a.x =
        static_cast<const float *>(zn_cuda_rounded(d, t.a.x, t.a.x_type, t.pixels * t.a.s.cin, type, t.a.workspace));
    if (t.a.s.cin % 32 == 0)
        launch_chunk<T, 32>(d, t);
    else
        launch_chunk<T, 16>(d, t);
}

extern "C" {
void zn_cuda_conv_thin_bf16(zn_device *d, const void *args, int64_t) { launch_thin<bf16_pair>(d, args, ZN_TYPE_BF16); }
void zn_cuda_conv_thin_f16(zn_device *d, const void *args, int64_t) { launch_thin<f16_pair>(d, args, ZN_TYPE_F16); }
}

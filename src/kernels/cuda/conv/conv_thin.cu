/* 1x1 convolutions of few channels in 16 bits, with bias, residual, ReLU and pixel shuffle: limited by the maps, not by
 * the products. The weights of a thread block's columns are in shared memory; pixels go from memory to the matrix unit
 * without it.
 *
 * The order of channels in a product is free, as long as both factors have the same. A lane (g = lane / 4, q = lane %
 * 4) therefore reads 8 neighbouring channels of pixel g, 8q to 8q+7 of 32, and uses them as its parts of two products
 * of 16 channels. Columns are exchanged in the same way: of 32 neighbouring ones, a lane gets 8q to 8q+7. */
#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/early.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

enum { THIN_THREADS = 256, WARPS = THIN_THREADS / 32, FRAGMENT = 16, GROUP = 32, SPARE = 8 };

struct thin_task {
    zn_conv_args a;
    int64_t pixels;
};

struct alignas(16) eight {
    uint32_t pair[4];
};

/* Where channel k of a chunk lies in shared memory, so that a lane's channels are those that it has read. */
template <int CHUNK> static __device__ unsigned row_of(unsigned k)
{
    return CHUNK == 32 ? k % 8 / 4 * 16 + k % 4 / 2 * 8 + k / 8 * 2 + k % 2 : k % 4 / 2 * 8 + k / 4 * 2 + k % 2;
}

/* Columns [first, first + COLUMNS) of the weights [cin][cout]; loads of a batch wait for memory together. */
template <int CHUNK, int COLUMNS> static __device__ void load_weights(const thin_task &t, int first, uint16_t *to)
{
    enum { ROW = COLUMNS + SPARE, PARTS = COLUMNS / 8, TURN = THIN_THREADS / PARTS, BATCH = CHUNK == 16 ? 1 : 4 };
    const int part = (int)threadIdx.x % PARTS, begin = (int)threadIdx.x / PARTS, cin = t.a.s.cin, cout = t.a.s.cout;
    const uint16_t *const w = static_cast<const uint16_t *>(t.a.packed) + first + part * 8;
    uint16_t *const column = to + part / 4 * GROUP + part % 4 * 2;
    for (int k = begin; k < cin; k += BATCH * TURN) {
        eight v[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (k + j * TURN < cin)
                v[j] = *reinterpret_cast<const eight *>(w + (k + j * TURN) * cout);
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int at = k + j * TURN;
            if (at >= cin)
                break;
            uint32_t *const row = reinterpret_cast<uint32_t *>(
                column + ((unsigned)at / CHUNK * CHUNK + row_of<CHUNK>((unsigned)at % CHUNK)) * ROW);
#pragma unroll
            for (int f = 0; f < 4; f++)
                row[f * 4] = v[j].pair[f];
        }
    }
}

/* A lane's part of a chunk of channels of a pixel. */
template <int CHUNK> static __device__ eight load_pixel(const uint16_t *from, bool is_there)
{
    eight v = {};
    if constexpr (CHUNK == 32) {
        if (is_there)
            v = *reinterpret_cast<const eight *>(from);
    } else if (is_there) {
        const two_pairs p = *reinterpret_cast<const two_pairs *>(from);
        v.pair[0] = p.low;
        v.pair[1] = p.high;
    }
    return v;
}

/* Where a pixel and a group of columns lie in y; a shuffle gives each group one sub-pixel. */
template <bool SHUFFLE> static __device__ int64_t pixel_at(const zn_conv_shape &s, int64_t pixel)
{
    if (!SHUFFLE)
        return pixel * s.cout;
    const uint32_t row = (uint32_t)pixel / (uint32_t)s.w, x = (uint32_t)pixel - row * (uint32_t)s.w;
    return (4 * (int64_t)row * s.w + 2 * x) * (s.cout / 4);
}
template <bool SHUFFLE> static __device__ int column_at(const zn_conv_shape &s, int column)
{
    if (!SHUFFLE)
        return column;
    const int c = s.cout / 4, sub = column / c;
    return (sub / 2 * 2 * s.w + sub % 2) * c + column - sub * c;
}

static __device__ void read_eight(const float *from, float v[8])
{
    const floats<4> low = load<4>(from, 0), high = load<4>(from, 1);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = low.v[i];
        v[i + 4] = high.v[i];
    }
}

template <typename T> static __device__ void unpack_eight(const eight &e, float v[8])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = T::low(e.pair[i]);
        v[2 * i + 1] = T::high(e.pair[i]);
    }
}

template <typename T> static __device__ void write_eight(float *map, int64_t at, zn_type type, const float v[8])
{
    if (type == ZN_TYPE_F32) {
        store<4>(map + at, 0, floats<4>{ { v[0], v[1], v[2], v[3] } });
        store<4>(map + at, 1, floats<4>{ { v[4], v[5], v[6], v[7] } });
    } else {
        eight e;
#pragma unroll
        for (int i = 0; i < 4; i++)
            e.pair[i] = T::of(v[2 * i], v[2 * i + 1]);
        *reinterpret_cast<eight *>(reinterpret_cast<uint16_t *>(map) + at) = e;
    }
}

/* The bias of columns [first, first + COLUMNS); a shuffle takes neighbours from channels that are four apart. */
template <int COLUMNS, bool SHUFFLE> static __device__ void load_bias(const thin_task &t, int first, float *to)
{
    const int i = (int)threadIdx.x, column = first + i, c = t.a.s.cout / 4;
    if (i < COLUMNS)
        to[i] = t.a.bias ? t.a.bias[SHUFFLE ? column % c * 4 + column / c : column] : 0;
}

/* A warp has 16 pixels. CHUNK: channels of a pixel that are read at a time, 32 or 16. NEAR: there is a residual of 16
 * bits, which is read before the products. */
template <typename T, int CHUNK, int COLUMNS, bool NEAR, bool SHUFFLE>
__global__ void __launch_bounds__(THIN_THREADS, COLUMNS == 64 && NEAR ? 2 : 3) multiply_thin(thin_task t)
{
    enum { ROW = COLUMNS + SPARE, NF = COLUMNS / 8, GROUPS = COLUMNS / GROUP, AHEAD = 2 };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *const biases = zn_cuda_shared;
    uint16_t *const weights = reinterpret_cast<uint16_t *>(biases + COLUMNS);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const int first = (int)blockIdx.y * COLUMNS, chunks = t.a.s.cin / CHUNK;
    const uint16_t *from[2];
    int64_t at[2];
    bool is_there[2];
    wait_for_last();
    eight x[AHEAD][2], near[NEAR ? GROUPS : 1][2] = {};
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int64_t pixel = ((int64_t)blockIdx.x * WARPS + warp) * FRAGMENT + g + h * 8;
        is_there[h] = pixel < t.pixels;
        from[h] = reinterpret_cast<const uint16_t *>(t.a.x) + pixel * t.a.s.cin + CHUNK / 4 * q;
        at[h] = pixel_at<SHUFFLE>(t.a.s, pixel);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            x[i][h] = load_pixel<CHUNK>(from[h] + i * CHUNK, is_there[h] && i < chunks);
    if constexpr (NEAR) {
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (is_there[h])
                    near[group][h] =
                        *reinterpret_cast<const eight *>(reinterpret_cast<const uint16_t *>(t.a.residual) + at[h] +
                                                         column_at<SHUFFLE>(t.a.s, first + group * GROUP) + 8 * q);
    }
    load_bias<COLUMNS, SHUFFLE>(t, first, biases);
    load_weights<CHUNK, COLUMNS>(t, first, weights);
    __syncthreads();
    float sums[NF][4];
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        float bias[8];
        read_eight(biases + group * GROUP + 8 * q, bias);
#pragma unroll
        for (int i = 0; i < 16; i++)
            sums[group * 4 + i / 4][i % 4] = bias[i / 4 * 2 + i % 2];
    }
    for (int chunk = 0; chunk < chunks; chunk += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (chunk + i >= chunks)
                break;
#pragma unroll
            for (int step = 0; step < CHUNK / 16; step++) {
                uint32_t b[NF][2];
                load_right<NF, ROW>(weights + ((chunk + i) * CHUNK + step * 16) * ROW, b);
                const uint32_t a[4] = { x[i][0].pair[2 * step], x[i][1].pair[2 * step], x[i][0].pair[2 * step + 1],
                                        x[i][1].pair[2 * step + 1] };
#pragma unroll
                for (int n = 0; n < NF; n++)
                    T::multiply_add(sums[n], a, b[n]);
            }
            if (chunk + i + AHEAD < chunks) {
#pragma unroll
                for (int h = 0; h < 2; h++)
                    x[i][h] = load_pixel<CHUNK>(from[h] + (chunk + i + AHEAD) * CHUNK, is_there[h]);
            }
        }
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const int column = column_at<SHUFFLE>(t.a.s, first + group * GROUP) + 8 * q;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (!is_there[h])
                continue;
            float v[8], more[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = sums[group * 4 + i / 2][h * 2 + i % 2];
            if (NEAR || t.a.residual) {
                if constexpr (NEAR)
                    unpack_eight<T>(near[group][h], more);
                else
                    read_eight(t.a.residual + at[h] + column, more);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v[i] += more[i];
            }
            if (t.a.relu) {
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v[i] = v[i] < 0 ? 0 : v[i]; /* NaN passes */
            }
            write_eight<T>(t.a.y, at[h] + column, t.a.y_type, v);
        }
    }
}

/* ---- launching ---- */

template <typename T, int CHUNK, int COLUMNS, bool SHUFFLE> static void launch_plan(zn_device *d, const thin_task &t)
{
    void (*const kernel)(thin_task) = t.a.residual && t.a.residual_type != ZN_TYPE_F32
                                          ? multiply_thin<T, CHUNK, COLUMNS, true, SHUFFLE>
                                          : multiply_thin<T, CHUNK, COLUMNS, false, SHUFFLE>;
    const int64_t pixels = WARPS * FRAGMENT;
    const dim3 grid((unsigned)((t.pixels + pixels - 1) / pixels), (unsigned)(t.a.s.cout / COLUMNS));
    launch_early(d, kernel, grid, THIN_THREADS,
                 sizeof(float) * COLUMNS + sizeof(uint16_t) * (size_t)t.a.s.cin * (COLUMNS + SPARE), t);
}

template <typename T, int CHUNK, int COLUMNS> static void launch_columns(zn_device *d, const thin_task &t)
{
    if (t.a.s.shuffle)
        launch_plan<T, CHUNK, COLUMNS, true>(d, t);
    else
        launch_plan<T, CHUNK, COLUMNS, false>(d, t);
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

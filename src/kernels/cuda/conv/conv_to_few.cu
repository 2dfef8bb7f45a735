/* 3x3 convolutions to at most 8 channels in 16 bits: the last layer of decoders. It is limited by the map that it
 * reads. The weights are in registers; the pixels of a tile and its border in shared memory, of which a warp reads a
 * fragment of 16 pixels of a row once for all results above, at and below it. */
#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/early.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

enum { FEW_THREADS = 128, WIDE = 32, HIGH = 16, ROWS = 8, ACROSS = WIDE + 2, BORDER = (HIGH + 2) * ACROSS };
enum { COLUMNS = ZN_CUDA_CONV_FEW, TAPS = 9, SPARE = 8 };

struct to_few_task {
    zn_conv_args a;
    int down, across; /* tiles */
};

static __device__ void write_results(const zn_conv_args &a, int64_t pixel, const float *sums, const float *bias)
{
    const int q = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int64_t at = pixel * a.s.cout + 2 * q + i;
        if (2 * q + i >= a.s.cout)
            return;
        float v = sums[i] + bias[i];
        v += a.residual ? read_number(a.residual, at, a.residual_type) : 0;
        write_number(a.y, at, a.y_type, a.relu && v < 0 ? 0 : v); /* NaN passes */
    }
}

/* CIN channels; the weights are [tap][CIN][8]. */
template <typename T, int CIN> __global__ void __launch_bounds__(FEW_THREADS, CIN == 32 ? 4 : 2) to_few(to_few_task t)
{
    enum { LINE = CIN + SPARE, PIECES = CIN / 8, DEEP = CIN / 16 };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const x = reinterpret_cast<uint16_t *>(zn_cuda_shared), *const weights = x + BORDER * LINE;
    const zn_conv_shape &s = t.a.s;
    const int tile = (int)blockIdx.x, top = tile / t.across % t.down * HIGH, left = tile % t.across * WIDE;
    const int64_t image = tile / (t.down * t.across) * (int64_t)s.h * s.w;
    const uint16_t *const map = reinterpret_cast<const uint16_t *>(t.a.x);
    wait_for_last();
    for (int i = (int)threadIdx.x; i < TAPS * CIN; i += FEW_THREADS)
        copy_async<16>(reinterpret_cast<float *>(weights + i * COLUMNS),
                       reinterpret_cast<const float *>(static_cast<const uint16_t *>(t.a.packed) + i * COLUMNS), true);
    for (int i = (int)threadIdx.x; i < BORDER * PIECES; i += FEW_THREADS) {
        const int pixel = i / PIECES, row = top - 1 + pixel / ACROSS, column = left - 1 + pixel % ACROSS;
        const bool is_there = row >= 0 && row < s.h && column >= 0 && column < s.w;
        const int64_t at = is_there ? image + (int64_t)row * s.w + column : 0;
        copy_async<16>(reinterpret_cast<float *>(x + pixel * LINE + i % PIECES * 8),
                       reinterpret_cast<const float *>(map + at * CIN + i % PIECES * 8), is_there);
    }
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, q = lane % 4;
    const int first = warp / 2 * ROWS, begin = warp % 2 * 16;
    uint32_t b[TAPS][DEEP][1][2];
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
        for (int k = 0; k < DEEP; k++)
            load_right<1, COLUMNS>(weights + (tap * CIN + k * 16) * COLUMNS, b[tap][k]);
    float sums[ROWS][4] = {};
    const uint16_t *const from = x + (first * ACROSS + begin + lane % 16) * LINE + lane / 16 * 8;
#pragma unroll
    for (int row = 0; row < ROWS + 2; row++)
#pragma unroll
        for (int side = 0; side < 3; side++)
#pragma unroll
            for (int k = 0; k < DEEP; k++) {
                uint32_t a[4];
                load_four(a, from + (row * ACROSS + side) * LINE + k * 16);
#pragma unroll
                for (int down = 0; down < 3; down++)
                    if (row >= down && row - down < ROWS)
                        T::multiply_add(sums[row - down], a, b[down * 3 + side][k][0]);
            }
    float bias[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        bias[i] = t.a.bias && 2 * q + i < s.cout ? t.a.bias[2 * q + i] : 0;
#pragma unroll
    for (int row = 0; row < ROWS; row++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int y = top + first + row, column = left + begin + lane / 4 + half * 8;
            if (y < s.h && column < s.w)
                write_results(t.a, image + (int64_t)y * s.w + column, sums[row] + 2 * half, bias);
        }
}

/* ---- launching ---- */

template <typename T, int CIN> static void launch_channels(zn_device *d, const to_few_task &t)
{
    void (*const kernel)(to_few_task) = to_few<T, CIN>;
    launch_early(d, kernel, dim3((unsigned)(t.a.s.n * t.down * t.across)), FEW_THREADS,
                 sizeof(uint16_t) * (BORDER * (CIN + SPARE) + TAPS * CIN * COLUMNS), t);
}

template <typename T> static void launch_to_few(zn_device *d, const void *args, zn_type type)
{
    to_few_task t = {};
    t.a = *static_cast<const zn_conv_args *>(args);
    const zn_conv_shape &s = t.a.s;
    to_device(d, t.a.x);
    to_device(d, t.a.packed);
    to_device(d, t.a.bias);
    to_device(d, t.a.residual);
    to_device(d, t.a.y);
    to_device(d, t.a.workspace);
    t.down = (s.h + HIGH - 1) / HIGH;
    t.across = (s.w + WIDE - 1) / WIDE;
    t.a.x = static_cast<const float *>(
        zn_cuda_rounded(d, t.a.x, t.a.x_type, (int64_t)s.n * s.h * s.w * s.cin, type, t.a.workspace));
    if (s.cin == 32)
        launch_channels<T, 32>(d, t);
    else
        launch_channels<T, 64>(d, t);
}

extern "C" {
void zn_cuda_conv_to_few_bf16(zn_device *d, const void *args, int64_t)
{
    launch_to_few<bf16_pair>(d, args, ZN_TYPE_BF16);
}
void zn_cuda_conv_to_few_f16(zn_device *d, const void *args, int64_t) { launch_to_few<f16_pair>(d, args, ZN_TYPE_F16); }
}

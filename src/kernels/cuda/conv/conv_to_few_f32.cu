/* 3x3 convolutions to at most 4 channels in full precision: the last layer of decoders. A thread computes a few pixels
 * of a column with plain multiplications, which are too few for the matrix unit to pay. A tile with its border is in
 * shared memory, some channels at a time, while the next ones are copied.
 *
 * Every sum has the same order for any position of its pixel and any tile. */
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

enum { FEW_THREADS = 128, WIDE = 32, SIDE = 3, DOWN = FEW_THREADS / WIDE, COLUMNS = ZN_CUDA_CONV_FEW, FOUR = 4 };
enum { CHUNK = ZN_CUDA_TO_FEW_CHUNK, PIXEL = CHUNK + 4 }; /* lengths in shared memory avoid bank conflicts */

struct few_task {
    zn_conv_args a;
    int down, across; /* tiles */
};

/* OUT channels of ROWS pixels for each thread. */
template <int OUT, int ROWS> struct few_tile {
    enum {
        HIGH = DOWN * ROWS,
        ACROSS = WIDE + SIDE - 1,
        BORDER = (HIGH + SIDE - 1) * ACROSS,
        STAGE = BORDER * PIXEL,
        WEIGHTS = SIDE * SIDE * CHUNK * FOUR
    };
    const few_task &t;
    int top, left;
    int64_t image;

    __device__ explicit few_tile(const few_task &task) : t(task)
    {
        const int tile = (int)blockIdx.x;
        top = tile / t.across % t.down * HIGH;
        left = tile % t.across * WIDE;
        image = tile / (t.down * t.across) * (int64_t)t.a.s.h * t.a.s.w;
    }

    /* Starts the copies of a chunk of channels, and of their weights, which are [tap][channel][COLUMNS]. */
    __device__ void start(int first, float *stage) const
    {
        const zn_conv_shape &s = t.a.s;
        const float *packed = static_cast<const float *>(t.a.packed);
        for (int i = (int)threadIdx.x; i < BORDER * CHUNK / 4; i += FEW_THREADS) {
            const int pixel = i / (CHUNK / 4), part = i % (CHUNK / 4) * 4;
            const int y = top - 1 + pixel / ACROSS, x = left - 1 + pixel % ACROSS;
            const bool is_there = y >= 0 && y < s.h && x >= 0 && x < s.w;
            copy_async<16>(stage + pixel * PIXEL + part,
                           t.a.x + (is_there ? (image + (int64_t)y * s.w + x) * s.cin + first + part : 0), is_there);
        }
        for (int i = (int)threadIdx.x; i < WEIGHTS / FOUR; i += FEW_THREADS)
            copy_async<16>(stage + STAGE + i * FOUR,
                           packed + ((int64_t)(i / CHUNK) * s.cin + first + i % CHUNK) * COLUMNS, true);
    }

    __device__ void multiply(const float *stage, float (&sums)[ROWS][OUT]) const
    {
        const int column = (int)threadIdx.x % WIDE, row = (int)threadIdx.x / WIDE * ROWS;
        const float *from = stage + (row * ACROSS + column) * PIXEL;
        for (int i = 0; i < CHUNK; i += 4)
#pragma unroll
            for (int side = 0; side < SIDE; side++) {
                floats<FOUR> w[SIDE][4];
#pragma unroll
                for (int j = 0; j < SIDE * 4; j++)
                    w[j / 4][j % 4] = load<FOUR>(stage + STAGE, (j / 4 * SIDE + side) * CHUNK + i + j % 4);
#pragma unroll
                for (int y = 0; y < ROWS + SIDE - 1; y++) {
                    const floats<4> x = load<4>(from + (y * ACROSS + side) * PIXEL + i, 0);
#pragma unroll
                    for (int down = 0; down < SIDE; down++)
#pragma unroll
                        for (int j = 0; j < 4 * OUT; j++)
                            if (y >= down && y - down < ROWS)
                                sums[y - down][j % OUT] += x.v[j / OUT] * w[down][j / OUT].v[j % OUT];
                }
            }
    }

    __device__ void write(const float (&sums)[ROWS][OUT]) const
    {
        const zn_conv_args &a = t.a;
        const int x = left + (int)threadIdx.x % WIDE, first = top + (int)threadIdx.x / WIDE * ROWS;
#pragma unroll
        for (int i = 0; i < ROWS * OUT; i++) {
            const int y = first + i / OUT, channel = i % OUT;
            if (y >= a.s.h || x >= a.s.w || channel >= a.s.cout)
                continue;
            const int64_t at = (image + (int64_t)y * a.s.w + x) * a.s.cout + channel;
            const float v = sums[i / OUT][channel] + (a.bias ? a.bias[channel] : 0) + (a.residual ? a.residual[at] : 0);
            a.y[at] = a.relu && v < 0 ? 0 : v; /* NaN passes */
        }
    }
};

template <int OUT, int ROWS> __global__ void __launch_bounds__(FEW_THREADS, 2) to_few_f32(few_task t)
{
    typedef few_tile<OUT, ROWS> tile_type;
    enum { BOTH = tile_type::STAGE + tile_type::WEIGHTS };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const tile_type tile(t);
    const int chunks = t.a.s.cin / CHUNK;
    float sums[ROWS][OUT] = {};
    tile.start(0, zn_cuda_shared);
    copy_commit();
    for (int chunk = 0; chunk < chunks; chunk++) {
        if (chunk + 1 < chunks)
            tile.start((chunk + 1) * CHUNK, zn_cuda_shared + (chunk + 1) % 2 * BOTH);
        copy_commit();
        copy_wait<1>();  /* the chunk has arrived for this thread, */
        __syncthreads(); /* and for the others */
        tile.multiply(zn_cuda_shared + chunk % 2 * BOTH, sums);
        __syncthreads(); /* all have read it */
    }
    tile.write(sums);
}

/* ---- launching ---- */

template <int OUT, int ROWS> static bool launch_tiles(zn_device *d, few_task &t, bool must_fill)
{
    typedef few_tile<OUT, ROWS> tile_type;
    const zn_conv_shape &s = t.a.s;
    t.down = (s.h + tile_type::HIGH - 1) / tile_type::HIGH;
    t.across = (s.w + WIDE - 1) / WIDE;
    const int blocks = s.n * t.down * t.across;
    if (must_fill && blocks < d->processors)
        return false;
    void (*const kernel)(few_task) = to_few_f32<OUT, ROWS>;
    launch(d, kernel, dim3((unsigned)blocks), FEW_THREADS,
           sizeof(float) * 2 * (size_t)(tile_type::STAGE + tile_type::WEIGHTS), t);
    return true;
}

template <int OUT> static void launch_out(zn_device *d, few_task &t)
{
    launch_tiles<OUT, 4>(d, t, true) || launch_tiles<OUT, 1>(d, t, false);
}

extern "C" void zn_cuda_conv_to_few_f32(zn_device *d, const void *args, int64_t)
{
    few_task t = {};
    t.a = *static_cast<const zn_conv_args *>(args);
    to_device(d, t.a.x);
    to_device(d, t.a.packed);
    to_device(d, t.a.bias);
    to_device(d, t.a.residual);
    to_device(d, t.a.y);
    if (t.a.s.cout == 3)
        launch_out<3>(d, t);
    else
        launch_out<4>(d, t);
}

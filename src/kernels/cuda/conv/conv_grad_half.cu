/* The gradient of a convolution's weights (conv_grad.h) with products of bf16 numbers and sums in fp32. Asynchronous
 * copies bring fp32 tiles of pixels; each is rounded to 16 bits in shared memory while the one before it is multiplied:
 * half of the warps round first, the others multiply first, so both happen at once. Maps of 16 bits are multiplied as
 * they arrive; with a stride of 2, whose tiles of x are large, others are rounded before. */
#include "kernels/cuda/conv/conv_grad_tile.h"
#include "kernels/cuda/half.h"

template <typename T_, int WARPS_M_, int WARPS_N_, int NF_, int TAPS_, int STRIDE_ = 1>
struct half_plan : grad_shape<WARPS_M_, WARPS_N_, NF_, TAPS_, STRIDE_> {
    typedef T_ T;
    typedef grad_shape<WARPS_M_, WARPS_N_, NF_, TAPS_, STRIDE_> S;
    enum {
        X_PIXELS = S::X_HIGH * S::X_WIDE,
        Y_PIXELS = HIGH * WIDE,
        FLOATS = X_PIXELS * S::IN + Y_PIXELS * S::OUT, /* of an fp32 tile */
        /* Row lengths of rounded tiles avoid bank conflicts between the rows of a matrix. */
        X_ROW = S::IN + 8,
        Y_ROW = S::OUT == 8 ? 8 : S::OUT + 8,
        X_HALVES = X_PIXELS * X_ROW,
        HALVES = X_HALVES + Y_PIXELS * Y_ROW
    };
};

/* Rounds PIXELS pixels of CHANNELS channels to rows of ROW numbers. */
template <typename T, int PIXELS, int CHANNELS, int ROW>
static __device__ void round_pixels(const float *from, uint16_t *to)
{
    enum { GROUPS = CHANNELS / 8 };
    for (int i = (int)threadIdx.x; i < PIXELS * GROUPS; i += THREADS) {
        const float4 a = *reinterpret_cast<const float4 *>(from + 8 * i);
        const float4 b = *reinterpret_cast<const float4 *>(from + 8 * i + 4);
        *reinterpret_cast<uint4 *>(to + i / GROUPS * ROW + i % GROUPS * 8) =
            uint4{ T::of(a.x, a.y), T::of(a.z, a.w), T::of(b.x, b.y), T::of(b.z, b.w) };
    }
}

template <typename P> static __device__ void round_tile(const float *from, uint16_t *to)
{
    round_pixels<typename P::T, P::X_PIXELS, P::IN, P::X_ROW>(from, to);
    round_pixels<typename P::T, P::Y_PIXELS, P::OUT, P::Y_ROW>(from + P::X_PIXELS * P::IN, to + P::X_HALVES);
}

/* Adds the products of a tile to the sums of this warp. */
template <typename P> static __device__ void multiply_tile(const uint16_t *tile, float sums[P::TAPS][P::NF][4])
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int m = warp / P::WARPS_N % P::WARPS_M, n = warp % P::WARPS_N, way = warp / (P::WARPS_M * P::WARPS_N);
    const uint16_t *x = tile + (lane % 8 + lane / 16 * 8) * P::STRIDE * P::X_ROW + m * 16 + lane / 8 % 2 * 8;
    const uint16_t *dy = tile + P::X_HALVES + n * P::NF * 8;
#pragma unroll 1
    for (int row = way; row < HIGH; row += P::WAYS) {
        uint32_t b[P::NF][2];
        load_right<P::NF, P::Y_ROW>(dy + row * WIDE * P::Y_ROW, b);
#pragma unroll
        for (int tap = 0; tap < P::TAPS; tap++) {
            uint32_t a[4];
            load_four_turned(a, x + ((row * P::STRIDE + tap / P::SIDE) * P::X_WIDE + tap % P::SIDE) * P::X_ROW);
#pragma unroll
            for (int f = 0; f < P::NF; f++)
                P::T::multiply_add(sums[tap][f], a, b[f]);
        }
    }
}

template <typename P> __global__ void __launch_bounds__(THREADS, 1) conv_grad_half(grad_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *rounded = reinterpret_cast<uint16_t *>(zn_cuda_shared + 2 * P::FLOATS);
    const grad_place at = place_of<P>(t);
    const int64_t count = at.end - at.begin;
    const bool rounds_first = (int)threadIdx.x / WARP % 8 < 4;
    float sums[P::TAPS][P::NF][4] = {};
    for (int i = 0; i < 2; i++) {
        if (i < count)
            copy_tile<P, to_floats, P::IN, P::OUT>(t, at, at.begin + i, zn_cuda_shared + i * P::FLOATS);
        copy_commit();
    }
    copy_wait<1>();
    __syncthreads();
    round_tile<P>(zn_cuda_shared, rounded);
    for (int64_t i = 0; i < count; i++) {
        const float *next = zn_cuda_shared + (i + 1) % 2 * P::FLOATS;
        copy_wait<0>();  /* tile i + 1 has arrived for this thread, */
        __syncthreads(); /* for all threads; tile i is rounded, and all have read what came before */
        if (i + 2 < count)
            copy_tile<P, to_floats, P::IN, P::OUT>(t, at, at.begin + i + 2, zn_cuda_shared + i % 2 * P::FLOATS);
        copy_commit();
        if (rounds_first && i + 1 < count)
            round_tile<P>(next, rounded + (i + 1) % 2 * P::HALVES);
        multiply_tile<P>(rounded + i % 2 * P::HALVES, sums);
        if (!rounds_first && i + 1 < count)
            round_tile<P>(next, rounded + (i + 1) % 2 * P::HALVES);
    }
    write_sums<P>(t, at, sums);
}

/* ---- maps of 16 bits ---- */

/* Channels come in groups of eight, and addresses are aligned to 16 bytes. */
struct as_stored {
    typedef uint16_t stored;
    enum { GROUP = 8 };
    static __device__ void eight(uint16_t *to, const float *map, int64_t at, int count)
    {
        const uint16_t *from = reinterpret_cast<const uint16_t *>(map);
        copy_async<16>(reinterpret_cast<float *>(to), reinterpret_cast<const float *>(from + (count > 0 ? at : 0)),
                       count > 0);
    }
    static __device__ void x(const grad_task &t, uint16_t *to, int64_t at, int count) { eight(to, t.a.x, at, count); }
    static __device__ void dy(const grad_task &t, uint16_t *to, int64_t at, int count) { eight(to, t.a.dy, at, count); }
};

enum { STAGES = 3 };

template <typename P> __global__ void __launch_bounds__(THREADS, 1) conv_grad_narrow(grad_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *stages = reinterpret_cast<uint16_t *>(zn_cuda_shared);
    const grad_place at = place_of<P>(t);
    const int64_t count = at.end - at.begin;
    float sums[P::TAPS][P::NF][4] = {};
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < count)
            copy_tile<P, as_stored, P::X_ROW, P::Y_ROW>(t, at, at.begin + i, stages + i * P::HALVES);
        copy_commit();
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t next = i + STAGES - 1;
        copy_wait<STAGES - 2>(); /* tile i has arrived for this thread, */
        __syncthreads();         /* for all threads, and all have read the previous one */
        if (next < count)
            copy_tile<P, as_stored, P::X_ROW, P::Y_ROW>(t, at, at.begin + next, stages + next % STAGES * P::HALVES);
        copy_commit();
        multiply_tile<P>(stages + i % STAGES * P::HALVES, sums);
    }
    write_sums<P>(t, at, sums);
}

static bool is_narrow(const grad_task &t)
{
    return t.a.x_type == ZN_TYPE_BF16 && t.a.dy_type == ZN_TYPE_BF16 && t.a.s.cin % 8 == 0 && t.a.s.cout % 8 == 0 &&
           ((uintptr_t)t.a.x | (uintptr_t)t.a.dy) % 16 == 0;
}

/* ---- launching ---- */

template <typename P> static void launch_plan(zn_device *d, const grad_task &t)
{
    if (is_narrow(t))
        launch_grad(d, conv_grad_narrow<P>, sizeof(uint16_t) * STAGES * P::HALVES, t);
    else
        launch_grad(d, conv_grad_half<P>, sizeof(float) * 2 * P::FLOATS + sizeof(uint16_t) * 2 * P::HALVES, t);
}

template <int TAPS> static void launch_channels(zn_device *d, const grad_task &t)
{
    if (t.p.in == ZN_CUDA_GRAD_FEW_IN)
        launch_plan<half_plan<bf16_pair, 1, 2, 4, TAPS>>(d, t);
    else if (t.p.out == ZN_CUDA_GRAD_FEW_OUT)
        launch_plan<half_plan<bf16_pair, 4, 1, 1, TAPS>>(d, t);
    else
        launch_plan<half_plan<bf16_pair, 4, 2, 4, TAPS>>(d, t);
}

static void launch_taps(zn_device *d, const grad_task &t)
{
    if (t.p.nine)
        launch_channels<9>(d, t);
    else
        launch_channels<1>(d, t);
}

static void launch_strided(zn_device *d, const grad_task &given)
{
    typedef half_plan<bf16_pair, 4, 2, 4, 9, 2> P;
    launch_grad(d, conv_grad_narrow<P>, sizeof(uint16_t) * STAGES * P::HALVES, rounded_task(d, given, true, true));
}

extern "C" {
void zn_cuda_conv_grad_strided(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_plan_of, launch_strided);
}
void zn_cuda_conv_grad_bf16(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_plan_of, launch_taps);
}
}

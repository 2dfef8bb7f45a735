/* The head of a Lite-R block whose maps are of 16 bits (lite_head.cu: fp32). A thread block loads a tile of 8192
 * numbers with its border, normalises it on the way to shared memory, adds the taps, and multiplies the groups with the
 * matrix unit. Results change their order in shared memory, so that all maps are read and written 16 bytes at a time.
 */
#include "kernels/cuda/spectral/lite_head.h"

#include "kernels/cuda/half.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/vector.h"

enum { GROUPS = ZN_LITE_HEAD_HALF_GROUPS, EIGHT = 8, STRIP = 4, QUAD = 4, WARPS = THREADS / 32 };

/* C channels; HIGH x WIDE pixels. Lines of shared memory have a spare piece of 16 bytes: lanes of a warp that read
 * neighbouring lines then use different banks. */
template <int C_> struct head_plan {
    enum {
        C = C_,
        CO = C / 2,
        HIGH = C == 32    ? 16
               : C == 256 ? 4
                          : 8,
        WIDE = C <= 64 ? 16 : 8,
        PIXELS = HIGH * WIDE,
        ACROSS = WIDE + 2,
        BORDER = (HIGH + 2) * ACROSS,
        LINE = C + EIGHT,
        RESULT_LINE = CO + EIGHT,
        LANES = C / EIGHT, /* threads of a pixel in the norm */
        /* Groups are multiplied one by one; those of 8 channels as one matrix with zeros outside of the groups. */
        DENSE = C / GROUPS < 16,
        DEPTH = DENSE ? C : C / GROUPS,
        OUT = DENSE ? CO : CO / GROUPS,
        SHARED = (BORDER + PIXELS) * LINE /* numbers */
    };
};

struct half_head_task {
    zn_lite_head_args a;
    int down, across; /* tiles */
    bool aligned;     /* taps can be read with load<4> */
};

struct alignas(16) eight {
    uint32_t pair[4];
};

struct place {
    int64_t image;
    int top, left;
};

template <typename P, typename T>
static __device__ void load_normalised(const half_head_task &t, const place &at, uint16_t *to)
{
    enum { TURN = THREADS / P::LANES, TURNS = (P::BORDER + TURN - 1) / TURN, AHEAD = TURNS < 8 ? TURNS : 8 };
    const int first = (int)threadIdx.x % P::LANES * EIGHT;
    const uint16_t *const map = reinterpret_cast<const uint16_t *>(t.a.x) + at.image * t.a.h * t.a.wide * P::C + first;
    float gain[EIGHT];
#pragma unroll
    for (int i = 0; i < EIGHT; i++)
        gain[i] = t.a.gain[first + i];
    for (int turn = 0; turn < TURNS; turn += AHEAD) {
        eight raw[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int pixel = (turn + k) * TURN + (int)threadIdx.x / P::LANES;
            const int y = at.top - 1 + pixel / P::ACROSS, x = at.left - 1 + pixel % P::ACROSS;
            raw[k] = eight{};
            if (pixel < P::BORDER && y >= 0 && y < t.a.h && x >= 0 && x < t.a.wide)
                raw[k] = *reinterpret_cast<const eight *>(map + ((int64_t)y * t.a.wide + x) * P::C);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int pixel = (turn + k) * TURN + (int)threadIdx.x / P::LANES;
            float sum = 0;
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum +=
                    T::low(raw[k].pair[i]) * T::low(raw[k].pair[i]) + T::high(raw[k].pair[i]) * T::high(raw[k].pair[i]);
#pragma unroll
            for (int other = 1; other < P::LANES; other *= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, other);
            const float factor = quick_inverse_root(sum / (float)P::C + t.a.eps);
            eight v;
#pragma unroll
            for (int i = 0; i < 4; i++)
                v.pair[i] = T::of(T::low(raw[k].pair[i]) * (factor * gain[2 * i]),
                                  T::high(raw[k].pair[i]) * (factor * gain[2 * i + 1]));
            if (pixel < P::BORDER)
                *reinterpret_cast<eight *>(to + pixel * P::LINE + first) = v;
        }
    }
}

/* e = x + taps of x. A thread has four channels and goes down STRIP pixels of a column. */
template <typename P, typename T>
static __device__ void add_taps(const float (&w)[9][QUAD], const uint16_t *x, uint16_t *e)
{
    enum { QUADS = P::C / QUAD, ITEMS = QUADS * P::WIDE * (P::HIGH / STRIP) };
    const int first = (int)threadIdx.x % QUADS * QUAD;
    for (int item = (int)threadIdx.x; item < ITEMS; item += THREADS) {
        const int column = item / QUADS % P::WIDE, top = item / QUADS / P::WIDE * STRIP;
        const uint16_t *const from = x + (top * P::ACROSS + column) * P::LINE + first;
        float sum[STRIP][QUAD] = {};
#pragma unroll
        for (int row = 0; row < STRIP + 2; row++)
#pragma unroll
            for (int side = 0; side < 3; side++) {
                const two_pairs p = *reinterpret_cast<const two_pairs *>(from + (row * P::ACROSS + side) * P::LINE);
                const float v[QUAD] = { T::low(p.low), T::high(p.low), T::low(p.high), T::high(p.high) };
#pragma unroll
                for (int out = 0; out < STRIP; out++)
                    if (row >= out && row <= out + 2)
#pragma unroll
                        for (int i = 0; i < QUAD; i++)
                            sum[out][i] += w[(row - out) * 3 + side][i] * v[i];
            }
#pragma unroll
        for (int out = 0; out < STRIP; out++)
            *reinterpret_cast<two_pairs *>(e + ((top + out) * P::WIDE + column) * P::LINE + first) =
                two_pairs{ T::of(sum[out][0], sum[out][1]), T::of(sum[out][2], sum[out][3]) };
    }
}

template <int C> static __device__ void load_taps(const half_head_task &t, float (&w)[9][QUAD])
{
    const int first = (int)threadIdx.x % (C / QUAD) * QUAD;
    const float *const from = t.a.taps + 9 * first;
    floats<4> all[9];
#pragma unroll
    for (int i = 0; i < 9; i++)
        all[i] = t.aligned ? load<4>(from, i)
                           : floats<4>{ { from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3] } };
#pragma unroll
    for (int i = 0; i < QUAD; i++)
#pragma unroll
        for (int tap = 0; tap < 9; tap++) {
            const int at = 9 * i + tap;
            w[tap][i] = (tap == 4 ? 1.0f : 0.0f) + all[at / 4].v[at % 4];
        }
}

/* The weights of output o of this warp's group, or of the dense matrix, for inputs k and k + 1. */
template <typename P, typename T>
static __device__ uint32_t weights_of(const half_head_task &t, int group, int o, int k)
{
    enum { DEEP = P::C / GROUPS, EACH = P::CO / GROUPS };
    if constexpr (P::DENSE) {
        if (k / DEEP != o / EACH)
            return 0;
        k %= DEEP;
    } else {
        o += group * EACH;
    }
    return T::of(t.a.w[o * DEEP + k], t.a.w[o * DEEP + k + 1]);
}

/* Warps share the groups and, of each, the fragments of 16 pixels. y is [pixel][RESULT_LINE]. */
template <typename P, typename T>
static __device__ void multiply_groups(const uint32_t (&b)[P::DEPTH / 16][P::OUT / 8][2],
                                       const float (&bias)[P::OUT / 8][2], const uint16_t *e, uint16_t *y)
{
    enum { NF = P::OUT / 8, EACH = P::CO / GROUPS, STEP = P::DENSE ? WARPS : WARPS / GROUPS };
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const int group = P::DENSE ? 0 : warp % GROUPS, begin = P::DENSE ? warp : warp / GROUPS;
#pragma unroll 1
    for (int m = begin; m < P::PIXELS / 16; m += STEP) {
        float sums[NF][4];
#pragma unroll
        for (int n = 0; n < NF; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[n][i] = bias[n][i % 2];
#pragma unroll
        for (int k = 0; k < P::DEPTH / 16; k++) {
            uint32_t a[4];
            load_four(a, e + (m * 16 + lane % 16) * P::LINE + group * P::DEPTH + k * 16 + lane / 16 * 8);
#pragma unroll
            for (int n = 0; n < NF; n++)
                T::multiply_add(sums[n], a, b[k][n]);
        }
#pragma unroll
        for (int n = 0; n < NF; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int o = n * 8 + 2 * q + i % 2, of = P::DENSE ? o / EACH : group, j = P::DENSE ? o % EACH : o;
                y[(m * 16 + g + i / 2 * 8) * P::RESULT_LINE + j * GROUPS + of] = (uint16_t)T::of(sums[n][i], 0);
            }
    }
}

template <typename P> static __device__ void write_results(const half_head_task &t, const place &at, const uint16_t *y)
{
    enum { PIECES = P::CO / EIGHT };
    uint16_t *const map = reinterpret_cast<uint16_t *>(t.a.y) + at.image * t.a.h * t.a.wide * P::CO;
    for (int i = (int)threadIdx.x; i < P::PIXELS * PIECES; i += THREADS) {
        const int pixel = i / PIECES, piece = i % PIECES * EIGHT;
        const int row = at.top + pixel / P::WIDE, column = at.left + pixel % P::WIDE;
        if (row < t.a.h && column < t.a.wide)
            *reinterpret_cast<eight *>(map + ((int64_t)row * t.a.wide + column) * P::CO + piece) =
                *reinterpret_cast<const eight *>(y + pixel * P::RESULT_LINE + piece);
    }
}

template <typename P, typename T>
__global__ void __launch_bounds__(THREADS, P::C == 256 ? 2 : 3) half_head(half_head_task t)
{
    enum { EACH = P::CO / GROUPS };
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const x = reinterpret_cast<uint16_t *>(zn_cuda_shared), *const e = x + P::BORDER * P::LINE;
    const int tile = (int)blockIdx.x, map = t.down * t.across;
    const place at = { tile / map, tile % map / t.across * P::HIGH, tile % t.across * P::WIDE };
    const int lane = (int)threadIdx.x % 32, group = (int)threadIdx.x / 32 % GROUPS;
    float taps[9][QUAD];
    load_taps<P::C>(t, taps);
    load_normalised<P, T>(t, at, x);
    __syncthreads();
    add_taps<P, T>(taps, x, e);
    uint32_t b[P::DEPTH / 16][P::OUT / 8][2];
    float bias[P::OUT / 8][2];
#pragma unroll
    for (int n = 0; n < P::OUT / 8; n++) {
#pragma unroll
        for (int k = 0; k < P::DEPTH / 16; k++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                b[k][n][i] = weights_of<P, T>(t, group, n * 8 + lane / 4, k * 16 + i * 8 + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 2; i++)
            bias[n][i] = t.a.b[(P::DENSE ? 0 : group * EACH) + n * 8 + lane % 4 * 2 + i];
    }
    __syncthreads();
    multiply_groups<P, T>(b, bias, e, x);
    __syncthreads();
    write_results<P>(t, at, x);
}

/* ---- launching ---- */

template <int C, typename T> static void launch_head(zn_device *d, half_head_task t)
{
    typedef head_plan<C> P;
    void (*const kernel)(half_head_task) = half_head<P, T>;
    t.down = (t.a.h + P::HIGH - 1) / P::HIGH;
    t.across = (t.a.wide + P::WIDE - 1) / P::WIDE;
    launch(d, kernel, dim3((unsigned)(t.a.n * t.down * t.across)), THREADS, sizeof(uint16_t) * P::SHARED, t);
}

template <typename T> static void launch_type(zn_device *d, const half_head_task &t)
{
    if (t.a.c == 32)
        launch_head<32, T>(d, t);
    else if (t.a.c == 64)
        launch_head<64, T>(d, t);
    else if (t.a.c == 128)
        launch_head<128, T>(d, t);
    else
        launch_head<256, T>(d, t);
}

void zn_cuda_lite_head_half(zn_device *d, const zn_lite_head_args &on_device)
{
    half_head_task t = {};
    t.a = on_device;
    t.aligned = is_aligned(t.a.taps);
    if (t.a.type == ZN_TYPE_BF16)
        launch_type<bf16_pair>(d, t);
    else
        launch_type<f16_pair>(d, t);
}

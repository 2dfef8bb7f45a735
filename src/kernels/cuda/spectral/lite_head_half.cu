/* The head of a Lite-R block whose maps are of 16 bits (lite_head.cu: fp32). A thread block loads a tile of 8192
 * numbers with its border, normalises it on the way to shared memory, adds the taps, and multiplies the groups with the
 * matrix unit. Results change their order in shared memory, so that all maps are read and written 16 bytes at a time.
 *
 * Between load and result numbers are f16 also where maps are bf16: f16 has three more bits, and a norm leaves no large
 * numbers. The gains are part of the taps, two channels are added at once. */
#include "kernels/cuda/spectral/lite_head.h"

#include "kernels/cuda/early.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/vector.h"

enum { GROUPS = ZN_LITE_HEAD_HALF_GROUPS, EIGHT = 8, STRIP = 4, TAPS = 9, WARPS = THREADS / 32 };

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
        LANES = C / EIGHT, /* threads of a pixel in the norm, and of a column of taps */
        TURN = THREADS / LANES,
        TURNS = (BORDER + TURN - 1) / TURN,
        /* Groups are multiplied one by one; those of 8 channels as one matrix with zeros outside of the groups. */
        DENSE = C / GROUPS < 16,
        DEEP = C / GROUPS, /* channels and results of a group */
        EACH = CO / GROUPS,
        DEPTH = DENSE ? C : DEEP,
        OUT = DENSE ? CO : EACH,
        WEIGHT_LINE = DEPTH + EIGHT,
        /* numbers in shared memory: the tile with its border, sums, taps [9][LINE], weights [CO][WEIGHT_LINE] */
        SHARED = (BORDER + PIXELS + TAPS) * LINE + CO * WEIGHT_LINE
    };
    static_assert((int)THREADS == (int)LANES * (int)WIDE * (int)(HIGH / STRIP), "each thread adds one strip");
    /* The result that column o of the product is. A lane has columns 2q and 2q + 1 of each fragment of 8: of the dense
     * matrix, which has two, these are four neighbours. */
    static __device__ int result_of(int o, int group)
    {
        return DENSE ? o % 8 / 2 * 4 + o / 8 * 2 + o % 2 : o * GROUPS + group;
    }
};

struct half_head_task {
    zn_lite_head_args a;
    int down, across; /* tiles */
    bool aligned;     /* weights can be read with load<4> */
};

struct alignas(16) eight {
    uint32_t pair[4];
};

struct place {
    int64_t image;
    int top, left;
};

/* ---- the tile and its norm ---- */

template <typename P> static __device__ void load_tile(const half_head_task &t, const place &at, eight (&raw)[P::TURNS])
{
    const int left = at.left - 1, top = at.top - 1;
    const uint16_t *const map = reinterpret_cast<const uint16_t *>(t.a.x) + threadIdx.x % P::LANES * EIGHT +
                                ((at.image * t.a.h + top) * t.a.wide + left) * P::C;
#pragma unroll
    for (int k = 0; k < P::TURNS; k++) {
        const unsigned pixel = (unsigned)(k * P::TURN) + threadIdx.x / P::LANES;
        const unsigned row = pixel / P::ACROSS, column = pixel - row * P::ACROSS;
        raw[k] = eight{};
        if (pixel < P::BORDER && top + row < (unsigned)t.a.h && left + column < (unsigned)t.a.wide)
            raw[k] = *reinterpret_cast<const eight *>(map + (row * (unsigned)t.a.wide + column) * P::C);
    }
}

/* Without the gains. */
template <typename P, typename T>
static __device__ void normalise(const half_head_task &t, const eight (&raw)[P::TURNS], uint16_t *to)
{
    const unsigned first = threadIdx.x % P::LANES * EIGHT;
#pragma unroll
    for (int k = 0; k < P::TURNS; k++) {
        const unsigned pixel = (unsigned)(k * P::TURN) + threadIdx.x / P::LANES;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum += T::low(raw[k].pair[i]) * T::low(raw[k].pair[i]) + T::high(raw[k].pair[i]) * T::high(raw[k].pair[i]);
#pragma unroll
        for (int other = 1; other < P::LANES; other *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
        const float factor = quick_inverse_root(sum * (1.0f / P::C) + t.a.eps);
        eight v;
#pragma unroll
        for (int i = 0; i < 4; i++)
            v.pair[i] = f16_pair::of(T::low(raw[k].pair[i]) * factor, T::high(raw[k].pair[i]) * factor);
        if (pixel < P::BORDER)
            *reinterpret_cast<eight *>(to + pixel * P::LINE + first) = v;
    }
}

/* ---- parameters ---- */

/* taps[9][LINE]: taps and x itself, with the gains. */
template <typename P> static __device__ void load_taps(const half_head_task &t, uint16_t *taps)
{
    enum { COUNT = TAPS * P::C, TURNS = (COUNT + THREADS - 1) / THREADS };
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        const unsigned i = (unsigned)(k * THREADS) + threadIdx.x, channel = i / TAPS, tap = i - channel * TAPS;
        if (i < COUNT)
            taps[tap * P::LINE + channel] =
                (uint16_t)f16_pair::of_finite(((tap == TAPS / 2 ? 1.0f : 0.0f) + t.a.taps[i]) * t.a.gain[channel], 0);
    }
}

/* weights[column of the product][channel]; where groups are multiplied one by one, their columns follow each other. */
template <typename P> static __device__ void load_weights(const half_head_task &t, uint16_t *weights)
{
    if constexpr (P::DENSE) {
        enum { PAIRS = P::C / 2 };
        for (int i = (int)threadIdx.x; i < P::CO * PAIRS; i += THREADS) {
            const int o = i / PAIRS, k = i % PAIRS * 2;
            const int result = P::result_of(o, 0), group = result % GROUPS;
            const float *const from = t.a.w + (group * P::EACH + result / GROUPS) * P::DEEP + k % P::DEEP;
            *reinterpret_cast<uint32_t *>(weights + o * P::WEIGHT_LINE + k) =
                k / P::DEEP == group ? f16_pair::of_finite(from[0], from[1]) : 0;
        }
    } else {
        enum { COUNT = P::CO * P::DEEP / 4, TURNS = (COUNT + THREADS - 1) / THREADS };
        floats<4> v[TURNS];
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const unsigned i = (unsigned)(k * THREADS) + threadIdx.x;
            const float *const from = t.a.w + 4 * i;
            if (i < COUNT)
                v[k] = t.aligned ? load<4>(from, 0) : floats<4>{ { from[0], from[1], from[2], from[3] } };
        }
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const unsigned i = (unsigned)(k * THREADS) + threadIdx.x;
            if (i < COUNT)
                *reinterpret_cast<two_pairs *>(weights + 4 * i / P::DEEP * P::WEIGHT_LINE + 4 * i % P::DEEP) =
                    two_pairs{ f16_pair::of_finite(v[k].v[0], v[k].v[1]), f16_pair::of_finite(v[k].v[2], v[k].v[3]) };
        }
    }
}

/* ---- taps and products ---- */

/* e = x + taps of x. A thread has eight channels and goes down STRIP pixels of a column. */
template <typename P> static __device__ void add_taps(const uint16_t *taps, const uint16_t *x, uint16_t *e)
{
    const unsigned item = threadIdx.x / P::LANES, first = threadIdx.x % P::LANES * EIGHT;
    const unsigned column = item % P::WIDE, top = item / P::WIDE * STRIP;
    const uint16_t *const from = x + (top * P::ACROSS + column) * P::LINE + first;
    eight w[TAPS], sum[STRIP] = {};
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
        w[tap] = *reinterpret_cast<const eight *>(taps + tap * P::LINE + first);
#pragma unroll
    for (int row = 0; row < STRIP + 2; row++)
#pragma unroll
        for (int side = 0; side < 3; side++) {
            const eight v = *reinterpret_cast<const eight *>(from + (row * P::ACROSS + side) * P::LINE);
#pragma unroll
            for (int out = 0; out < STRIP; out++)
                if (row >= out && row <= out + 2)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        sum[out].pair[i] =
                            f16_pair::multiply_add(w[(row - out) * 3 + side].pair[i], v.pair[i], sum[out].pair[i]);
        }
#pragma unroll
    for (int out = 0; out < STRIP; out++)
        *reinterpret_cast<eight *>(e + ((top + out) * P::WIDE + column) * P::LINE + first) = sum[out];
}

/* Warps share the groups and, of each, the fragments of 16 pixels. write(pixel, sums of its columns 2q, 2q + 1 of each
 * fragment). */
template <typename P, typename W>
static __device__ void multiply_groups(const half_head_task &t, const uint16_t *weights, const uint16_t *e, W write)
{
    enum { NF = P::OUT / 8, STEP = P::DENSE ? WARPS : WARPS / GROUPS };
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const int group = P::DENSE ? 0 : warp % GROUPS, begin = P::DENSE ? warp : warp / GROUPS;
    float bias[NF][2];
#pragma unroll
    for (int i = 0; i < NF * 2; i++) {
        const int result = P::result_of(i / 2 * 8 + 2 * q + i % 2, group);
        bias[i / 2][i % 2] = t.a.b[result % GROUPS * P::EACH + result / GROUPS];
    }
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
            for (int n = 0; n < NF; n += 2) {
                uint32_t b[4]; /* both halves of the depth of fragment n, then of n + 1 */
                const int row = NF == 1 ? lane % 8 : n * 8 + lane / 16 * 8 + lane % 8;
                load_four(b, weights + (group * P::EACH + row) * P::WEIGHT_LINE + k * 16 + lane / 8 % 2 * 8);
                f16_pair::multiply_add(sums[n], a, b);
                if (n + 1 < NF)
                    f16_pair::multiply_add(sums[(n + 1) % NF], a, b + 2);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float results[NF][2];
#pragma unroll
            for (int i = 0; i < NF * 2; i++)
                results[i / 2][i % 2] = sums[i / 2][2 * half + i % 2];
            write(m * 16 + g + half * 8, results);
        }
    }
}

/* Where a pixel of the tile lies in y, or NULL if it lies outside of the map. */
template <typename P> static __device__ uint16_t *result_at(const half_head_task &t, const place &at, unsigned pixel)
{
    const unsigned row = pixel / P::WIDE, column = pixel % P::WIDE;
    uint16_t *const tile =
        reinterpret_cast<uint16_t *>(t.a.y) + ((at.image * t.a.h + at.top) * t.a.wide + at.left) * P::CO;
    return at.top + row < (unsigned)t.a.h && at.left + column < (unsigned)t.a.wide
               ? tile + (row * (unsigned)t.a.wide + column) * P::CO
               : NULL;
}

template <typename P> static __device__ void write_results(const half_head_task &t, const place &at, const uint16_t *y)
{
    enum { PIECES = P::CO / EIGHT };
    static_assert(P::PIXELS * PIECES % THREADS == 0, "");
#pragma unroll
    for (int k = 0; k < P::PIXELS * PIECES / THREADS; k++) {
        const unsigned i = (unsigned)(k * THREADS) + threadIdx.x, pixel = i / PIECES, piece = i % PIECES * EIGHT;
        uint16_t *const to = result_at<P>(t, at, pixel);
        if (to)
            *reinterpret_cast<eight *>(to + piece) =
                *reinterpret_cast<const eight *>(y + pixel * P::RESULT_LINE + piece);
    }
}

template <typename P, typename T>
__global__ void __launch_bounds__(THREADS, P::C == 256   ? 2
                                           : P::C == 128 ? 3
                                                         : 4) half_head(half_head_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const x = reinterpret_cast<uint16_t *>(zn_cuda_shared), *const e = x + P::BORDER * P::LINE;
    uint16_t *const taps = e + P::PIXELS * P::LINE, *const weights = taps + TAPS * P::LINE;
    const int tile = (int)blockIdx.x, map = t.down * t.across, q = (int)threadIdx.x % 4;
    const place at = { tile / map, tile % map / t.across * P::HIGH, tile % t.across * P::WIDE };
    eight raw[P::TURNS];
    wait_for_last();
    load_tile<P>(t, at, raw);
    load_taps<P>(t, taps);
    load_weights<P>(t, weights);
    normalise<P, T>(t, raw, x);
    __syncthreads();
    add_taps<P>(taps, x, e);
    __syncthreads();
    if constexpr (P::DENSE) {
        multiply_groups<P>(t, weights, e, [&](int pixel, const float(&results)[2][2]) {
            uint16_t *const to = result_at<P>(t, at, pixel);
            if (to)
                *reinterpret_cast<two_pairs *>(to + 4 * q) =
                    two_pairs{ T::of(results[0][0], results[0][1]), T::of(results[1][0], results[1][1]) };
        });
    } else {
        const int group = (int)threadIdx.x / 32 % GROUPS;
        multiply_groups<P>(t, weights, e, [&](int pixel, const float(&results)[P::OUT / 8][2]) {
#pragma unroll
            for (int i = 0; i < P::OUT / 4; i++)
                x[pixel * P::RESULT_LINE + P::result_of(i / 2 * 8 + 2 * q + i % 2, group)] =
                    (uint16_t)T::of(results[i / 2][i % 2], 0);
        });
        __syncthreads();
        write_results<P>(t, at, x);
    }
}

/* ---- launching ---- */

template <int C, typename T> static void launch_head(zn_device *d, half_head_task t)
{
    typedef head_plan<C> P;
    void (*const kernel)(half_head_task) = half_head<P, T>;
    t.down = (t.a.h + P::HIGH - 1) / P::HIGH;
    t.across = (t.a.wide + P::WIDE - 1) / P::WIDE;
    launch_early(d, kernel, dim3((unsigned)(t.a.n * t.down * t.across)), THREADS, sizeof(uint16_t) * P::SHARED, t);
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
    t.aligned = is_aligned(t.a.w);
    if (t.a.type == ZN_TYPE_BF16)
        launch_type<bf16_pair>(d, t);
    else
        launch_type<f16_pair>(d, t);
}

/* Spectral mixing of squares of 32x32 whose maps are of 16 bits (tile.cu: fp32). The transforms are products with a
 * matrix of +1 and -1 on the matrix unit. The square stays in shared memory, pixel by pixel, in lines of 8 channels.
 *
 * A fragment is two lines of 32 pixels and 8 channels; a warp mixes it in two products. The first is lines' transforms,
 * [channel][frequency]; its results, after gates and thresholds and rounded to f16, are the right factor of the second
 * without leaving their lanes, whose results are [pixel][channel] again. Numbers between products are f16 also where
 * maps are bf16: f16 has three more bits, and what would not fit becomes the largest number. */
#include "kernels/cuda/spectral/square_half.h"

#include "kernels/cuda/early.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/quick.h"
#include "kernels/cuda/spectral/butterfly.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/gates.h"
}

/* PIECE: channels of a line. ROW: numbers from a row of the square to the next; 8 are spare, so that lines below each
 * other use different banks. */
enum { SIDE = 32, PIECE = 8, ROW = SIDE * PIECE + 8, SQUARE = SIDE * ROW, WARPS = 8 };

struct half_square_task {
    zn_tile_square_args a;
    int before, down, across; /* positions of the first tile before the map; tiles */
    int chunks;               /* thread blocks of a tile */
};

/* A thread block has 8 channels, and the lines of a fragment are neighbours; or, if WIDE, it has 16, and they are two
 * pieces of one line. Neighbouring pairs of channels are then in different pieces, so that the results of a lane are
 * four neighbouring channels. */
template <bool WIDE> struct square_plan {
    enum { PIECES = WIDE ? 2 : 1, CHANNELS = PIECES * PIECE, FRAGMENTS = SIDE * PIECES / 2, EACH = FRAGMENTS / WARPS };
    /* The channel at a position of a piece. */
    static __device__ int channel(int piece, int at) { return WIDE ? at / 2 * 4 + 2 * piece + at % 2 : at; }
};

struct place {
    int64_t image; /* its first pixel */
    int top, left;
    int channel;
};

struct alignas(16) eight {
    uint32_t pair[4];
};

/* ---- products with the transform ---- */

template <typename T> struct one;
template <> struct one<bf16_pair> {
    enum { PAIR = 0x3f803f80 };
};
template <> struct one<f16_pair> {
    enum { PAIR = 0x3c003c00 };
};

static __device__ uint32_t negative(uint32_t pair, bool is_negative) { return is_negative ? pair ^ 0x80008000u : pair; }

/* This lane's numbers of the transform of 8: [g][2q] and its neighbour. All parts of larger ones are this or its
 * negative. */
template <typename T> static __device__ uint32_t transform_part(void)
{
    const unsigned g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const unsigned first = (g & 2 * q), second = (g & (2 * q + 1));
    const unsigned low = (first ^ first >> 1 ^ first >> 2) & 1, high = (second ^ second >> 1 ^ second >> 2) & 1;
    return (uint32_t)one<T>::PAIR ^ (low << 15 | high << 31);
}

/* sums[n] = [16 channels][8 frequencies from 8 n]: of both lines' channels, as `lane_row` gives them to load_four. */
template <typename T> static __device__ void transform_lines(float (&sums)[4][4], const uint16_t *lane_row, int step)
{
    const uint32_t h = transform_part<T>();
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[n][i] = 0;
    uint32_t a[2][4];
#pragma unroll
    for (int k = 0; k < 2; k++)
        load_four_turned(a[k], lane_row + k * 16 * step);
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const bool high = k && n / 2;
            const uint32_t b[2] = { negative(h, high), negative(h, high != (n % 2 == 1)) };
            T::multiply_add(sums[n], a[k], b);
        }
}

/* sums[m] = [16 pixels from 16 m][8 channels] of one line, whose numbers are s[frequencies from 8 n]. */
static __device__ void transform_back(float (&sums)[2][4], const uint32_t (&s)[4])
{
    const uint32_t h = transform_part<f16_pair>();
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[m][i] = 0;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t same = negative(h, k && m);
            const uint32_t a[4] = { same, same, same, negative(same, true) };
            f16_pair::multiply_add(sums[m], a, s + 2 * k);
        }
    }
}

/* ---- gates and thresholds ---- */

/* A lane's gates and thresholds of an axis and a piece: for frequencies 8 n + 2 q + i and channel g the gates with
 * 1/32, then the thresholds with 1 / sqrt(32). They are in shared memory, [axis][piece][4][lane][4]. */
enum { PARAMETERS = 4 * 32 * 4 };

template <typename P>
static __device__ void load_parameters(const half_square_task &t, const place &at, float *parameters)
{
    const float root = 0.176776695f; /* 1 / sqrt(32) */
    const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4, warp = (int)threadIdx.x / 32;
    const int axis = warp / P::PIECES, piece = warp % P::PIECES;
    if (axis > 1)
        return;
    const float *const gate = axis ? t.a.gate[1] : t.a.gate[0], *const th = axis ? t.a.th[1] : t.a.th[0];
    float v[16];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int from = (j / 2 * 8 + 2 * q + j % 2) * t.a.channels + at.channel + P::channel(piece, g);
        v[j] = gate[from] * (1.0f / SIDE);
        v[j + 8] = fabsf(th[from]) * root;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        store<4>(parameters + warp * PARAMETERS, j * 32 + lane,
                 floats<4>{ { v[4 * j], v[4 * j + 1], v[4 * j + 2], v[4 * j + 3] } });
}

/* Q soft(gate .* Q x, |th|) with Q = H / sqrt(32), for a fragment: pixel 8 (i / 2) + g and channel pair q of line u is
 * y[u][i / 4][i % 4]. NaN passes through. */
template <typename P, typename T>
static __device__ void mix_fragment(float (&y)[2][2][4], const uint16_t *lane_row, int step, const float *parameters)
{
    const int lane = (int)threadIdx.x % 32;
    float sums[4][4];
    transform_lines<T>(sums, lane_row, step);
    floats<4> p[4];
#pragma unroll
    for (int u = 0; u < 2; u++) {
        if (u < P::PIECES) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                p[j] = load<4>(parameters + u * PARAMETERS, j * 32 + lane);
        }
        uint32_t s[4];
#pragma unroll
        for (int n = 0; n < 4; n++) {
            float v[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int k = 2 * n + i;
                const float x = sums[n][2 * u + i] * p[k / 4].v[k % 4], limit = p[2 + k / 4].v[k % 4];
                v[i] = x - fmaxf(fminf(x, limit), -limit);
            }
            s[n] = f16_pair::of_finite(v[0], v[1]);
        }
        transform_back(y[u], s);
    }
}

/* ---- the square ---- */

/* v Phi(v), with the tail of the normal distribution by formula 26.2.17 of Abramowitz and Stegun, to 8e-8 |v|. */
static __device__ float quick_gelu(float v)
{
    const float size = fabsf(v), t = quick_inverse(1.0f + 0.2316419f * size);
    const float p =
        t * (0.127414796f + t * (-0.142248368f + t * (0.710706871f + t * (-0.726576014f + t * 0.530702715f))));
    return fmaxf(v, 0.0f) - size * p * quick_power2(-0.721347520f * v * v);
}

/* The source of row or column i of a map of n. */
static __device__ int source_of(int i, int n) { return (unsigned)i < (unsigned)n ? i : (int)reflect(i, n); }

/* `meanwhile` is called while memory is being read. */
template <typename P, typename F>
static __device__ void load_square(const half_square_task &t, const place &at, uint16_t *square, F meanwhile)
{
    enum { TURN = WARPS / P::PIECES, TURNS = SIDE / TURN }; /* rows at a time */
    const int half = (int)threadIdx.x % P::PIECES, column = (int)threadIdx.x / P::PIECES % SIDE;
    const int first = (int)threadIdx.x / (P::PIECES * SIDE);
    const int64_t row = (int64_t)t.a.wide * t.a.channels;
    const uint16_t *const from = reinterpret_cast<const uint16_t *>(t.a.x) + at.channel + half * PIECE +
                                 (at.image + source_of(at.left + column, t.a.wide)) * t.a.channels;
    eight v[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++)
        v[turn] = *reinterpret_cast<const eight *>(from + source_of(at.top + first + turn * TURN, t.a.h) * row);
    meanwhile();
    uint16_t *const line = square + first * ROW + column * PIECE;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        uint16_t *const to = line + turn * TURN * ROW;
        if constexpr (P::PIECES == 1) {
            *reinterpret_cast<eight *>(to) = v[turn];
        } else {
            *reinterpret_cast<two_pairs *>(to + 4 * half) = two_pairs{ v[turn].pair[0], v[turn].pair[2] };
            *reinterpret_cast<two_pairs *>(to + SQUARE + 4 * half) = two_pairs{ v[turn].pair[1], v[turn].pair[3] };
        }
    }
}

/* Line u of a fragment: numbers from the beginning of the square. `apart`: from one line to the next. */
template <typename P> static __device__ int line_of(int fragment, int u, int apart)
{
    return P::PIECES == 1 ? (2 * fragment + u) * apart : fragment * apart + u * SQUARE;
}

template <typename P, typename T>
__global__ void __launch_bounds__(WARPS * 32, P::PIECES == 2 ? 3 : 4) half_square(half_square_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const square = reinterpret_cast<uint16_t *>(zn_cuda_shared);
    const int tile = (int)blockIdx.x / t.chunks;
    const place at = { (int64_t)(tile / (t.across * t.down)) * t.a.h * t.a.wide,
                       tile / t.across % t.down * SIDE - t.before, tile % t.across * SIDE - t.before,
                       (int)blockIdx.x % t.chunks * P::CHANNELS };
    const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4, warp = (int)threadIdx.x / 32;
    const int lane_line = lane / 8 % 2, lane_pixel = lane % 8 + lane / 16 * 8; /* for load_four */
    float *const parameters = zn_cuda_shared + SQUARE * P::PIECES / 2;
    wait_for_last();
    load_square<P>(t, at, square, [&] { load_parameters<P>(t, at, parameters); });
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < P::EACH; j++) {
        const int fragment = warp * P::EACH + j;
        float y[2][2][4];
        mix_fragment<P, T>(y, square + line_of<P>(fragment, lane_line, ROW) + lane_pixel * PIECE, PIECE, parameters);
#pragma unroll
        for (int i = 0; i < 8; i++)
            *reinterpret_cast<uint32_t *>(square + line_of<P>(fragment, i / 4, ROW) + (i % 4 * 8 + g) * PIECE + 2 * q) =
                f16_pair::of_finite(y[i / 4][i % 4 / 2][i % 2 * 2], y[i / 4][i % 4 / 2][i % 2 * 2 + 1]);
    }
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < P::EACH; j++) {
        const int fragment = warp * P::EACH + j;
        const int column = at.left + (P::PIECES == 1 ? 2 * fragment : fragment);
        const bool is_there[2] = { (unsigned)column < (unsigned)t.a.wide, (unsigned)(column + 1) < (unsigned)t.a.wide };
        if (!is_there[0] && (P::PIECES == 2 || !is_there[1]))
            continue;
        float y[2][2][4];
        mix_fragment<P, f16_pair>(y, square + line_of<P>(fragment, lane_line, PIECE) + lane_pixel * ROW, ROW,
                                  parameters + P::PIECES * PARAMETERS);
        const int64_t row = (int64_t)t.a.wide * t.a.channels;
        uint16_t *const to = reinterpret_cast<uint16_t *>(t.a.y) + (at.image + column) * t.a.channels + at.channel +
                             2 * P::PIECES * q + (at.top + g) * row;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if ((unsigned)(at.top + i * 8 + g) >= (unsigned)t.a.h)
                continue;
            uint32_t pairs[2];
#pragma unroll
            for (int u = 0; u < 2; u++)
                pairs[u] = T::of(quick_gelu(y[u][i / 2][i % 2 * 2]), quick_gelu(y[u][i / 2][i % 2 * 2 + 1]));
            if constexpr (P::PIECES == 2) {
                if (is_there[0])
                    *reinterpret_cast<two_pairs *>(to + i * 8 * row) = two_pairs{ pairs[0], pairs[1] };
            } else {
#pragma unroll
                for (int u = 0; u < 2; u++)
                    if (is_there[u])
                        *reinterpret_cast<uint32_t *>(to + i * 8 * row + u * t.a.channels) = pairs[u];
            }
        }
    }
}

/* ---- launching ---- */

template <typename P, typename T> static void launch_plan(zn_device *d, half_square_task t)
{
    void (*const kernel)(half_square_task) = half_square<P, T>;
    t.chunks = t.a.channels / P::CHANNELS;
    launch_early(d, kernel, dim3((unsigned)((int64_t)t.a.n * t.down * t.across * t.chunks)), WARPS * 32,
                 P::PIECES * (sizeof(uint16_t) * SQUARE + sizeof(float) * 2 * PARAMETERS), t);
}

/* 16 channels, whose results are whole sectors of memory, unless part of the GPU would be idle. */
template <typename T> static void launch_type(zn_device *d, const half_square_task &t)
{
    const int64_t tiles = (int64_t)t.a.n * t.down * t.across;
    if (t.a.channels % 16 == 0 && tiles * (t.a.channels / 16) >= 3 * d->processors / 2)
        launch_plan<square_plan<true>, T>(d, t);
    else
        launch_plan<square_plan<false>, T>(d, t);
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
    for (int i = 0; i < 2; i++) {
        to_device(d, t.a.gate[i]);
        to_device(d, t.a.th[i]);
    }
    if (t.a.type == ZN_TYPE_BF16)
        launch_type<bf16_pair>(d, t);
    else
        launch_type<f16_pair>(d, t);
}

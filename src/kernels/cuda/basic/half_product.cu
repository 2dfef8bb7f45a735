/* Products of 16-bit numbers: tiles in shared memory, copied ahead, multiplied by the matrix unit. */
#include "kernels/cuda/basic/half_product.h"

#include "kernels/cuda/early.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/vector.h"

enum { EIGHT = 8, WARP = 32 };

/* How 8 warps share a tile of the result: WARPS_M x WARPS_N warps with MF x NF fragments each. DEPTH: of a slice of the
 * depth, of which STAGES are in shared memory. TURNED: the right factor lies as [depth][columns]. */
template <int WARPS_M_, int WARPS_N_, int MF_, int NF_, int DEPTH_, int STAGES_, bool TURNED_> struct plan {
    enum {
        DEPTH = DEPTH_,
        DEPTH_ROW = DEPTH + EIGHT,
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        MF = MF_,
        NF = NF_,
        TURNED = TURNED_,
        ROWS = WARPS_M * MF * 16,
        COLUMNS = WARPS_N * NF * 8,
        LEFT = ROWS * DEPTH_ROW,
        RIGHT_ROW = TURNED_ ? COLUMNS + EIGHT : DEPTH_ROW,
        STAGE = LEFT + (TURNED_ ? DEPTH : COLUMNS) * RIGHT_ROW, /* numbers */
        STAGES = STAGES_
    };
};

static inline __device__ void copy_eight(uint16_t *to, const void *from, int64_t at, bool is_there)
{
    const uint16_t *numbers = static_cast<const uint16_t *>(from) + (is_there ? at : 0);
    copy_async<16>(reinterpret_cast<float *>(to), reinterpret_cast<const float *>(numbers), is_there);
}

/* COUNT rows from `first`, a slice of each from k, of which there are `depth` numbers. */
template <typename P, int COUNT>
static __device__ void copy_rows(const void *from, int64_t stride, int64_t depth, int64_t rows, int64_t first,
                                 int64_t k, uint16_t *to)
{
    for (int i = (int)threadIdx.x; i < COUNT * (P::DEPTH / EIGHT); i += THREADS) {
        const int row = i / (P::DEPTH / EIGHT), at = i % (P::DEPTH / EIGHT) * EIGHT;
        copy_eight(to + row * P::DEPTH_ROW + at, from, (first + row) * stride + k + at,
                   first + row < rows && k + at < depth);
    }
}

template <typename P>
static __device__ void copy_stage(const half_product &t, int64_t row, int64_t column, int64_t k, uint16_t *to)
{
    if (t.more && k >= t.split)
        copy_rows<P, P::ROWS>(t.more, t.depth - t.split, t.depth - t.split, t.rows, row, k - t.split, to);
    else
        copy_rows<P, P::ROWS>(t.x, t.x_stride, t.more ? t.split : t.depth, t.rows, row, k, to);
    if constexpr (!P::TURNED) {
        copy_rows<P, P::COLUMNS>(t.w, t.w_stride, t.depth, t.columns, column, k, to + P::LEFT);
    } else {
        for (int i = (int)threadIdx.x; i < P::DEPTH * (P::COLUMNS / EIGHT); i += THREADS) {
            const int inner = i / (P::COLUMNS / EIGHT), at = i % (P::COLUMNS / EIGHT) * EIGHT;
            copy_eight(to + P::LEFT + inner * P::RIGHT_ROW + at, t.w, (k + inner) * t.w_stride + column + at,
                       k + inner < t.depth && column + at < t.columns);
        }
    }
}

/* NF x 8 columns by 16 of the depth from rows of the right factor; NF is even. */
template <int NF, int ROW> static __device__ void load_right_rows(const uint16_t *rows, uint32_t b[NF][2])
{
    const int lane = (int)threadIdx.x % WARP;
    const uint16_t *from = rows + (lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < NF; n += 2) {
        uint32_t r[4];
        load_four(r, from + n * 8 * ROW);
        b[n][0] = r[0];
        b[n][1] = r[1];
        b[n + 1][0] = r[2];
        b[n + 1][1] = r[3];
    }
}

template <typename P, typename T>
static __device__ void multiply_stage(const uint16_t *now, float sums[P::MF][P::NF][4])
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int row = warp / P::WARPS_N * P::MF * 16, column = warp % P::WARPS_N * P::NF * 8;
    const uint16_t *left = now + (row + lane % 16) * P::DEPTH_ROW + lane / 16 * 8, *right = now + P::LEFT;
#pragma unroll
    for (int k = 0; k < P::DEPTH; k += 16) {
        uint32_t a[P::MF][4], b[P::NF][2];
#pragma unroll
        for (int m = 0; m < P::MF; m++)
            load_four(a[m], left + m * 16 * P::DEPTH_ROW + k);
        if constexpr (P::TURNED)
            load_right<P::NF, P::RIGHT_ROW>(right + k * P::RIGHT_ROW + column, b);
        else
            load_right_rows<P::NF, P::DEPTH_ROW>(right + column * P::DEPTH_ROW + k, b);
#pragma unroll
        for (int m = 0; m < P::MF; m++)
#pragma unroll
            for (int n = 0; n < P::NF; n++)
                T::multiply_add(sums[m][n], a[m], b[n]);
    }
}

template <typename P>
static __device__ void write_tile(const half_product &t, int64_t row, int64_t column, const float sums[P::MF][P::NF][4])
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
    const int64_t stride = t.y_stride ? t.y_stride : t.columns;
    const bool by_two = stride % 2 == 0 && t.columns % 2 == 0;
#pragma unroll
    for (int i = 0; i < P::MF * P::NF * 2; i++) {
        const int m = i / 2 / P::NF, n = i / 2 % P::NF;
        const int64_t p = row + (warp / P::WARPS_N * P::MF + m) * 16 + i % 2 * 8 + g;
        const int64_t j = column + (warp % P::WARPS_N * P::NF + n) * 8 + 2 * q;
        if (p >= t.rows || j >= t.columns)
            continue;
        const bool second = j + 1 < t.columns;
        float2 v = make_float2(sums[m][n][i % 2 * 2] + (t.bias ? t.bias[j] : 0),
                               sums[m][n][i % 2 * 2 + 1] + (t.bias && second ? t.bias[j + 1] : 0));
        const int64_t at = p * stride + j;
        if (t.residual) {
            v.x += read_number(t.residual, at, t.residual_type);
            v.y += second ? read_number(t.residual, at + 1, t.residual_type) : 0;
        }
        if (t.relu) /* NaN passes */
            v = make_float2(v.x < 0 ? 0 : v.x, v.y < 0 ? 0 : v.y);
        if (by_two) {
            write_pair(t.y, at, t.y_type, v);
        } else {
            write_number(t.y, at, t.y_type, v.x);
            if (second)
                write_number(t.y, at + 1, t.y_type, v.y);
        }
    }
}

/* Whether y and the residual are made of whole pieces of eight numbers of 16 bits. */
static __device__ bool is_quick(const half_product &t)
{
    return t.y_type == t.type && t.columns % EIGHT == 0 && t.y_stride % EIGHT == 0 &&
           (!t.residual || t.residual_type == t.type) && ((uintptr_t)t.y | (uintptr_t)t.residual) % 16 == 0;
}

/* Writes such a tile through shared memory, in whole pieces. */
template <typename P, typename T>
static __device__ void write_pieces(const half_product &t, int64_t row, int64_t column,
                                    const float sums[P::MF][P::NF][4], float *shared)
{
    enum { ROW = P::COLUMNS + EIGHT, PIECES = P::COLUMNS / EIGHT };
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
    const int64_t stride = t.y_stride ? t.y_stride : t.columns;
    __syncthreads(); /* all have read the stages */
#pragma unroll
    for (int i = 0; i < P::MF * P::NF * 2; i++) {
        const int m = i / 2 / P::NF, n = i / 2 % P::NF;
        const int p = (warp / P::WARPS_N * P::MF + m) * 16 + i % 2 * 8 + g,
                  j = (warp % P::WARPS_N * P::NF + n) * 8 + 2 * q;
        *reinterpret_cast<float2 *>(shared + p * ROW + j) =
            make_float2(sums[m][n][i % 2 * 2], sums[m][n][i % 2 * 2 + 1]);
    }
    __syncthreads();
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < P::ROWS * PIECES; i += THREADS) {
        const int64_t p = row + i / PIECES, j = column + i % PIECES * EIGHT, at = p * stride + j;
        if (p >= t.rows || j >= t.columns)
            continue;
        const float4 *from = reinterpret_cast<const float4 *>(shared + i / PIECES * ROW + i % PIECES * EIGHT);
        const float4 low = from[0], high = from[1];
        float v[EIGHT] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
        uint4 r = {};
        if (t.residual)
            r = *reinterpret_cast<const uint4 *>(reinterpret_cast<const uint16_t *>(t.residual) + at);
        const uint32_t pairs[] = { r.x, r.y, r.z, r.w };
        uint32_t y[EIGHT / 2];
#pragma unroll
        for (int k = 0; k < EIGHT / 2; k++) {
            float a = v[2 * k] + (t.bias ? t.bias[j + 2 * k] : 0),
                  b = v[2 * k + 1] + (t.bias ? t.bias[j + 2 * k + 1] : 0);
            if (t.residual) {
                a += T::low(pairs[k]);
                b += T::high(pairs[k]);
            }
            if (t.relu) { /* NaN passes */
                a = a < 0 ? 0 : a;
                b = b < 0 ? 0 : b;
            }
            y[k] = T::of(a, b);
        }
        *reinterpret_cast<uint4 *>(reinterpret_cast<uint16_t *>(t.y) + at) = uint4{ y[0], y[1], y[2], y[3] };
    }
}

/* Neighbouring blocks share columns of the weights, and a few rows of x: both stay in the cache. */
template <typename P, typename T> __global__ void __launch_bounds__(THREADS, 2) multiply_half(half_product t)
{
    wait_for_last();
    extern __shared__ __align__(16) float zn_cuda_shared[];
    uint16_t *const shared = reinterpret_cast<uint16_t *>(zn_cuda_shared);
    const int64_t row = (int64_t)blockIdx.x * P::ROWS, column = (int64_t)blockIdx.y * P::COLUMNS;
    const int64_t slices = (t.depth + P::DEPTH - 1) / P::DEPTH;
    float sums[P::MF][P::NF][4] = {};
    for (int i = 0; i < P::STAGES - 1; i++) {
        if (i < slices)
            copy_stage<P>(t, row, column, i * P::DEPTH, shared + i * P::STAGE);
        copy_commit();
    }
    for (int64_t i = 0; i < slices; i++) {
        copy_wait<P::STAGES - 2>(); /* slice i has arrived for this thread, */
        __syncthreads();            /* for all threads, and all have read the previous stage */
        const int64_t next = i + P::STAGES - 1;
        if (next < slices)
            copy_stage<P>(t, row, column, next * P::DEPTH, shared + next % P::STAGES * P::STAGE);
        copy_commit();
        multiply_stage<P, T>(shared + i % P::STAGES * P::STAGE, sums);
    }
    if (is_quick(t))
        write_pieces<P, T>(t, row, column, sums, zn_cuda_shared);
    else
        write_tile<P>(t, row, column, sums);
}

/* ---- launching ---- */

static int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

template <typename P, typename T> static void launch_tiles(zn_device *d, const half_product &p)
{
    static_assert(sizeof(float) * P::ROWS * (P::COLUMNS + EIGHT) <= sizeof(uint16_t) * P::STAGES * P::STAGE,
                  "sums fit");
    void (*const kernel)(half_product) = multiply_half<P, T>;
    const dim3 grid((unsigned)parts_of(p.rows, P::ROWS), (unsigned)parts_of(p.columns, P::COLUMNS));
    launch_early(d, kernel, grid, THREADS, sizeof(uint16_t) * P::STAGES * P::STAGE, p);
}

/* Small tiles if large ones would leave most of the GPU idle; they wait for memory more than for products. Large ones
 * read whole lines of memory where the depth allows. */
template <typename T, bool TURNED> static void launch_half(zn_device *d, const half_product &p)
{
    typedef plan<2, 4, 4, 4, 64, 3, TURNED> deep;
    typedef plan<2, 4, 4, 4, 32, 4, TURNED> large;
    typedef plan<2, 4, 1, 2, 32, 8, TURNED> small;
    const int64_t tiles = parts_of(p.rows, large::ROWS) * parts_of(p.columns, large::COLUMNS);
    const bool fits = sizeof(uint16_t) * deep::STAGES * deep::STAGE <= (size_t)d->shared;
    if (3 * tiles <= d->processors || p.rows <= small::ROWS)
        launch_tiles<small, T>(d, p);
    else if (fits && p.depth % deep::DEPTH == 0 && p.split % deep::DEPTH == 0)
        launch_tiles<deep, T>(d, p);
    else
        launch_tiles<large, T>(d, p);
}

template <typename T> static void launch_type(zn_device *d, const half_product &p)
{
    if (p.turned)
        launch_half<T, true>(d, p);
    else
        launch_half<T, false>(d, p);
}

void zn_cuda_half_product(zn_device *d, const half_product &p)
{
    if (p.type == ZN_TYPE_BF16)
        launch_type<bf16_pair>(d, p);
    else
        launch_type<f16_pair>(d, p);
}

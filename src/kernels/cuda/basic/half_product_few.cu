/* Products of few rows (half_product.h), as 1x1 convolutions of small maps are: tiles of 16 rows by 64 columns, which
 * are more than tiles that share what they read. The warps of a thread block share the depth, so each has only one or
 * two rounds of loads to wait for, and all of their sums are added at the end.
 *
 * Both factors go from memory to the matrix unit. The order of the depth and of columns in a product is free: a lane
 * (g = lane / 4, q = lane % 4) reads 8 neighbours of rows g and g + 8, 8q to 8q+7 of 32, for two products; of the right
 * factor it reads 8 neighbouring columns, 8g to 8g+7 of 64, of the same 8 places of the depth. */
#include "kernels/cuda/basic/half_product.h"
#include "kernels/cuda/early.h"
#include "kernels/cuda/vector.h"

enum { ROWS = 16, COLUMNS = 64, WARPS = THREADS / 32, CHUNK = 32, AHEAD = 2, EIGHT = 8, PART_ROW = COLUMNS + 4 };

/* What a lane reads of 32 places of the depth. */
struct chunk {
    uint4 x[2], w[EIGHT];
};

static __device__ uint4 load_eight(const void *from, int64_t at)
{
    return *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(from) + at);
}

static __device__ void load_chunk(const half_product &t, int64_t row, int64_t column, int64_t k, chunk &c)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const bool more = t.more && k >= t.split;
    const void *const from = more ? t.more : t.x;
    const int64_t stride = more ? t.depth - t.split : t.x_stride, first = (more ? k - t.split : k) + EIGHT * q;
#pragma unroll
    for (int i = 0; i < 2; i++)
        c.x[i] = row + g + 8 * i < t.rows ? load_eight(from, (row + g + 8 * i) * stride + first) : uint4{};
#pragma unroll
    for (int i = 0; i < EIGHT; i++)
        c.w[i] = load_eight(t.w, (k + EIGHT * q + i) * t.w_stride + column + EIGHT * g);
}

static __device__ uint32_t pair_at(const uint4 &x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }
static __device__ uint32_t lows(uint32_t a, uint32_t b) { return (a & 0xffff) | b << 16; }
static __device__ uint32_t highs(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000u); }

/* sums[j] has column 8n + j of the tile as its column n. */
template <typename T> static __device__ void multiply_chunk(const chunk &c, float sums[EIGHT][4])
{
#pragma unroll
    for (int s = 0; s < 2; s++) {
        const uint32_t a[4] = { pair_at(c.x[0], 2 * s), pair_at(c.x[1], 2 * s), pair_at(c.x[0], 2 * s + 1),
                                pair_at(c.x[1], 2 * s + 1) };
        const uint4 *const w = c.w + 4 * s;
#pragma unroll
        for (int j = 0; j < EIGHT / 2; j++) {
            const uint32_t p[4] = { pair_at(w[0], j), pair_at(w[1], j), pair_at(w[2], j), pair_at(w[3], j) };
            const uint32_t even[2] = { lows(p[0], p[1]), lows(p[2], p[3]) };
            const uint32_t odd[2] = { highs(p[0], p[1]), highs(p[2], p[3]) };
            T::multiply_add(sums[2 * j], a, even);
            T::multiply_add(sums[2 * j + 1], a, odd);
        }
    }
}

/* Adds the sums of all warps, [WARPS][ROWS][PART_ROW], and writes four columns for each thread. */
static __device__ void write_tile(const half_product &t, int64_t row, int64_t column, const float *parts)
{
    const int r = (int)threadIdx.x / (COLUMNS / 4), at = (int)threadIdx.x % (COLUMNS / 4) * 4;
    const int64_t p = row + r, j = column + at, to = p * (t.y_stride ? t.y_stride : t.columns) + j;
    if (p >= t.rows)
        return;
    floats<4> y = {};
    if (t.bias)
        y = load<4>(t.bias + j, 0);
    if (t.residual) {
        const floats<4> more = load_as<4>(t.residual, to / 4, t.residual_type);
        for (int i = 0; i < 4; i++)
            y.v[i] += more.v[i];
    }
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const floats<4> part = load<4>(parts + (w * ROWS + r) * PART_ROW + at, 0);
        for (int i = 0; i < 4; i++)
            y.v[i] += part.v[i];
    }
    for (int i = 0; t.relu && i < 4; i++)
        y.v[i] = y.v[i] < 0 ? 0 : y.v[i]; /* NaN passes */
    store_as<4>(t.y, to / 4, t.y_type, y);
}

template <typename T> __global__ void __launch_bounds__(THREADS, 2) multiply_few(half_product t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    wait_for_last();
    const int64_t row = (int64_t)blockIdx.x * ROWS, column = (int64_t)blockIdx.y * COLUMNS;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, q = lane % 4;
    float sums[EIGHT][4] = {};
    for (int64_t from = warp * CHUNK; from < t.depth; from += AHEAD * WARPS * CHUNK) {
        chunk c[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (from + i * WARPS * CHUNK < t.depth)
                load_chunk(t, row, column, from + i * WARPS * CHUNK, c[i]);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (from + i * WARPS * CHUNK < t.depth)
                multiply_chunk<T>(c[i], sums);
    }
    float *const to = zn_cuda_shared + (warp * ROWS + g) * PART_ROW + 16 * q;
#pragma unroll
    for (int i = 0; i < 4; i++) /* rows g and g + 8, columns 2q and 2q + 1 of each product */
#pragma unroll
        for (int j = 0; j < EIGHT; j += 4)
            store<4>(to + i / 2 * 8 * PART_ROW + i % 2 * 8 + j, 0,
                     floats<4>{ { sums[j][i], sums[j + 1][i], sums[j + 2][i], sums[j + 3][i] } });
    __syncthreads();
    write_tile(t, row, column, zn_cuda_shared);
}

bool zn_cuda_half_product_few(zn_device *d, const half_product &p)
{
    const int64_t high = (p.rows + ROWS - 1) / ROWS, wide = p.columns / COLUMNS;
    const int64_t strides = p.x_stride | p.w_stride | p.y_stride;
    const uintptr_t addresses = (uintptr_t)p.x | (uintptr_t)p.more | (uintptr_t)p.w | (uintptr_t)p.bias |
                                (uintptr_t)p.y | (uintptr_t)p.residual;
    if (!p.turned || p.x_turned || high * wide > 3 * d->processors || p.depth % CHUNK || p.split % CHUNK ||
        p.columns % COLUMNS || strides % EIGHT || addresses % 16)
        return false;
    void (*const kernel)(half_product) = p.type == ZN_TYPE_BF16 ? multiply_few<bf16_pair> : multiply_few<f16_pair>;
    launch_early(d, kernel, dim3((unsigned)high, (unsigned)wide), THREADS, sizeof(float) * WARPS * ROWS * PART_ROW, p);
    return true;
}

/* Unpacks weights in their file format: base/quant.c has the diagrams of the blocks, base/mlx.h the codes of MLX. A
 * thread makes eight neighbours of a row, which always belong to one block and one scale. */
#include "kernels/cuda/basic/unpack.h"

#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

enum { EIGHT = 8 };

struct unpacking {
    zn_packed from;
    int64_t rows, columns, stride;
    zn_type type;
    float *to;
};

/* ---- numbers ---- */

/* A twin begins at a multiple of 256 bytes, and formats with numbers of two bytes have even sizes. */
static inline __device__ unsigned two_bytes(const uint8_t *b) { return *reinterpret_cast<const uint16_t *>(b); }
static inline __device__ uint32_t four_bytes(const uint8_t *b) { return two_bytes(b) | two_bytes(b + 2) << 16; }
static inline __device__ uint64_t eight_bytes(const uint8_t *b)
{
    return four_bytes(b) | (uint64_t)four_bytes(b + 4) << 32;
}
static inline __device__ float half_at(const uint8_t *b) { return f16_pair::low(two_bytes(b)); }
static inline __device__ float bfloat_at(const uint8_t *b) { return bf16_pair::low(two_bytes(b)); }

template <typename TO, typename FROM> static inline __device__ TO bits_as(FROM from)
{
    static_assert(sizeof(TO) == sizeof(FROM), "the same bits");
    union {
        FROM from;
        TO to;
    } u = { from };
    return u.to;
}

/* An FP8 number with `mantissa` bits: its fields at their places in a float, times the difference of the biases. */
static inline __device__ float fp8(unsigned v, int mantissa, float bias)
{
    const float magnitude = bits_as<float>((uint32_t)(v & 0x7f) << (23 - mantissa)) * bias;
    return v & 0x80 ? -magnitude : magnitude;
}
static inline __device__ float e4m3(unsigned v)
{
    return (v & 0x7f) == 0x7f ? bits_as<float>(0x7fc00000u) : fp8(v, 3, 0x1p120f);
}
static inline __device__ float e5m2(unsigned v)
{
    const uint32_t special = (v & 0x80) << 24 | 0x7f800000u | (v & 3) << 21;
    return (v & 0x7c) == 0x7c ? bits_as<float>(special) : fp8(v, 2, 0x1p112f);
}

/* Element `at` of numbers that are stored one by one. */
static __device__ float number_at(const uint8_t *row, zn_dtype dtype, int64_t at)
{
    switch (dtype) {
    case ZN_F64:
        return (float)bits_as<double>(eight_bytes(row + 8 * at));
    case ZN_F32:
        return reinterpret_cast<const float *>(row)[at];
    case ZN_F16:
        return half_at(row + 2 * at);
    case ZN_BF16:
        return bfloat_at(row + 2 * at);
    case ZN_I64:
        return (float)(int64_t)eight_bytes(row + 8 * at);
    case ZN_I32:
        return (float)(int32_t)four_bytes(row + 4 * at);
    case ZN_I16:
        return (float)(int16_t)two_bytes(row + 2 * at);
    case ZN_I8:
        return (float)(int8_t)row[at];
    case ZN_U64:
        return (float)eight_bytes(row + 8 * at);
    case ZN_U32:
        return (float)four_bytes(row + 4 * at);
    case ZN_U16:
        return (float)two_bytes(row + 2 * at);
    case ZN_U8:
        return (float)row[at];
    case ZN_BOOL:
        return row[at] ? 1.0f : 0.0f;
    case ZN_F8_E4M3:
        return e4m3(row[at]);
    case ZN_F8_E5M2:
        return e5m2(row[at]);
    default:
        return 0;
    }
}

/* ---- blocks: elements j to j + 7 ---- */

/* Four bits as halves: byte j has element j in its low bits and element j + 16 in its high bits. */
static inline __device__ int four_bits(const uint8_t *q, int j) { return j < 16 ? q[j] & 15 : q[j - 16] >> 4; }

static __device__ void block_of_32(const uint8_t *b, zn_dtype dtype, int j, float v[EIGHT])
{
    const bool has_minimum = dtype == ZN_Q4_1 || dtype == ZN_Q5_1, five = dtype == ZN_Q5_0 || dtype == ZN_Q5_1;
    const float d = half_at(b), m = has_minimum ? half_at(b + 2) : 0;
    b += has_minimum ? 4 : 2;
    const uint32_t high = five ? four_bytes(b) : 0;
    b += five ? 4 : 0;
    const int zero = dtype == ZN_Q4_0 ? 8 : dtype == ZN_Q5_0 ? 16 : 0;
    for (int i = 0; i < EIGHT; i++) {
        const int q = dtype == ZN_Q8_0 ? (int8_t)b[j + i] : four_bits(b, j + i) | (int)(high >> (j + i) & 1) << 4;
        v[i] = d * (float)(q - zero) + m;
    }
}

static __device__ void q2_k(const uint8_t *b, int j, float v[EIGHT])
{
    const int s = j / 16;
    const float scale = half_at(b + 80) * (float)(b[s] & 15), low = half_at(b + 82) * (float)(b[s] >> 4);
    const uint8_t *from = b + 16 + 32 * (s / 8) + 16 * (s % 2) + j % 16;
    for (int i = 0; i < EIGHT; i++)
        v[i] = scale * (float)(from[i] >> 2 * (s / 2 % 4) & 3) - low;
}

static __device__ void q3_k(const uint8_t *b, int j, float v[EIGHT])
{
    const uint8_t *packed = b + 96;
    const int s = j / 16, l = j % 16;
    const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4, high = packed[8 + s % 4] >> 2 * (s / 4) & 3;
    const float scale = half_at(b + 108) * (float)((low | high << 4) - 32);
    const uint8_t *from = b + 32 + 32 * (s / 8) + 16 * (s % 2) + l, *third = b + 16 * (s % 2) + l;
    for (int i = 0; i < EIGHT; i++)
        v[i] = scale * (float)((from[i] >> 2 * (s / 2 % 4) & 3) - (third[i] >> s / 2 & 1 ? 0 : 4));
}

static __device__ void q4_or_q5_k(const uint8_t *b, bool five, int j, float v[EIGHT])
{
    const int s = j / 32, l = j % 32;
    const uint8_t *p = b + 4, *fifth = b + 16 + l, *from = b + (five ? 48 : 16) + 32 * (s / 2) + l;
    const int scale = s < 4 ? p[s] & 63 : (p[s + 4] & 15) | p[s - 4] >> 6 << 4;
    const int minimum = s < 4 ? p[s + 4] & 63 : p[s + 4] >> 4 | p[s] >> 6 << 4;
    const float step = half_at(b) * (float)scale, low = half_at(b + 2) * (float)minimum;
    for (int i = 0; i < EIGHT; i++)
        v[i] = step * (float)((from[i] >> 4 * (s % 2) & 15) | (five ? (fifth[i] >> s & 1) << 4 : 0)) - low;
}

static __device__ void q6_k(const uint8_t *b, int j, float v[EIGHT])
{
    const int s = j / 16, h = s / 8, k = s / 2 % 4, l = 16 * (s % 2) + j % 16;
    const uint8_t *low = b + 64 * h + 32 * (k % 2) + l, *high = b + 128 + 32 * h + l;
    const float scale = half_at(b + 208) * (float)(int8_t)b[192 + s];
    for (int i = 0; i < EIGHT; i++)
        v[i] = scale * (float)(((low[i] >> 4 * (k / 2) & 15) | (high[i] >> 2 * k & 3) << 4) - 32);
}

/* `row`: the first block of the row. */
static __device__ void from_blocks(const uint8_t *row, zn_dtype dtype, int64_t at, float v[EIGHT])
{
    const int64_t k = at / 256;
    const int j = (int)(at % 256), sizes[] = { 18, 20, 22, 24, 34 };
    switch (dtype) {
    case ZN_Q2_K:
        return q2_k(row + 84 * k, j, v);
    case ZN_Q3_K:
        return q3_k(row + 110 * k, j, v);
    case ZN_Q4_K:
        return q4_or_q5_k(row + 144 * k, false, j, v);
    case ZN_Q5_K:
        return q4_or_q5_k(row + 176 * k, true, j, v);
    case ZN_Q6_K:
        return q6_k(row + 210 * k, j, v);
    default:
        return block_of_32(row + at / 32 * sizes[dtype - ZN_Q4_0], dtype, (int)(at % 32), v);
    }
}
static_assert(ZN_Q4_1 == ZN_Q4_0 + 1 && ZN_Q5_0 == ZN_Q4_0 + 2 && ZN_Q5_1 == ZN_Q4_0 + 3 && ZN_Q8_0 == ZN_Q4_0 + 4,
              "the order of the sizes");

/* ---- codes of MLX: eight of them are as many bytes as one has bits ---- */

static __device__ void from_codes(const zn_packed &m, int64_t row, int64_t at, float v[EIGHT])
{
    const int bits = m.form.bits;
    const uint8_t *codes = m.data + row * (int64_t)m.row_bytes + at * bits / 8;
    const int64_t group = row * (int64_t)m.groups + at / m.form.group;
    const float scale = number_at(m.scales, m.scale_dtype, group), bias = number_at(m.biases, m.bias_dtype, group);
    uint64_t all = 0;
    for (int i = 0; i < bits; i++)
        all |= (uint64_t)codes[i] << 8 * i;
    for (int i = 0; i < EIGHT; i++)
        v[i] = scale * (float)(unsigned)(all >> i * bits & ((1u << bits) - 1)) + bias;
}

/* ---- rows ---- */

/* Elements at to at + 7 of a row, without its scale. Those after the last column are zeros. */
static __device__ void eight_of(const unpacking &u, int64_t row, int64_t at, float v[EIGHT])
{
    const zn_packed &m = u.from;
    const uint8_t *data = m.data + row * (int64_t)m.row_bytes;
    if (m.form.bits)
        return from_codes(m, row, at, v);
    if (m.dtype >= ZN_Q4_0)
        return from_blocks(data, m.dtype, at, v);
    for (int i = 0; i < EIGHT; i++)
        v[i] = at + i < u.columns ? number_at(data, m.dtype, at + i) : 0;
}

static __device__ float scale_of(const zn_packed &m, int64_t row)
{
    return !m.scales || m.form.bits ? 1 : number_at(m.scales, m.scale_dtype, row * (int64_t)m.groups);
}

static __device__ void write_eight(const unpacking &u, int64_t row, int64_t at, const float v[EIGHT])
{
    const int64_t to = row * u.stride + at;
    for (int i = 0; i < EIGHT; i += 2)
        write_pair(u.to, to + i, u.type, make_float2(v[i], v[i + 1]));
}

static __global__ void unpack(unpacking u)
{
    const int64_t pieces = u.stride / EIGHT, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < u.rows * pieces; i += step) {
        const int64_t row = i / pieces, at = i % pieces * EIGHT;
        const float scale = scale_of(u.from, row);
        float v[EIGHT];
        eight_of(u, row, at, v);
        for (int k = 0; k < EIGHT; k++)
            v[k] *= scale;
        write_eight(u, row, at, v);
    }
}

/* Rotated rows: a block of threads has ZN_PACKED_ROTATED elements in shared memory, and turns them as
 * zn_packed_rotate does. Rows are a multiple of the group, so elements after the last column belong to no group. */
static __global__ void unpack_rotated(unpacking u)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int64_t pieces = (u.columns + ZN_PACKED_ROTATED - 1) / ZN_PACKED_ROTATED;
    const int64_t row = blockIdx.x / pieces, first = blockIdx.x % pieces * ZN_PACKED_ROTATED;
    const int t = (int)threadIdx.x;
    const bool is_there = first + t < u.columns;
    const uint8_t *data = u.from.data + row * (int64_t)u.from.row_bytes;
    zn_cuda_shared[t] = is_there ? number_at(data, u.from.dtype, first + t) : 0;
    for (int step = 1; step < u.from.rotated; step *= 4) {
        __syncthreads();
        const int mine = t / step % 4, base = t - mine * step;
        float sum = 0;
        for (int k = 0; k < 4; k++) /* element 3 - i of row i of the matrix is the negative one */
            sum += mine + k == 3 ? -zn_cuda_shared[base + k * step] : zn_cuda_shared[base + k * step];
        __syncthreads();
        zn_cuda_shared[t] = 0.5f * sum;
    }
    if (first + t < u.stride)
        write_number(u.to, row * u.stride + first + t, u.type,
                     is_there ? zn_cuda_shared[t] * scale_of(u.from, row) : 0);
}

void zn_cuda_unpack(zn_device *d, const zn_packed &from, int64_t rows, int64_t columns, int64_t stride, zn_type type,
                    void *to)
{
    const unpacking u = { from, rows, columns, stride, type, static_cast<float *>(to) };
    const int64_t pieces = (columns + ZN_PACKED_ROTATED - 1) / ZN_PACKED_ROTATED;
    if (from.rotated)
        launch(d, unpack_rotated, dim3((unsigned)(rows * pieces)), ZN_PACKED_ROTATED, sizeof(float) * ZN_PACKED_ROTATED,
               u);
    else
        launch(d, unpack, dim3(grid_of(rows * stride / EIGHT)), THREADS, 0, u);
}

void zn_cuda_convert_rows(zn_device *d, const void *from, zn_type from_type, int64_t rows, int64_t columns,
                          int64_t stride, zn_type type, void *to)
{
    zn_packed m = {};
    m.data = static_cast<const uint8_t *>(from);
    m.row_bytes = (size_t)columns * zn_type_size(from_type);
    m.dtype = from_type == ZN_TYPE_F32 ? ZN_F32 : from_type == ZN_TYPE_BF16 ? ZN_BF16 : ZN_F16;
    zn_cuda_unpack(d, m, rows, columns, stride, type, to);
}

struct rounding {
    const float *from;
    uint4 *to;
    int64_t pieces; /* of eight numbers */
};

template <typename T> __global__ void round_pieces(rounding r)
{
    for (int64_t i = first_unit(); i < r.pieces; i += unit_step()) {
        const floats<4> a = load<4>(r.from, 2 * i), b = load<4>(r.from, 2 * i + 1);
        r.to[i] = uint4{ T::of(a.v[0], a.v[1]), T::of(a.v[2], a.v[3]), T::of(b.v[0], b.v[1]), T::of(b.v[2], b.v[3]) };
    }
}

const void *zn_cuda_rounded(zn_device *d, const void *map, zn_type from, int64_t count, zn_type type, void *workspace)
{
    if (from == type)
        return map;
    const rounding r = { static_cast<const float *>(map), static_cast<uint4 *>(workspace), count / EIGHT };
    void (*const kernel)(rounding) = type == ZN_TYPE_BF16 ? round_pieces<bf16_pair> : round_pieces<f16_pair>;
    launch(d, kernel, dim3(grid_of(r.pieces)), THREADS, 0, r);
    return workspace;
}

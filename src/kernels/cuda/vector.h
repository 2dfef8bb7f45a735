/* Several floats per load or store. Included only by .cu files. */
#ifndef ZN_CUDA_VECTOR_H
#define ZN_CUDA_VECTOR_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.h"
#include "kernels/type.h"

#include <stdint.h>

/* N neighbouring floats, read and written by one instruction: N is 1, 2 or 4, and addresses are multiples of its size.
 */
template <int N> struct alignas(sizeof(float) * N) floats {
    float v[N];
};

template <int N> static __device__ floats<N> load(const float *from, int64_t i)
{
    return reinterpret_cast<const floats<N> *>(from)[i];
}

template <int N> static __device__ void store(float *to, int64_t i, const floats<N> &value)
{
    reinterpret_cast<floats<N> *>(to)[i] = value;
}

/* Types of the numbers of a map: how N of them are read as floats and written. N is 1 or 4. */
struct as_f32 {
    template <int N> static __device__ floats<N> load(const float *from, int64_t i) { return ::load<N>(from, i); }
    template <int N> static __device__ void store(float *to, int64_t i, const floats<N> &v) { ::store<N>(to, i, v); }
};

struct alignas(8) two_pairs {
    uint32_t low, high;
};

/* T: bf16_pair or f16_pair. */
template <typename T> struct as_short {
    template <int N> static __device__ floats<N> load(const float *from, int64_t i)
    {
        floats<N> v;
        if constexpr (N == 1) {
            v.v[0] = T::low(reinterpret_cast<const uint16_t *>(from)[i]);
        } else {
            const two_pairs p = reinterpret_cast<const two_pairs *>(from)[i];
            v = { { T::low(p.low), T::high(p.low), T::low(p.high), T::high(p.high) } };
        }
        return v;
    }
    template <int N> static __device__ void store(float *to, int64_t i, const floats<N> &v)
    {
        if constexpr (N == 1)
            reinterpret_cast<uint16_t *>(to)[i] = (uint16_t)T::of(v.v[0], 0);
        else
            reinterpret_cast<two_pairs *>(to)[i] = two_pairs{ T::of(v.v[0], v.v[1]), T::of(v.v[2], v.v[3]) };
    }
};
typedef as_short<bf16_pair> as_bf16;
typedef as_short<f16_pair> as_f16;

/* N numbers of a map whose type is known only when the kernel runs. N is 1 or 4; i counts vectors of N. */
template <int N> static __device__ floats<N> load_as(const float *map, int64_t i, zn_type type)
{
    return type == ZN_TYPE_F32    ? as_f32::load<N>(map, i)
           : type == ZN_TYPE_BF16 ? as_bf16::load<N>(map, i)
                                  : as_f16::load<N>(map, i);
}

template <int N> static __device__ void store_as(float *map, int64_t i, zn_type type, const floats<N> &v)
{
    if (type == ZN_TYPE_F32)
        as_f32::store<N>(map, i, v);
    else if (type == ZN_TYPE_BF16)
        as_bf16::store<N>(map, i, v);
    else
        as_f16::store<N>(map, i, v);
}

/* A number or two neighbours of a map whose type is known only when the kernel runs. For pairs, `at` is even and
 * addresses are multiples of their size. */
static inline __device__ float read_number(const float *map, int64_t at, zn_type type)
{
    if (type == ZN_TYPE_F32)
        return map[at];
    const uint16_t bits = reinterpret_cast<const uint16_t *>(map)[at];
    return type == ZN_TYPE_BF16 ? bf16_pair::low(bits) : f16_pair::low(bits);
}

static inline __device__ float2 read_pair(const float *map, int64_t at, zn_type type)
{
    if (type == ZN_TYPE_F32)
        return *reinterpret_cast<const float2 *>(map + at);
    const uint32_t pair = reinterpret_cast<const uint32_t *>(map)[at / 2];
    return type == ZN_TYPE_BF16 ? make_float2(bf16_pair::low(pair), bf16_pair::high(pair))
                                : make_float2(f16_pair::low(pair), f16_pair::high(pair));
}

static inline __device__ uint32_t pair_of(float2 x, zn_type type)
{
    return type == ZN_TYPE_BF16 ? bf16_pair::of(x.x, x.y) : f16_pair::of(x.x, x.y);
}

static inline __device__ void write_number(float *map, int64_t at, zn_type type, float x)
{
    if (type == ZN_TYPE_F32)
        map[at] = x;
    else
        reinterpret_cast<uint16_t *>(map)[at] = (uint16_t)pair_of(make_float2(x, 0), type);
}

static inline __device__ void write_pair(float *map, int64_t at, zn_type type, float2 x)
{
    if (type == ZN_TYPE_F32)
        *reinterpret_cast<float2 *>(map + at) = x;
    else
        reinterpret_cast<uint32_t *>(map)[at / 2] = pair_of(x, type);
}

/* Whether an address can be read with load<4>; true for NULL. */
static inline bool is_aligned(const void *address) { return (uintptr_t)address % sizeof(floats<4>) == 0; }

#endif

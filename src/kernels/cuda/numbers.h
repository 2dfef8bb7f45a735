/* Some neighbouring numbers of a map as they lie in memory, so that several loads of 16 bits take few registers.
 * Included only by .cu files. */
#ifndef ZN_CUDA_NUMBERS_H
#define ZN_CUDA_NUMBERS_H

#include "kernels/cuda/vector.h"

/* T: float, bf16_pair or f16_pair. */
template <typename T, int N> struct alignas(2 * N) numbers {
    uint32_t pair[N / 2];
    __device__ void get(float *v) const
    {
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            v[2 * i] = T::low(pair[i]);
            v[2 * i + 1] = T::high(pair[i]);
        }
    }
    __device__ void set(const float *v)
    {
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            pair[i] = T::of(v[2 * i], v[2 * i + 1]);
    }
};
template <typename T> struct numbers<T, 1> {
    uint16_t bits;
    __device__ void get(float *v) const { v[0] = T::low(bits); }
    __device__ void set(const float *v) { bits = (uint16_t)T::of(v[0], 0); }
};
template <int N> struct numbers<float, N> : floats<N> {
    __device__ void get(float *v) const
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = this->v[i];
    }
    __device__ void set(const float *v)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            this->v[i] = v[i];
    }
};
template <> struct numbers<float, 1> : floats<1> {
    __device__ void get(float *to) const { to[0] = v[0]; }
    __device__ void set(const float *from) { v[0] = from[0]; }
};

/* N numbers of a table of floats: 1, or a multiple of 4 from an address that is a multiple of 16 bytes. */
template <int N> static __device__ void read_table(const float *table, float (&v)[N])
{
    if constexpr (N == 1)
        v[0] = table[0];
    else
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const floats<4> part = load<4>(table + i, 0);
            for (int k = 0; k < 4; k++)
                v[i + k] = part.v[k];
        }
}

template <typename T> struct type_of;
template <> struct type_of<float> {
    static constexpr zn_type TYPE = ZN_TYPE_F32;
};
template <> struct type_of<bf16_pair> {
    static constexpr zn_type TYPE = ZN_TYPE_BF16;
};
template <> struct type_of<f16_pair> {
    static constexpr zn_type TYPE = ZN_TYPE_F16;
};

#endif

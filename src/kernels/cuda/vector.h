/* Several floats per load or store. Included only by .cu files. */
#ifndef ZN_CUDA_VECTOR_H
#define ZN_CUDA_VECTOR_H

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

/* Whether an address can be read with load<4>; true for NULL. */
static inline bool is_aligned(const void *address) { return (uintptr_t)address % sizeof(floats<4>) == 0; }

#endif

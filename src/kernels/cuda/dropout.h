/* Which elements dropout sets to 0: as kernels/dropout.h. Included only by .cu files. */
#ifndef ZN_CUDA_DROPOUT_H
#define ZN_CUDA_DROPOUT_H

extern "C" {
#include "kernels/dropout.h"
}

#include <stddef.h>
#include <stdint.h>

static inline __device__ uint32_t dropout_scrambled(uint32_t h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}
static inline __device__ uint32_t dropout_key(float seed, uint32_t place)
{
    return dropout_scrambled(dropout_scrambled((uint32_t)seed) + place);
}
static inline __device__ bool dropout_drops(uint32_t i, uint32_t key, uint32_t limit)
{
    return dropout_scrambled(i * 0x9e3779b1u ^ key) < limit;
}

/* What a kernel gets for the dropout of a layer. */
struct dropout_task {
    const float *seeds; /* of all maps; NULL: nothing is dropped */
    uint32_t place, limit;
    float factor; /* what is kept is multiplied with it */
};
static inline dropout_task dropout_of(const float *seeds, uint32_t place, float share)
{
    return dropout_task{ seeds, place, zn_dropout_limit(share), 1 / (1 - share) };
}

/* The dropout of one map. */
struct dropping {
    bool drops;
    uint32_t key, limit;
    float factor;
    __device__ dropping(const dropout_task &t, int64_t map)
        : drops(t.seeds != NULL), key(drops ? dropout_key(t.seeds[map], t.place) : 0), limit(t.limit), factor(t.factor)
    {
    }
    /* i: index of the first of the numbers in its map */
    template <int N> __device__ void apply(float (&x)[N], uint32_t i) const
    {
        if (!drops)
            return;
#pragma unroll
        for (int k = 0; k < N; k++)
            x[k] = dropout_drops(i + (uint32_t)k, key, limit) ? 0 : factor * x[k];
    }
};

#endif

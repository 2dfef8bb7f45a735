/* Attention of 16-bit maps (zn_attention_narrow). Included only by .cu files. */
#ifndef ZN_CUDA_ATTENTION_HALF_H
#define ZN_CUDA_ATTENTION_HALF_H

#include "kernels/cuda/sequence/attention.h"
#include "kernels/cuda/vector.h"

void attention_half(zn_device *d, const attention_task &t);
/* The same for rows of more than 128 numbers (zn_attention_is_wide). */
void attention_products(zn_device *d, const attention_task &t);
/* The same where there are few keys. Returns false if there are not, or the rows do not suit it. */
bool attention_few(zn_device *d, const attention_task &t);
/* The same with the matrix unit of Hopper GPUs. Returns false if it is no such GPU, or the rows do not suit it. */
bool attention_wgmma(zn_device *d, const attention_task &t);

/* The largest, or the sum, over the four lanes that have a row of the matrix unit's sums. */
static inline __device__ float largest_of_four(float x)
{
    for (int mask = 1; mask < 4; mask *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, mask);
        x = other > x ? other : x;
    }
    return x;
}
static inline __device__ float sum_of_four(float x)
{
    for (int mask = 1; mask < 4; mask *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    return x;
}

/* Writes two rows of a head's results, this thread's and the one eight below: sums in the order of the matrix unit,
 * over the sums of their weights. base: where the head's row 0 is. */
template <int WIDTH>
static __device__ void write_rows(const attention_task &t, int64_t base, int64_t query, const softmax rows[2],
                                  const float *y)
{
    const int q = (int)threadIdx.x % 4;
    for (int i = 0; i < 2; i++) {
        const float sum = sum_of_four(rows[i].sum), factor = sum == 0 ? 0 : 1 / sum; /* 0: it attends to nothing */
        if (query + 8 * i >= t.a.queries)
            continue;
        const int64_t row = base + (query + 8 * i) * t.a.y.step;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
            if (n * 8 < t.a.width)
                write_pair(t.a.y.data, row + n * 8 + 2 * q, t.a.type,
                           make_float2(factor * y[4 * n + 2 * i], factor * y[4 * n + 2 * i + 1]));
    }
}

#endif

/* Transposes rows into columns, for panels of gemm.h. */
#ifndef ZN_SIMD_TURN_H
#define ZN_SIMD_TURN_H

#include "kernels/simd/vec_math.h"

/* to[k * across + c] = rows[c * step + k], c < count, k < depth. */
static inline void turn(const float *rows, int64_t step, int count, int depth, float *to, int64_t across)
{
    int c = 0;
    for (; c + 4 <= count; c += 4) {
        const float *from = rows + c * step;
        int k = 0;
        for (; k + 4 <= depth; k += 4)
            transpose4(to + k * across + c, across, from + k, from + step + k, from + 2 * step + k,
                       from + 3 * step + k);
        for (; k < depth; k++)
            for (int i = 0; i < 4; i++)
                to[k * across + c + i] = from[i * step + k];
    }
    for (; c < count; c++)
        for (int k = 0; k < depth; k++)
            to[k * across + c] = rows[c * step + k];
}

#endif

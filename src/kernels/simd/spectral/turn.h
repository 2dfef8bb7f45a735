/* Transposes rows into columns, for panels of gemm.h. */
#ifndef ZN_SIMD_TURN_H
#define ZN_SIMD_TURN_H

#include "kernels/simd/vec_math.h"

/* to[k * across + c] = rows[c * step + k], c < count, k < depth. All columns of a few k before the next: a row of `to`
 * is written at once, while it is in the cache. */
static inline void turn(const float *rows, int64_t step, int count, int depth, float *to, int64_t across)
{
    const int whole = depth / 4 * 4, fours = count / 4 * 4;
    for (int k = 0; k < whole; k += 4)
        for (int c = 0; c < fours; c += 4) {
            const float *from = rows + c * step + k;
            transpose4(to + k * across + c, across, from, from + step, from + 2 * step, from + 3 * step);
        }
    for (int k = 0; k < depth; k++)
        for (int c = k < whole ? fours : 0; c < count; c++)
            to[k * across + c] = rows[c * step + k];
}

#endif

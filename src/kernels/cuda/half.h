/* Fragments of 16-bit numbers for the matrix unit. Included only by .cu files. */
#ifndef ZN_CUDA_HALF_H
#define ZN_CUDA_HALF_H

#include "kernels/cuda/ptx.h"

/* Loads 16 rows by NF x 8 columns from shared memory, as the right factor of T::multiply_add. ROW: numbers between
 * rows. */
template <int NF, int ROW> static __device__ void load_right(const uint16_t *rows, uint32_t b[NF][2])
{
    const int lane = (int)threadIdx.x % 32;
    const uint16_t *from = rows + lane % 16 * ROW;
    if constexpr (NF == 1) {
        load_two_turned(b[0], from);
    } else {
#pragma unroll
        for (int n = 0; n < NF; n += 2) {
            uint32_t r[4];
            load_four_turned(r, from + (n + lane / 16) * 8);
            b[n][0] = r[0];
            b[n][1] = r[1];
            b[n + 1][0] = r[2];
            b[n + 1][1] = r[3];
        }
    }
}

#endif

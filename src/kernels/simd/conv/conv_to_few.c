/* 3x3 convolution from many channels to at most three, on vectors. */
#include "kernels/simd/vec.h"

/* Sums, pixels and a vector of weights fit the registers; 66, a strip with its border, is a multiple of each. */
enum { SIDE = VEC_LANES == 16 ? 6 : VEC_LANES == 8 ? 3 : 2 };
#include "kernels/simd/conv/to_few.h"

enum { VECTORS = COLUMNS / VEC_LANES };

static void multiply(const float *const x[SIDE], int channels, int64_t ahead, const float *w, float *z)
{
    for (int c = 0; c < channels; c += 16)
        for (int i = 0; i < SIDE; i++)
            __builtin_prefetch(x[i] + c + ahead);
    vec sum[SIDE][VECTORS];
#pragma GCC unroll 6
    for (int i = 0; i < SIDE; i++)
#pragma GCC unroll 7
        for (int u = 0; u < VECTORS; u++)
            sum[i][u] = vec_splat(0);
    for (int c = 0; c < channels; c++, w += COLUMNS) {
        vec pixel[SIDE];
#pragma GCC unroll 6
        for (int i = 0; i < SIDE; i++)
            pixel[i] = vec_splat(x[i][c]);
#pragma GCC unroll 7
        for (int u = 0; u < VECTORS; u++) {
            const vec weights = vec_load(w + u * VEC_LANES);
#pragma GCC unroll 6
            for (int i = 0; i < SIDE; i++)
                sum[i][u] = vec_fma(pixel[i], weights, sum[i][u]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < SIDE; i++)
#pragma GCC unroll 7
        for (int u = 0; u < VECTORS; u++)
            vec_store(z + i * COLUMNS + u * VEC_LANES, sum[i][u]);
}

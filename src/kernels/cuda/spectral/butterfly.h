/* The Walsh-Hadamard transform of values in registers, and the spectral mixing of tiles. Included only by .cu files. */
#ifndef ZN_CUDA_BUTTERFLY_H
#define ZN_CUDA_BUTTERFLY_H

#include <stdint.h>

/* x = H x for N values, N a power of two. */
template <int N> static __device__ void transform(float (&x)[N])
{
#pragma unroll
    for (int len = 1; len < N; len *= 2)
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!(i & len)) {
                const float a = x[i], b = x[i + len];
                x[i] = a + b;
                x[i + len] = a - b;
            }
}

/* Source position of position i of a line of n values that is extended by reflection without repeating the edge. Tiles
 * reach at most a few lines beyond it, so a loop is shorter than a division. */
static inline __device__ int64_t reflect(int64_t i, int64_t n)
{
    while (i < 0 || i >= n)
        i = n == 1 ? 0 : i < 0 ? -i : 2 * (n - 1) - i;
    return i;
}

/* x = P values of a line of n that is extended by reflection, from position `first`; `step` floats apart. */
template <int P>
static __device__ void load_tile(float (&x)[P], const float *line, int64_t first, int64_t n, int64_t step)
{
    if (first >= 0 && first + P <= n) {
#pragma unroll
        for (int i = 0; i < P; i++)
            x[i] = line[(first + i) * step];
    } else {
#pragma unroll
        for (int i = 0; i < P; i++)
            x[i] = line[reflect(first + i, n) * step];
    }
}

/* Soft threshold; NaN passes through. */
static inline __device__ float soft(float v, float threshold)
{
    const float m = fabsf(v) - fabsf(threshold);
    return m <= 0 ? 0 : copysignf(m, v);
}

/* x = Q soft(gate .* Q x, |th|) with Q = H / sqrt P. Parameters of consecutive positions are `step` floats apart. */
template <int P>
static __device__ void mix_tile(float (&x)[P], const float *gate, const float *th, int step, float scale)
{
    transform(x);
#pragma unroll
    for (int i = 0; i < P; i++)
        x[i] = soft(gate[i * step] * (x[i] * scale), th[i * step]) * scale;
    transform(x);
}

#endif

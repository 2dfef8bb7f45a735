/* The register-blocked product all fp32 convolutions rest on:
 *
 *     c[t][j] = sum over segments s and k of a[s][t][k] * b[s][k][j]        t < rows <= GEMM_MR, j < width <= GEMM_NR
 *
 * A row of a is a run of multipliers, with any stride between rows and between segments. b is a packed panel,
 * [segment][k][width], width a whole number of vectors. The order of the sum over (s,k) is the same for every block shape,
 * so how rows are grouped does not change a bit of the result. */
#ifndef ZN_GEMM_H
#define ZN_GEMM_H

#include "kernels/simd/vec.h"
#if defined(__aarch64__)
#include "kernels/arm/gemm_neon.h"
#endif

/* What fills the registers: rows * vectors accumulators, and room for a row of the panel and the multipliers. */
#define GEMM_NV (VEC_REGISTERS / 8)
enum { GEMM_NR = GEMM_NV * VEC_LANES, GEMM_MR = 6 };

typedef struct gemm_a {
    const float *a;
    int64_t row, segment; /* strides in floats */
    int segments, k;
} gemm_a;

/* mr and nv are constants at every call, so that the accumulators live in registers. */
VEC_INLINE void gemm_block(const int mr, const int nv, const gemm_a *in, const float *b, float *c, int64_t ldc)
{
    vec acc[GEMM_MR][GEMM_NV];
#pragma GCC unroll 8
    for (int t = 0; t < mr; t++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[t][j] = vec_splat(0);
    for (int s = 0; s < in->segments; s++) {
        const float *a = in->a + s * in->segment;
        int k = 0;
        for (; k + VEC_STEP <= in->k; k += VEC_STEP) {
            vec_multipliers m[GEMM_MR];
#pragma GCC unroll 8
            for (int t = 0; t < mr; t++)
                m[t] = vec_load_multipliers(a + t * in->row + k);
#define LANE(lane)                                                                                                     \
    _Pragma("GCC unroll 4") for (int j = 0; j < nv; j++)                                                               \
    {                                                                                                                  \
        const vec bj = vec_load(b + ((lane)*nv + j) * VEC_LANES);                                                      \
        _Pragma("GCC unroll 8") for (int t = 0; t < mr; t++) acc[t][j] = vec_fma_lane(m[t], lane, bj, acc[t][j]);      \
    }
            LANE(0)
#if defined(__ARM_NEON)
            LANE(1)
            LANE(2)
            LANE(3)
#endif
#undef LANE
            b += VEC_STEP * nv * VEC_LANES;
        }
        for (; VEC_STEP > 1 && k < in->k; k++, b += nv * VEC_LANES)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) {
                const vec bj = vec_load(b + j * VEC_LANES);
#pragma GCC unroll 8
                for (int t = 0; t < mr; t++)
                    acc[t][j] = vec_fma(vec_splat(a[t * in->row + k]), bj, acc[t][j]);
            }
    }
#pragma GCC unroll 8
    for (int t = 0; t < mr; t++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            vec_store(c + t * ldc + j * VEC_LANES, acc[t][j]);
}

typedef void (*gemm_kernel)(const gemm_a *a, const float *b, float *c, int64_t ldc);

#define DEFINE(mr, nv)                                                                                                 \
    static void gemm_##mr##x##nv(const gemm_a *a, const float *b, float *c, int64_t ldc)                               \
    {                                                                                                                  \
        gemm_block(mr, nv, a, b, c, ldc);                                                                              \
    }
#define COLUMN(nv) DEFINE(1, nv) DEFINE(2, nv) DEFINE(3, nv) DEFINE(4, nv) DEFINE(5, nv) DEFINE(6, nv)
#define ENTRIES(nv) { gemm_1x##nv, gemm_2x##nv, gemm_3x##nv, gemm_4x##nv, gemm_5x##nv, gemm_6x##nv }
COLUMN(1)
COLUMN(2)
#if GEMM_NV == 4
COLUMN(3)
COLUMN(4)
static const gemm_kernel gemm_kernels[GEMM_NV][GEMM_MR] = { ENTRIES(1), ENTRIES(2), ENTRIES(3), ENTRIES(4) };
#else
static const gemm_kernel gemm_kernels[GEMM_NV][GEMM_MR] = { ENTRIES(1), ENTRIES(2) };
#endif
#undef DEFINE
#undef COLUMN
#undef ENTRIES

#if defined(__aarch64__)
static void gemm_full(const gemm_a *in, const float *b, float *c, int64_t ldc)
{
    static const float zero[16];
    const float *init = zero;
    int64_t step = 0;
    for (int s = 0; s < in->segments; s++, init = c, step = ldc)
        gemm_6x16_neon(in->a + s * in->segment, in->row, b + (int64_t)s * in->k * 16, in->k / 4, init, step, c, ldc);
}
#endif

/* rows <= GEMM_MR; width a multiple of VEC_LANES, at most GEMM_NR. */
VEC_INLINE void gemm(int rows, int width, const gemm_a *a, const float *b, float *c, int64_t ldc)
{
#if defined(__aarch64__)
    if (rows == 6 && width == 16 && a->k % 4 == 0 && a->segments > 0) {
        gemm_full(a, b, c, ldc);
        return;
    }
#endif
    gemm_kernels[width / VEC_LANES - 1][rows - 1](a, b, c, ldc);
}

#endif

/* The register-blocked product all fp32 convolutions rest on:
 *
 *     c[t][j] = sum over segments s and k of a[s][t][k] * b[s][k][j]        t < rows, j < width <= GEMM_NR
 *
 * A row of a is a run of multipliers, with any stride between rows and between segments. b is a packed panel,
 * [segment][k][width], width a whole number of vectors. The order of the sum over (s,k) is the same for every block shape,
 * so how rows are grouped does not change a bit of the result. */
#ifndef ZN_GEMM_H
#define ZN_GEMM_H

#include "kernels/simd/vec.h"

#include <stdbool.h>
#if defined(__aarch64__)
#include "kernels/arm/gemm_neon.h"
#endif

/* What fills the registers: rows * vectors accumulators, and room for a row of the panel and the multipliers. */
#define GEMM_NV (VEC_REGISTERS / 8)
enum { GEMM_NR = GEMM_NV * VEC_LANES, GEMM_MR = 6, GEMM_K_LEAST = 2 * VEC_STEP /* for gemm_fast */ };

typedef struct gemm_args {
    const float *a, *b;
    float *c;
    int64_t row, segment, c_row;      /* strides of a and c in floats */
    int segments, k;
    bool more;                        /* add to what c holds */
    /* What the next product reads and writes, fetched into the cache meanwhile; all NULL: unknown. */
    const float *ahead_a, *ahead_b, *ahead_c;
    const float *ahead_far;           /* what will be needed after that */
} gemm_args;

/* mr and nv are constants at every call, so that the accumulators live in registers. */
VEC_INLINE void gemm_block(const int mr, const int nv, const gemm_args *in)
{
    const float *b = in->b;
    vec acc[GEMM_MR][GEMM_NV];
#pragma GCC unroll 8
    for (int t = 0; t < mr; t++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[t][j] = in->more ? vec_load(in->c + t * in->c_row + j * VEC_LANES) : vec_splat(-0.0f); /* -0 + p is p */
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
            vec_store(in->c + t * in->c_row + j * VEC_LANES, acc[t][j]);
}

typedef void (*gemm_kernel)(const gemm_args *g);

#define DEFINE(mr, nv)                                                                                                 \
    static void gemm_##mr##x##nv(const gemm_args *g) { gemm_block(mr, nv, g); }
#define DEFINE_ALL(nv) DEFINE(1, nv) DEFINE(2, nv) DEFINE(3, nv) DEFINE(4, nv) DEFINE(5, nv) DEFINE(6, nv)
#define ENTRIES(nv)                                                                                                    \
    {                                                                                                                  \
        gemm_1x##nv, gemm_2x##nv, gemm_3x##nv, gemm_4x##nv, gemm_5x##nv, gemm_6x##nv                                   \
    }
DEFINE_ALL(1)
DEFINE_ALL(2)
#if GEMM_NV == 4
DEFINE_ALL(3)
DEFINE_ALL(4)
static const gemm_kernel gemm_kernels[GEMM_NV][GEMM_MR] = { ENTRIES(1), ENTRIES(2), ENTRIES(3), ENTRIES(4) };
#else
static const gemm_kernel gemm_kernels[GEMM_NV][GEMM_MR] = { ENTRIES(1), ENTRIES(2) };
#endif
#undef DEFINE
#undef DEFINE_ALL
#undef ENTRIES

/* How many of the rows the assembly of this ISA has done: whole blocks of full width, or none. */
VEC_INLINE int gemm_fast(const gemm_args *g, int rows, int width)
{
#if defined(__aarch64__)
    if (width != 16 || g->k % 4 != 0 || g->k < 8 || g->segments < 1 || rows < 6)
        return 0;
    gemm_6x16_neon((gemm_6x16){ .a = g->a,
                                .b = g->b,
                                .c = g->c,
                                .ahead_a = g->ahead_a ? g->ahead_a : g->a,
                                .ahead_b = g->ahead_a ? g->ahead_b : g->b,
                                .ahead_c = g->ahead_a ? g->ahead_c : g->b,
                                .ahead_far = g->ahead_a ? g->ahead_far : g->b,
                                .ahead_step = g->ahead_a ? 16 : 0,
                                .row = g->row,
                                .segment = g->segment,
                                .c_row = g->c_row,
                                .blocks = rows / 6,
                                .segments = g->segments,
                                .groups = g->k / 4,
                                .more = g->more });
    return rows / 6 * 6;
#else
    (void)g, (void)rows, (void)width;
    return 0;
#endif
}

/* Any number of rows; width a multiple of VEC_LANES, at most GEMM_NR. */
VEC_INLINE void gemm(const gemm_args *g, int rows, int width)
{
    for (int done = gemm_fast(g, rows, width); done < rows; done += GEMM_MR) {
        gemm_args part = *g;
        part.a = g->a + done * g->row;
        part.c = g->c + done * g->c_row;
        gemm_kernels[width / VEC_LANES - 1][(rows - done < GEMM_MR ? rows - done : GEMM_MR) - 1](&part);
    }
}

#endif

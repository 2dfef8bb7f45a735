/* Sums of outer products, for weight gradients:
 *
 *     c[i][j] (+)= sum over k of a[k][i] * b[k][j]        i < rows, j < width
 *
 * Both factors are read in place, pixel by pixel with any stride, so nothing is packed. The order of the sum over k
 * is the same for every block shape: the grouping of rows does not change the bits. */
#ifndef ZN_OUTER_H
#define ZN_OUTER_H

#include "kernels/simd/vec.h"

#include <stdbool.h>

/* Accumulators of a block: rows by vectors, leaving registers for a row of b and the multipliers. */
#if defined(__ARM_NEON)
enum { OUTER_MR = 8, OUTER_NV = 2 };
#elif VEC_REGISTERS == 32
enum { OUTER_MR = 6, OUTER_NV = 4 };
#else
enum { OUTER_MR = 6, OUTER_NV = 2 };
#endif
enum { OUTER_NR = OUTER_NV * VEC_LANES };

typedef struct outer_args {
    const float *a, *b;
    float *c;
    int64_t a_step, b_step; /* from one k to the next, in floats */
    int64_t c_row;
    int k;
    bool more; /* add to c */
} outer_args;

/* One k: broadcast multipliers or, for a whole block on NEON, lanes of two vectors of multipliers. */
VEC_INLINE void outer_step(const int mr, const int nv, const float *a, const float *b, vec acc[OUTER_MR][OUTER_NV])
{
    vec bj[OUTER_NV];
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        bj[j] = vec_load(b + j * VEC_LANES);
#if defined(__ARM_NEON)
    if (mr == 8) {
        const vec_multipliers low = vec_load_multipliers(a), high = vec_load_multipliers(a + 4);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            acc[0][j] = vec_fma_lane(low, 0, bj[j], acc[0][j]);
            acc[1][j] = vec_fma_lane(low, 1, bj[j], acc[1][j]);
            acc[2][j] = vec_fma_lane(low, 2, bj[j], acc[2][j]);
            acc[3][j] = vec_fma_lane(low, 3, bj[j], acc[3][j]);
            acc[4][j] = vec_fma_lane(high, 0, bj[j], acc[4][j]);
            acc[5][j] = vec_fma_lane(high, 1, bj[j], acc[5][j]);
            acc[6][j] = vec_fma_lane(high, 2, bj[j], acc[6][j]);
            acc[7][j] = vec_fma_lane(high, 3, bj[j], acc[7][j]);
        }
        return;
    }
#endif
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++) {
        const vec m = vec_splat(a[i]);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[i][j] = vec_fma(m, bj[j], acc[i][j]);
    }
}

/* mr and nv are compile-time constants at every call, so that the accumulators stay in registers. */
VEC_INLINE void outer_block(const int mr, const int nv, const outer_args *in)
{
    const float *a = in->a, *b = in->b;
    vec acc[OUTER_MR][OUTER_NV];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[i][j] = in->more ? vec_load(in->c + i * in->c_row + j * VEC_LANES) : vec_splat(-0.0f); /* -0 + p is p */
    for (int k = 0; k < in->k; k++, a += in->a_step, b += in->b_step)
        outer_step(mr, nv, a, b, acc);
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            vec_store(in->c + i * in->c_row + j * VEC_LANES, acc[i][j]);
}

typedef void (*outer_kernel)(const outer_args *g);

#define DEFINE(mr, nv)                                                                                                 \
    static void outer_##mr##x##nv(const outer_args *g) { outer_block(mr, nv, g); }
#define DEFINE_SIX(nv) DEFINE(1, nv) DEFINE(2, nv) DEFINE(3, nv) DEFINE(4, nv) DEFINE(5, nv) DEFINE(6, nv)
#define SIX(nv)        outer_1x##nv, outer_2x##nv, outer_3x##nv, outer_4x##nv, outer_5x##nv, outer_6x##nv
DEFINE_SIX(1)
DEFINE_SIX(2)
#if defined(__ARM_NEON)
DEFINE(7, 1)
DEFINE(8, 1)
DEFINE(7, 2)
DEFINE(8, 2)
static const outer_kernel outer_kernels[OUTER_NV][OUTER_MR] = { { SIX(1), outer_7x1, outer_8x1 },
                                                                { SIX(2), outer_7x2, outer_8x2 } };
#elif VEC_REGISTERS == 32
DEFINE_SIX(3)
DEFINE_SIX(4)
static const outer_kernel outer_kernels[OUTER_NV][OUTER_MR] = { { SIX(1) }, { SIX(2) }, { SIX(3) }, { SIX(4) } };
#else
static const outer_kernel outer_kernels[OUTER_NV][OUTER_MR] = { { SIX(1) }, { SIX(2) } };
#endif
#undef DEFINE
#undef DEFINE_SIX
#undef SIX

/* Any number of rows; width is a multiple of VEC_LANES. */
static void outer(const outer_args *g, int rows, int width)
{
    for (int j = 0; j < width; j += OUTER_NR) {
        const int across = width - j < OUTER_NR ? width - j : OUTER_NR;
        for (int i = 0; i < rows; i += OUTER_MR) {
            const int high = rows - i < OUTER_MR ? rows - i : OUTER_MR;
            outer_args part = *g;
            part.a = g->a + i;
            part.b = g->b + j;
            part.c = g->c + i * g->c_row + j;
            outer_kernels[across / VEC_LANES - 1][high - 1](&part);
        }
    }
}

#endif

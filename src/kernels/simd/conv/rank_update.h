/* The product that sums over rows (pixels), for weight gradients:
 *
 *     c[i][j] += sum over p of a[p][i] * b[p][j]        i < high, j < wide, p < rows
 *
 * Blocks of 4 x RANK_NV vectors of c stay in registers while p runs; each element is summed in the order of p. */
#ifndef ZN_RANK_H
#define ZN_RANK_H

#include "kernels/simd/vec.h"

#define RANK_NV (VEC_REGISTERS / 8)
enum { RANK_MR = 4 };

typedef struct rank_args {
    const float *a, *b;
    float *c;
    int64_t a_row, b_row, c_row; /* strides in floats */
    int rows;
} rank_args;

VEC_INLINE vec rank_load(const float *p, int n) { return n == VEC_LANES ? vec_load(p) : vec_load_part(p, n); }

/* mr and nv are compile-time constants at every call; the last vector has `last` lanes. */
VEC_INLINE void rank_block(const int mr, const int nv, const rank_args *in, const float *a, const float *b, float *c,
                           int last)
{
    vec acc[RANK_MR][RANK_NV];
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[i][j] = rank_load(c + i * in->c_row + j * VEC_LANES, j == nv - 1 ? last : VEC_LANES);
    for (int p = 0; p < in->rows; p++, a += in->a_row, b += in->b_row) {
        vec bj[RANK_NV];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            bj[j] = rank_load(b + j * VEC_LANES, j == nv - 1 ? last : VEC_LANES);
#pragma GCC unroll 4
        for (int i = 0; i < mr; i++) {
            const vec m = vec_splat(a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = vec_fma(m, bj[j], acc[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < nv - 1; j++)
            vec_store(c + i * in->c_row + j * VEC_LANES, acc[i][j]);
        float *end = c + i * in->c_row + (nv - 1) * VEC_LANES;
        if (last == VEC_LANES)
            vec_store(end, acc[i][nv - 1]);
        else
            vec_store_part(end, acc[i][nv - 1], last);
    }
}

#define RANK_ROWS(nv, last)                                                                                            \
    for (int i = 0; i < high;) {                                                                                       \
        const float *a = in->a + i;                                                                                    \
        float *c = in->c + i * in->c_row + j;                                                                          \
        if (high - i >= RANK_MR)                                                                                       \
            rank_block(RANK_MR, nv, in, a, in->b + j, c, last);                                                        \
        else                                                                                                           \
            rank_block(1, nv, in, a, in->b + j, c, last);                                                              \
        i += high - i >= RANK_MR ? RANK_MR : 1;                                                                        \
    }

static void rank_update(const rank_args *in, int high, int wide)
{
    int j = 0;
    for (; j + RANK_NV * VEC_LANES <= wide; j += RANK_NV * VEC_LANES)
        RANK_ROWS(RANK_NV, VEC_LANES)
#if RANK_NV > 2
    for (; j + 2 * VEC_LANES <= wide; j += 2 * VEC_LANES)
        RANK_ROWS(2, VEC_LANES)
#endif
    for (; j + VEC_LANES <= wide; j += VEC_LANES)
        RANK_ROWS(1, VEC_LANES)
    if (j < wide) {
        const int last = wide - j;
        RANK_ROWS(1, last)
    }
}
#undef RANK_ROWS

#endif

/* The register-blocked product used by all fp32 convolutions:
 *
 *     c[t][j] = sum over segments s and k of a[s][t][k] * b[s][k][j]        t < rows, j < width
 *
 * A row of a is a run of multipliers, with any stride between rows and between segments. b is packed in panels of
 * GEMM_NR outputs, [segment][k][GEMM_NR]; the last panel is narrower, rounded up to whole vectors. The order of the
 * sum over (s,k) is the same for every block shape, so the grouping of rows does not change the bits of the result. */
#ifndef ZN_GEMM_H
#define ZN_GEMM_H

#include "kernels/simd/vec.h"

#include <stdbool.h>

/* Register budget: rows * vectors accumulators, plus a row of the panel and the multipliers. A panel of one vector
 * uses twice the rows: six independent sums would not hide the latency of the multiply-add. */
#define GEMM_NV (VEC_REGISTERS / 8)
enum { GEMM_NR = GEMM_NV * VEC_LANES, GEMM_MR = 6, GEMM_MR_ONE = 12, GEMM_K_LEAST = 2 * VEC_STEP /* for assembly */ };
enum { GEMM_PANELS_MOST = 16 }; /* whose memory is prefetched */

typedef struct gemm_args {
    const float *a, *b;
    float *c;
    int64_t row, segment, c_row; /* strides of a and c in floats */
    int segments, k;
    int depth, skip; /* rows of a panel of b, and how many of them to skip at the start */
    bool more;       /* add to c */
    /* Memory to prefetch meanwhile: `ahead_floats` floats from `ahead`, which the next product multiplies; and for
     * each panel a run of gemm_fetches cache lines. NULL: none. */
    const float *ahead, *far[GEMM_PANELS_MOST];
    int ahead_floats;
    /* Without assembly: each row prefetches a line for every 16 multipliers from `ahead` on, or if b is read once and
     * comes from memory (`streams`), its share of the panel after this one. every: set by gemm_from. */
    bool streams;
    int every; /* multipliers for which a row prefetches a line; a power of two */
} gemm_args;

/* Cache lines of far[p] that are prefetched while panel p is multiplied; only the assembly build does this. */
enum { GEMM_FETCHES = VEC_STEP == 4 };
VEC_INLINE int gemm_fetches(const gemm_args *g, int rows)
{
    return GEMM_FETCHES ? rows / GEMM_MR * (g->segments * (g->k / 4 - 1) - !g->more) / 2 : 0;
}

/* Multiplies one lane of the multipliers m with a row of the panel. */
#define GEMM_LANE(lane)                                                                                                \
    _Pragma("GCC unroll 4") for (int j = 0; j < nv; j++)                                                               \
    {                                                                                                                  \
        const vec bj = vec_load(b + ((lane)*nv + j) * VEC_LANES);                                                      \
        _Pragma("GCC unroll 12") for (int t = 0; t < mr; t++) acc[t][j] = vec_fma_lane(m[t], lane, bj, acc[t][j]);     \
    }

/* Prefetches a line for each row. */
#define GEMM_FETCH                                                                                                     \
    if (ahead && (k & between) == 0) {                                                                                 \
        _Pragma("GCC unroll 12") for (int t = 0; t < mr; t++) __builtin_prefetch(ahead + 16 * t);                      \
        ahead += 16 * mr;                                                                                              \
    }

/* mr and nv are compile-time constants at every call, so that the accumulators stay in registers. */
VEC_INLINE void gemm_block(const int mr, const int nv, const gemm_args *in)
{
    const float *b = in->b, *ahead = in->ahead;
    const int between = in->every - 1;
    vec acc[GEMM_MR_ONE][GEMM_NV];
#pragma GCC unroll 12
    for (int t = 0; t < mr; t++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[t][j] = in->more ? vec_load(in->c + t * in->c_row + j * VEC_LANES) : vec_splat(-0.0f); /* -0 + p is p */
    for (int s = 0; s < in->segments; s++) {
        const float *a = in->a + s * in->segment;
        int k = 0;
#if defined(__ARM_NEON)
        for (; k + VEC_STEP <= in->k; k += VEC_STEP, b += VEC_STEP * nv * VEC_LANES) {
            vec_multipliers m[GEMM_MR_ONE];
            GEMM_FETCH
#pragma GCC unroll 12
            for (int t = 0; t < mr; t++)
                m[t] = vec_load_multipliers(a + t * in->row + k);
            GEMM_LANE(0)
            GEMM_LANE(1)
            GEMM_LANE(2)
            GEMM_LANE(3)
        }
#endif
        for (; k < in->k; k++, b += nv * VEC_LANES) {
            vec bj[GEMM_NV];
            GEMM_FETCH
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                bj[j] = vec_load(b + j * VEC_LANES);
#pragma GCC unroll 12
            for (int t = 0; t < mr; t++) {
                const vec m = vec_splat(a[t * in->row + k]);
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++)
                    acc[t][j] = vec_fma(m, bj[j], acc[t][j]);
            }
        }
    }
#pragma GCC unroll 12
    for (int t = 0; t < mr; t++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            vec_store(in->c + t * in->c_row + j * VEC_LANES, acc[t][j]);
}

typedef void (*gemm_kernel)(const gemm_args *g);

#define DEFINE(mr, nv)                                                                                                 \
    static void gemm_##mr##x##nv(const gemm_args *g) { gemm_block(mr, nv, g); }
#define DEFINE_ALL(nv) DEFINE(1, nv) DEFINE(2, nv) DEFINE(3, nv) DEFINE(4, nv) DEFINE(5, nv) DEFINE(6, nv)
#define NAMES(nv)      gemm_1x##nv, gemm_2x##nv, gemm_3x##nv, gemm_4x##nv, gemm_5x##nv, gemm_6x##nv
#define NAMES_ONE      NAMES(1), gemm_7x1, gemm_8x1, gemm_9x1, gemm_10x1, gemm_11x1, gemm_12x1
DEFINE_ALL(1)
DEFINE(7, 1)
DEFINE(8, 1)
DEFINE(9, 1)
DEFINE(10, 1)
DEFINE(11, 1)
DEFINE(12, 1)
DEFINE_ALL(2)
#if GEMM_NV == 4
DEFINE_ALL(3)
DEFINE_ALL(4)
static const gemm_kernel gemm_kernels[GEMM_NV][GEMM_MR_ONE] = {
    { NAMES_ONE }, { NAMES(2) }, { NAMES(3) }, { NAMES(4) }
};
#else
static const gemm_kernel gemm_kernels[GEMM_NV][GEMM_MR_ONE] = { { NAMES_ONE }, { NAMES(2) } };
#endif
#undef DEFINE
#undef DEFINE_ALL
#undef NAMES
#undef NAMES_ONE

/* Any number of rows; width is a multiple of VEC_LANES. b is a sequence of panels, [depth][GEMM_NR]; the last one is
 * narrower. A microkernel (see CMakeLists.txt): conv/gemm.c, in simd/ or in the folder of the ISA. */
void ZN_KERNEL(gemm)(const gemm_args *g, int rows, int width);

/* How many multipliers of each row fetch a line, so that all rows fetch a panel. */
VEC_INLINE int gemm_every(int rows)
{
    int every = 1;
    while (every < 16 && 2 * every * (GEMM_NR / 16) <= rows)
        every *= 2;
    return every;
}

/* The same, but skips the first `done` rows for whole panels. The last two blocks are alike: a block of one or two
 * rows would take nearly as long as one of four. */
VEC_INLINE void gemm_from(int done, const gemm_args *g, int rows, int width)
{
    for (int j = 0; j < width; j += GEMM_NR) {
        const int across = width - j < GEMM_NR ? width - j : GEMM_NR;
        const int most = across == VEC_LANES ? GEMM_MR_ONE : GEMM_MR;
        for (int t = across == GEMM_NR ? done : 0, high; t < rows; t += high) {
            const int left = rows - t;
            high = left <= most ? left : left < 2 * most ? (left + 1) / 2 : most;
            gemm_args part = *g;
            part.a = g->a + t * g->row;
            part.b = g->b + (int64_t)g->depth * j + g->skip * across;
            part.c = g->c + t * g->c_row + j;
            part.every = g->streams ? gemm_every(rows) : 16;
            const float *ahead = g->streams ? part.b + (int64_t)g->depth * across : j == 0 ? g->ahead : NULL;
            part.ahead = ahead ? ahead + (int64_t)t * (g->k / part.every * 16) : NULL;
            gemm_kernels[across / VEC_LANES - 1][high - 1](&part);
        }
    }
}

#endif

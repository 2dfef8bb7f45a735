/* Four groups of a 1x1 convolution with interleaved outputs, on NEON: four pixels by one or two vectors of outputs
 * of two groups, then of the other two, so that whole cache lines of a pixel are written. Pixels are stored as
 * planes, [deep of all groups / 4][pixel][4], so that all loads are sequential. Each sum is computed in the order of
 * gemm.h, starting with the bias. */
#ifndef ZN_GROUP_QUAD_H
#define ZN_GROUP_QUAD_H

#include "kernels/simd/vec.h"

#include <stdbool.h>

enum { QUAD = 4 };

typedef struct group_quad {
    const float *x;     /* [4 * deep / 4][plane / 4 pixels][4] */
    const float *w;     /* packed */
    const float *start; /* [4][wide] */
    float *y;           /* [pixel][wide][4] */
    int64_t plane;
    int deep, wide; /* size of one group, multiples of four */
} group_quad;

/* Whether quads support groups of deep x wide. */
static inline bool group_quads_do(int groups, int deep, int wide)
{
    return VEC_STEP == 4 && groups == QUAD && deep % 4 == 0 && wide % 4 == 0;
}

#if defined(__ARM_NEON)

/* Vectors of outputs of a group computed at once. */
static int quad_vectors(int wide) { return wide % 8 == 0 ? 2 : 1; }

/* to[4][4] = w[4][4] transposed; from_row and to_row are the strides of the rows in floats. */
VEC_INLINE void quad_turn(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    const vec a = vec_load(from), b = vec_load(from + from_row);
    const vec c = vec_load(from + 2 * from_row), d = vec_load(from + 3 * from_row);
    const vec ac = vzip1q_f32(a, c), bd = vzip1q_f32(b, d), ac2 = vzip2q_f32(a, c), bd2 = vzip2q_f32(b, d);
    vec_store(to, vzip1q_f32(ac, bd));
    vec_store(to + to_row, vzip2q_f32(ac, bd));
    vec_store(to + 2 * to_row, vzip1q_f32(ac2, bd2));
    vec_store(to + 3 * to_row, vzip2q_f32(ac2, bd2));
}

/* From w[4][wide][deep] to [columns][pair of groups][deep][group of the pair][column]. The number of columns is the
 * number of lanes in quad_vectors. */
static void group_quad_pack(const float *w, int deep, int wide, float *to)
{
    const int columns = 4 * quad_vectors(wide);
    for (int j = 0; j < wide; j += columns)
        for (int pair = 0; pair < QUAD; pair += 2, to += (int64_t)deep * 2 * columns)
            for (int i = 0; i < 2 * columns; i += 4) {
                const float *from = w + ((int64_t)(pair + i / columns) * wide + j + i % columns) * deep;
                for (int k = 0; k < deep; k += 4)
                    quad_turn(from + k, deep, to + (int64_t)k * 2 * columns + i, 2 * columns);
            }
}

/* Products of lane `lane` of four pixels of two groups. */
#define QUAD_LANE(lane)                                                                                                \
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++)      \
    {                                                                                                                  \
        const vec wj = vec_load(w + 4 * (((lane)*2 + i) * vectors + j));                                               \
        _Pragma("GCC unroll 4") for (int p = 0; p < 4; p++) sum[i][j][p] =                                             \
            vec_fma_lane(m[i][p], lane, wj, sum[i][j][p]);                                                             \
    }

/* Sums of two groups that are `other` floats apart in x. */
VEC_INLINE void quad_sums(const int vectors, const group_quad *g, const float *x, const float *w, const float *start,
                          vec sum[2][2][4])
{
    const int64_t plane = g->plane, other = g->deep / 4 * plane;
    const float *const end = x + other;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++)
#pragma GCC unroll 4
            for (int p = 0; p < 4; p++)
                sum[i][j][p] = vec_load(start + i * g->wide + 4 * j);
    for (; x < end; x += plane, w += 32 * vectors) {
        vec m[2][4];
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++)
#pragma GCC unroll 4
            for (int p = 0; p < 4; p++)
                m[i][p] = vec_load(x + i * other + 4 * p);
        QUAD_LANE(0)
        QUAD_LANE(1)
        QUAD_LANE(2)
        QUAD_LANE(3)
    }
}
#undef QUAD_LANE

/* Four pixels from x, outputs from 4j of each group; stores the first `count`. */
VEC_INLINE void quad_block(const int vectors, const group_quad *g, const float *x, const float *w, int j, float *y,
                           int count)
{
    float first[2][2][4][4];
    vec sum[2][2][4];
    quad_sums(vectors, g, x, w, g->start + 4 * j, sum);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
#pragma GCC unroll 4
            for (int p = 0; p < 4; p++)
                vec_store(first[i][v][p], sum[i][v][p]);
    quad_sums(vectors, g, x + g->deep / 2 * g->plane, w + 8 * vectors * g->deep, g->start + 2 * g->wide + 4 * j, sum);
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
        if (p < count)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                const vec p0 = vec_load(first[0][v][p]), p1 = vec_load(first[1][v][p]);
                const vec a = vzip1q_f32(p0, sum[0][v][p]), b = vzip2q_f32(p0, sum[0][v][p]);
                const vec c = vzip1q_f32(p1, sum[1][v][p]), d = vzip2q_f32(p1, sum[1][v][p]);
                vec_store_pair(y + 16 * v, vzip1q_f32(a, c), vzip2q_f32(a, c));
                vec_store_pair(y + 16 * v + 8, vzip1q_f32(b, d), vzip2q_f32(b, d));
            }
        y += QUAD * g->wide;
    }
}

VEC_INLINE void quad_columns(const int vectors, const group_quad *g, int pixels)
{
    const float *w = g->w;
    for (int j = 0; j < g->wide / 4; j += vectors, w += 16 * vectors * g->deep)
        for (int p = 0; p < pixels; p += 4)
            quad_block(vectors, g, g->x + 4 * p, w, j, g->y + (int64_t)p * QUAD * g->wide + 16 * j, pixels - p);
}

/* x holds pixels in whole groups of four; the content of the padding does not matter. */
static void group_quads(const group_quad *g, int pixels)
{
    if (quad_vectors(g->wide) == 2)
        quad_columns(2, g, pixels);
    else
        quad_columns(1, g, pixels);
}

#endif

#endif

/* Transforms of Winograd's convolution with 8-point tiles: points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity.
 *
 *     Y = A' [ (G g G') . (B' d B) ] A
 *
 * The input transform B' is the same for 6 outputs of 3 taps and for 7 outputs of 2 taps; only A' and G differ. Vectors run over
 * channels, so every function here is written for one position and does VEC_LANES channels of it. */
#ifndef ZN_WINOGRAD_H
#define ZN_WINOGRAD_H

#include "kernels/simd/vec.h"

/* o = B' d: the coefficients are those of the polynomials prod (x - p) over all points but one. */
VEC_INLINE void winograd_input(const vec d[8], vec o[8])
{
    const vec k525 = vec_splat(5.25f), k425 = vec_splat(4.25f), k125 = vec_splat(1.25f), k25 = vec_splat(2.5f);
    const vec k4 = vec_splat(4), k5 = vec_splat(5), k2 = vec_splat(2), half = vec_splat(0.5f), quarter = vec_splat(0.25f);
    o[0] = vec_fma(k525, d[4] - d[2], d[0] - d[6]);
    o[7] = vec_fma(k525, d[3] - d[5], d[7] - d[1]);
    const vec even1 = vec_fms(k425, d[4], d[2] + d[6]), odd1 = vec_fms(k425, d[3], d[1] + d[5]);
    o[1] = even1 + odd1;
    o[2] = even1 - odd1;
    const vec even2 = vec_fma(quarter, d[2], vec_fms(k125, d[4], d[6]));
    const vec odd2 = vec_fma(half, d[1], vec_fms(k25, d[3], k2 * d[5]));
    o[3] = even2 + odd2;
    o[4] = even2 - odd2;
    const vec even3 = vec_fma(k4, d[2], vec_fms(k5, d[4], d[6]));
    const vec odd3 = vec_fma(k2, d[1], vec_fms(k25, d[3], half * d[5]));
    o[5] = even3 + odd3;
    o[6] = even3 - odd3;
}

/* o = A' m: output j is the sum of m[i] * point_i^j; infinity counts for the last one. outputs is 6 or 7, a constant. */
VEC_INLINE void winograd_output(const int outputs, const vec m[8], vec o[7])
{
    const vec s1 = m[1] + m[2], d1 = m[1] - m[2];
    const vec s2 = m[3] + m[4], d2 = m[3] - m[4];
    const vec s3 = m[5] + m[6], d3 = m[5] - m[6];
    o[0] = m[0] + s1 + (s2 + s3);
    o[1] = vec_fma(vec_splat(2), d2, vec_fma(vec_splat(1.0f / 2), d3, d1));
    o[2] = vec_fma(vec_splat(4), s2, vec_fma(vec_splat(1.0f / 4), s3, s1));
    o[3] = vec_fma(vec_splat(8), d2, vec_fma(vec_splat(1.0f / 8), d3, d1));
    o[4] = vec_fma(vec_splat(16), s2, vec_fma(vec_splat(1.0f / 16), s3, s1));
    const vec o5 = vec_fma(vec_splat(32), d2, vec_fma(vec_splat(1.0f / 32), d3, d1));
    if (outputs == 6) {
        o[5] = o5 + m[7];
    } else {
        o[5] = o5;
        o[6] = vec_fma(vec_splat(64), s2, vec_fma(vec_splat(1.0f / 64), s3, s1 + m[7]));
    }
}

/* u = G g G' of one channel pair, in double: taps 3 or 2, g[taps][taps]. */
static inline void winograd_filter(int taps, const double *g, double u[8][8])
{
    static const double point[7] = { 0, 1, -1, 2, -2, 0.5, -0.5 };
    double G[8][3] = { { 0 } };
    for (int i = 0; i < 7; i++) {
        double n = i == 0 ? -1 : 1; /* the sign row 0 of B' was given */
        for (int j = 0; j < 7; j++)
            n *= j == i ? 1 : point[i] - point[j];
        for (int k = 0; k < taps; k++)
            G[i][k] = (k == 0 ? 1 : k == 1 ? point[i] : point[i] * point[i]) / n;
    }
    G[7][taps - 1] = 1;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            double sum = 0;
            for (int k = 0; k < taps; k++)
                for (int l = 0; l < taps; l++)
                    sum += G[i][k] * g[k * taps + l] * G[j][l];
            u[i][j] = sum;
        }
}

#endif

/* Transposed Winograd transforms for weight gradients, with the points of winograd.h. The forward pass is Y = A' [
 * (G g G') . (B' d B) ] A, so
 *
 *     dg = G' [ sum over tiles of (B' d B) . (A dY A') ] G
 *
 * A expands the 6 gradients of an axis to 8 points; G' reduces 8 points to 3 taps. */
#ifndef ZN_WINOGRAD_GRAD_H
#define ZN_WINOGRAD_GRAD_H

#include "kernels/simd/conv/winograd.h"

/* o = A d, the transpose of winograd_output for 6 outputs. */
VEC_INLINE void winograd_spread(const vec d[6], vec o[8])
{
    const vec four = vec_splat(4), quarter = vec_splat(0.25f), two = vec_splat(2), half = vec_splat(0.5f);
    const vec even1 = d[0] + d[2] + d[4], odd1 = d[1] + d[3] + d[5];
    const vec even2 = vec_fma(quarter, d[0], vec_fma(four, d[4], d[2]));
    const vec odd2 = vec_fma(half, d[1], vec_fma(two, d[3], vec_splat(8) * d[5]));
    const vec even3 = vec_fma(four, d[0], vec_fma(quarter, d[4], d[2]));
    const vec odd3 = vec_fma(two, d[1], vec_fma(half, d[3], vec_splat(0.125f) * d[5]));
    o[0] = d[0];
    o[1] = even1 + odd1;
    o[2] = even1 - odd1;
    o[3] = even2 + odd2;
    o[4] = even2 - odd2;
    o[5] = even3 + odd3;
    o[6] = even3 - odd3;
    o[7] = d[5];
}

/* o = G' u: powers of the points divided by the products of their distances, scaled as in winograd_pack.h. */
VEC_INLINE void winograd_gather(const vec u[8], vec o[3])
{
    const vec ones = vec_splat(-2.0f / 9), low = vec_splat(2.0f / 45), mid = vec_splat(4.0f / 45),
              high = vec_splat(8.0f / 45);
    const vec s1 = u[1] + u[2], d1 = u[1] - u[2];
    const vec s2 = u[3] + u[4], d2 = u[3] - u[4];
    const vec s3 = u[5] + u[6], d3 = u[5] - u[6];
    o[0] = vec_fma(ones, s1, vec_fma(low, s2, vec_fma(high, s3, u[0])));
    o[1] = vec_fma(ones, d1, mid * (d2 + d3));
    o[2] = vec_fma(ones, s1, vec_fma(high, s2, vec_fma(low, s3, u[7])));
}

VEC_INLINE void winograd_spread_step(const int wide, const float *const d[6], int at, float *to, int64_t step)
{
    vec o[2][8];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec in[6];
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++)
            in[i] = vec_load(d[i] + at + k * VEC_LANES);
        winograd_spread(in, o[k]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        winograd_store(wide, to + at + i * step, o[0][i], o[wide - 1][i]);
}

/* Transforms `channels` of six runs of gradients into eight runs `step` floats apart, in whole vectors. */
VEC_INLINE void winograd_spread_all(const float *const runs[6], int channels, float *to, int64_t step)
{
    const float *const d[6] = { runs[0], runs[1], runs[2], runs[3], runs[4], runs[5] };
    int c = 0;
    for (; c + WINOGRAD_WIDE * VEC_LANES <= channels; c += WINOGRAD_WIDE * VEC_LANES)
        winograd_spread_step(WINOGRAD_WIDE, d, c, to, step);
    for (; c + VEC_LANES <= channels; c += VEC_LANES)
        winograd_spread_step(1, d, c, to, step);
    if (c < channels) {
        vec in[6], o[8];
        for (int i = 0; i < 6; i++)
            in[i] = vec_load_part(d[i] + c, channels - c);
        winograd_spread(in, o);
        for (int i = 0; i < 8; i++)
            vec_store(to + c + i * step, o[i]);
    }
}

#endif

/* The weights of conv_winograd.c: for each phase the taps it needs, transformed to U = G g G' and laid out for gemm.h.
 * Done in double, for all outputs of a panel at once: training packs anew at every step. */
#ifndef ZN_WINOGRAD_PACK_H
#define ZN_WINOGRAD_PACK_H

#include "kernels/simd/winograd_plan.h"

/* Taps of one axis of a phase as sums of the three taps of the kernel: tap j takes w[i] where bit i of mask[j] is set.
 */
static inline void phase_taps(const zn_conv_shape *s, int phase, unsigned mask[3])
{
    mask[0] = 1, mask[1] = 2, mask[2] = 4;
    if (s->up2) /* phase 0 sees rows -1 0 0 of the small map, phase 1 rows 0 0 1 */
        mask[0] = phase ? 3 : 1, mask[1] = phase ? 4 : 6;
    else if (s->stride == 2)
        mask[0] = phase ? 2 : 1, mask[1] = phase ? 0 : 4;
}

/* G of winograd.h's points: powers of each, over the product of its distances to the others. */
static inline void filter_matrix(int taps, double G[8][3])
{
    static const double point[7] = { 0, 1, -1, 2, -2, 0.5, -0.5 };
    memset(G, 0, sizeof(double) * 8 * 3);
    for (int i = 0; i < 7; i++) {
        double n = i == 0 ? -1 : 1; /* the sign row 0 of B' was given */
        for (int j = 0; j < 7; j++)
            n *= j == i ? 1 : point[i] - point[j];
        n *= point[i] * point[i] == 4 ? 0.25 : point[i] * point[i] == 0.25 ? 4 : 1; /* what A' expects */
        for (int k = 0; k < taps; k++)
            G[i][k] = (k == 0 ? 1 : k == 1 ? point[i] : point[i] * point[i]) / n;
    }
    G[7][taps - 1] = 1;
}

/* u[64][across] of input channel i and outputs [o, o + across) of a phase; w begins at that channel and output. */
static inline void filter_panel(const zn_conv_shape *s, int taps, int phase, const float *w, int across,
                                double u[POINTS][GEMM_NR])
{
    double G[8][3], g[3][3][GEMM_NR] = { { { 0 } } }, half[8][3][GEMM_NR];
    unsigned rows[3], cols[3];
    filter_matrix(taps, G);
    phase_taps(s, phase / 2, rows);
    phase_taps(s, phase % 2, cols);
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++)
            for (int t = 0; t < 9; t++)
                for (int o = 0; (rows[i] >> t / 3 & 1) && (cols[j] >> t % 3 & 1) && o < across; o++)
                    g[i][j][o] += (double)w[(int64_t)t * s->cin * s->cout + o];
    for (int f = 0; f < 8; f++)
        for (int j = 0; j < taps; j++)
            for (int o = 0; o < across; o++) {
                half[f][j][o] = 0;
                for (int i = 0; i < taps; i++)
                    half[f][j][o] += G[f][i] * g[i][j][o];
            }
    for (int f = 0; f < POINTS; f++)
        for (int o = 0; o < across; o++) {
            u[f][o] = 0;
            for (int j = 0; j < taps; j++)
                u[f][o] += half[f / 8][j][o] * G[f % 8][j];
        }
}

/* U: [out phase][group][chunk][frequency][panel of GEMM_NR outputs][k of the chunk][outputs of the panel] */
static inline void winograd_pack(const zn_conv_shape *s, const plan *p, const float *w, float *packed)
{
    const int pieces = ceil_div(p->cin_p, p->kc);
    memset(packed, 0, sizeof(float) * POINTS * (size_t)p->k * (size_t)p->cout_p * (size_t)p->out_phases);
    for (int phase = 0; phase < p->in_phases * p->out_phases; phase++)
        for (int i = 0; i < s->cin; i++) {
            const int k = i + (p->in_phases > 1 ? phase * p->cin_p : 0), out = p->out_phases > 1 ? phase : 0;
            const chunk c = chunk_of(p, p->chunks == 1 ? 0 : k / p->cin_p * pieces + k % p->cin_p / p->kc);
            for (int o = 0; o < s->cout;) {
                const int group = o / p->group * p->group, width = least(p->group, p->cout_p - group), at = o - group;
                const int across = least(GEMM_NR, width - at), real = least(across, s->cout - o);
                double u[POINTS][GEMM_NR];
                filter_panel(s, p->taps, phase, w + (int64_t)i * s->cout + o, real, u);
                float *to = packed + (int64_t)POINTS * (p->k * (int64_t)(out * p->cout_p + group) + c.before * width) +
                            (int64_t)c.k * at + (int64_t)(k - c.before) * across;
                for (int f = 0; f < POINTS; f++, to += (int64_t)c.k * width)
                    for (int j = 0; j < real; j++)
                        to[j] = (float)u[f][j];
                o += across;
            }
        }
}

#endif

/* The weights of conv_winograd.c: the taps of each phase, transformed to U = G g G' and packed for gemm.h. Computed
 * in double, for all outputs of a panel at once, because training repacks at every step. */
#ifndef ZN_WINOGRAD_PACK_H
#define ZN_WINOGRAD_PACK_H

#include "kernels/simd/conv/winograd_plan.h"

/* Taps of one axis of a phase as sums of the three taps of the kernel: tap j includes w[i] if bit i of mask[j] is
 * set. */
static inline void phase_taps(const zn_conv_shape *s, int phase, unsigned mask[3])
{
    mask[0] = 1, mask[1] = 2, mask[2] = 4;
    if (s->up2) /* phase 0 reads rows -1 0 0 of the small map, phase 1 rows 0 0 1 */
        mask[0] = phase ? 3 : 1, mask[1] = phase ? 4 : 6;
    else if (s->stride == 2)
        mask[0] = phase ? 2 : 1, mask[1] = phase ? 0 : 4;
}

/* G for the points of winograd.h: powers of each point, divided by the product of its distances to the others. */
static inline void filter_matrix(int taps, double G[8][3])
{
    static const double point[7] = { 0, 1, -1, 2, -2, 0.5, -0.5 };
    memset(G, 0, sizeof(double) * 8 * 3);
    for (int i = 0; i < 7; i++) {
        double n = i == 0 ? -1 : 1; /* the sign of row 0 of B' */
        for (int j = 0; j < 7; j++)
            n *= j == i ? 1 : point[i] - point[j];
        n *= point[i] * point[i] == 4 ? 0.25 : point[i] * point[i] == 0.25 ? 4 : 1; /* the scaling that A' expects */
        for (int k = 0; k < taps; k++)
            G[i][k] = (k == 0 ? 1 : k == 1 ? point[i] : point[i] * point[i]) / n;
    }
    G[7][taps - 1] = 1;
}

/* g[i][j] = the taps of a phase, for one input channel and the outputs [o, o + across); w points to that channel and
 * output. Outputs past the end are zero: loops of constant length vectorise. */
static inline void phase_filter(const zn_conv_shape *s, int taps, int phase, const float *w, int across,
                                double g[3][3][GEMM_NR])
{
    unsigned rows[3], cols[3];
    phase_taps(s, phase / 2, rows);
    phase_taps(s, phase % 2, cols);
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++) {
            memset(g[i][j], 0, sizeof g[i][j]);
            for (unsigned r = rows[i]; r; r &= r - 1)
                for (unsigned c = cols[j]; c; c &= c - 1) {
                    const float *from = w + (int64_t)(__builtin_ctz(r) * 3 + __builtin_ctz(c)) * s->cin * s->cout;
                    for (int o = 0; across == GEMM_NR && o < GEMM_NR; o++)
                        g[i][j][o] += (double)from[o];
                    for (int o = 0; across < GEMM_NR && o < across; o++)
                        g[i][j][o] += (double)from[o];
                }
        }
}

/* to[f * step] = row f of G g G' for GEMM_NR outputs, of which `real` are stored. taps is a compile-time constant, 2
 * or 3. */
VEC_INLINE void filter_panel(const int taps, const double G[8][3], double g[3][3][GEMM_NR], int real, float *to,
                             int64_t step)
{
    for (int row = 0; row < 8; row++) {
        double half[3][GEMM_NR];
        for (int j = 0; j < taps; j++)
            for (int o = 0; o < GEMM_NR; o++)
                half[j][o] = G[row][0] * g[0][j][o] + G[row][1] * g[1][j][o] + (taps == 3 ? G[row][2] * g[2][j][o] : 0);
        for (int col = 0; col < 8; col++, to += step) {
            float u[GEMM_NR];
            for (int o = 0; o < GEMM_NR; o++)
                u[o] =
                    (float)(G[col][0] * half[0][o] + G[col][1] * half[1][o] + (taps == 3 ? G[col][2] * half[2][o] : 0));
            if (real == GEMM_NR)
                memcpy(to, u, sizeof u);
            else
                memcpy(to, u, sizeof(float) * (size_t)real);
        }
    }
}

/* U: [out phase][group][chunk][frequency][panel of GEMM_NR outputs][k of the chunk][outputs of the panel] */
static inline void winograd_pack(const zn_conv_shape *s, const plan *p, const float *w, float *packed)
{
    const int pieces = ceil_div(p->cin_p, p->kc);
    double G[8][3], g[3][3][GEMM_NR];
    filter_matrix(p->taps, G);
    if (p->cin_p > s->cin || p->cout_p > s->cout)
        memset(packed, 0, sizeof(float) * POINTS * (size_t)p->k * (size_t)p->cout_p * (size_t)p->out_phases);
    for (int phase = 0; phase < p->in_phases * p->out_phases; phase++)
        for (int i = 0; i < s->cin; i++) {
            const int k = i + (p->in_phases > 1 ? phase * p->cin_p : 0), out = p->out_phases > 1 ? phase : 0;
            const chunk c = chunk_of(p, p->chunks == 1 ? 0 : k / p->cin_p * pieces + k % p->cin_p / p->kc);
            for (int o = 0; o < s->cout;) {
                const int group = o / p->group * p->group, width = least(p->group, p->cout_p - group), at = o - group;
                const int across = least(GEMM_NR, width - at), real = least(across, s->cout - o);
                float *to = packed + (int64_t)POINTS * (p->k * (int64_t)(out * p->cout_p + group) + c.before * width) +
                            (int64_t)c.k * at + (int64_t)(k - c.before) * across;
                phase_filter(s, p->taps, phase, w + (int64_t)i * s->cout + o, real, g);
                if (p->taps == 3)
                    filter_panel(3, G, g, real, to, (int64_t)c.k * width);
                else
                    filter_panel(2, G, g, real, to, (int64_t)c.k * width);
                o += across;
            }
        }
}

#endif

/* The SRIG gate on one padded line of channels (specification B2): three rounds of windows of five, and the backward
 * pass. The parameters are transposed: five padded lines of taps and one of norms (kernels/line.h). */
#ifndef ZN_SIMD_SRIG_H
#define ZN_SIMD_SRIG_H

#include "kernels/line.h"
#include "kernels/simd/vec_math.h"

enum { SRIG_ROUNDS = 3, SRIG_TAPS = 5, SRIG_LINES = 11 };

typedef struct srig {
    const float *w[SRIG_TAPS], *norm, *b;
    int c;
    float *est[SRIG_ROUNDS], *g[SRIG_ROUNDS]; /* lines padded with zeros */
    float *dd, *q, *next, *dest, *dg;         /* for the gradient; dd and q are padded with zeros */
} srig;

static inline srig srig_of(const float *turned, const float *b, int c, float *lines)
{
    const int64_t length = zn_line_length(c);
    srig s = { .b = b, .c = c, .norm = turned + 5 * length + ZN_LINE_PAD };
    float *at[SRIG_LINES];
    for (int i = 0; i < SRIG_LINES; i++) {
        at[i] = lines + i * length + ZN_LINE_PAD;
        memset(at[i] - ZN_LINE_PAD, 0, sizeof(float) * ZN_LINE_PAD);
        memset(at[i] + c, 0, sizeof(float) * ZN_LINE_PAD);
    }
    for (int j = 0; j < SRIG_TAPS; j++)
        s.w[j] = turned + j * length + ZN_LINE_PAD;
    for (int k = 0; k < SRIG_ROUNDS; k++)
        s.est[k] = at[k], s.g[k] = at[SRIG_ROUNDS + k];
    s.dd = at[6], s.q = at[7], s.next = at[8], s.dest = at[9], s.dg = at[10];
    return s;
}

/* The result of a window. */
typedef struct srig_window {
    vec r, den, cosine, gain, act, g;
} srig_window;

VEC_INLINE srig_window srig_look(const srig *s, const float *est, int c)
{
    srig_window k;
    vec square = vec_splat(0), dot = vec_splat(0);
#pragma GCC unroll 5
    for (int j = 0; j < SRIG_TAPS; j++) {
        const vec e = vec_load(est + c + j - 2);
        square = vec_fma(e, e, square);
        dot = vec_fma(vec_load(s->w[j] + c), e, dot);
    }
    k.r = vec_sqrt(vec_fma(square, vec_splat(0.2f), vec_splat(1e-10f)));
    k.den = vec_fma(k.r, vec_load(s->norm + c), vec_splat(1e-6f));
    k.cosine = dot / k.den;
    k.gain = vec_sqrt(k.r + vec_splat(1e-10f));
    k.act = vec_fma(k.cosine, k.gain, vec_load(s->b + c));
    k.g = vec_splat(1) / (vec_splat(1) + vec_exp_negative(vec_min(vec_splat(0) - k.act, vec_splat(0))));
    return k;
}

/* est and g of the first `rounds` rounds from u; est[0] = |u|. */
VEC_INLINE void srig_forward(const srig *s, const float *u)
{
    for (int c = 0; c < s->c; c += VEC_LANES)
        vec_store(s->est[0] + c, vec_abs(vec_load(u + c)));
    for (int k = 0; k < SRIG_ROUNDS; k++)
        for (int c = 0; c < s->c; c += VEC_LANES) {
            const vec g = srig_look(s, s->est[k], c).g;
            vec_store(s->g[k] + c, g);
            if (k + 1 < SRIG_ROUNDS)
                vec_store(s->est[k + 1] + c, vec_load(s->est[0] + c) * g);
        }
}

/* Backward pass of one round: from dg to dd and q of each window, adding to the rows of taps and b. */
VEC_INLINE void srig_windows_back(const srig *s, int round, float *rows)
{
    const vec zero = vec_splat(0), half = vec_splat(0.5f), fifth = vec_splat(0.2f);
    for (int c = 0; c < s->c; c += VEC_LANES) {
        const srig_window k = srig_look(s, s->est[round], c);
        const vec dg = vec_load(s->dg + c), norm = vec_load(s->norm + c);
        const vec dact = vec_where(vec_greater(k.act, zero), dg * k.g * (vec_splat(1) - k.g));
        const vec dcos = dact * k.gain, dd = dcos / k.den, t = dd * k.cosine; /* dcos d / den^2 */
        const vec dr = dact * k.cosine * half / k.gain - t * norm;
        const vec dnorm = (zero - t) * k.r / norm;
        vec_store(s->dd + c, dd);
        vec_store(s->q + c, dr * fifth / k.r);
        vec_store(rows + 5 * (int64_t)s->c + c, vec_load(rows + 5 * (int64_t)s->c + c) + dact);
#pragma GCC unroll 5
        for (int j = 0; j < SRIG_TAPS; j++) {
            float *row = rows + j * (int64_t)s->c + c;
            const vec sum = vec_fma(dd, vec_load(s->est[round] + c + j - 2), vec_load(row));
            vec_store(row, vec_fma(dnorm, vec_load(s->w[j] + c), sum));
        }
    }
}

/* next[i] = gradient of est[round][i], from all windows that read it. */
VEC_INLINE void srig_gather_back(const srig *s, int round)
{
    for (int c = 0; c < s->c; c += VEC_LANES) {
        vec sum = vec_splat(0), q = vec_splat(0);
#pragma GCC unroll 5
        for (int j = 0; j < SRIG_TAPS; j++) {
            const int at = c + 2 - j;
            sum = vec_fma(vec_load(s->dd + at), vec_load(s->w[j] + at), sum);
            q = q + vec_load(s->q + at);
        }
        vec_store(s->next + c, vec_fma(q, vec_load(s->est[round] + c), sum));
    }
}

/* du from dt, after srig_forward; rows: [6][c], sums of the gradients of taps and b. */
VEC_INLINE void srig_backward(const srig *s, const float *u, const float *dt, float *du, float *rows)
{
    for (int k = SRIG_ROUNDS - 1; k >= 0; k--) {
        for (int c = 0; c < s->c; c += VEC_LANES) {
            const vec down = vec_load(s->next + c), g = vec_load(s->g[k] + c);
            if (k == SRIG_ROUNDS - 1) {
                vec_store(s->dg + c, vec_load(dt + c) * vec_load(u + c));
                vec_store(s->dest + c, vec_splat(0));
            } else {
                vec_store(s->dg + c, down * vec_load(s->est[0] + c));
                vec_store(s->dest + c, vec_fma(down, g, vec_load(s->dest + c)));
            }
        }
        srig_windows_back(s, k, rows);
        srig_gather_back(s, k);
    }
    for (int c = 0; c < s->c; c += VEC_LANES) {
        const vec x = vec_load(u + c), zero = vec_splat(0), d = vec_load(s->dest + c) + vec_load(s->next + c);
        const vec up = vec_where(vec_greater(x, zero), d), down = vec_where(vec_greater(zero, x), d);
        vec_store(du + c, vec_fma(vec_load(dt + c), vec_load(s->g[SRIG_ROUNDS - 1] + c), up - down));
    }
}

#endif

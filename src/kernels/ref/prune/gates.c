/* Block gates and SRIG (specification B2, B3). */
#include "kernels/gates.h"

#include "kernels/mix.h"

#include <math.h>
#include <string.h>

void zn_ref_gate_mask(const void *gate_args, zn_range units);
void zn_ref_gate_mask_grad(const void *gate_args, zn_range units);
void zn_ref_gate_mask_param_grad(const void *gate_args, zn_range units);
void zn_ref_gate_apply(const void *gate_args, zn_range units);
void zn_ref_gate_apply_mask_grad(const void *gate_args, zn_range units);

static float energy_of(const float *x)
{
    float e = 0;
    for (int i = 0; i < ZN_GATE_BLOCK; i++)
        e += fabsf(x[i]);
    return e;
}

static float clamp01(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

/* The soft value of one block before any noise, and the mask. */
static float mask_of(const zn_gate_args *a, float score, int64_t at, float *soft)
{
    const float noise = a->eps && a->mode == ZN_GATE_SOFT ? a->temperature * a->eps[at] : 0;
    *soft = clamp01(0.2f * score + 0.5f + noise);
    if (a->mode == ZN_GATE_SOFT)
        return *soft;
    return a->mode == ZN_GATE_HARD ? (score > 0 ? 1.0f : 0.0f) : (*soft > 0.5f ? 1.0f : 0.0f);
}

void zn_ref_gate_mask(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / ZN_GATE_BLOCK;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < blocks; b++) {
            const float score = a->w[b] * energy_of(a->x + p * a->c + b * ZN_GATE_BLOCK) + a->v[b];
            float soft;
            a->y[p * blocks + b] = mask_of(a, score, p * blocks + b, &soft);
        }
}

/* ds = 0.2 dm where the soft value is strictly between 0 and 1; none in hard mode. */
static float score_gradient(const zn_gate_args *a, int64_t p, int b, float *energy)
{
    const int blocks = a->c / ZN_GATE_BLOCK;
    *energy = energy_of(a->x + p * a->c + b * ZN_GATE_BLOCK);
    float soft;
    mask_of(a, a->w[b] * *energy + a->v[b], p * blocks + b, &soft);
    return a->mode != ZN_GATE_HARD && soft > 0 && soft < 1 ? 0.2f * a->dm[p * blocks + b] : 0;
}

void zn_ref_gate_mask_grad(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < a->c / ZN_GATE_BLOCK; b++) {
            float energy;
            const float ds = score_gradient(a, p, b, &energy) * a->w[b];
            for (int i = 0; i < ZN_GATE_BLOCK; i++) {
                const int64_t at = p * a->c + b * ZN_GATE_BLOCK + i;
                a->y[at] = ds * zn_sign(a->x[at]);
            }
        }
}

void zn_ref_gate_mask_param_grad(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / ZN_GATE_BLOCK;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        float *dw = a->partial + unit * 2 * blocks, *dv = dw + blocks;
        const int64_t begin = unit * ZN_MIX_BLOCK;
        const int64_t end = begin + ZN_MIX_BLOCK < a->pixels ? begin + ZN_MIX_BLOCK : a->pixels;
        memset(dw, 0, sizeof(float) * 2 * (size_t)blocks);
        for (int64_t p = begin; p < end; p++)
            for (int b = 0; b < blocks; b++) {
                float energy;
                const float ds = score_gradient(a, p, b, &energy);
                dw[b] += ds * energy;
                dv[b] += ds;
            }
    }
}

void zn_ref_gate_apply(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / ZN_GATE_BLOCK;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < ZN_GATE_BLOCK; i++) {
                const int64_t at = p * a->c + b * ZN_GATE_BLOCK + i;
                a->y[at] = a->mask[p * blocks + b] * a->x[at];
            }
}

void zn_ref_gate_apply_mask_grad(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / ZN_GATE_BLOCK;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < blocks; b++) {
            float sum = 0;
            for (int i = 0; i < ZN_GATE_BLOCK; i++) {
                const int64_t at = p * a->c + b * ZN_GATE_BLOCK + i;
                sum += a->dy[at] * a->x[at];
            }
            a->y[p * blocks + b] = sum;
        }
}

/* ---- SRIG ---- */

enum { ROUNDS = 3, REACH = 2, TAPS = 5 };

/* The result of one window; est points to channel c of a padded line. */
typedef struct window {
    float r, d, nw, cosine, gain, act, g;
} window;

static window look(const float *est, const float *w, float b)
{
    window k;
    float square = 0, dot = 0, norm = 0;
    for (int j = 0; j < TAPS; j++) {
        const float e = est[j - REACH];
        square += e * e;
        dot += w[j] * e;
        norm += w[j] * w[j];
    }
    k.r = sqrtf(square / 5 + 1e-10f);
    k.d = dot;
    k.nw = sqrtf(norm + 1e-8f);
    k.cosine = dot / (k.r * k.nw + 1e-6f);
    k.gain = sqrtf(k.r + 1e-10f);
    k.act = k.cosine * k.gain + b;
    k.g = 1 / (1 + expf(-(k.act > 0 ? k.act : 0)));
    return k;
}

/* Lines of c floats with REACH zeros on both sides: est of each round, G of each round, and two for gradients. */
static int64_t line_length(int c) { return c + 2 * REACH; }
size_t zn_srig_scratch(int c) { return sizeof(float) * (size_t)line_length(c) * (2 * ROUNDS + 2); }

typedef struct lines {
    float *est[ROUNDS], *g[ROUNDS], *dest, *next;
} lines;

static lines lines_of(float *scratch, int c)
{
    lines l;
    memset(scratch, 0, zn_srig_scratch(c));
    for (int k = 0; k < ROUNDS; k++) {
        l.est[k] = scratch + k * line_length(c) + REACH;
        l.g[k] = scratch + (ROUNDS + k) * line_length(c) + REACH;
    }
    l.dest = scratch + 2 * ROUNDS * line_length(c) + REACH;
    l.next = l.dest + line_length(c);
    return l;
}

static void forward(const zn_srig_args *a, const float *u, lines *l)
{
    for (int c = 0; c < a->c; c++)
        l->est[0][c] = fabsf(u[c]);
    for (int k = 0; k < ROUNDS; k++)
        for (int c = 0; c < a->c; c++) {
            l->g[k][c] = look(l->est[k] + c, a->w + TAPS * c, a->b[c]).g;
            if (k + 1 < ROUNDS)
                l->est[k + 1][c] = l->est[0][c] * l->g[k][c];
        }
}

void zn_k_srig(const void *args, zn_range r)
{
    const zn_srig_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *u = a->u + p * a->c;
        lines l = lines_of(r.scratch, a->c);
        forward(a, u, &l);
        for (int c = 0; c < a->c; c++)
            a->y[p * a->c + c] = u[c] * l.g[ROUNDS - 1][c];
    }
}

/* Backward pass of one window: adds to the parameter gradients (if requested) and to dest. */
static void look_back(const zn_srig_args *a, const lines *l, int k, int c, float dg, float *dw, float *db)
{
    const float *est = l->est[k] + c, *w = a->w + TAPS * c;
    const window f = look(est, w, a->b[c]);
    if (f.act <= 0)
        return;
    const float dact = dg * f.g * (1 - f.g), den = f.r * f.nw + 1e-6f;
    const float dcos = dact * f.gain, dgain = dact * f.cosine, dd = dcos / den;
    const float dr = dgain * 0.5f / f.gain - dcos * f.d * f.nw / (den * den), dnw = -dcos * f.d * f.r / (den * den);
    if (db)
        db[c] += dact;
    for (int j = 0; j < TAPS; j++) {
        const float e = est[j - REACH];
        if (dw)
            dw[TAPS * c + j] += dd * e + dnw * w[j] / f.nw;
        l->next[c + j - REACH] += dd * w[j] + dr * e / (5 * f.r);
    }
}

/* Backward pass through the three rounds of one pixel; du, dw, db may be NULL. */
static void backward(const zn_srig_args *a, int64_t p, float *scratch, float *du, float *dw, float *db)
{
    const float *u = a->u + p * a->c, *dy = a->dy + p * a->c;
    lines l = lines_of(scratch, a->c);
    forward(a, u, &l);
    float *dest0 = l.dest; /* gradient of est_0 through est_{k+1} = est_0 G_k */
    const int64_t bytes = (int64_t)sizeof(float) * line_length(a->c);
    for (int k = ROUNDS - 1; k >= 0; k--) {
        /* l.next holds dest_{k+1}, computed for round k + 1 */
        float *dg = l.g[k]; /* G_k is read once below, then overwritten */
        for (int c = 0; c < a->c; c++) {
            const float g = l.g[k][c], down = l.next[c];
            dest0[c] += k < ROUNDS - 1 ? down * g : 0;
            dg[c] = k < ROUNDS - 1 ? down * l.est[0][c] : dy[c] * u[c];
        }
        memset(l.next - REACH, 0, (size_t)bytes);
        for (int c = 0; c < a->c; c++)
            look_back(a, &l, k, c, dg[c], dw, db);
    }
    if (!du)
        return;
    for (int c = 0; c < a->c; c++) { /* recompute G_2, because its line was reused */
        const float g2 = look(l.est[ROUNDS - 1] + c, a->w + TAPS * c, a->b[c]).g;
        du[c] = dy[c] * g2 + (dest0[c] + l.next[c]) * zn_sign(u[c]);
    }
}

void zn_k_srig_grad(const void *args, zn_range r)
{
    const zn_srig_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        backward(a, p, r.scratch, a->y + p * a->c, NULL, NULL);
}

void zn_k_srig_param_grad(const void *args, zn_range r)
{
    const zn_srig_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        float *dw = a->partial + unit * (TAPS + 1) * a->c, *db = dw + TAPS * a->c;
        const int64_t begin = unit * ZN_MIX_BLOCK;
        const int64_t end = begin + ZN_MIX_BLOCK < a->pixels ? begin + ZN_MIX_BLOCK : a->pixels;
        memset(dw, 0, sizeof(float) * (TAPS + 1) * (size_t)a->c);
        for (int64_t p = begin; p < end; p++)
            backward(a, p, r.scratch, NULL, dw, db);
    }
}

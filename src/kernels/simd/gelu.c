/* GELU in its exact form, x Phi(x), and its gradient. With a = |x|, the smaller tail of the normal distribution is
 * h = exp(-a q(a)) / 2, q a polynomial fitted to 0..10 so that x Phi(x) is right to 2e-8; what remains is rounding.
 * Every step is one long chain, so four vectors go through it side by side. */
#include "kernels/kernels.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(gelu)(const void *args, zn_range r);
void ZN_KERNEL(gelu_grad)(const void *args, zn_range r);

enum { U = 4, BLOCK = U * VEC_LANES };
#define EACH _Pragma("GCC unroll 4") for (int u = 0; u < U; u++)

/* p = Phi(x) */
VEC_INLINE void normal(const vec x[U], vec p[U])
{
    static const float q[] = { 1.371343500977673e-06f,  -2.0630417566280812e-05f, 9.973547275876626e-05f,
                               1.5936687123030424e-04f, -4.970768000930548e-03f,  3.6431897431612015e-02f,
                               3.1828704476356506e-01f, 7.97886312007904e-01f };
    vec a[U]; /* -|x| */
    EACH a[u] = vec_max(vec_splat(0) - vec_abs(x[u]), vec_splat(-10));
    EACH p[u] = vec_splat(q[0]);
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        EACH p[u] = vec_fms(p[u], a[u], vec_splat(q[i]));
    EACH a[u] = p[u] * a[u];
    vec_exp_vectors(U, a);
    EACH a[u] = vec_splat(0.5f) * a[u];
    EACH p[u] = vec_select(vec_greater(x[u], vec_splat(0)), vec_splat(1) - a[u], a[u]);
}

VEC_INLINE void gelu(vec x[U])
{
    vec p[U];
    normal(x, p);
    EACH x[u] = x[u] * p[u];
}

/* x = Phi(x) + x phi(x) */
VEC_INLINE void slope(vec x[U])
{
    vec density[U], p[U];
    EACH density[u] = vec_splat(-0.5f) * x[u] * x[u];
    vec_exp_vectors(U, density);
    normal(x, p);
    EACH x[u] = vec_fma(x[u], density[u] * vec_splat(0.39894228f), p[u]);
}

void ZN_KERNEL(gelu)(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i += BLOCK) {
        const bool whole = i + BLOCK <= r.end;
        float rest[BLOCK] = { 0 };
        if (!whole)
            memcpy(rest, a->x + i, sizeof(float) * (size_t)(r.end - i));
        const float *from = whole ? a->x + i : rest;
        float *to = whole ? a->y + i : rest;
        vec x[U];
        EACH x[u] = vec_load(from + u * VEC_LANES);
        gelu(x);
        EACH vec_store(to + u * VEC_LANES, x[u]);
        if (!whole)
            memcpy(a->y + i, rest, sizeof(float) * (size_t)(r.end - i));
    }
}

void ZN_KERNEL(gelu_grad)(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    int64_t i = r.begin;
    for (; i + BLOCK <= r.end; i += BLOCK) {
        vec x[U];
        EACH x[u] = vec_load(a->x + i + u * VEC_LANES);
        slope(x);
        EACH vec_store(a->y + i + u * VEC_LANES, vec_load(a->dy + i + u * VEC_LANES) * x[u]);
    }
    if (i < r.end) {
        float rest[BLOCK] = { 0 };
        memcpy(rest, a->x + i, sizeof(float) * (size_t)(r.end - i));
        vec x[U];
        EACH x[u] = vec_load(rest + u * VEC_LANES);
        slope(x);
        EACH vec_store(rest + u * VEC_LANES, x[u]);
        for (int64_t k = i; k < r.end; k++)
            a->y[k] = a->dy[k] * rest[k - i];
    }
}

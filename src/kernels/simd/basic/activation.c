/* GELU, its gradient, and the soft clamp, elementwise. */
#include "kernels/kernels.h"
#include "kernels/simd/basic/gelu.h"

void ZN_KERNEL(gelu)(const void *args, zn_range r);
void ZN_KERNEL(soft_clamp)(const void *args, zn_range r);
void ZN_KERNEL(gelu_grad)(const void *args, zn_range r);

/* x = Phi(x) + x phi(x) */
VEC_INLINE void slope(vec x[GELU_U])
{
    vec density[GELU_U], p[GELU_U];
    GELU_EACH density[u] = vec_splat(-0.5f) * x[u] * x[u];
    vec_exp_vectors(GELU_U, density);
    normal(x, p);
    GELU_EACH x[u] = vec_fma(x[u], density[u] * vec_splat(0.39894228f), p[u]);
}

/* y = f(x) for all elements. f is a compile-time constant. */
VEC_INLINE void through(void (*const f)(vec x[GELU_U], float), const zn_unary_args *a, zn_range r)
{
    for (int64_t i = r.begin; i < r.end; i += GELU_BLOCK) {
        const bool whole = i + GELU_BLOCK <= r.end;
        float rest[GELU_BLOCK] = { 0 };
        if (!whole)
            memcpy(rest, a->x + i, sizeof(float) * (size_t)(r.end - i));
        const float *from = whole ? a->x + i : rest;
        float *to = whole ? a->y + i : rest;
        vec x[GELU_U];
        GELU_EACH x[u] = vec_load(from + u * VEC_LANES);
        f(x, a->a);
        GELU_EACH vec_store(to + u * VEC_LANES, x[u]);
        if (!whole)
            memcpy(a->y + i, rest, sizeof(float) * (size_t)(r.end - i));
    }
}

VEC_INLINE void gelu_of(vec x[GELU_U], float unused)
{
    (void)unused;
    gelu(x);
}

/* limit * tanh(x / limit). With t = |x / limit|, tanh is (1 - e) / (1 + e), e = exp(-2 t). Where that would cancel,
 * it is t plus a polynomial in t^2, accurate to 1e-8. */
VEC_INLINE void soft_clamp(vec x[GELU_U], float limit)
{
    static const float series[] = { -0.333332658f, 0.133309498f, -0.0536971353f, 0.0204966404f, -0.00554311741f };
    vec t[GELU_U], square[GELU_U], e[GELU_U], s[GELU_U];
    GELU_EACH t[u] = vec_abs(x[u]) / vec_splat(limit);
    GELU_EACH e[u] = vec_splat(-2) * t[u];
    vec_exp_vectors(GELU_U, e);
    GELU_EACH e[u] = (vec_splat(1) - e[u]) / (vec_splat(1) + e[u]);
    GELU_EACH square[u] = t[u] * t[u];
    GELU_EACH s[u] = vec_splat(series[4]);
#pragma GCC unroll 4
    for (int i = 3; i >= 0; i--)
        GELU_EACH s[u] = vec_fma(s[u], square[u], vec_splat(series[i]));
    GELU_EACH s[u] = vec_fma(s[u] * square[u], t[u], t[u]);
    GELU_EACH e[u] = vec_select(vec_greater(t[u], vec_splat(0.625f)), e[u], s[u]);
    GELU_EACH x[u] = vec_with_sign(e[u] * vec_splat(limit), x[u]);
}

void ZN_KERNEL(soft_clamp)(const void *args, zn_range r) { through(soft_clamp, args, r); }

void ZN_KERNEL(gelu)(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    const gelu_walk w = {
        .x = a->x + r.begin, .y = a->y + r.begin, .lines = (r.end - r.begin) / GELU_LINE, .rows = 1, .y_step = GELU_LINE
    };
    ZN_KERNEL(gelu_lines)(&w);
    r.begin += w.lines * GELU_LINE;
    through(gelu_of, a, r);
}

void ZN_KERNEL(gelu_grad)(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    int64_t i = r.begin;
    for (; i + GELU_BLOCK <= r.end; i += GELU_BLOCK) {
        vec x[GELU_U];
        GELU_EACH x[u] = vec_load(a->x + i + u * VEC_LANES);
        slope(x);
        GELU_EACH vec_store(a->y + i + u * VEC_LANES, vec_load(a->dy + i + u * VEC_LANES) * x[u]);
    }
    if (i < r.end) {
        float rest[GELU_BLOCK] = { 0 };
        memcpy(rest, a->x + i, sizeof(float) * (size_t)(r.end - i));
        vec x[GELU_U];
        GELU_EACH x[u] = vec_load(rest + u * VEC_LANES);
        slope(x);
        GELU_EACH vec_store(rest + u * VEC_LANES, x[u]);
        for (int64_t k = i; k < r.end; k++)
            a->y[k] = a->dy[k] * rest[k - i];
    }
}

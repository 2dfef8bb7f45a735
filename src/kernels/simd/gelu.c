/* GELU in its exact form, x Phi(x), and its gradient. With a = |x|, the smaller tail of the normal distribution is
 * h = exp(-a q(a)) / 2, q a polynomial fitted to 0..10 so that x Phi(x) is right to 2e-8; what remains is rounding. */
#include "kernels/kernels.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(gelu)(const void *args, zn_range r);
void ZN_KERNEL(gelu_grad)(const void *args, zn_range r);

/* Phi(x) */
VEC_INLINE vec normal(vec x)
{
    static const float q[] = { 1.371343500977673e-06f,  -2.0630417566280812e-05f, 9.973547275876626e-05f,
                               1.5936687123030424e-04f, -4.970768000930548e-03f,  3.6431897431612015e-02f,
                               3.1828704476356506e-01f, 7.97886312007904e-01f };
    const vec a = vec_max(vec_splat(0) - vec_abs(x), vec_splat(-10)); /* -|x| */
    vec p = vec_splat(q[0]);
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        p = vec_fms(p, a, vec_splat(q[i]));
    const vec h = vec_splat(0.5f) * vec_exp_negative(p * a);
    return vec_select(vec_greater(x, vec_splat(0)), vec_splat(1) - h, h);
}

VEC_INLINE vec gelu(vec x) { return x * normal(x); }

VEC_INLINE vec slope(vec x)
{
    const vec density = vec_splat(0.39894228f) * vec_exp_negative(vec_splat(-0.5f) * x * x);
    return vec_fma(x, density, normal(x));
}

void ZN_KERNEL(gelu)(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    int64_t i = r.begin;
    for (; i + VEC_LANES <= r.end; i += VEC_LANES)
        vec_store(a->y + i, gelu(vec_load(a->x + i)));
    if (i < r.end)
        vec_store_part(a->y + i, gelu(vec_load_part(a->x + i, (int)(r.end - i))), (int)(r.end - i));
}

void ZN_KERNEL(gelu_grad)(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    int64_t i = r.begin;
    for (; i + VEC_LANES <= r.end; i += VEC_LANES)
        vec_store(a->y + i, vec_load(a->dy + i) * slope(vec_load(a->x + i)));
    if (i < r.end) {
        const int n = (int)(r.end - i);
        vec_store_part(a->y + i, vec_load_part(a->dy + i, n) * slope(vec_load_part(a->x + i, n)), n);
    }
}

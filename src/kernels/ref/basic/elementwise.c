/* Elementwise kernels in plain C. The output may alias an input, but element i depends only on element i. A pragma
 * declares this, and the compiler vectorises the loops. */
#include "kernels/elementwise.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

void zn_k_relu(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->x[i] < 0 ? 0 : a->x[i]; /* written so that NaN passes through */
}

void zn_k_relu_grad(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++) {
        const float dy = a->dy[i]; /* always loaded; otherwise the loop would branch for every element */
        a->y[i] = a->x[i] > 0 ? dy : 0;
    }
}

void zn_ref_soft_clamp(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->a * tanhf(a->x[i] / a->a);
}

void zn_k_soft_clamp_grad(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    const float limit = a->a;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++) {
        const float t = a->x[i] / limit;
        a->y[i] = a->dy[i] * (1 - t * t);
    }
}

void zn_k_clamp(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    const float low = a->a, high = a->b;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++) {
        const float x = a->x[i] < low ? low : a->x[i];
        a->y[i] = x > high ? high : x;
    }
}

void zn_k_clamp_grad(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    const float low = a->a, high = a->b;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++) {
        const float dy = a->dy[i];
        a->y[i] = a->x[i] < low || a->x[i] > high ? 0 : dy;
    }
}

void zn_ref_gelu(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = 0.5f * a->x[i] * (1 + erff(a->x[i] * 0.70710678f));
}

void zn_ref_gelu_grad(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float x = a->x[i], cdf = 0.5f * (1 + erff(x * 0.70710678f)), pdf = 0.39894228f * expf(-0.5f * x * x);
        a->y[i] = a->dy[i] * (cdf + x * pdf);
    }
}

static float logistic(float x) { return 1 / (1 + expf(-x)); }

void zn_ref_silu(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->x[i] * logistic(a->x[i]);
}

void zn_ref_silu_grad(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float s = logistic(a->x[i]);
        a->y[i] = a->dy[i] * (s + a->x[i] * s * (1 - s));
    }
}

void zn_k_positive(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->x[i] > 0 ? 1 : 0;
}

void zn_k_scale(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    const float factor = a->a;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = factor * a->x[i];
}

void zn_k_add(const void *args, zn_range r)
{
    const zn_binary_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->a[i] + a->b[i];
}

void zn_k_sub(const void *args, zn_range r)
{
    const zn_binary_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->a[i] - a->b[i];
}

void zn_k_multiply(const void *args, zn_range r)
{
    const zn_binary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->a[i] * a->b[i];
}

void zn_k_multiply_scalar(const void *args, zn_range r)
{
    const zn_binary_args *a = args;
    const float factor = *a->b;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = factor * a->a[i];
}

void zn_k_exp(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = expf(a->x[i]);
}

void zn_k_copy(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    memmove(a->y + r.begin, a->x + r.begin, sizeof(float) * (size_t)(r.end - r.begin)); /* y may be x */
}

void zn_k_fill(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    const float value = a->a;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = value;
}

void zn_k_accumulate(const void *args, zn_range r)
{
    const zn_unary_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] += a->x[i];
}

/* RMS norm over channels, pixel by pixel, and both its gradients. */
#include "kernels/mix.h"
#include "kernels/simd/vec_math.h"

#include <math.h>

void ZN_KERNEL(rms_norm)(const void *args, zn_range r);
void ZN_KERNEL(rms_norm_grad)(const void *args, zn_range r);

/* Calls body(load, store, k, n) for all vectors of c channels: whole ones, then the rest. */
#define FOR_CHANNELS(c, k, n)                                                                                          \
    for (int k = 0, n = VEC_LANES; k < (c) && (n = (c)-k < VEC_LANES ? (c)-k : VEC_LANES); k += VEC_LANES)

VEC_INLINE vec load(const float *p, int n) { return n == VEC_LANES ? vec_load(p) : vec_load_part(p, n); }
VEC_INLINE void store(float *p, vec v, int n)
{
    if (n == VEC_LANES)
        vec_store(p, v);
    else
        vec_store_part(p, v, n);
}

/* 1 / sqrt(mean of squares + eps); two sums, so that one waits less for the other. */
VEC_INLINE float inverse_rms(const float *x, int c, float eps)
{
    vec even = vec_splat(0), odd = even;
    int k = 0;
    for (; k + 2 * VEC_LANES <= c; k += 2 * VEC_LANES) {
        const vec a = vec_load(x + k), b = vec_load(x + k + VEC_LANES);
        even = vec_fma(a, a, even);
        odd = vec_fma(b, b, odd);
    }
    for (; k < c; k += VEC_LANES) {
        const vec a = load(x + k, c - k < VEC_LANES ? c - k : VEC_LANES);
        even = vec_fma(a, a, even);
    }
    return 1.0f / sqrtf(vec_sum(even + odd) / (float)c + eps);
}

void ZN_KERNEL(rms_norm)(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *x = a->x + p * a->c;
        float *y = a->y + p * a->c;
        const vec s = vec_splat(inverse_rms(x, a->c, a->eps));
        FOR_CHANNELS(a->c, k, n)
        store(y + k, load(x + k, n) * s * load(a->w + k, n), n);
    }
}

/* dx = s (w dy) - x s^3 / c * sum(w dy x); dw += dy x s */
static void pixel_back(const zn_mix_args *a, int64_t p, float *dw)
{
    const int c = a->c;
    const float *x = a->x + p * c, *dy = a->dy + p * c, scale = inverse_rms(x, c, a->eps);
    float *dx = a->y + p * c;
    const vec s = vec_splat(scale);
    vec dot = vec_splat(0);
    FOR_CHANNELS(c, k, n)
    {
        const vec both = load(dy + k, n) * load(x + k, n);
        dot = vec_fma(both, load(a->w + k, n), dot);
        store(dw + k, vec_fma(both, s, load(dw + k, n)), n);
    }
    const vec back = vec_splat(vec_sum(dot) * scale * scale * scale / (float)c);
    FOR_CHANNELS(c, k, n)
    store(dx + k, vec_fms(load(x + k, n), back, s * load(a->w + k, n) * load(dy + k, n)), n);
}

void ZN_KERNEL(rms_norm_grad)(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    const int64_t size = zn_sum_block(a->pixels);
    for (int64_t block = r.begin; block < r.end; block++) {
        float *dw = a->partial + block * a->c;
        memset(dw, 0, sizeof(float) * (size_t)a->c);
        for (int64_t p = block * size; p < (block + 1) * size && p < a->pixels; p++)
            pixel_back(a, p, dw);
    }
}

/* RMS norm over channels, pixel by pixel, and both its gradients. */
#include "kernels/mix.h"
#include "kernels/simd/sequence/rms.h"

#include <math.h>

void ZN_KERNEL(rms_norm)(const void *args, zn_range r);
void ZN_KERNEL(rms_norm_grad)(const void *args, zn_range r);

/* Calls body(load, store, k, n) for all vectors of c channels: whole ones, then the rest. */
#define FOR_CHANNELS(c, k, n)                                                                                          \
    for (int k = 0, n = VEC_LANES; k < (c) && (n = (c)-k < VEC_LANES ? (c)-k : VEC_LANES); k += VEC_LANES)

void ZN_KERNEL(rms_norm)(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t p = r.begin; p < r.end; p += VEC_LANES) {
        const int count = r.end - p < VEC_LANES ? (int)(r.end - p) : VEC_LANES;
        const float *x = a->x + p * a->c;
        float *y = a->y + p * a->c, scale[VEC_LANES];
        inverse_rms(x, a->c, a->eps, count, scale);
        for (int t = 0; t < count; t++, x += a->c, y += a->c) {
            const vec s = vec_splat(scale[t] > a->most ? a->most : scale[t]);
            FOR_CHANNELS(a->c, k, n)
            store(y + k, load(x + k, n) * s * load(a->w + k, n), n);
        }
    }
}

/* dx = s (w dy) - x s^3 / c * sum(w dy x), the second term only where s is not limited; dw += dy x s */
static void pixel_back(const zn_mix_args *a, int64_t p, float *dw)
{
    const int c = a->c;
    const float *x = a->x + p * c, *dy = a->dy + p * c;
    float *dx = a->y + p * c, scales[VEC_LANES];
    inverse_rms(x, c, a->eps, 1, scales);
    const float scale = scales[0] > a->most ? a->most : scales[0];
    const vec s = vec_splat(scale);
    vec dot = vec_splat(0);
    FOR_CHANNELS(c, k, n)
    {
        const vec both = load(dy + k, n) * load(x + k, n);
        dot = vec_fma(both, load(a->w + k, n), dot);
        store(dw + k, vec_fma(both, s, load(dw + k, n)), n);
    }
    const vec back = vec_splat(scale < a->most ? vec_sum(dot) * scale * scale * scale / (float)c : 0);
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

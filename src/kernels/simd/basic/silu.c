/* SiLU and its gradient, elementwise. */
#include "kernels/simd/basic/silu.h"
#include "kernels/kernels.h"

void ZN_KERNEL(silu)(const void *args, zn_range r);
void ZN_KERNEL(silu_grad)(const void *args, zn_range r);

/* x = s + x s (1 - s), s the logistic function */
VEC_INLINE void slope(vec x[SILU_U])
{
    vec s[SILU_U];
    logistic(x, s);
    SILU_EACH x[u] = vec_fma(x[u] * s[u], vec_splat(1) - s[u], s[u]);
}

/* `forward` is a compile-time constant. */
VEC_INLINE void over(const bool forward, const zn_unary_args *a, zn_range r)
{
    for (int64_t i = r.begin; i < r.end; i += SILU_BLOCK) {
        const int64_t count = r.end - i < SILU_BLOCK ? r.end - i : SILU_BLOCK;
        float rest[SILU_BLOCK] = { 0 };
        if (count < SILU_BLOCK)
            memcpy(rest, a->x + i, sizeof(float) * (size_t)count);
        const float *from = count < SILU_BLOCK ? rest : a->x + i;
        vec x[SILU_U];
        SILU_EACH x[u] = vec_load(from + u * VEC_LANES);
        if (forward)
            silu(x);
        else
            slope(x);
        if (count < SILU_BLOCK) {
            SILU_EACH vec_store(rest + u * VEC_LANES, x[u]);
            for (int64_t k = 0; k < count; k++)
                a->y[i + k] = forward ? rest[k] : a->dy[i + k] * rest[k];
        } else {
            if (!forward)
                SILU_EACH x[u] = vec_load(a->dy + i + u * VEC_LANES) * x[u];
            SILU_EACH vec_store(a->y + i + u * VEC_LANES, x[u]);
        }
    }
}

void ZN_KERNEL(silu)(const void *args, zn_range r) { over(true, args, r); }
void ZN_KERNEL(silu_grad)(const void *args, zn_range r) { over(false, args, r); }

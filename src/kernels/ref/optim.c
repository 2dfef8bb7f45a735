/* Steps of optimisers, element by element. */
#include "kernels/kernels.h"

#include <math.h>

void zn_k_adam(const void *args, zn_range r)
{
    const zn_adam_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float g = a->g[i] + a->penalty * a->w[i];
        const float m = a->m[i] = a->beta1 * a->m[i] + (1 - a->beta1) * g;
        float v = a->v[i] = a->beta2 * a->v[i] + (1 - a->beta2) * g * g;
        if (a->v_max)
            v = a->v_max[i] = fmaxf(a->v_max[i], v);
        const float step = m / a->correction1 / (sqrtf(v / a->correction2) + a->eps);
        a->w[i] = a->w[i] * (1 - a->lr * a->decay) - a->lr * step;
    }
}

void zn_k_sgd(const void *args, zn_range r)
{
    const zn_sgd_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        float g = a->g[i] + a->penalty * a->w[i];
        if (a->m) {
            const float m = a->m[i] = a->momentum * a->m[i] + g;
            g = a->nesterov ? g + a->momentum * m : m;
        }
        a->w[i] -= a->lr * g;
    }
}

/* Optimiser steps, elementwise. */
#include "kernels/elementwise.h"
#include "kernels/kernels.h"

#include <math.h>

enum { ADAM_BLOCK = 512 }; /* elements that stay in the L1 cache between the loops */

/* One square root and one division per element: the bias corrections of the moments are factors. */
static void adam_block(zn_adam_args a, int64_t begin, int64_t end)
{
    const float root = 1 / sqrtf(a.correction2), rate = a.lr / a.correction1, keep = 1 - a.lr * a.decay;
    const float *v = a.v_max ? a.v_max : a.v;
    ZN_ELEMENTWISE
    for (int64_t i = begin; i < end; i++) {
        const float g = a.g[i] + a.penalty * a.w[i];
        a.m[i] = a.beta1 * a.m[i] + (1 - a.beta1) * g;
        a.v[i] = a.beta2 * a.v[i] + (1 - a.beta2) * g * g;
    }
    for (int64_t i = begin; a.v_max && i < end; i++)
        a.v_max[i] = fmaxf(a.v_max[i], a.v[i]);
    ZN_ELEMENTWISE
    for (int64_t i = begin; i < end; i++)
        a.w[i] = keep * a.w[i] - rate * (a.m[i] / (root * sqrtf(v[i]) + a.eps));
}

void zn_k_adam(const void *args, zn_range r)
{
    for (int64_t i = r.begin; i < r.end; i += ADAM_BLOCK)
        adam_block(*(const zn_adam_args *)args, i, i + ADAM_BLOCK < r.end ? i + ADAM_BLOCK : r.end);
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

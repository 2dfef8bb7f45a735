/* Optimiser steps and averages, elementwise, and reductions of parameters and gradients. */
#include "kernels/optim.h"

#include "kernels/elementwise.h"

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

void zn_k_average(const void *args, zn_range r)
{
    const zn_average_args *a = args;
    const float keep = a->keep;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++)
        a->average[i] = keep * a->average[i] + (1 - keep) * a->w[i];
}

void zn_k_swap(const void *args, zn_range r)
{
    const zn_swap_args *a = args;
    ZN_ELEMENTWISE
    for (int64_t i = r.begin; i < r.end; i++) {
        const float x = a->x[i];
        a->x[i] = a->y[i];
        a->y[i] = x;
    }
}

/* Elements of a block. */
static int64_t block_size(int64_t block, int64_t count)
{
    const int64_t left = count - block * ZN_REDUCE_BLOCK;
    return left < ZN_REDUCE_BLOCK ? left : ZN_REDUCE_BLOCK;
}

/* LANES interleaved sums, which vectorises. */
static double square_sum(const float *x, int64_t count)
{
    enum { LANES = 8 };
    double sums[LANES] = { 0 }, total = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            sums[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < count; i++)
        total += (double)x[i] * (double)x[i];
    for (int k = 0; k < LANES; k++)
        total += sums[k];
    return total;
}

void zn_k_square_sums(const void *args, zn_range r)
{
    const zn_square_sums_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++)
        a->y[block] = square_sum(a->x + block * ZN_REDUCE_BLOCK, block_size(block, a->count));
}

static bool any_extreme(const float *x, int64_t count, float limit)
{
    int extreme = 0; /* as wide as a float, or the loop would not vectorise */
    for (int64_t i = 0; i < count; i++)
        extreme |= !(fabsf(x[i]) < limit);
    return extreme != 0;
}

void zn_k_any_extreme(const void *args, zn_range r)
{
    const zn_extreme_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++)
        a->y[block] = any_extreme(a->x + block * ZN_REDUCE_BLOCK, block_size(block, a->count), a->limit) ? 1 : 0;
}

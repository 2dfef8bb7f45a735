/* The last steps of losses, on one thread: means, and the logistic loss with its gradient. */
#include "kernels/loss.h"

#include "base/cpu.h"
#include "kernels/kernels.h"

#include <math.h>

size_t zn_total_scratch(int64_t count, uint32_t cpu)
{
    return cpu & ZN_CPU_CUDA ? sizeof(double) * (size_t)zn_reduce_blocks(count) : 0;
}

void zn_k_total(const void *args, zn_range one)
{
    (void)one;
    const zn_total_args *a = args;
    double sum = 0;
    for (int64_t i = 0; i < a->count; i++)
        sum += (double)a->x[i];
    const double mean = sum / a->divisor;
    *a->y = (float)(a->complement ? 1 - mean : mean);
}

void zn_k_logistic_loss(const void *args, zn_range one)
{
    (void)one;
    const zn_logistic_args *a = args;
    double sum = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const double x = (double)a->x[i];
        sum += fmax(x, 0) + log1p(exp(-fabs(x))) - x * (double)a->t[i];
    }
    *a->y = (float)(sum / (double)a->count);
}

void zn_k_logistic_loss_grad(const void *args, zn_range r)
{
    const zn_logistic_args *a = args;
    const double scale = (double)*a->dy / (double)a->count;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = (float)(scale * (1 / (1 + exp(-(double)a->x[i])) - (double)a->t[i]));
}

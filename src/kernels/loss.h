/* Kernels of losses: scalars that stay in memory, so that a device computes them without the host. kernels.h has the
 * sums by blocks that come before (zn_k_square_difference, zn_k_distance, zn_k_ssim). */
#ifndef ZN_KERNELS_LOSS_H
#define ZN_KERNELS_LOSS_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *y = sum of x / divisor, or 1 - that; the sum in double, in order. One unit. */
typedef struct zn_total_args {
    const float *x;
    float *y;
    int64_t count;
    double divisor;
    bool complement;
    double *scratch; /* zn_total_scratch bytes; only devices use it */
} zn_total_args;
size_t zn_total_scratch(int64_t count, uint32_t cpu); /* cpu: ZN_CPU_ flags */
void zn_k_total(const void *total_args, zn_range one);

/* Mean of log(1 + exp(x)) - t x for logits x and labels t, in double. At most a few thousand values. One unit. */
typedef struct zn_logistic_args {
    const float *x, *t;
    const float *dy; /* gradient: scalar */
    float *y;        /* gradient: dx, units are elements */
    int64_t count;
} zn_logistic_args;
void zn_k_logistic_loss(const void *logistic_args, zn_range one);
void zn_k_logistic_loss_grad(const void *logistic_args, zn_range elements);

#endif

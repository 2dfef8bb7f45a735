/* Kernels of training: optimiser steps, running averages, and what is read from parameters and gradients between steps.
 * Sums of gradients use zn_k_scale, zn_k_accumulate and zn_k_fill of kernels.h. */
#ifndef ZN_KERNELS_OPTIM_H
#define ZN_KERNELS_OPTIM_H

#include "base/threads.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

/* One Adam step over elements. m, v: moments; v_max: for amsgrad, otherwise NULL. decay shrinks the weights directly
 * (AdamW); penalty is added to the gradient. corrections: 1 - beta^t. */
typedef struct zn_adam_args {
    float *w, *m, *v, *v_max;
    const float *g;
    float lr, beta1, beta2, eps, decay, penalty, correction1, correction2;
} zn_adam_args;
void zn_k_adam(const void *adam_args, zn_range elements);

/* One step of gradient descent. m: the momentum buffer, or NULL without momentum. */
typedef struct zn_sgd_args {
    float *w, *m;
    const float *g;
    float lr, momentum, penalty;
    bool nesterov;
} zn_sgd_args;
void zn_k_sgd(const void *sgd_args, zn_range elements);

/* Running average of parameters: average[i] = keep * average[i] + (1 - keep) * w[i]; units are elements. */
typedef struct zn_average_args {
    float *average;
    const float *w;
    float keep;
} zn_average_args;
void zn_k_average(const void *average_args, zn_range elements);

/* Exchanges x[i] and y[i]; units are elements. */
typedef struct zn_swap_args {
    float *x, *y;
} zn_swap_args;
void zn_k_swap(const void *swap_args, zn_range elements);

/* y[block] = sum of squares of a block of ZN_REDUCE_BLOCK elements, in double; units are zn_reduce_blocks(count). */
typedef struct zn_square_sums_args {
    const float *x;
    double *y;
    int64_t count;
} zn_square_sums_args;
void zn_k_square_sums(const void *square_sums_args, zn_range blocks);

/* The same blocks: y[block] = 1 if any |x| is not below the limit, which includes NaN, otherwise 0. */
typedef struct zn_extreme_args {
    const float *x;
    float *y;
    int64_t count;
    float limit;
} zn_extreme_args;
void zn_k_any_extreme(const void *extreme_args, zn_range blocks);

#endif

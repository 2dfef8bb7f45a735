/* Optimisers: update parameters from gradients.
 *
 *     zn_adamw o;
 *     ZN_TRY(zn_adamw_new(&o, total, &(zn_adamw_options){ .lr = 1e-3f, ... }));
 *     zn_adamw_begin(&o);                                  // one step over all tensors
 *     zn_adamw_update(&o, pool, w, g, count);              // tensors in the same order each step
 *     zn_adamw_free(&o); */
#ifndef ZN_OPTIM_H
#define ZN_OPTIM_H

#include "base/threads.h"

typedef struct zn_adamw_options {
    float lr, beta1, beta2, eps, weight_decay;
} zn_adamw_options;

typedef struct zn_adamw {
    zn_adamw_options options;
    int64_t step, used, total;
    float *m, *v; /* [total] */
} zn_adamw;

ZN_MUST_USE zn_status zn_adamw_new(zn_adamw *o, int64_t total, const zn_adamw_options *options);
void zn_adamw_begin(zn_adamw *o);
void zn_adamw_update(zn_adamw *o, zn_pool *pool, float *w, const float *g, int64_t count);
void zn_adamw_free(zn_adamw *o);

#endif

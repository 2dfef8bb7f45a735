/* Optimisers: update parameters from gradients.
 *
 *     zn_optim o;
 *     ZN_TRY(zn_optim_new(&o, total, &(zn_optim_options){ .kind = ZN_ADAMW, .lr = 1e-3f, .weight_decay = 0.01f }));
 *     zn_clip_norm(gradients, counts, tensors, 1);
 *     zn_optim_begin(&o, -1);                              // one step over all tensors
 *     zn_optim_update(&o, pool, w, g, count, NULL);        // tensors in the same order each step
 *     zn_optim_free(&o); */
#ifndef ZN_OPTIM_H
#define ZN_OPTIM_H

#include "base/threads.h"
#include "kernels/device.h"

#include <stdbool.h>

typedef enum zn_optim_kind {
    ZN_ADAM,      /* weight decay added to the gradient */
    ZN_ADAMW,     /* weight decay apart from the gradient */
    ZN_ADAM_SEED, /* Adam with eps outside the bias correction, as the Zenith sources have it */
    ZN_SGD,       /* with momentum; weight decay added to the gradient */
} zn_optim_kind;

typedef struct zn_optim_options {
    zn_optim_kind kind;
    float lr;
    float beta1, beta2; /* Adam; both 0.9 and 0.999 when beta2 is 0 */
    float eps;          /* 0: 1e-8 */
    float weight_decay;
    float momentum; /* SGD */
    bool amsgrad;   /* Adam: divide by the largest second moment so far */
    bool nesterov;  /* SGD */
} zn_optim_options;

typedef struct zn_optim {
    zn_optim_options options;
    int64_t step, used, total;
    float lr;             /* of this step */
    float *m, *v, *v_max; /* [total]; NULL where the kind has none */
    zn_device *device;    /* has copies of all that an update touches, and updates these; NULL: the CPU */
} zn_optim;

/* What is special about one tensor. Zero: nothing. */
typedef struct zn_optim_tensor {
    float lr_factor; /* 0: 1 */
    bool frozen;     /* keeps its values */
    bool no_decay;   /* biases, gates, scales */
} zn_optim_tensor;

ZN_MUST_USE zn_status zn_optim_new(zn_optim *o, int64_t total, const zn_optim_options *options);
/* Begins a step; a negative lr: the options' own. */
void zn_optim_begin(zn_optim *o, float lr);
/* tensor may be NULL. */
void zn_optim_update(zn_optim *o, zn_pool *pool, float *w, const float *g, int64_t count,
                     const zn_optim_tensor *tensor);
void zn_optim_free(zn_optim *o);

/* Scales gradients so that the norm of all of them together is at most `limit`; returns the norm before. */
double zn_clip_norm(float *const *gradients, const int64_t *counts, int tensors, double limit);

#endif

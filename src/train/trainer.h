/* A trainer: a model with its loss, gradients and optimiser, one step at a time.
 *
 *     zn_trainer *t;
 *     ZN_TRY(zn_trainer_new(model, &recipe, pool, batch, &t));
 *     ZN_TRY(zn_trainer_step(t, input, target, &loss));           // [batch * accumulate, size, size, inputs and 3]
 *     ZN_TRY(zn_checkpoint_write("run/checkpoint.safetensors", t));
 *     zn_trainer_free(t);
 *
 * The model's parameters are updated in place. Everything a step depends on is in the trainer and its inputs, so a run
 * that is continued from a checkpoint gives the same bits as one that was never stopped. */
#ifndef ZN_TRAINER_H
#define ZN_TRAINER_H

#include "graph/exec.h"
#include "models/model.h"
#include "train/optim.h"
#include "train/recipe.h"

typedef struct zn_trainer {
    zn_model *model;         /* borrowed */
    const zn_recipe *recipe; /* borrowed */
    zn_pool *pool;           /* borrowed */
    zn_graph *graph;
    zn_exec *exec;
    zn_node *input, *target, *output, *loss;
    zn_node **gradients; /* by parameter of the model; NULL where the loss does not depend on it */
    zn_optim optim;
    float **sums; /* by parameter: gradients added up over micro-batches */
    float **ema;  /* by parameter: averaged weights; NULL without ema */
    int64_t step; /* steps done */
    int batch;    /* pictures of one micro-batch */
} zn_trainer;

/* batch: pictures of one micro-batch, accumulate of which make a step. */
ZN_MUST_USE zn_status zn_trainer_new(zn_model *model, const zn_recipe *recipe, zn_pool *pool, int batch,
                                     zn_trainer **out);
void zn_trainer_free(zn_trainer *t);

/* One optimiser step. ZN_ENUMERIC names the layer whose result is not finite; the weights are then those before it. */
ZN_MUST_USE zn_status zn_trainer_step(zn_trainer *t, const float *input, const float *target, double *loss);

/* Whole state, for continuing; and the weights alone (averaged ones when there are any), for use. */
ZN_MUST_USE zn_status zn_checkpoint_write(const char *path, const zn_trainer *t);
ZN_MUST_USE zn_status zn_checkpoint_read(const char *path, zn_trainer *t);
ZN_MUST_USE zn_status zn_trainer_export(const char *path, const zn_trainer *t);

#endif

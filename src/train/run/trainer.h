/* A trainer: a model with its objective, gradients and optimiser, one step at a time.
 *
 *     zn_trainer *t;
 *     ZN_TRY(zn_trainer_new(&(zn_trainer_options){ .model = m, .recipe = &recipe, .pool = pool, .batch = 4 }, &t));
 *     ZN_TRY(zn_trainer_step(t, input, target, &loss));           // [batch * parts / ranks, size, size, ..]
 *     ZN_TRY(zn_checkpoint_write("run/checkpoint.safetensors", t));
 *     zn_trainer_free(t);
 *
 * The model's parameters are updated in place (on a device: its copies of them; see learner.h). Everything a step
 * depends on is in the trainer and its inputs, so a run that is continued from a checkpoint gives the same bits as one
 * that was never stopped. */
#ifndef ZN_TRAINER_H
#define ZN_TRAINER_H

#include "graph/exec.h"
#include "kernels/device_group.h"
#include "train/objective/discriminator.h"
#include "train/objective/objective.h"
#include "train/optimiser/learner.h"
#include "train/optimiser/scaler.h"
#include "train/ranks/ranks.h"

typedef struct zn_trainer_options {
    zn_model *model;         /* borrowed, and changed */
    const zn_model *teacher; /* borrowed; NULL where the goal needs none */
    const zn_recipe *recipe; /* borrowed */
    zn_pool *pool;           /* borrowed */
    zn_device *device;       /* borrowed; NULL: the CPU */
    zn_goal goal;
    int batch;              /* images of one part, `parts` of which make a step */
    int parts;              /* over all ranks; 0: accumulate of the recipe. A multiple of the ranks */
    zn_ranks *ranks;        /* borrowed; NULL: alone. Rank r has the r-th share of the parts */
    zn_device_group *group; /* borrowed: adds up the ranks' gradients; NULL: they pass through host memory */
    bool profile;           /* keep times of the last step by node; a device then waits after every node */
    int stage;              /* which stage of its run this is, for the checkpoint */
    /* Asked often while a step runs; non-zero abandons it with ZN_ECANCELLED. May be NULL. */
    zn_progress_fn stop;
    void *user;
} zn_trainer_options;

enum { ZN_FIGURES = ZN_MAX_TERMS + 2 };

typedef struct zn_trainer {
    zn_trainer_options options;
    zn_model *model;         /* = options.model */
    const zn_recipe *recipe; /* = options.recipe */
    zn_objective objective;
    zn_exec *exec;
    zn_parameters extra;             /* what only training knows: adaptors and the like */
    zn_learner learner;              /* the model's parameters, then the extra ones */
    const zn_model_parameter **rest; /* those of the model that are not even kept: see zn_goal_on_conditions */
    int rest_count;
    zn_discriminator *discriminator; /* NULL: there is none */
    double values[ZN_MAX_TERMS];     /* the terms of the last step, by themselves */
    int64_t step;                    /* steps done */
    zn_scaler scaler;                /* of the loss, in f16; its factor is 0 otherwise */
    int64_t left_out;                /* steps without an update, whose gradients were beyond f16 */
    int batch, parts;                /* of options */
    float *figures;                  /* [parts][ZN_FIGURES]: loss, terms, the discriminator's loss */
    float *before;                   /* the state before the step, where a step may go wrong; else NULL */
    int64_t judged_before;           /* updates of the discriminator before it */
    float *ahead;                    /* noise drawn while a device computed, or NULL; for images from `ahead_of` on */
    int64_t ahead_of;
} zn_trainer;

ZN_MUST_USE zn_status zn_trainer_new(const zn_trainer_options *options, zn_trainer **out);
void zn_trainer_free(zn_trainer *t);

/* The smallest multiple of the recipe's `accumulate` parts that the ranks can share, and the images of each. A step
 * has the same bits on any number of ranks that gives the same parts and each rank 1, 2, 4, 8, ... of them. */
ZN_MUST_USE zn_status zn_trainer_divide(const zn_recipe *recipe, const zn_ranks *ranks, int *parts, int *batch);

/* One optimiser step; in f16 it is left out, and the loss scaled less from then on, if gradients are not finite.
 * ZN_ENUMERIC names the layer whose result is not finite, or what an update would have made so; the
 * state is then that before the step. */
ZN_MUST_USE zn_status zn_trainer_step(zn_trainer *t, const float *input, const float *target, double *loss);

/* The loss of a batch that is not learned from, with noise that depends on its number alone; of a generator. */
ZN_MUST_USE zn_status zn_trainer_measure(zn_trainer *t, const float *input, const float *target, int number,
                                         double *loss);

/* Parts of a step that are this rank's; and the step from which on a discriminator takes part. */
int zn_trainer_own_parts(const zn_trainer *t);
int64_t zn_trainer_opening(const zn_recipe *recipe);

/* Updates of the discriminator. */
int64_t zn_trainer_judged(const zn_trainer *t);

/* ZN_ENUMERIC names a parameter, an average or a moment that is not finite: an update may make one out of gradients
 * that are. */
ZN_MUST_USE zn_status zn_trainer_check_finite(const zn_trainer *t);

/* Keeps a copy of the whole state; and takes it back, after an update that t->step does not count. */
ZN_MUST_USE zn_status zn_trainer_remember(zn_trainer *t);
ZN_MUST_USE zn_status zn_trainer_go_back(zn_trainer *t);

/* Whole state, for continuing; and the weights alone (averaged ones when there are any), for use. */
ZN_MUST_USE zn_status zn_checkpoint_write(const char *path, const zn_trainer *t);
ZN_MUST_USE zn_status zn_checkpoint_read(const char *path, zn_trainer *t);
ZN_MUST_USE zn_status zn_checkpoint_stage(const char *path, int *stage);
ZN_MUST_USE zn_status zn_trainer_export(const char *path, const zn_trainer *t);
/* A model that is not trained. */
ZN_MUST_USE zn_status zn_model_export(const char *path, const zn_model *m);
/* Of one part of the model alone. */
ZN_MUST_USE zn_status zn_trainer_export_part(const char *path, const zn_trainer *t, zn_part part);

#endif

/* A small patch discriminator that learns to tell pictures of the data from pictures of the model, beside the model:
 * hinge loss, an optimiser of its own, one update for each of the model's.
 *
 *     zn_discriminator *d;
 *     ZN_TRY(zn_discriminator_new(shape, &recipe, &options, &d));
 *     zn_node *opinion = zn_discriminator_view(output);             // in the model's graph: large where taken for real
 *     ZN_TRY(zn_discriminator_look(d, real, fake, part, of));       // each of `parts`
 *     ZN_TRY(zn_learner_clip(&d->learner, recipe.clip));
 *     ZN_TRY(zn_discriminator_learn(d));
 *     zn_discriminator_free(d); */
#ifndef ZN_DISCRIMINATOR_H
#define ZN_DISCRIMINATOR_H

#include "graph/exec.h"
#include "train/optimiser/learner.h"
#include "train/recipe/recipe.h"

typedef struct zn_discriminator {
    const zn_recipe *recipe; /* borrowed */
    zn_graph *graph;
    zn_exec *exec;
    zn_node *real, *fake, *loss;
    zn_parameters parameters;
    zn_learner learner;
    double value; /* its loss in the last step: 2 means chance, 0 means perfect */
} zn_discriminator;

/* shape: of one part of the images. Of the options only parts, pool and device are used. */
ZN_MUST_USE zn_status zn_discriminator_new(zn_shape shape, const zn_recipe *recipe, const zn_learner_options *options,
                                           zn_discriminator **out);
void zn_discriminator_free(zn_discriminator *d);

/* Appends the discriminator to the graph of a picture, with parameters that have no values yet: zn_parameters_bind. */
zn_node *zn_discriminator_view(zn_node *picture);

ZN_MUST_USE zn_status zn_discriminator_look(zn_discriminator *d, const float *real, const float *fake, int part,
                                            int of);
ZN_MUST_USE zn_status zn_discriminator_learn(zn_discriminator *d);

#endif

/* What diffusion adds to a training graph: pictures, or conditions of pictures, noised to a step of their own, and the
 * noise that the model finds in them.
 *
 *     zn_noising n = zn_noising_of(model, picture, true);             // [N,H,W,3] in [0,1]
 *     ... zn_mean_square_error(n.predicted, n.noise) ...
 *     zn_noising_set(&n, diffusion, i, step);                         // before each run, for each picture i */
#ifndef ZN_NOISING_H
#define ZN_NOISING_H

#include "diffusion/schedule.h"
#include "models/model.h"

typedef struct zn_noising {
    zn_node *noise;         /* input, like the picture: the caller draws it from N(0,1) */
    zn_node *time;          /* inputs, a row for each picture: the step's embedding, */
    zn_node *signal, *rest; /* and what the step leaves of the picture and adds of the noise, each less 1 */
    zn_node *seeds;         /* likewise, where there is dropout: a whole number below 2^24; else NULL */
    zn_node *noisy, *predicted;
} zn_noising;

/* The model's parameters are named as in the model. learning: with the dropout that its configuration has. */
zn_noising zn_noising_of(const zn_model *m, zn_node *picture, bool learning);
/* The same for normalised conditions [1,1,N,width] and the model's latent net. */
zn_noising zn_noising_of_conditions(const zn_model *m, zn_node *z);
void zn_noising_set(const zn_noising *n, const zn_diffusion *all, int picture, int step);

/* The pictures, in [0,1], that the prediction amounts to, when all of them are at this step. */
zn_node *zn_noising_estimate(const zn_noising *n, const zn_diffusion *all, int step);

#endif

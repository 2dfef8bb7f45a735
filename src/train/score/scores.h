/* Scores: how good what learns from conditions is on those of held-out images.
 *
 *     ZN_TRY(zn_score_conditions(&(zn_scoring){ .model = m, .goal = ZN_GOAL_LATENT_NET, .pool = pool, .rows = z,
 *                                               .count = n }, &measures));          // measures.loss
 *
 * The model is measured with the weights it has at the moment of the call. */
#ifndef ZN_SCORES_H
#define ZN_SCORES_H

#include "train/score/yardstick.h"

typedef struct zn_scoring {
    const zn_model *model;
    zn_goal goal; /* ZN_GOAL_LATENT_NET or ZN_GOAL_CLASSIFIER */
    zn_pool *pool;
    const float *rows;   /* [count][width], normalised */
    const float *labels; /* [count][classes], 0, 1, or 0.5 for not known; of a classifier */
    int64_t count;
} zn_scoring;

/* Row i is always noised in the same way. Nothing is measured where there are no rows. */
ZN_MUST_USE zn_status zn_score_conditions(const zn_scoring *how, zn_measures *out);

/* An image's score for an attribute, and whether it has it. */
typedef struct zn_opinion {
    float logit;
    bool has;
} zn_opinion;

/* Area under the curve: how often an image that has the attribute gets more than one that has not, ties counting half;
 * NaN if there are not both kinds. Sorts the list. */
double zn_area_under_curve(zn_opinion *list, int64_t count);

#endif

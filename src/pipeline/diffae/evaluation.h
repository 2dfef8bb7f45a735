/* One run of zn_diffae_eval: what its parts share. */
#ifndef ZN_DIFFAE_EVALUATION_H
#define ZN_DIFFAE_EVALUATION_H

#include "io/dataset/dataset.h"
#include "models/model.h"
#include "pipeline/eval/neighbours.h"
#include "pipeline/eval/scorer.h"
#include "train/data/labels.h"

#include <zenith/diffae.h>
#include <zenith/diffae_eval.h>

/* An image of the data that was read, scaled and encoded. */
typedef struct zn_subject {
    int64_t index;
    zn_image *picture;
    float *cond;
    float *noise; /* NULL: not inverted */
} zn_subject;

typedef struct zn_evaluation {
    const zn_diffae_eval_options *o;
    const zn_model *model;
    zn_diffae *net;
    zn_scorer *scorer;
    zn_features *features; /* NULL: no weights */
    zn_dataset *data;
    zn_labels *labels;
    zn_neighbours all; /* features of every image of the data */
    zn_spread truth;
    zn_subject *subjects;
    int64_t count;
    int steps, encode_steps, latent_steps;
    double amount;
    double base, scale; /* of the progress */
    zn_diffae_eval_result *out;
} zn_evaluation;

/* Adds a share of a mean of `count` values. */
static inline void zn_add_share(double *mean, double value, int64_t count) { *mean += value / (double)count; }

/* Reports how much of the current stage is done; fails if the caller cancels. */
ZN_MUST_USE zn_status zn_evaluation_tell(const zn_evaluation *v, double fraction);
/* Computes the noise of an image, if that has not been done. */
ZN_MUST_USE zn_status zn_evaluation_invert(const zn_evaluation *v, zn_subject *s);
/* Frechet distance of a set from all images of the data; NaN without features or with fewer than two images. */
ZN_MUST_USE zn_status zn_evaluation_distance(const zn_evaluation *v, const zn_spread *set, double *out);

/* The stages after the round trips; they fill in v->out. */
ZN_MUST_USE zn_status zn_evaluate_attributes(zn_evaluation *v); /* labels, classifier and edits */
ZN_MUST_USE zn_status zn_evaluate_samples(zn_evaluation *v);

#endif

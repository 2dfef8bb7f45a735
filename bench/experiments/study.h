/* Networks of the Prune family that are trained on wavelet images. Shared by restoration and convergence.
 *
 *     study s;
 *     status = study_new("residual", &(study_options){ .side = 64, .batch = 4, .seed = 1, .pool = pool }, &s);
 *     memcpy(s.train.x->data, ...), memcpy(s.train.target->data, ...);
 *     status = study_step(&s, rate, clip);
 *     study_free(&s);
 *
 * Kinds: "seed", the original network with gates, SRIG and dropout; "residual", the form without gates that trains
 * (zenith-hier-r); "none", its skeleton without blocks; "depthwise", the skeleton with depthwise-separable blocks of
 * about the same number of operations; "baseline", the convolutional network. All gradients are exact. */
#ifndef ZN_EXPERIMENTS_STUDY_H
#define ZN_EXPERIMENTS_STUDY_H

#include "base/rng.h"
#include "graph/exec.h"
#include "models/model.h"
#include "train/optimiser/learner.h"

typedef struct study_options {
    int side, batch;
    uint64_t seed;
    zn_pool *pool; /* borrowed */
    bool adam_of_seed;
    bool weighted; /* the loss is the mean of weight^2 (y - target)^2 */
} study_options;

typedef struct study_net {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *target, *y, *loss;
    zn_node *weight; /* same shape as x, in the training net of a weighted study; else NULL */
} study_net;

typedef struct study {
    study_options options;
    zn_model *model;
    study_net train, test; /* share their weights; test has neither noise nor dropout */
    zn_learner learner;
    zn_rng rng;        /* for the noise of gates and for dropout */
    float temperature; /* of the gate noise; the caller may change it */
    double flops,
        bytes; /* of the forward pass for one image: operations; bytes of weights and results, each counted once */
} study;

/* The work of a training step without the optimiser, and the peak of this machine. */
typedef struct study_work {
    double flops, bytes;
    double peak_gflops, bandwidth_gbs;
} study_work;

ZN_MUST_USE zn_status study_new(const char *kind, const study_options *options, study *s);
void study_free(study *s);

/* One step of Adam on the data in train.x and train.target. clip 0: no clipping. */
ZN_MUST_USE zn_status study_step(study *s, double rate, double clip);

ZN_MUST_USE zn_status study_measure_work(const study *s, study_work *work);

/* Mean square error over `count` images, a multiple of the batch. */
ZN_MUST_USE zn_status study_error(study *s, const float *inputs, const float *targets, int count, double *error);

/* Wavelet images [count,side,side,3]. */
void study_pictures(zn_rng *rng, int side, int count, float *out);

#endif

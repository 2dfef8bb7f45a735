/* Networks of golden files: graphs with parameters from the file, run as they are used, sampled with, and taught one
 * step. */
#ifndef ZN_GOLDEN_NETWORK_H
#define ZN_GOLDEN_NETWORK_H

#include "golden.h"

#include "base/rng.h"
#include "diffusion/sampler.h"
#include "train/optimiser/optim.h"

/* A network that predicts the noise in x, ready to run. */
typedef struct network {
    golden *g;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *time, *cond, *y; /* cond may be NULL */
    int64_t samples;
    int width; /* of the time's embedding */
} network;

/* Gives every parameter its values: tensors whose names begin with prefix. */
zn_status network_bind(const golden *g, zn_graph *graph, const char *prefix);
/* traced: unfused, with the results of all nodes; else as for use. */
zn_status network_start(network *n, bool traced);
zn_status graph_start(const golden *g, zn_graph *graph, zn_node *y, bool traced, zn_exec **exec);
/* What a layer computes: the first node under its name, or NULL. */
const zn_node *graph_layer(const zn_graph *graph, const char *name);
void network_free(network *n);
zn_status network_predict(network *n, const float *x, int step, float *noise);

/* A path of a sampler. begin: results of step k are compared with out.<begin>.step<k>.sample; last: the end with
 * out.<last>. Either may be NULL. */
typedef struct walk {
    network *n;
    const char *begin, *last;
    zn_shape shape;
    const float *noise; /* for each step that needs any, in their order */
    int next;
    float *shaken; /* while it runs: see network.c */
    bool shaking;
    zn_rng rng;
} walk;
typedef zn_status (*sampler_fn)(const zn_sampling *s, float *x);
/* x and shaken are changed; both begin alike, or where a walk before ended. */
zn_status walk_run(walk *w, sampler_fn sampler, const zn_diffusion *schedule, bool clamp, float *x, float *shaken);

/* A training step: loss, gradients, their norm, the optimiser's step and the average of weights. */
typedef struct lesson {
    golden *g;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *loss;
    zn_node **wrt, **gradients;
    int count;
} lesson;
/* An input of the lesson's graph with these values (copied; NULL: none yet). */
zn_node *lesson_input(lesson *l, const char *name, zn_shape shape, const float *values);
/* With graph and loss: runs it and compares out.train.*; form: "adam" or "adamw". Frees the lesson. */
zn_status lesson_run(lesson *l, const char *form);

/* After one step the update is lr*g/(|g|+eps): compared where the gradient is well determined, else within 2 lr.
 * `after` gets the weights. */
typedef struct zn_update {
    zn_shape shape;
    zn_layout layout;
    const float *start, *gradient;
} zn_update;
zn_status compare_update(golden *g, const char *name, const zn_optim_options *o, const zn_update *u, float *after);

/* x noised to the steps in.train_t, one for each sample, and the embeddings of these. */
zn_status noised(const golden *g, const char *betas, const float *x, zn_shape shape, const float *noise, int width,
                 float *x_t, float *times);

#endif

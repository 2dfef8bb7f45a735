/* Networks of golden files: graphs with parameters from the file, for inference, sampling and one training step. */
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
    int width; /* width of the time embedding */
} network;

/* Sets the values of every parameter from tensors whose names begin with prefix. */
zn_status network_bind(const golden *g, zn_graph *graph, const char *prefix);
/* traced: unfused, and keeps the results of all nodes; otherwise as in normal use. */
zn_status network_start(network *n, bool traced);
zn_status graph_start(const golden *g, zn_graph *graph, zn_node *y, bool traced, zn_exec **exec);
/* The result of a layer: the first node with its name, or NULL. */
const zn_node *graph_layer(const zn_graph *graph, const char *name);
void network_free(network *n);
zn_status network_predict(network *n, const float *x, int step, float *noise);

/* A sampler run. begin: the result of step k is compared with out.<begin>.step<k>.sample. last: the final result is
 * compared with out.<last>. Either may be NULL. */
typedef struct walk {
    network *n;
    const char *begin, *last;
    zn_shape shape;
    const float *noise; /* for each step that needs noise, in order */
    int next;
    float *shaken; /* samples of a run with perturbed predictions; see network.c */
    bool shaking;
    zn_rng rng;
} walk;
typedef zn_status (*sampler_fn)(const zn_sampling *s, float *x);
/* Changes x and shaken. Both start with the same values, or with those at the end of an earlier walk. */
zn_status walk_run(walk *w, sampler_fn sampler, const zn_diffusion *schedule, bool clamp, float *x, float *shaken);

/* A training step: loss, gradients, their norm, the optimiser step and the average of weights. */
typedef struct lesson {
    golden *g;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *loss;
    zn_node **wrt, **gradients;
    int count;
} lesson;
/* Adds an input to the lesson's graph with these values (copied; NULL: not set yet). */
zn_node *lesson_input(lesson *l, const char *name, zn_shape shape, const float *values);
/* Runs the lesson (graph and loss are set) and compares out.train.*. form: "adam" or "adamw". Frees the lesson. */
zn_status lesson_run(lesson *l, const char *form);

/* Compares the update after one step, lr*g/(|g|+eps). Where the gradient is not well determined, the tolerance is 2 lr.
 * Writes the weights to `after`. */
typedef struct zn_update {
    zn_shape shape;
    zn_layout layout;
    const float *start, *gradient;
} zn_update;
zn_status compare_update(golden *g, const char *name, const zn_optim_options *o, const zn_update *u, float *after);

/* Adds noise to x for the steps in.train_t, one per sample, and computes the embeddings of these steps. */
zn_status noised(const golden *g, const char *betas, const float *x, zn_shape shape, const float *noise, int width,
                 float *x_t, float *times);

#endif

/* Learners: parameters and what it takes to improve them: gradients summed over micro-batches, an optimiser, averaged
 * weights.
 *
 *     zn_learner l;
 *     ZN_TRY(zn_learner_new(&l, parameters, count, &(zn_learner_options){ .optim = optim, .parts = 4, .pool = pool }));
 *     l.gradients[i] = ...                       // nodes of the graph; NULL: parameter i is not learned
 *     zn_learner_gather(&l, part, of);           // after each of `parts` runs of the graph, for a mean over `of` parts
 *     ZN_TRY(zn_ranks_sum(ranks, l.tree, l.total));            // the other parts are theirs
 *     ZN_TRY(zn_learner_clip(&l, 1));
 *     ZN_TRY(zn_learner_update(&l, &(zn_learner_step){ .lr = lr, .average = 0.999 }));
 *     zn_learner_free(&l);
 *
 * On a device the parameters, their averages, moments and sums of gradients stay there: every function here works on
 * the device's copies. Host memory holds their values after zn_learner_fetch; zn_learner_send makes the device use what
 * host memory holds. Neither does anything without a device. */
#ifndef ZN_LEARNER_H
#define ZN_LEARNER_H

#include "models/model.h"
#include "train/optimiser/optim.h"

/* Parameters that are not of a model: adaptors, a discriminator. */
typedef struct zn_parameters {
    zn_arena arena; /* all memory */
    zn_model_parameter *list;
    int count;
} zn_parameters;

/* Those parameters of a graph that have no values: they get initial values (He normal times `scale`, biases zero),
 * which depend on their names and the seed, and are bound. */
ZN_MUST_USE zn_status zn_parameters_adopt(zn_parameters *p, zn_graph *g, uint64_t seed, float scale);
void zn_parameters_bind(const zn_parameters *p, zn_graph *g);
void zn_parameters_free(zn_parameters *p);

typedef struct zn_learner_options {
    zn_optim_options optim;
    bool average; /* keep averaged weights */
    int parts;    /* whose gradients are added up here */
    zn_pool *pool;
    zn_device *device; /* NULL: the CPU */
} zn_learner_options;

typedef struct zn_learner {
    zn_learner_options options;
    const zn_model_parameter **parameters; /* what they point to is borrowed */
    int count;
    zn_node **gradients;
    float **sums; /* by parameter: gradients added up over parts, consecutively in `tree` */
    float **ema;  /* by parameter: averaged weights; NULL without */
    int64_t *counts;
    int64_t total;       /* floats of all parameters */
    float *tree;         /* [levels][total]: first the sums, then sums of parts that wait for their like */
    int levels, waiting; /* of the tree; in use */
    double *squares;     /* [blocks]: sums of squares of blocks of gradients; used with a device */
    float *flags;        /* [blocks]: which blocks hold extreme values */
    int64_t blocks;
    float scale;  /* factor of the loss, by which gradients are divided when they are gathered */
    int twins;    /* number of buffers that have device copies so far */
    bool extreme; /* a gradient or a part of the state is or was so large that an update may not be finite */
    zn_optim optim;
} zn_learner;

ZN_MUST_USE zn_status zn_learner_new(zn_learner *l, const zn_model_parameter *const *parameters, int count,
                                     const zn_learner_options *options);
void zn_learner_free(zn_learner *l);

ZN_MUST_USE zn_status zn_learner_fetch(const zn_learner *l);
ZN_MUST_USE zn_status zn_learner_send(const zn_learner *l);

/* The same for the sums of gradients alone. */
ZN_MUST_USE zn_status zn_learner_fetch_sums(const zn_learner *l);
ZN_MUST_USE zn_status zn_learner_send_sums(const zn_learner *l);

/* Parts in ascending order. They are added as zn_ranks_sum adds ranks, neighbours first; after the last one the sums
 * are complete. */
void zn_learner_gather(zn_learner *l, int part, int of);

/* Scales the sums down where their global norm is above the limit; 0: none. ZN_ENUMERIC names a parameter whose
 * gradient is not finite. */
ZN_MUST_USE zn_status zn_learner_clip(zn_learner *l, double limit);

typedef struct zn_learner_step {
    double lr;
    double average; /* decay of the averaged weights */
    bool steady;    /* that decay from the first step on; else it rises to it over the first steps */
    double gate_lr; /* factor of the rate of gates, thresholds and layer scales; 0: they stay */
    bool gated;     /* a network with block gates: these have the factor below, and gains that start at 1/C learn at 1/C
                     * of the rate */
    double block_gate_lr;
    double inherited_lr; /* of parameters that began with a teacher's values */
} zn_learner_step;
ZN_MUST_USE zn_status zn_learner_update(zn_learner *l, const zn_learner_step *step);

/* True if one of the values is too large, infinite or NaN: whoever puts such into the state says so in `extreme`. While
 * no weight and no gradient ever was, updates within the limits of a recipe are finite, and nobody has to look. */
bool zn_any_extreme(const float *values, int64_t count);

/* Exchanges the weights with the averaged ones; a second call takes it back. Nothing happens without averages. Host
 * memory holds the exchanged values too. */
ZN_MUST_USE zn_status zn_learner_swap(zn_learner *l);

/* How a parameter is updated, by its role: gates, thresholds and layer scales learn faster; only weights decay. */
zn_optim_tensor zn_parameter_rule(const zn_model_parameter *p, const zn_learner_step *step);

#endif

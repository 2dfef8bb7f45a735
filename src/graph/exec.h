/* Executes a graph. Memory is planned once; runs allocate nothing.
 *
 *     zn_exec *e;
 *     ZN_TRY(zn_exec_new(g, outputs, 1, &(zn_exec_options){ .pool = pool }, &e));
 *     memcpy(input->data, pixels, bytes);
 *     ZN_TRY(zn_exec_run(e));
 *     use(outputs[0]->data);
 *     zn_exec_free(e);
 *
 * The graph must outlive the executor. Inputs and outputs keep their own memory for the whole run; the owner may
 * provide it (zn_node.placed). All other nodes share one block. A node's result may reuse the memory of a source that
 * is not read again.
 *
 * With a device, zn_node.data is still a host address. A run copies the inputs to their device copies (twins) and
 * copies the outputs back (mirror.h), unless `resident` is set. Nodes in between have a host address, but the host
 * memory does not hold their values. A node for which the device has no kernel runs on the CPU, with copies of what it
 * reads and of its result. */
#ifndef ZN_EXEC_H
#define ZN_EXEC_H

#include "graph/graph.h"
#include "graph/packs.h"

typedef struct zn_exec zn_exec;

/* Callbacks for runs that each compute different rows of the feature maps (pipeline/codec/bands.h). They are called
 * before and after each node, and set its height and data. The owner places every node that is not a constant. */
typedef struct zn_exec_bands {
    bool (*before)(void *user, zn_node *n); /* false: the node has nothing to compute in this run */
    void (*after)(void *user, zn_node *n);
    void *user;
    size_t thread_scratch, shared_scratch; /* maximum that any node needs in any run */
} zn_exec_bands;

typedef struct zn_exec_options {
    zn_pool *pool;     /* borrowed */
    zn_device *device; /* borrowed; NULL: the pool runs the kernels */
    zn_packs *packs;   /* borrowed; shared packed weights; NULL: the executor packs its own */
    zn_precision math; /* DEFAULT: fp32 */
    bool whole;        /* the graph is never divided into tiles, so results need not match those of tiles bit by bit */
    int lean;          /* how little packed weights take: zn_conv_wish.lean */
    bool training;     /* parameters change between runs: pack weights in every run */
    size_t weights;    /* bytes of the device for weights in files: others take turns there (turns.h); 0: no limit */
    bool pins;         /* it runs so often that such weights are worth a copy in pinned memory */
    bool resident;     /* a run neither sends inputs (and when training, parameters) nor fetches outputs */
    bool profile;
    bool varies;                /* settings of ops change between runs, so that none is recorded */
    const zn_exec_bands *bands; /* borrowed; NULL: every run computes all rows */
    zn_progress_fn progress;    /* called after each node; may be NULL */
    void *user;
    void (*enter)(void *owner, const zn_node *n); /* called before each node; may be NULL */
    void *owner;
} zn_exec_options;

/* Parameters must have data; a device gets a copy of their current values. Inputs without data get zeroed memory.
 * Inputs with data are used in place. */
ZN_MUST_USE zn_status zn_exec_new(zn_graph *g, zn_node *const *outputs, int count, const zn_exec_options *options,
                                  zn_exec **out);
void zn_exec_free(zn_exec *e);

/* Returns ZN_OK, ZN_ECANCELLED or an error of the device. */
ZN_MUST_USE zn_status zn_exec_run(zn_exec *e);

/* Keeps the weights of an executor on its device after the executor is freed, for the next one that reads them. */
typedef struct zn_held_weights {
    zn_device *device;
    const void **blocks;
    size_t count, capacity;
} zn_held_weights;
ZN_MUST_USE zn_status zn_exec_hold_weights(const zn_exec *e, zn_held_weights *out);
void zn_held_weights_free(zn_held_weights *h); /* harmless on a zeroed one */

/* For executors with `resident`: copies all inputs to the device; copies nodes that are outputs from the device to
 * their host memory. Neither does anything without a device. */
void zn_exec_send(zn_exec *e);
ZN_MUST_USE zn_status zn_exec_fetch(zn_exec *e, zn_node *const *nodes, int count);

/* ZN_OK, or ZN_ENUMERIC with the name of the first stage whose result holds NaN or infinity. If all outputs that are in
 * host memory are finite, it only reads these. Otherwise it runs the graph again and checks every stage. */
ZN_MUST_USE zn_status zn_exec_check_finite(zn_exec *e);

/* Bytes of activations and scratch; bytes of prepared data and packed weights, shared or not. */
size_t zn_exec_activation_bytes(const zn_exec *e);
size_t zn_exec_prepared_bytes(const zn_exec *e);

/* On a device: bytes of weights in files that stay there, and of those that take turns in every run, in a window of so
 * many bytes. */
typedef struct zn_exec_weights {
    size_t resident, streamed, window;
} zn_exec_weights;
zn_exec_weights zn_exec_count_weights(const zn_exec *e);
/* Bytes of weights that the steps on a device would read, and the least value of `weights`, without an executor. */
ZN_MUST_USE zn_status zn_exec_estimate_weights(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p,
                                               size_t *all, size_t *least);

/* Share of the operations that use less precision than fp32, 0 to 1. Counts operations of the direct algorithm.
 */
double zn_exec_coarse(const zn_exec *e);

/* Steps of a run, and those of them that the CPU runs because the device has no kernel for them. */
typedef struct zn_exec_places {
    int steps, on_host;
} zn_exec_places;
zn_exec_places zn_exec_count_places(const zn_exec *e);

/* What each pass decided, for people: a line for types, places, kernels and memory. Cut off if it is longer. */
void zn_exec_describe(const zn_exec *e, char *text, size_t size);

/* Memory that zn_exec_new would need, without allocating it: activations + scratch for a pool of p->threads threads,
 * and prepared data + packed weights, those that steps have in common once, as in a cache (packs.h). */
ZN_MUST_USE zn_status zn_exec_estimate(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p,
                                       size_t *activations, size_t *prepared);

/* Profile of the last run, one row for each executed node. */
typedef struct zn_exec_row {
    const zn_node *node;
    const char *kernel;
    double ms, flops, flops_done, slots, bytes;
    double copied; /* bytes copied to and from the device because the CPU ran the node */
} zn_exec_row;
int zn_exec_rows(const zn_exec *e);
zn_exec_row zn_exec_row_at(const zn_exec *e, int index);

#endif

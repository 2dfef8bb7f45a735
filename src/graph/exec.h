/* Executing a graph: memory planned once, then runs that allocate nothing.
 *
 *     zn_exec *e;
 *     ZN_TRY(zn_exec_new(g, outputs, 1, &(zn_exec_options){ .pool = pool }, &e));
 *     memcpy(input->data, pixels, bytes);
 *     ZN_TRY(zn_exec_run(e));
 *     use(outputs[0]->data);
 *     zn_exec_free(e);
 *
 * The graph must outlive the exec. Inputs and outputs have memory of their own for the whole run, which an
 * owner may have given them (zn_node.placed); everything between shares one block. A node's result may take over the
 * memory of a source that nobody reads afterwards.
 *
 * With a device, data of nodes are addresses of the host as ever: a run sends the inputs to their twins and fetches the
 * outputs (mirror.h). What lies between has an address and no content here. */
#ifndef ZN_EXEC_H
#define ZN_EXEC_H

#include "graph/graph.h"
#include "graph/packs.h"

typedef struct zn_exec zn_exec;

/* For runs of which each computes other rows of the maps (pipeline/codec/bands.h): called around each node, they set
 * heights and data. All nodes that are no constants are placed by their owner. */
typedef struct zn_exec_bands {
    bool (*before)(void *user, zn_node *n); /* false: the node has nothing to compute in this run */
    void (*after)(void *user, zn_node *n);
    void *user;
    size_t thread_scratch, shared_scratch; /* the most that a node needs in any run */
} zn_exec_bands;

typedef struct zn_exec_options {
    zn_pool *pool;     /* borrowed */
    zn_device *device; /* borrowed; NULL: the pool computes */
    zn_packs *packs;   /* borrowed: packed weights that are shared; NULL: the executor packs its own */
    zn_math math;
    bool whole;    /* the graph is never cut into tiles, whose bits would have to be the same */
    bool training; /* parameters change between runs: pack weights in every run */
    bool profile;
    const zn_exec_bands *bands; /* borrowed; NULL: every run computes all rows */
    zn_progress_fn progress;    /* called after each node; may be NULL */
    void *user;
} zn_exec_options;

/* Parameters must have data; on a device they are those of now. A node that the device has no kernel for is an error.
 * Inputs without data get memory (zeroed); inputs with data are used where they are. */
ZN_MUST_USE zn_status zn_exec_new(zn_graph *g, zn_node *const *outputs, int count, const zn_exec_options *options,
                                  zn_exec **out);
void zn_exec_free(zn_exec *e);

/* ZN_OK or ZN_ECANCELLED, or what went wrong on the device. */
ZN_MUST_USE zn_status zn_exec_run(zn_exec *e);

/* ZN_OK, or ZN_ENUMERIC with the name of the first stage whose result holds NaN or infinity. Costs a look at the
 * outputs when all is well; otherwise runs once more, looking at every stage. */
ZN_MUST_USE zn_status zn_exec_check_finite(zn_exec *e);

/* Bytes: activations and scratch; prepared and packed weights, shared or not. */
size_t zn_exec_activation_bytes(const zn_exec *e);
size_t zn_exec_prepared_bytes(const zn_exec *e);

/* Share of the operations, counted as if done directly, that are coarser than fp32: 0 to 1. */
double zn_exec_coarse(const zn_exec *e);

/* What zn_exec_new would need, without allocating it: activations + scratch for a pool of p->threads. */
ZN_MUST_USE zn_status zn_exec_estimate(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p,
                                       size_t *activations, size_t *prepared);

/* Profile rows of the last run, one for each executed node. */
typedef struct zn_exec_row {
    const zn_node *node;
    const char *kernel;
    double ms, flops, flops_done, slots, bytes;
} zn_exec_row;
int zn_exec_rows(const zn_exec *e);
zn_exec_row zn_exec_row_at(const zn_exec *e, int index);

#endif

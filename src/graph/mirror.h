/* An executor's memory on a device: copies (twins) of its blocks and of the parameters that it reads, and the lists of
 * nodes to send before a run and to fetch after it. Without a device the mirror is empty, and sending and fetching do
 * nothing. */
#ifndef ZN_MIRROR_H
#define ZN_MIRROR_H

#include "graph/turns.h"

typedef struct zn_mirror {
    zn_device *device;
    const zn_turns *turns; /* borrowed: weights that it brings get no twin here */
    struct zn_mirror_block {
        const void *host; /* block for which this mirror made a twin */
        bool weights;     /* never changed */
    } * blocks;
    size_t block_count, block_capacity;
    zn_node **inputs, **outputs;
    size_t input_count, input_capacity, output_count, output_capacity;
} zn_mirror;

/* Inputs and outputs in the plan's block move to host memory of their own that copies to the device fastest. Parameters
 * and memory that the owner provided stay in place and get twins. Parameters that steps from `first` on read are sent,
 * and again before every run if `changing`. Weights in files that another executor has sent are not sent again. */
ZN_MUST_USE zn_status zn_mirror_make(zn_mirror *m, zn_device *d, const zn_turns *turns, const zn_plan *plan,
                                     const zn_prepare *p, int first, bool changing, zn_node *const *outputs, int count);
/* Makes a twin for a block of the executor's memory. `send`: also copies its content. */
ZN_MUST_USE zn_status zn_mirror_block(zn_mirror *m, const void *host, size_t bytes, bool send);
/* Makes a twin for weights that never change, in files or shared by executors: they are sent once, whoever has them. */
ZN_MUST_USE zn_status zn_mirror_weights(zn_mirror *m, const void *host, size_t bytes);
/* Sends the constants that the CPU has computed, and waits until all transfers are complete. */
ZN_MUST_USE zn_status zn_mirror_constants(zn_mirror *m, const zn_plan *plan);
void zn_mirror_free(zn_mirror *m);

void zn_mirror_send(const zn_mirror *m);
/* Returns when the outputs have arrived in host memory. */
ZN_MUST_USE zn_status zn_mirror_fetch(const zn_mirror *m);

/* For a step that the CPU runs: fetches what it reads, and returns when that has arrived; sends its result.
 * `parameters`: the parameters change on the device, so they are fetched too. */
ZN_MUST_USE zn_status zn_mirror_fetch_sources(const zn_mirror *m, const zn_node *n, bool parameters);
void zn_mirror_send_result(const zn_mirror *m, const zn_node *n);

#endif

/* What an executor has on a device: twins of its memory and of the parameters it reads, and which nodes are sent before
 * a run and fetched after it. Without a device it is empty, and sending and fetching do nothing. */
#ifndef ZN_MIRROR_H
#define ZN_MIRROR_H

#include "graph/plan.h"

typedef struct zn_mirror {
    zn_device *device;
    const void **blocks; /* that have twins because of this one */
    size_t block_count, block_room;
    zn_node **inputs, **outputs;
    size_t input_count, input_room, output_count, output_room;
} zn_mirror;

/* Inputs and outputs whose memory is the plan's get memory of their own, from which copies are fastest; parameters,
 * and memory that owners gave, get twins where they are. Parameters are sent. */
ZN_MUST_USE zn_status zn_mirror_make(zn_mirror *m, zn_device *d, const zn_plan *plan, zn_node *const *outputs,
                                     int count);
/* A twin for a block of the executor's memory; `send` what it holds. */
ZN_MUST_USE zn_status zn_mirror_block(zn_mirror *m, const void *host, size_t bytes, bool send);
/* Sends what the CPU has computed from parameters, and waits for all that was sent. */
ZN_MUST_USE zn_status zn_mirror_constants(zn_mirror *m, const zn_plan *plan);
void zn_mirror_free(zn_mirror *m);

void zn_mirror_send(const zn_mirror *m);
/* Returns when the outputs are here. */
ZN_MUST_USE zn_status zn_mirror_fetch(const zn_mirror *m);

#endif

/* Chooses the types of the values of a planned graph: which maps are kept in 16 bits. This is the whole policy:
 *
 * - Only on a device, and only with a precision of 16 bits. The CPU's maps are F32.
 * - A value is 16 bits if the op that computes it can write it so and every op that reads it can read it so
 *   (zn_op.types). So no conversions are needed between steps.
 * - Inputs, outputs, constants and parameters are F32, and so is what a step on the CPU reads or writes.
 * - Sums and statistics inside a kernel are fp32 whatever the types of its maps are. */
#ifndef ZN_GRAPH_TYPES_H
#define ZN_GRAPH_TYPES_H

#include "graph/graph.h"

/* Sets zn_node.type of all nodes. Call it before the memory is planned. */
ZN_MUST_USE zn_status zn_types_choose(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p);

/* Bytes of a node's values, with those after its result (zn_op.tail). */
size_t zn_node_bytes(const zn_node *n);
/* What stands after the result. */
float *zn_node_tail(const zn_node *n);

#endif

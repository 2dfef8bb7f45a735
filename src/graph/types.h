/* Chooses the types of the values of a planned graph: which maps are kept in 16 bits. This is the whole policy:
 *
 * - Only with a precision of 16 bits: on a device; and on a CPU in bf16 and not in training, if it has matrix units for
 *   bf16 maps (AMX) or if the graph keeps values between runs. Other networks have F32 maps on other CPUs, where maps
 * of bf16 save memory but no time.
 * - A value is 16 bits if the op that computes it can write it so and every op that reads it can read it so
 *   (zn_op.types and zn_op.host_types). So no conversions are needed between steps.
 * - Inputs, outputs, constants and parameters are F32, and so is what a step on the CPU reads or writes in an executor
 *   with a device. Values that stay between runs may be 16 bits (zn_node.partner) unless zn_node.wide is set. On the
 * CPU, maps where a network may be cut are F32 (zn_node.wide), so that pieces have the bits of the whole.
 * - Codes of FP8 (zn_op.codes) are a decision of the graph, not of this pass: ops/passes/fp8.c makes them for products
 *   that read nothing else.
 * - Sums and statistics inside a kernel are fp32 whatever the types of its maps are. */
#ifndef ZN_GRAPH_TYPES_H
#define ZN_GRAPH_TYPES_H

#include "graph/graph.h"

/* Sets zn_node.type of all nodes. Call it before the memory is planned. */
ZN_MUST_USE zn_status zn_types_choose(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p);

/* Bytes of a node's values, with those after its result (zn_op.tail). */
size_t zn_node_bytes(const zn_node *n);
/* What follows the result. */
float *zn_node_tail(const zn_node *n);

#endif

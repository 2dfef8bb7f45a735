/* Concatenations that nobody needs as a map (conv/pair.c). */
#ifndef ZN_OPS_PAIRS_H
#define ZN_OPS_PAIRS_H

#include "ops/passes/fuse.h"

extern const zn_op zn_op_pair_product, zn_op_norm_conv, zn_op_norm_measured;

/* Where all who read a concatenation of two maps, norms and 1x1 convolutions, can read its parts instead, they do. For
 * networks on a device whose maps are bf16 and which are not trained; otherwise nothing changes. After zn_graph_fuse.
 */
void zn_graph_fuse_pairs(zn_graph *g, zn_node *const *outputs, int count, zn_precision math, uint32_t cpu);

/* Part of it, once types are chosen (graph/types.h): norms between two 3x3 convolutions become a part of them, where
 * the device can (conv/norm_conv.c). */
void zn_fuse_norm_convs(zn_graph *g, int *uses, uint32_t cpu);

#endif

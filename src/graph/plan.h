/* Memory plan of a graph: the nodes to run, and the offset of each result in one block. */
#ifndef ZN_PLAN_H
#define ZN_PLAN_H

#include "graph/graph.h"

typedef struct zn_plan {
    zn_node **steps; /* nodes to run, in order; constants come first and keep their memory */
    int step_count, constant_count;
    int64_t *offset; /* by node index: offset in the block, -1 for none */
    size_t block;    /* bytes */
} zn_plan;

/* in_place: results may reuse the memory of sources that are not read again. views: parts of parameters (zn_op.view)
 * are where the parameters are, and no steps. */
ZN_MUST_USE zn_status zn_plan_make(zn_graph *g, zn_node *const *outputs, int count, bool in_place, bool views,
                                   zn_plan *plan);
void zn_plan_free(zn_plan *plan);

/* Fails if a step reads a parameter without values, or a packed parameter although the op needs floats. */
ZN_MUST_USE zn_status zn_plan_check_parameters(const zn_plan *plan);

#endif

/* What the steps of a plan need beside the memory of their results. */
#ifndef ZN_NEEDS_H
#define ZN_NEEDS_H

#include "graph/plan.h"

size_t zn_needs_round(size_t bytes); /* up to whole cache lines */

/* p for one node: constants are computed once, and by the CPU whatever runs the rest. */
zn_prepare zn_prepare_of(const zn_node *n, const zn_prepare *p);
zn_needs zn_needs_of(const zn_node *n, const zn_prepare *p);

/* Of all steps: the largest scratch, and the sums of what is prepared and packed. */
zn_needs zn_needs_of_plan(const zn_plan *plan, const zn_prepare *p);

#endif

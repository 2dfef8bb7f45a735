/* Memory that the steps of a plan need in addition to their results. */
#ifndef ZN_NEEDS_H
#define ZN_NEEDS_H

#include "graph/plan.h"

size_t zn_needs_round(size_t bytes); /* rounds up to whole cache lines */

/* Settings for one node: p, but constants are always prepared for the CPU, which computes them once. */
zn_prepare zn_prepare_of(const zn_node *n, const zn_prepare *p);
zn_needs zn_needs_of(const zn_node *n, const zn_prepare *p);

/* Over all steps: the maximum of the scratch sizes and the sums of prepared and packed. */
zn_needs zn_needs_of_plan(const zn_plan *plan, const zn_prepare *p);

#endif

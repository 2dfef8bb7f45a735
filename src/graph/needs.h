/* Memory that the steps of a plan need in addition to their results. */
#ifndef ZN_NEEDS_H
#define ZN_NEEDS_H

#include "graph/plan.h"

size_t zn_needs_round(size_t bytes); /* rounds up to whole cache lines */

/* True if the CPU runs the node, even in an executor with a device: it has no kernel for the node, or the node is
 * computed once from parameters that do not change. */
bool zn_runs_on_host(const zn_node *n, const zn_prepare *p);
/* Whether parts of parameters are used where they are (zn_plan_make): on the CPU, while the parameters stay there. */
bool zn_views_parameters(const zn_prepare *p);

/* Settings for one node: p, with the flags of the CPU if zn_runs_on_host. */
zn_prepare zn_prepare_of(const zn_node *n, const zn_prepare *p);
zn_needs zn_needs_of(const zn_node *n, const zn_prepare *p);

/* Over all steps: the maximum of the scratch sizes and the sums of prepared and packed. */
zn_needs zn_needs_of_plan(const zn_plan *plan, const zn_prepare *p);

#endif

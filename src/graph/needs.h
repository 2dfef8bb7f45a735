/* What the steps of a plan need beside the memory of their results. */
#ifndef ZN_NEEDS_H
#define ZN_NEEDS_H

#include "graph/plan.h"

size_t zn_needs_round(size_t bytes); /* up to whole cache lines */

/* p for one node: constants are computed once, and by the CPU whatever runs the rest. */
zn_prepare zn_prepare_of(const zn_node *n, const zn_prepare *p);
zn_needs zn_needs_of(const zn_node *n, const zn_prepare *p);

/* Scratch of a thread and of all together, the largest of all steps; prepared bytes of all, and by step where they
 * begin (prepared_at may be NULL). */
void zn_needs_measure(const zn_plan *plan, const zn_prepare *p, size_t *thread, size_t *shared, size_t *prepared,
                      size_t *prepared_at);

#endif

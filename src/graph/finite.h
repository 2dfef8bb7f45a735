/* The search for NaN and infinity in a node's values. */
#ifndef ZN_GRAPH_FINITE_H
#define ZN_GRAPH_FINITE_H

#include "base/threads.h"
#include "graph/graph.h"

/* Whether all values are finite. They must be in host memory. */
bool zn_node_is_finite(const zn_node *n, zn_pool *pool);

#endif

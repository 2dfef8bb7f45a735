/* What other ops ask about a product with weights in their file format. */
#ifndef ZN_OPS_MATRIX_H
#define ZN_OPS_MATRIX_H

#include "graph/graph.h"

/* Whether the weights of this product have fewer bits of precision than bf16. */
bool zn_matrix_is_quantised(const zn_node *n);

#endif

/* Shared by the files that fuse. A node that is fused turns into another op, in place, so that the order of execution
 * stays valid; what it takes over is left without readers. */
#ifndef ZN_OPS_FUSE_H
#define ZN_OPS_FUSE_H

#include "ops/ops.h"

/* Ops that only fusion makes; they have no gradient, and none is asked for after fusion. */
extern const zn_op zn_op_lite_rows, zn_op_lite_columns, zn_op_lite_expand, zn_op_lite_head, zn_op_spectral_linear,
    zn_op_tile_square;

/* Each looks whether n is the last node of what it knows (uses: readers by node index) and if so changes n. */
void zn_fuse_norm(zn_node *n, int *uses);
void zn_fuse_lite(zn_node *n, int *uses);
void zn_fuse_lite_head(zn_node *n, int *uses);
void zn_fuse_spectral_linear(zn_node *n, int *uses);
void zn_fuse_tile_square(zn_node *n, int *uses);

/* n takes op, attribute and sources; former sources of its own lose a reader. */
void zn_fuse_become(zn_node *n, int *uses, const zn_op *op, const void *attribute, size_t attribute_size,
                    zn_node *const *sources, int count);

#endif

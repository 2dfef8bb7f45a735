/* Reads a gradient that another op computes along with its own result, such as the gradients of a normalisation's
 * parameters along with that of its input. They are stored after that op's result (zn_op.tail). Sources: that op,
 * and the node whose gradient it is, for the shape. Attribute: offset in the tail, in floats. */
#include "graph/types.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *from = n->source[0];
    const float *tail = zn_node_tail(from) + *(int64_t *)n->attribute;
    zn_launch(c, zn_k_copy, zn_shape_count(n->shape), 1 << 14, &(zn_unary_args){ .x = tail, .y = n->data });
}

/* Of neither source is the result read. */
static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .sources = 3 };
}

const zn_op zn_op_tail = { .name = "tail",
                           .shape = zn_like_second,
                           .run = run,
                           .launches = zn_launches,
                           .types = types,
                           .global = true,
                           .joins = true };

void zn_accumulate_tail(zn_node *x, zn_node *from, int64_t first)
{
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_tail, &first, sizeof first, (zn_node *[]){ from, x }, 2));
}

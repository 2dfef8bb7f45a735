/* Gradients that the op of another one computes beside it, such as those of a normalisation's parameters with that of
 * its input: they lie behind that op's result (zn_op.tail), and this picks one up. Sources: the op, and what it is the
 * gradient of, for the shape. Attribute: floats before it in the tail. */
#include "ops/ops.h"

#include <string.h>

static void run(const zn_node *n, const zn_launch_context *c)
{
    (void)c;
    const zn_node *from = n->source[0];
    const float *tail = from->data + zn_shape_count(from->shape) + *(int64_t *)n->attribute;
    memcpy(n->data, tail, sizeof(float) * (size_t)zn_shape_count(n->shape));
}

const zn_op zn_op_tail = { .name = "tail", .shape = zn_like_second, .run = run, .global = true };

void zn_accumulate_tail(zn_node *x, zn_node *from, int64_t first)
{
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_tail, &first, sizeof first, (zn_node *[]){ from, x }, 2));
}

/* The same values with another shape; costs nothing if the source is not read again. */
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static zn_status shape(zn_node *n)
{
    const zn_shape from = n->source[0]->shape, to = *(zn_shape *)n->attribute;
    char a[96], b[96];
    n->shape = to;
    return zn_shape_count(from) == zn_shape_count(to)
               ? ZN_OK
               : ZN_FAIL(ZN_ESHAPE, "%s are not as many numbers as %s", zn_shape_text(from, a, sizeof a),
                         zn_shape_text(to, b, sizeof b));
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_unary_args a = { .x = n->source[0]->data, .y = n->data, .type = n->type };
    if (a.y != a.x)
        zn_launch(c, zn_k_copy, zn_shape_count(n->shape), 1 << 14, &a);
}

static void gradient(zn_node *n, zn_node *dy) { zn_accumulate(n->source[0], zn_reshape(dy, n->source[0]->shape)); }

const zn_op zn_op_reshape = { .name = "reshape",
                              .shape = shape,
                              .run = run,
                              .launches = zn_launches,
                              .types = zn_types_alike,
                              .gradient = gradient,
                              .global = true,
                              .in_place = zn_first_source };

zn_node *zn_reshape(zn_node *x, zn_shape to) { return zn_apply(&zn_op_reshape, &to, sizeof to, (zn_node *[]){ x }, 1); }

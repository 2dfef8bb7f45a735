/* Rows of a table by index: the embedding of tokens. */
#include "kernels/lookup.h"

#include "base/fail.h"
#include "ops/ops.h"

static zn_status shape(zn_node *n)
{
    const zn_shape table = n->source[0]->shape, ids = n->source[1]->shape;
    char a[96], b[96];
    if (table.rank != 4 || table.dim[0] * table.dim[1] != 1 || ids.rank < 1 || ids.dim[ids.rank - 1] != 1)
        return ZN_FAIL(ZN_ESHAPE, "a table %s has no rows for numbers %s", zn_shape_text(table, a, sizeof a),
                       zn_shape_text(ids, b, sizeof b));
    n->shape = ids;
    n->shape.dim[ids.rank - 1] = table.dim[3];
    return ZN_OK;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *table = n->source[0];
    const int64_t wide = table->shape.dim[3];
    const zn_lookup_args a = { .table = table->packed ? *table->packed : zn_packed_floats(table->data, wide),
                               .ids = n->source[1]->data,
                               .y = n->data,
                               .rows = table->shape.dim[2],
                               .count = zn_shape_count(n->source[1]->shape),
                               .c = (int)wide };
    zn_launch(c, zn_k_lookup, a.count, 1, &a);
}

/* A device has tables of floats only. */
static bool is_floats(const zn_node *n) { return !n->source[0]->packed; }

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *table = n->source[0];
    if (zn_needs_gradient(table))
        zn_accumulate(table, zn_apply(&zn_op_lookup_grad, &table->shape, sizeof table->shape,
                                      (zn_node *[]){ dy, n->source[1] }, 2));
}

const zn_op zn_op_lookup = {
    .name = "lookup", .shape = shape, .run = run, .launches = is_floats, .gradient = gradient, .takes_packed = true
};

zn_node *zn_lookup(zn_node *table, zn_node *ids)
{
    return zn_apply(&zn_op_lookup, NULL, 0, (zn_node *[]){ table, ids }, 2);
}

/* Gradient of the table; the table's shape is the attribute. Sources: dy, ids. */
static zn_status grad_shape(zn_node *n)
{
    n->shape = *(zn_shape *)n->attribute;
    return ZN_OK;
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_lookup_args a = { .ids = n->source[1]->data,
                               .dy = n->source[0]->data,
                               .y = n->data,
                               .rows = n->shape.dim[2],
                               .count = zn_shape_count(n->source[1]->shape),
                               .c = (int)n->shape.dim[3] };
    zn_launch(c, zn_k_lookup_grad, (a.c + ZN_LOOKUP_STRIP - 1) / ZN_LOOKUP_STRIP, 1, &a);
}

const zn_op zn_op_lookup_grad = {
    .name = "lookup_grad", .shape = grad_shape, .run = grad_run, .launches = zn_launches, .global = true
};

/* 3x3 median in each channel: removes impulse noise (single wrong pixels). */
#include "kernels/kernels.h"
#include "ops/ops.h"

static zn_status shape(zn_node *n)
{
    const zn_status status = zn_need_rank(n, 4);
    return status == ZN_OK ? zn_same_shape(n) : status;
}

static zn_median_args args_of(const zn_node *n)
{
    const int64_t *d = n->shape.dim;
    return (zn_median_args){ .x = n->source[0]->data, .y = n->data, .h = (int)d[1], .w = (int)d[2], .c = (int)d[3] };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_median_args a = args_of(n);
    zn_launch(c, zn_k_median3, n->shape.dim[0] * n->shape.dim[1], 8, &a);
}

static void run_gradient(const zn_node *n, const zn_launch_context *c)
{
    zn_median_args a = args_of(n);
    a.dy = n->source[1]->data;
    zn_launch(c, zn_k_median3_grad, n->shape.dim[0], 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *sources[] = { n->source[0], dy };
    zn_accumulate(n->source[0], zn_apply(&zn_op_median3_grad, NULL, 0, sources, 2));
}

const zn_op zn_op_median3 = { .name = "median3",
                              .shape = shape,
                              .run = run,
                              .launches = zn_launches,
                              .gradient = gradient,
                              .reach = zn_reach_neighbours };
const zn_op zn_op_median3_grad = {
    .name = "median3_grad", .shape = shape, .run = run_gradient, .launches = zn_launches, .global = true
};

zn_node *zn_median3(zn_node *x) { return zn_apply(&zn_op_median3, NULL, 0, &x, 1); }

/* Losses that grow linearly: mean of |a-b|, or the Huber loss, which is quadratic below a knee. */
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/loss.h"
#include "ops/ops.h"

static zn_distance_args args_of(const zn_node *n)
{
    return (zn_distance_args){ .a = n->source[0]->data,
                               .b = n->source[1]->data,
                               .count = zn_shape_count(n->source[0]->shape),
                               .knee = *(float *)n->attribute };
}

static int64_t blocks_of(const zn_node *n) { return zn_reduce_blocks(zn_shape_count(n->source[0]->shape)); }

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_same_shape(n));
    n->shape = ZN_SHAPE(1);
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)blocks_of(n) };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_distance_args a = args_of(n);
    a.y = c->shared;
    zn_launch(c, zn_k_distance, blocks_of(n), 1, &a);
    const zn_total_args total = { .x = a.y, .y = n->data, .count = blocks_of(n), .divisor = (double)a.count };
    zn_launch(c, zn_k_total, 1, 1, &total);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *da =
        zn_apply(&zn_op_distance_grad, n->attribute, sizeof(float), (zn_node *[]){ n->source[0], n->source[1], dy }, 3);
    zn_accumulate(n->source[0], da);
    if (zn_needs_gradient(n->source[1]))
        zn_accumulate(n->source[1], zn_scale(da, -1));
}

const zn_op zn_op_distance = { .name = "distance",
                               .shape = shape,
                               .run = run,
                               .launches = zn_launches,
                               .gradient = gradient,
                               .needs = needs,
                               .global = true };

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_distance_args a = args_of(n);
    a.dy = n->source[2]->data;
    a.y = n->data;
    zn_launch(c, zn_k_distance_grad, a.count, 1 << 14, &a);
}

const zn_op zn_op_distance_grad = {
    .name = "distance_grad", .shape = zn_like_first, .run = grad_run, .launches = zn_launches
};

static zn_node *distance(zn_node *a, zn_node *b, float knee)
{
    return zn_apply(&zn_op_distance, &knee, sizeof knee, (zn_node *[]){ a, b }, 2);
}

zn_node *zn_mean_absolute_error(zn_node *a, zn_node *b) { return distance(a, b, 0); }
zn_node *zn_huber(zn_node *a, zn_node *b, float knee) { return distance(a, b, knee); }

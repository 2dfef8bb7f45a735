/* Losses: scalars of shape [1]. */
#include "kernels/loss.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

enum { GRAIN = 1 << 14 };

static int64_t blocks_of(const zn_node *x) { return zn_reduce_blocks(zn_shape_count(x->shape)); }

/* mean((a-b)^2)           d/da = 2 (a-b) / count */
static zn_status mse_shape(zn_node *n)
{
    ZN_TRY(zn_same_shape(n));
    n->shape = ZN_SHAPE(1);
    return ZN_OK;
}

static zn_needs mse_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)blocks_of(n->source[0]) };
}

static void mse_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t count = zn_shape_count(n->source[0]->shape), blocks = blocks_of(n->source[0]);
    float *partial = c->shared;
    const zn_reduce_args a = { .x = n->source[0]->data, .b = n->source[1]->data, .y = partial, .rows = count };
    zn_launch(c, zn_k_square_difference, blocks, 1, &a);
    const zn_total_args total = { .x = partial, .y = n->data, .count = blocks, .divisor = (double)count };
    zn_launch(c, zn_k_total, 1, 1, &total);
}

static void mse_gradient(zn_node *n, zn_node *dy)
{
    zn_node *a = n->source[0], *b = n->source[1];
    zn_node *d = zn_scale(zn_sub(a, b), 2.0f / (float)zn_shape_count(a->shape));
    zn_node *da = zn_multiply_scalar(d, dy);
    zn_accumulate(a, da);
    if (zn_needs_gradient(b))
        zn_accumulate(b, zn_scale(da, -1));
}

static double mse_flops(const zn_node *n) { return 3.0 * (double)zn_shape_count(n->source[0]->shape); }

const zn_op zn_op_mean_square_error = { .name = "mean_square_error",
                                        .shape = mse_shape,
                                        .run = mse_run,
                                        .launches = zn_launches,
                                        .gradient = mse_gradient,
                                        .needs = mse_needs,
                                        .flops = mse_flops,
                                        .global = true };
zn_node *zn_mean_square_error(zn_node *a, zn_node *b)
{
    return zn_apply(&zn_op_mean_square_error, NULL, 0, (zn_node *[]){ a, b }, 2);
}

/* mean(x)           d/dx = 1 / count */
static zn_status mean_shape(zn_node *n)
{
    n->shape = ZN_SHAPE(1);
    return ZN_OK;
}

static zn_needs mean_needs(const zn_node *n, const zn_prepare *p)
{
    return (zn_needs){ .shared_scratch = zn_total_scratch(zn_shape_count(n->source[0]->shape), p->cpu) };
}

static void mean_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t count = zn_shape_count(n->source[0]->shape);
    const zn_total_args a = {
        .x = n->source[0]->data, .y = n->data, .count = count, .divisor = (double)count, .scratch = c->shared
    };
    zn_launch(c, zn_k_total, 1, 1, &a);
}

static void mean_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0];
    zn_node *ones = zn_scale(zn_ones_like(x), 1.0f / (float)zn_shape_count(x->shape));
    zn_accumulate(x, zn_multiply_scalar(ones, dy));
}

const zn_op zn_op_mean = { .name = "mean",
                           .shape = mean_shape,
                           .run = mean_run,
                           .launches = zn_launches,
                           .gradient = mean_gradient,
                           .needs = mean_needs,
                           .global = true };
zn_node *zn_mean(zn_node *x) { return zn_apply(&zn_op_mean, NULL, 0, (zn_node *[]){ x }, 1); }

/* x [any] times s [1] */
static zn_status multiply_scalar_shape(zn_node *n)
{
    if (zn_shape_count(n->source[1]->shape) != 1)
        return ZN_FAIL(ZN_ESHAPE, "the second factor is not a scalar");
    n->shape = n->source[0]->shape;
    return ZN_OK;
}

static void multiply_scalar_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_binary_args a = { .a = n->source[0]->data, .b = n->source[1]->data, .y = n->data };
    zn_launch(c, zn_k_multiply_scalar, zn_shape_count(n->shape), GRAIN, &a);
}

/* The scalar is a weight or an incoming gradient: its own gradient is never requested. */
static void multiply_scalar_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_multiply_scalar(dy, n->source[1]));
}

const zn_op zn_op_multiply_scalar = { .name = "multiply_scalar",
                                      .shape = multiply_scalar_shape,
                                      .run = multiply_scalar_run,
                                      .launches = zn_launches,
                                      .gradient = multiply_scalar_gradient,
                                      .in_place = zn_first_source };
zn_node *zn_multiply_scalar(zn_node *x, zn_node *s)
{
    return zn_apply(&zn_op_multiply_scalar, NULL, 0, (zn_node *[]){ x, s }, 2);
}

/* mean(m^2 + exp(v) - v - 1) / 2 */
zn_node *zn_kl_gaussian(zn_node *m, zn_node *v)
{
    zn_node *sum = zn_sub(zn_add(zn_multiply(m, m), zn_exp(v)), zn_add(v, zn_ones_like(v)));
    return zn_scale(zn_mean(sum), 0.5f);
}

zn_node *zn_gaussian(zn_node *mean, zn_node *logvar, zn_node *eps)
{
    zn_node *deviation = zn_exp(zn_scale(zn_clamp(logvar, -30, 20), 0.5f));
    return zn_add(mean, zn_multiply(eps, deviation));
}

/* mean(log(1 + exp(x)) - t x)          d/dx = (1 / (1 + exp(-x)) - t) / count. Labels are constants. */
static zn_logistic_args logistic_args_of(const zn_node *n)
{
    return (zn_logistic_args){
        .x = n->source[0]->data, .t = n->source[1]->data, .y = n->data, .count = zn_shape_count(n->source[0]->shape)
    };
}

static void logistic_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_logistic_args a = logistic_args_of(n);
    zn_launch(c, zn_k_logistic_loss, 1, 1, &a);
}

static void logistic_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0];
    zn_accumulate(x, zn_apply(&zn_op_logistic_loss_grad, NULL, 0, (zn_node *[]){ x, n->source[1], dy }, 3));
}

const zn_op zn_op_logistic_loss = { .name = "logistic_loss",
                                    .shape = mse_shape,
                                    .run = logistic_run,
                                    .launches = zn_launches,
                                    .gradient = logistic_gradient,
                                    .global = true };

zn_node *zn_logistic_loss(zn_node *logits, zn_node *labels)
{
    return zn_apply(&zn_op_logistic_loss, NULL, 0, (zn_node *[]){ logits, labels }, 2);
}

static void logistic_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_logistic_args a = logistic_args_of(n);
    a.dy = n->source[2]->data;
    zn_launch(c, zn_k_logistic_loss_grad, a.count, GRAIN, &a);
}

const zn_op zn_op_logistic_loss_grad = {
    .name = "logistic_loss_grad", .shape = zn_like_first, .run = logistic_grad_run, .launches = zn_launches
};

/* Elementwise ops: activations, sums, scales. */
#include "kernels/narrow.h"
#include "ops/ops.h"
#include "ops/slots.h"

#include <stddef.h>

enum { GRAIN = 1 << 14 };

static double gelu_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return ZN_SLOTS_GELU * (double)zn_shape_count(n->shape);
}

static zn_node *unary(const zn_op *op, zn_node *x, float a)
{
    return zn_apply(op, &a, sizeof a, (zn_node *[]){ x }, 1);
}

static zn_node *binary(const zn_op *op, zn_node *a, zn_node *b)
{
    return zn_apply(op, NULL, 0, (zn_node *[]){ a, b }, 2);
}

static void run_unary(const zn_node *n, const zn_launch_context *c, zn_body body)
{
    const zn_unary_args a = { .x = n->source[0]->data,
                              .dy = n->source_count > 1 ? n->source[1]->data : NULL,
                              .y = n->data,
                              .a = n->attribute ? *(float *)n->attribute : 0,
                              .b = n->attribute_size > sizeof(float) ? ((float *)n->attribute)[1] : 0,
                              .type = n->type };
    const zn_narrow_unary_args narrow = { a, body };
    if (c->device || n->type == ZN_TYPE_F32)
        zn_launch(c, body, zn_shape_count(n->shape), GRAIN, &a);
    else
        zn_launch(c, zn_k_narrow_unary, zn_shape_count(n->shape), GRAIN, &narrow);
}

static void run_binary(const zn_node *n, const zn_launch_context *c, zn_body body)
{
    const zn_binary_args a = { .a = n->source[0]->data, .b = n->source[1]->data, .y = n->data, .type = n->type };
    const zn_narrow_binary_args narrow = { a, body };
    if (c->device || n->type == ZN_TYPE_F32)
        zn_launch(c, body, zn_shape_count(n->shape), GRAIN, &a);
    else
        zn_launch(c, zn_k_narrow_binary, zn_shape_count(n->shape), GRAIN, &narrow);
}

/* relu(x) = max(x, 0); the gradient needs only the sign of the output. */
static void relu_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_relu); }
static void relu_gradient(zn_node *n, zn_node *dy) { zn_accumulate(n->source[0], binary(&zn_op_relu_grad, n, dy)); }
const zn_op zn_op_relu = { .name = "relu",
                           .shape = zn_same_shape,
                           .run = relu_run,
                           .types = zn_types_alike,
                           .host_types = zn_types_alike,
                           .launches = zn_launches,
                           .gradient = relu_gradient,
                           .flops = zn_one_flop,
                           .slots = zn_one_slot,
                           .in_place = zn_first_source };
zn_node *zn_relu(zn_node *x) { return zn_apply(&zn_op_relu, NULL, 0, (zn_node *[]){ x }, 1); }

static void relu_grad_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_relu_grad); }
const zn_op zn_op_relu_grad = { .name = "relu_grad",
                                .shape = zn_same_shape,
                                .run = relu_grad_run,
                                .types = zn_types_alike,
                                .launches = zn_launches,
                                .flops = zn_one_flop,
                                .slots = zn_one_slot,
                                .in_place = zn_second_source };

/* soft_clamp(x) = a tanh(x/a), derivative 1 - (y/a)^2 */
static void soft_clamp_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_soft_clamp); }
static void soft_clamp_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0],
                  zn_apply(&zn_op_soft_clamp_grad, n->attribute, sizeof(float), (zn_node *[]){ n, dy }, 2));
}
const zn_op zn_op_soft_clamp = { .name = "soft_clamp",
                                 .shape = zn_same_shape,
                                 .run = soft_clamp_run,
                                 .launches = zn_launches,
                                 .gradient = soft_clamp_gradient,
                                 .flops = zn_one_flop,
                                 .slots = zn_one_slot,
                                 .in_place = zn_first_source };
zn_node *zn_soft_clamp(zn_node *x, float limit) { return unary(&zn_op_soft_clamp, x, limit); }

static void soft_clamp_grad_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_soft_clamp_grad); }
const zn_op zn_op_soft_clamp_grad = { .name = "soft_clamp_grad",
                                      .shape = zn_same_shape,
                                      .run = soft_clamp_grad_run,
                                      .launches = zn_launches,
                                      .flops = zn_one_flop,
                                      .slots = zn_one_slot,
                                      .in_place = zn_second_source };

/* clamp(x) = min(max(x, a), b), derivative 1 from a to b, bounds included */
static void clamp_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_clamp); }
static void clamp_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0],
                  zn_apply(&zn_op_clamp_grad, n->attribute, n->attribute_size, (zn_node *[]){ n->source[0], dy }, 2));
}
const zn_op zn_op_clamp = { .name = "clamp",
                            .shape = zn_same_shape,
                            .run = clamp_run,
                            .types = zn_types_alike,
                            .host_types = zn_types_alike,
                            .launches = zn_launches,
                            .gradient = clamp_gradient,
                            .flops = zn_one_flop,
                            .slots = zn_one_slot,
                            .in_place = zn_first_source };
zn_node *zn_clamp(zn_node *x, float low, float high)
{
    const float bounds[] = { low, high };
    return zn_apply(&zn_op_clamp, bounds, sizeof bounds, (zn_node *[]){ x }, 1);
}

static void clamp_grad_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_clamp_grad); }
const zn_op zn_op_clamp_grad = { .name = "clamp_grad",
                                 .shape = zn_same_shape,
                                 .run = clamp_grad_run,
                                 .types = zn_types_alike,
                                 .launches = zn_launches,
                                 .flops = zn_one_flop,
                                 .slots = zn_one_slot,
                                 .in_place = zn_second_source };

/* gelu(x) = x Phi(x), exact erf form */
static void gelu_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_gelu); }
static void gelu_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], binary(&zn_op_gelu_grad, n->source[0], dy));
}
const zn_op zn_op_gelu = { .name = "gelu",
                           .shape = zn_same_shape,
                           .run = gelu_run,
                           .types = zn_types_alike,
                           .host_types = zn_types_alike,
                           .launches = zn_launches,
                           .gradient = gelu_gradient,
                           .flops = zn_one_flop,
                           .slots = gelu_slots,
                           .in_place = zn_first_source };
zn_node *zn_gelu(zn_node *x) { return zn_apply(&zn_op_gelu, NULL, 0, (zn_node *[]){ x }, 1); }

static void gelu_grad_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_gelu_grad); }
const zn_op zn_op_gelu_grad = { .name = "gelu_grad",
                                .shape = zn_same_shape,
                                .run = gelu_grad_run,
                                .types = zn_types_alike,
                                .launches = zn_launches,
                                .flops = zn_one_flop,
                                .slots = zn_one_slot,
                                .in_place = zn_second_source };

static void silu_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_silu); }
static void silu_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], binary(&zn_op_silu_grad, n->source[0], dy));
}
static double silu_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return ZN_SLOTS_SILU * (double)zn_shape_count(n->shape);
}
const zn_op zn_op_silu = { .name = "silu",
                           .shape = zn_same_shape,
                           .run = silu_run,
                           .types = zn_types_alike,
                           .host_types = zn_types_alike,
                           .launches = zn_launches,
                           .gradient = silu_gradient,
                           .flops = zn_one_flop,
                           .slots = silu_slots,
                           .in_place = zn_first_source };
zn_node *zn_silu(zn_node *x) { return zn_apply(&zn_op_silu, NULL, 0, (zn_node *[]){ x }, 1); }

static void silu_grad_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_silu_grad); }
const zn_op zn_op_silu_grad = { .name = "silu_grad",
                                .shape = zn_same_shape,
                                .run = silu_grad_run,
                                .types = zn_types_alike,
                                .launches = zn_launches,
                                .flops = zn_one_flop,
                                .slots = silu_slots,
                                .in_place = zn_second_source };

/* 1 where x > 0: a constant pattern, so it propagates no gradient */
static void positive_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_positive); }
static void no_gradient(zn_node *n, zn_node *dy)
{
    (void)n;
    (void)dy;
}
const zn_op zn_op_positive = { .name = "positive",
                               .shape = zn_same_shape,
                               .run = positive_run,
                               .types = zn_types_alike,
                               .launches = zn_launches,
                               .gradient = no_gradient,
                               .in_place = zn_first_source };
zn_node *zn_positive(zn_node *x) { return zn_apply(&zn_op_positive, NULL, 0, (zn_node *[]){ x }, 1); }

static void scale_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_scale); }
static void scale_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_scale(dy, *(float *)n->attribute));
}
const zn_op zn_op_scale = { .name = "scale",
                            .shape = zn_same_shape,
                            .run = scale_run,
                            .types = zn_types_alike,
                            .host_types = zn_types_alike,
                            .launches = zn_launches,
                            .gradient = scale_gradient,
                            .flops = zn_one_flop,
                            .slots = zn_one_slot,
                            .in_place = zn_first_source };
zn_node *zn_scale(zn_node *x, float factor) { return unary(&zn_op_scale, x, factor); }

static void add_run(const zn_node *n, const zn_launch_context *c) { run_binary(n, c, zn_k_add); }
static void add_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], dy);
    zn_accumulate(n->source[1], dy);
}
const zn_op zn_op_add = { .name = "add",
                          .shape = zn_same_shape,
                          .run = add_run,
                          .types = zn_types_alike,
                          .host_types = zn_types_alike,
                          .launches = zn_launches,
                          .gradient = add_gradient,
                          .flops = zn_one_flop,
                          .slots = zn_one_slot,
                          .in_place = zn_first_source };
zn_node *zn_add(zn_node *a, zn_node *b) { return binary(&zn_op_add, a, b); }

static void sub_run(const zn_node *n, const zn_launch_context *c) { run_binary(n, c, zn_k_sub); }
static void sub_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], dy);
    if (zn_needs_gradient(n->source[1]))
        zn_accumulate(n->source[1], zn_scale(dy, -1));
}
const zn_op zn_op_sub = { .name = "sub",
                          .shape = zn_same_shape,
                          .run = sub_run,
                          .types = zn_types_alike,
                          .host_types = zn_types_alike,
                          .launches = zn_launches,
                          .gradient = sub_gradient,
                          .flops = zn_one_flop,
                          .slots = zn_one_slot,
                          .in_place = zn_first_source };
zn_node *zn_sub(zn_node *a, zn_node *b) { return binary(&zn_op_sub, a, b); }

static void multiply_run(const zn_node *n, const zn_launch_context *c) { run_binary(n, c, zn_k_multiply); }
static void multiply_gradient(zn_node *n, zn_node *dy)
{
    zn_node *a = n->source[0], *b = n->source[1];
    if (zn_needs_gradient(a))
        zn_accumulate(a, zn_multiply(dy, b));
    if (zn_needs_gradient(b))
        zn_accumulate(b, zn_multiply(dy, a));
}
const zn_op zn_op_multiply = { .name = "multiply",
                               .shape = zn_same_shape,
                               .run = multiply_run,
                               .types = zn_types_alike,
                               .host_types = zn_types_alike,
                               .launches = zn_launches,
                               .gradient = multiply_gradient,
                               .flops = zn_one_flop,
                               .slots = zn_one_slot,
                               .in_place = zn_first_source };
zn_node *zn_multiply(zn_node *a, zn_node *b) { return binary(&zn_op_multiply, a, b); }

static void exp_run(const zn_node *n, const zn_launch_context *c) { run_unary(n, c, zn_k_exp); }
static void exp_gradient(zn_node *n, zn_node *dy) { zn_accumulate(n->source[0], zn_multiply(dy, n)); }
const zn_op zn_op_exp = { .name = "exp",
                          .shape = zn_same_shape,
                          .run = exp_run,
                          .launches = zn_launches,
                          .gradient = exp_gradient,
                          .flops = zn_one_flop,
                          .slots = zn_one_slot,
                          .in_place = zn_first_source };
zn_node *zn_exp(zn_node *x) { return zn_apply(&zn_op_exp, NULL, 0, (zn_node *[]){ x }, 1); }

/* A tensor of ones: the seed of a gradient. */
static void ones_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_unary_args a = { .y = n->data, .a = 1 };
    zn_launch(c, zn_k_fill, zn_shape_count(n->shape), GRAIN, &a);
}
const zn_op zn_op_ones = {
    .name = "ones", .shape = zn_same_shape, .run = ones_run, .launches = zn_launches, .gradient = no_gradient
};
zn_node *zn_ones_like(zn_node *x) { return zn_apply(&zn_op_ones, NULL, 0, (zn_node *[]){ x }, 1); }

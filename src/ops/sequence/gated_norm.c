/* Ops that fuse_tokens.c makes of others (kernels/token.h). */
#include "kernels/kernels.h"
#include "kernels/token.h"
#include "ops/passes/fuse.h"

/* Sources: x, gains, scale, and optionally what is added. */
static void norm_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_gated_norm *k = n->attribute;
    const zn_node *x = n->source[0], *residual = n->source_count > 3 ? n->source[3] : NULL;
    const zn_gated_norm_args a = { .x = x->data,
                                   .w = n->source[1]->data,
                                   .scale = n->source[2]->data,
                                   .residual = residual ? residual->data : NULL,
                                   .y = n->data,
                                   .c = zn_channels(x),
                                   .eps = k->eps,
                                   .plus_one = k->plus_one,
                                   .x_type = x->type,
                                   .residual_type = residual ? residual->type : ZN_TYPE_F32,
                                   .y_type = n->type };
    zn_launch(c, zn_k_gated_norm, zn_positions(n), 1 + (1 << 14) / a.c, &a);
}

static zn_node_types norm_types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 1u | 1u << 3 };
}

static double norm_flops(const zn_node *n)
{
    return (n->source_count > 3 ? 6.0 : 5.0) * (double)zn_shape_count(n->shape);
}

static double norm_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return 4.0 * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_gated_norm = { .name = "gated_norm",
                                 .shape = zn_same_shape,
                                 .run = norm_run,
                                 .launches = zn_launches,
                                 .types = norm_types,
                                 .flops = norm_flops,
                                 .slots = norm_slots };

static void product_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_binary_args a = { .a = n->source[0]->data, .b = n->source[1]->data, .y = n->data, .type = n->type };
    zn_launch(c, zn_k_silu_multiply, zn_shape_count(n->shape), 1 << 14, &a);
}

const zn_op zn_op_silu_multiply = { .name = "silu_multiply",
                                    .shape = zn_same_shape,
                                    .run = product_run,
                                    .launches = zn_launches,
                                    .types = zn_types_alike,
                                    .flops = zn_one_flop,
                                    .slots = zn_one_slot,
                                    .in_place = zn_first_source };

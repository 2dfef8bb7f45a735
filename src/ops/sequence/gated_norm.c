/* Ops that fuse_tokens.c makes of others (kernels/token.h), and fp8.c of these (kernels/fp8.h). */
#include "graph/types.h"
#include "kernels/fp8.h"
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
                                   .scale = n->source[2]->data + k->first,
                                   .residual = residual ? residual->data : NULL,
                                   .y = n->data,
                                   .c = zn_channels(x),
                                   .eps = k->eps,
                                   .limit = k->limit,
                                   .plus_one = k->plus_one,
                                   .x_type = x->type,
                                   .residual_type = residual ? residual->type : ZN_TYPE_F32,
                                   .y_type = n->type,
                                   .scales = k->codes ? zn_node_tail(n) : NULL };
    zn_launch(c, zn_k_gated_norm, zn_positions(n), 1 + (1 << 14) / a.c, &a);
}

static bool norm_codes(const zn_node *n) { return ((const zn_gated_norm *)n->attribute)->codes; }
static int64_t norm_tail(const zn_node *n) { return norm_codes(n) ? zn_positions(n) : 0; }

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
                                 .codes = norm_codes,
                                 .tail = norm_tail,
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

static void codes_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_quantise_args a = { .x = n->source[1]->data,
                                 .gate = n->source[0]->data,
                                 .y = n->data,
                                 .scales = zn_node_tail(n),
                                 .c = zn_channels(n),
                                 .x_type = n->source[1]->type,
                                 .gate_type = n->source[0]->type,
                                 .y_type = ZN_TYPE_E4M3 };
    zn_launch(c, zn_k_quantise, zn_positions(n), 1 + (1 << 14) / a.c, &a);
}

static bool always(const zn_node *n)
{
    (void)n;
    return true;
}

static zn_node_types codes_types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .sources = 3 };
}

const zn_op zn_op_silu_multiply_fp8 = { .name = "silu_multiply_fp8",
                                        .shape = zn_same_shape,
                                        .run = codes_run,
                                        .launches = zn_launches,
                                        .types = codes_types,
                                        .codes = always,
                                        .tail = zn_positions,
                                        .flops = zn_one_flop,
                                        .slots = zn_one_slot };

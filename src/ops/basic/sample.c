/* Values per sample and channel: modulation of a feature map by them, and the mean of a map as such values. Their
 * tables are [1,1,N,C], so that a 1x1 convolution is a linear layer on them. */
#include "kernels/sample.h"

#include "base/fail.h"
#include "ops/ops.h"

static int64_t grain_of(const zn_node *n) { return 1 + (1 << 14) / zn_channels(n); }

/* ---- y = x (1 + scale) + shift ---- */

static zn_status modulate_shape(zn_node *n)
{
    const zn_node *x = n->source[0];
    char a[96], b[96];
    for (int i = 1; i < n->source_count; i++) {
        const zn_node *table = n->source[i];
        if (zn_channels(table) != zn_channels(x) || zn_positions(x) % zn_positions(table) ||
            zn_positions(table) != zn_positions(n->source[1]))
            return ZN_FAIL(ZN_ESHAPE, "a map %s cannot be modulated by %s", zn_shape_text(x->shape, a, sizeof a),
                           zn_shape_text(table->shape, b, sizeof b));
    }
    n->shape = x->shape;
    return ZN_OK;
}

static void modulate_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_sample_args a = { .x = n->source[0]->data,
                               .scale = n->source[1]->data,
                               .shift = n->source_count > 2 ? n->source[2]->data : NULL,
                               .y = n->data,
                               .pixels = zn_positions(n) / zn_positions(n->source[1]),
                               .c = zn_channels(n),
                               .x_type = n->source[0]->type,
                               .y_type = n->type };
    zn_launch(c, zn_k_modulate, zn_positions(n), grain_of(n), &a);
}

/* The sum of a map, or of the product of two maps, over each sample, with the shape of `table`. */
static zn_node *sum_like(zn_node *table, zn_node *map, zn_node *other, float factor)
{
    return zn_apply(&zn_op_sample_sum, &factor, sizeof factor, (zn_node *[]){ table, map, other }, other ? 3 : 2);
}

static void modulate_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *scale = n->source[1];
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_modulate(dy, scale, NULL));
    if (zn_needs_gradient(scale))
        zn_accumulate(scale, sum_like(scale, dy, x, 1));
    if (n->source_count > 2 && zn_needs_gradient(n->source[2]))
        zn_accumulate(n->source[2], sum_like(n->source[2], dy, NULL, 1));
}

static double modulate_flops(const zn_node *n) { return 2.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_modulate = { .name = "modulate",
                               .shape = modulate_shape,
                               .run = modulate_run,
                               .types = zn_types_of_map,
                               .launches = zn_launches,
                               .gradient = modulate_gradient,
                               .flops = modulate_flops,
                               .slots = zn_one_slot,
                               .in_place = zn_first_source };

zn_node *zn_modulate(zn_node *x, zn_node *scale, zn_node *shift)
{
    return zn_apply(&zn_op_modulate, NULL, 0, (zn_node *[]){ x, scale, shift }, shift ? 3 : 2);
}

/* ---- sums over a sample; source 0 only gives the shape of the result ---- */

static void sum_launch(const zn_node *n, const zn_launch_context *c, const zn_node *map, const zn_node *other)
{
    const zn_sample_args a = { .x = map->data,
                               .other = other ? other->data : NULL,
                               .y = n->data,
                               .x_type = map->type,
                               .other_type = other ? other->type : ZN_TYPE_F32,
                               .pixels = zn_positions(map) / zn_positions(n),
                               .c = zn_channels(n),
                               .factor = *(float *)n->attribute };
    zn_launch(c, zn_k_sample_sum, zn_positions(n) * zn_sample_parts(a.c), 1, &a);
}

static void sum_run(const zn_node *n, const zn_launch_context *c)
{
    sum_launch(n, c, n->source[1], n->source_count > 2 ? n->source[2] : NULL);
}

static double sum_flops(const zn_node *n)
{
    return (n->source_count - 1) * (double)zn_shape_count(n->source[1]->shape);
}

/* Maps of any type; the result is F32. */
static zn_node_types sum_types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .sources = 7 };
}

const zn_op zn_op_sample_sum = { .name = "sample_sum",
                                 .shape = zn_like_first,
                                 .run = sum_run,
                                 .launches = zn_launches,
                                 .types = sum_types,
                                 .flops = sum_flops,
                                 .global = true };

/* ---- mean over the pixels of each sample: [N,H,W,C] to [1,1,N,C] ---- */

static zn_status mean_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const int64_t *d = n->source[0]->shape.dim;
    n->shape = ZN_SHAPE(1, 1, d[0], d[3]);
    return ZN_OK;
}

static void mean_run(const zn_node *n, const zn_launch_context *c) { sum_launch(n, c, n->source[0], NULL); }

static void mean_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0];
    zn_accumulate(x, zn_apply(&zn_op_spread, n->attribute, n->attribute_size, (zn_node *[]){ x, dy }, 2));
}

static double mean_flops(const zn_node *n) { return (double)zn_shape_count(n->source[0]->shape); }

const zn_op zn_op_sample_mean = { .name = "sample_mean",
                                  .shape = mean_shape,
                                  .run = mean_run,
                                  .launches = zn_launches,
                                  .types = sum_types,
                                  .gradient = mean_gradient,
                                  .flops = mean_flops,
                                  .global = true };

zn_node *zn_sample_mean(zn_node *x)
{
    const float factor = 1 / (float)(x->shape.dim[1] * x->shape.dim[2]);
    return zn_apply(&zn_op_sample_mean, &factor, sizeof factor, (zn_node *[]){ x }, 1);
}

/* Its gradient; source 0 only gives the shape of the result. */
static void spread_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_sample_args a = { .x = n->source[1]->data,
                               .y = n->data,
                               .pixels = zn_positions(n) / zn_positions(n->source[1]),
                               .c = zn_channels(n),
                               .factor = *(float *)n->attribute };
    zn_launch(c, zn_k_spread, zn_positions(n), grain_of(n), &a);
}

const zn_op zn_op_spread = { .name = "spread",
                             .shape = zn_like_first,
                             .run = spread_run,
                             .launches = zn_launches,
                             .slots = zn_one_slot,
                             .global = true };

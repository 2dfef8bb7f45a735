/* The pieces of a convolution's gradient: weight gradient, flipped weights, channel sums. */
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

/* Partial sums over blocks of output rows, then one sum in block order: the result does not depend on threads. */
enum { MAX_BLOCKS = 32 };

typedef struct weight_spec {
    zn_conv_spec k;
    int64_t kh, kw;
} weight_spec;

static zn_status weight_shape(zn_node *n)
{
    const weight_spec *s = n->attribute;
    n->shape = ZN_SHAPE(s->kh, s->kw, n->source[0]->shape.dim[3], n->source[1]->shape.dim[3]);
    return ZN_OK;
}

static zn_conv_weight_grad_args weight_args(const zn_node *n)
{
    const weight_spec *s = n->attribute;
    const int64_t *x = n->source[0]->shape.dim, *dy = n->source[1]->shape.dim;
    const int64_t rows = dy[0] * dy[1];
    return (zn_conv_weight_grad_args){ .n = (int)x[0],
                                       .h = (int)x[1],
                                       .w = (int)x[2],
                                       .cin = (int)x[3],
                                       .cout = (int)dy[3],
                                       .kh = (int)s->kh,
                                       .kw = (int)s->kw,
                                       .stride = s->k.stride,
                                       .pad = s->k.pad,
                                       .oh = (int)dy[1],
                                       .ow = (int)dy[2],
                                       .rows_per_block = (int)((rows + MAX_BLOCKS - 1) / MAX_BLOCKS) };
}

static int64_t weight_blocks(const zn_conv_weight_grad_args *a)
{
    return ((int64_t)a->n * a->oh + a->rows_per_block - 1) / a->rows_per_block;
}

static zn_needs weight_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_conv_weight_grad_args a = weight_args(n);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)(weight_blocks(&a) * zn_shape_count(n->shape)) };
}

static void weight_run(const zn_node *n, const zn_launch_context *c)
{
    zn_conv_weight_grad_args a = weight_args(n);
    const int64_t blocks = weight_blocks(&a);
    a.x = n->source[0]->data;
    a.dy = n->source[1]->data;
    a.partial = c->shared;
    zn_launch(c, zn_k_conv_weight_grad, blocks, 1, &a);
    const zn_reduce_args sum = { .x = a.partial, .y = n->data, .rows = zn_shape_count(n->shape), .c = (int)blocks };
    zn_launch(c, zn_k_sum_partials, sum.rows, 4096, &sum);
}

static double weight_flops(const zn_node *n)
{
    const int64_t *dy = n->source[1]->shape.dim;
    return 2.0 * (double)zn_shape_count(n->shape) * (double)(dy[0] * dy[1] * dy[2]);
}

const zn_op zn_op_conv_weight_grad = { .name = "conv_weight_grad",
                                       .shape = weight_shape,
                                       .run = weight_run,
                                       .needs = weight_needs,
                                       .flops = weight_flops,
                                       .global = true };

static zn_status flip_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const int64_t *d = n->source[0]->shape.dim;
    n->shape = ZN_SHAPE(d[0], d[1], d[3], d[2]);
    return ZN_OK;
}

static void flip_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t *d = n->source[0]->shape.dim;
    const zn_flip_args a = {
        .w = n->source[0]->data, .y = n->data, .taps = (int)(d[0] * d[1]), .cin = (int)d[2], .cout = (int)d[3]
    };
    zn_launch(c, zn_k_flip_weights, a.taps, 1, &a);
}

const zn_op zn_op_flip_weights = { .name = "flip_weights", .shape = flip_shape, .run = flip_run };

static zn_status channel_sum_shape(zn_node *n)
{
    const zn_shape s = n->source[0]->shape;
    n->shape = ZN_SHAPE(s.dim[s.rank - 1]);
    return ZN_OK;
}

static void channel_sum_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t channels = n->shape.dim[0];
    const zn_reduce_args a = { .x = n->source[0]->data,
                               .y = n->data,
                               .c = (int)channels,
                               .rows = zn_shape_count(n->source[0]->shape) / channels };
    zn_launch(c, zn_k_channel_sum, channels, 1, &a);
}

const zn_op zn_op_channel_sum = {
    .name = "channel_sum", .shape = channel_sum_shape, .run = channel_sum_run, .global = true
};

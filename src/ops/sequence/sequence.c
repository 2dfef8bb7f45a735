/* Ops on sequences of tokens [N,..,C] (kernels/sequence.h): causal convolution, reordering of tokens, their mean. */
#include "kernels/sequence.h"

#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"

static int64_t length_of(const zn_node *x) { return zn_positions(x) / x->shape.dim[0]; }
static int64_t grain_of(int64_t channels) { return 1 + (1 << 14) / channels; }

/* ---- causal convolution, w [C,..,taps]; attribute: whether it is the gradient with respect to x ---- */

static int taps_of(const zn_node *x, const zn_node *w) { return (int)(zn_shape_count(w->shape) / zn_channels(x)); }

static zn_status causal_conv_shape(zn_node *n)
{
    const zn_node *x = n->source[0], *w = n->source[1];
    n->shape = x->shape;
    if (x->shape.rank < 3 || w->shape.dim[0] != zn_channels(x))
        return ZN_FAIL(ZN_ESHAPE, "a convolution over tokens of %d channels needs weights for each", zn_channels(x));
    if (n->source_count > 2 && zn_shape_count(n->source[2]->shape) != zn_channels(x))
        return ZN_FAIL(ZN_ESHAPE, "the bias needs %d values", zn_channels(x));
    return ZN_OK;
}

static zn_needs causal_conv_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)zn_shape_count(n->source[1]->shape) };
}

/* to[columns][rows] = from[rows][columns]: the weights of one tap, transposed. */
static void turn(const zn_launch_context *c, const float *from, int rows, int columns, float *to)
{
    const zn_flip_args a = { .w = from, .y = to, .taps = 1, .cin = rows, .cout = columns };
    zn_launch(c, zn_k_flip_weights, 1, 1, &a);
}

static void causal_conv_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0], *w = n->source[1];
    const zn_causal_conv_args a = { .x = x->data,
                                    .w = c->shared,
                                    .bias = n->source_count > 2 ? n->source[2]->data : NULL,
                                    .y = n->data,
                                    .sequences = x->shape.dim[0],
                                    .length = length_of(x),
                                    .channels = zn_channels(x),
                                    .taps = taps_of(x, w),
                                    .back = *(bool *)n->attribute };
    turn(c, w->data, a.channels, a.taps, c->shared);
    zn_launch(c, zn_k_causal_conv, zn_positions(x), grain_of(a.channels), &a);
}

static void causal_conv_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *w = n->source[1], *bias = n->source_count > 2 ? n->source[2] : NULL;
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_causal_conv, &(bool){ true }, sizeof(bool), (zn_node *[]){ dy, w }, 2));
    if (zn_needs_gradient(w))
        zn_accumulate(w, zn_apply(&zn_op_causal_conv_weight_grad, NULL, 0, (zn_node *[]){ x, w, dy }, 3));
    if (bias && zn_needs_gradient(bias))
        zn_accumulate(bias, zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1));
}

static double causal_conv_flops(const zn_node *n)
{
    return 2.0 * (double)zn_shape_count(n->source[0]->shape) * taps_of(n->source[0], n->source[1]);
}

const zn_op zn_op_causal_conv = { .name = "causal_conv",
                                  .shape = causal_conv_shape,
                                  .run = causal_conv_run,
                                  .launches = zn_launches,
                                  .gradient = causal_conv_gradient,
                                  .needs = causal_conv_needs,
                                  .flops = causal_conv_flops,
                                  .global = true };

zn_node *zn_causal_conv(zn_node *x, zn_node *w, zn_node *bias)
{
    return zn_apply(&zn_op_causal_conv, &(bool){ false }, sizeof(bool), (zn_node *[]){ x, w, bias }, bias ? 3 : 2);
}

static zn_needs weight_grad_needs(const zn_node *n, const zn_prepare *p)
{
    const int64_t blocks = zn_sum_parts(zn_positions(n->source[0]), p->cpu & ZN_CPU_CUDA);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)((blocks + 1) * zn_shape_count(n->shape)) };
}

static void weight_grad_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0];
    const int64_t count = zn_shape_count(n->shape), blocks = zn_sum_parts(zn_positions(x), c->device);
    const zn_causal_conv_args a = { .x = x->data,
                                    .dy = n->source[2]->data,
                                    .partial = (float *)c->shared + count,
                                    .sequences = x->shape.dim[0],
                                    .length = length_of(x),
                                    .channels = zn_channels(x),
                                    .taps = taps_of(x, n) };
    const zn_reduce_args sum = { .x = a.partial, .y = c->shared, .rows = count, .c = (int)blocks };
    zn_launch(c, zn_k_causal_conv_weight_grad, blocks, 1, &a);
    zn_launch(c, zn_k_sum_partials, count, 1024, &sum);
    turn(c, c->shared, a.taps, a.channels, n->data);
}

const zn_op zn_op_causal_conv_weight_grad = { .name = "causal_conv_weight_grad",
                                              .shape = zn_like_second,
                                              .run = weight_grad_run,
                                              .launches = zn_launches,
                                              .needs = weight_grad_needs,
                                              .flops = causal_conv_flops,
                                              .global = true };

/* ---- reordering of tokens; the halves of the table are inverse to each other, so the gradient of each is the
 * other's gather ---- */

typedef struct gather_spec {
    int half, row, count; /* half of the table; its rows [row, row + count), one per source */
    float scale;
} gather_spec;

static const zn_node *table_of(const zn_node *n) { return n->source[n->source_count - 1]; }

static zn_status gather_shape(zn_node *n)
{
    const gather_spec *k = n->attribute;
    const zn_node *x = n->source[0];
    const zn_shape t = table_of(n)->shape;
    n->shape = x->shape;
    for (int i = 1; i < k->count; i++)
        if (!zn_shape_equal(n->source[i]->shape, x->shape))
            return ZN_FAIL(ZN_ESHAPE, "only sequences of one shape can be merged");
    if (x->shape.rank < 3 || t.rank != 4 || t.dim[0] != 2 || t.dim[1] != x->shape.dim[0] || t.dim[3] != length_of(x) ||
        k->row < 0 || k->row + k->count > t.dim[2])
        return ZN_FAIL(ZN_ESHAPE, "the table of orders does not fit sequences of %lld tokens", (long long)length_of(x));
    return ZN_OK;
}

static void gather_run(const zn_node *n, const zn_launch_context *c)
{
    const gather_spec *k = n->attribute;
    const zn_node *table = table_of(n);
    zn_gather_args a = { .table = table->data + k->half * zn_shape_count(table->shape) / 2,
                         .y = n->data,
                         .length = length_of(n),
                         .channels = zn_channels(n),
                         .rows = (int)table->shape.dim[2],
                         .row = k->row,
                         .count = k->count,
                         .scale = k->scale };
    for (int i = 0; i < k->count; i++)
        a.x[i] = n->source[i]->data;
    zn_launch(c, zn_k_gather, zn_positions(n), grain_of(a.channels), &a);
}

static zn_node *gather(zn_node *const *x, zn_node *orders, gather_spec k)
{
    zn_node *sources[ZN_GATHER_SOURCES + 1];
    for (int i = 0; i < k.count; i++)
        sources[i] = x[i];
    sources[k.count] = orders;
    return zn_apply(&zn_op_gather, &k, sizeof k, sources, k.count + 1);
}

static void gather_gradient(zn_node *n, zn_node *dy)
{
    const gather_spec *k = n->attribute;
    for (int i = 0; i < k->count; i++)
        if (zn_needs_gradient(n->source[i]))
            zn_accumulate(n->source[i],
                          gather(&dy, n->source[k->count], (gather_spec){ 1 - k->half, k->row + i, 1, k->scale }));
}

const zn_op zn_op_gather = { .name = "gather",
                             .shape = gather_shape,
                             .run = gather_run,
                             .launches = zn_launches,
                             .gradient = gather_gradient,
                             .global = true };

zn_node *zn_gather_tokens(zn_node *x, zn_node *orders, int order)
{
    return gather(&x, orders, (gather_spec){ .half = 0, .row = order, .count = 1, .scale = 1 });
}

zn_node *zn_merge_tokens(zn_node *const *x, int count, zn_node *orders, float scale)
{
    return gather(x, orders, (gather_spec){ .half = 1, .row = 0, .count = count, .scale = scale });
}

/* ---- mean over the tokens that are in the orders ---- */

static zn_mean_tokens_args mean_args(const zn_node *map, const zn_node *orders)
{
    return (zn_mean_tokens_args){ .table = orders->data + zn_shape_count(orders->shape) / 2,
                                  .length = length_of(map),
                                  .channels = zn_channels(map),
                                  .rows = (int)orders->shape.dim[2] };
}

static zn_status mean_shape(zn_node *n)
{
    const zn_node *x = n->source[0];
    const zn_shape t = n->source[1]->shape;
    if (x->shape.rank != 4 || t.rank != 4 || t.dim[0] != 2 || t.dim[1] != x->shape.dim[0] || t.dim[3] != length_of(x))
        return ZN_FAIL(ZN_ESHAPE, "the table of orders does not fit the sequences");
    n->shape = ZN_SHAPE(1, 1, x->shape.dim[0], zn_channels(x));
    return ZN_OK;
}

static void mean_run(const zn_node *n, const zn_launch_context *c)
{
    zn_mean_tokens_args a = mean_args(n->source[0], n->source[1]);
    a.x = n->source[0]->data;
    a.y = n->data;
    zn_launch(c, zn_k_mean_tokens, n->shape.dim[2] * ((a.channels + ZN_MEAN_STRIP - 1) / ZN_MEAN_STRIP), 1, &a);
}

static void mean_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0],
                  zn_apply(&zn_op_mean_tokens_grad, NULL, 0, (zn_node *[]){ n->source[0], n->source[1], dy }, 3));
}

const zn_op zn_op_mean_tokens = { .name = "mean_tokens",
                                  .shape = mean_shape,
                                  .run = mean_run,
                                  .launches = zn_launches,
                                  .gradient = mean_gradient,
                                  .global = true };

zn_node *zn_mean_tokens(zn_node *x, zn_node *orders)
{
    return zn_apply(&zn_op_mean_tokens, NULL, 0, (zn_node *[]){ x, orders }, 2);
}

static void mean_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_mean_tokens_args a = mean_args(n, n->source[1]);
    a.x = n->source[2]->data;
    a.y = n->data;
    zn_launch(c, zn_k_mean_tokens_grad, n->shape.dim[0], 1, &a);
}

const zn_op zn_op_mean_tokens_grad = {
    .name = "mean_tokens_grad", .shape = zn_like_first, .run = mean_grad_run, .launches = zn_launches, .global = true
};

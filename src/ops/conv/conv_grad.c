/* The parts of a convolution's gradient: with respect to the input, with respect to the weights, and channel sums. */
#include "kernels/conv_grad.h"
#include "base/fail.h"
#include "graph/types.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

/* Also a convolution, with flipped weights: dx = conv(dy, flipped w), with zeros inserted into dy for a stride, which
 * is a power of 2. It may omit the last rows and columns of x, but as many of each. */
zn_node *zn_conv_input_gradient(zn_node *n, zn_node *dy)
{
    const zn_conv_spec *k = n->attribute;
    zn_node *w = n->source[1];
    if (k->stride & (k->stride - 1))
        return zn_graph_poison(n->graph, ZN_EUNSUPPORTED,
                               "a convolution whose stride is not a power of 2 has no gradient");
    for (int stride = k->stride; stride > 1; stride /= 2)
        dy = zn_apply(&zn_op_dilate2, NULL, 0, (zn_node *[]){ dy }, 1);
    const int reach = (int)w->shape.dim[0] - 1, pad = reach - k->pad;
    const int beyond = (int)(n->source[0]->shape.dim[1] - (dy->shape.dim[1] + 2 * pad - reach));
    return zn_conv(dy, w, NULL,
                   (zn_conv_spec){ .stride = 1,
                                   .pad = pad,
                                   .beyond = beyond,
                                   .lag = -k->lag,
                                   .results = (int)n->source[0]->shape.dim[0],
                                   .flipped = true });
}

typedef struct weight_spec {
    zn_conv_spec k;
    int64_t kh, kw;
    bool sums; /* the channel sums of dy are wanted too: the tail, if the kernel can compute them */
} weight_spec;

static zn_status weight_shape(zn_node *n)
{
    const weight_spec *s = n->attribute;
    n->shape = ZN_SHAPE(s->kh, s->kw, n->source[0]->shape.dim[3], n->source[1]->shape.dim[3]);
    return ZN_OK;
}

zn_node *zn_conv_weight_gradient(zn_node *x, zn_node *dy, const zn_conv_spec *k, const int64_t *taps)
{
    const weight_spec s = { *k, taps[0], taps[1], false };
    return zn_apply(&zn_op_conv_weight_grad, &s, sizeof s, (zn_node *[]){ x, dy }, 2);
}

zn_node *zn_conv_bias_gradient(zn_node *dy, zn_node *weight_gradient)
{
    if (!weight_gradient || zn_is_poison(weight_gradient))
        return zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1);
    ((weight_spec *)weight_gradient->attribute)->sums = true;
    return zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy, weight_gradient }, 2);
}

static zn_overlap overlap_of(const zn_node *n)
{
    return zn_conv_overlap(n->source[0]->shape.dim[0], n->source[1]->shape.dim[0],
                           ((weight_spec *)n->attribute)->k.lag);
}

/* The shape of the forward convolution. */
static zn_conv_shape forward_of(const zn_node *n)
{
    const weight_spec *s = n->attribute;
    const int64_t *x = n->source[0]->shape.dim, *dy = n->source[1]->shape.dim;
    return (zn_conv_shape){ .n = (int)overlap_of(n).count,
                            .h = (int)x[1],
                            .w = (int)x[2],
                            .cin = (int)x[3],
                            .cout = (int)dy[3],
                            .kh = (int)s->kh,
                            .kw = (int)s->kw,
                            .stride = s->k.stride,
                            .pad = s->k.pad,
                            .oh = (int)dy[1],
                            .ow = (int)dy[2] };
}

static const zn_conv_grad_kernel *weight_kernel(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = forward_of(n);
    return zn_conv_grad_choose(&s, p->math, p->cpu);
}

/* Whether a weight gradient on a device computes the sums of dy; p: of any node of the executor. */
static bool computes_sums(const zn_node *n, const zn_prepare *p)
{
    return ((weight_spec *)n->attribute)->sums && !n->on_host && weight_kernel(n, p)->sums;
}

static int64_t weight_tail(const zn_node *n)
{
    return ((weight_spec *)n->attribute)->sums ? n->source[1]->shape.dim[3] : 0;
}

static size_t room_of(const zn_node *n, const zn_conv_grad_kernel *k)
{
    const zn_conv_shape s = forward_of(n);
    return k->workspace_bytes ? k->workspace_bytes(&s, n->source[0]->type, n->source[1]->type) : 0;
}

typedef struct weight_prepared {
    const zn_conv_grad_kernel *kernel;
    bool sums;
} weight_prepared;

static zn_needs weight_needs(const zn_node *n, const zn_prepare *p)
{
    zn_conv_shape s = forward_of(n);
    s.threads = p->threads;
    const zn_conv_grad_kernel *k = weight_kernel(n, p);
    return (zn_needs){ .shared_scratch = zn_aligned(k->shared_bytes(&s)) + room_of(n, k),
                       .thread_scratch = k->scratch_bytes(&s),
                       .prepared = sizeof(weight_prepared) };
}

static void weight_prepare(const zn_node *n, const zn_prepare *p, void *memory)
{
    *(weight_prepared *)memory = (weight_prepared){ weight_kernel(n, p), computes_sums(n, p) };
}

static void weight_run(const zn_node *n, const zn_launch_context *c)
{
    const weight_prepared *q = c->prepared;
    const zn_conv_grad_kernel *k = q->kernel;
    const zn_node *x = n->source[0], *dy = n->source[1];
    const zn_overlap o = overlap_of(n);
    zn_conv_grad_args a = { .s = forward_of(n),
                            .x = zn_values_at(x, o.first * (zn_shape_count(x->shape) / x->shape.dim[0])),
                            .dy = zn_values_at(dy, o.to * (zn_shape_count(dy->shape) / dy->shape.dim[0])),
                            .dw = n->data,
                            .sums = q->sums,
                            .shared = c->shared,
                            .x_type = x->type,
                            .dy_type = dy->type };
    a.s.threads = zn_pool_threads(c->pool);
    if (room_of(n, k))
        a.workspace = (char *)c->shared + zn_aligned(k->shared_bytes(&a.s));
    for (; a.stage < k->stages(&a.s); a.stage++)
        zn_launch(c, k->run, k->units(&a.s, a.stage), 1, &a);
}

static zn_node_types weight_types(const zn_node *n, const zn_prepare *p)
{
    return (zn_node_types){ .sources = weight_kernel(n, p)->narrow ? 3 : 0 };
}

static double weight_flops(const zn_node *n)
{
    const zn_conv_shape s = forward_of(n);
    return zn_conv_direct_flops(&s);
}

static double weight_flops_done(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = forward_of(n);
    return weight_kernel(n, p)->flops(&s);
}

static const char *weight_kernel_name(const zn_node *n, const zn_prepare *p) { return weight_kernel(n, p)->name; }
static zn_precision weight_math(const zn_node *n, const zn_prepare *p) { return weight_kernel(n, p)->math; }

const zn_op zn_op_conv_weight_grad = { .name = "conv_weight_grad",
                                       .shape = weight_shape,
                                       .run = weight_run,
                                       .types = weight_types,
                                       .launches = zn_launches,
                                       .needs = weight_needs,
                                       .prepare = weight_prepare,
                                       .flops = weight_flops,
                                       .flops_done = weight_flops_done,
                                       .kernel = weight_kernel_name,
                                       .math = weight_math,
                                       .tail = weight_tail,
                                       .global = true };

/* The sums of each channel of the first source. The second, if there is one, is the weight gradient that may have
 * computed them. */
static zn_status channel_sum_shape(zn_node *n)
{
    const zn_shape s = n->source[0]->shape;
    n->shape = ZN_SHAPE(s.dim[s.rank - 1]);
    return ZN_OK;
}

static int64_t channel_sum_blocks(const zn_node *n)
{
    const int64_t rows = zn_shape_count(n->source[0]->shape) / n->shape.dim[0];
    return (rows + ZN_SUM_ROWS - 1) / ZN_SUM_ROWS;
}

static zn_needs channel_sum_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)(channel_sum_blocks(n) * n->shape.dim[0]),
                       .prepared = sizeof(bool) };
}

static void channel_sum_prepare(const zn_node *n, const zn_prepare *p, void *memory)
{
    *(bool *)memory = n->source_count > 1 && computes_sums(n->source[1], p);
}

static zn_node_types channel_sum_types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .sources = 1 };
}

static void channel_sum_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t channels = n->shape.dim[0], blocks = channel_sum_blocks(n);
    if (*(bool *)c->prepared) {
        zn_launch(c, zn_k_copy, channels, 1 << 14, &(zn_unary_args){ .x = zn_node_tail(n->source[1]), .y = n->data });
        return;
    }
    const zn_reduce_args a = { .x = n->source[0]->data,
                               .y = c->shared,
                               .c = (int)channels,
                               .rows = zn_shape_count(n->source[0]->shape) / channels,
                               .type = n->source[0]->type };
    zn_launch(c, zn_k_channel_sum, blocks, 1, &a);
    const zn_reduce_args sum = { .x = c->shared, .y = n->data, .rows = channels, .c = (int)blocks };
    zn_launch(c, zn_k_sum_partials, channels, 256, &sum);
}

const zn_op zn_op_channel_sum = { .name = "channel_sum",
                                  .shape = channel_sum_shape,
                                  .run = channel_sum_run,
                                  .types = channel_sum_types,
                                  .launches = zn_launches,
                                  .needs = channel_sum_needs,
                                  .prepare = channel_sum_prepare,
                                  .global = true };

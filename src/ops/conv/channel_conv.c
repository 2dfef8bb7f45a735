/* Convolution of each channel with a kernel of its own. The weights are not trained. */
#include "kernels/channel_conv.h"

#include "base/fail.h"
#include "ops/ops.h"

typedef struct spec {
    int stride, pad;
} spec;

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const spec *k = n->attribute;
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    if (w.rank != 4 || w.dim[0] != w.dim[1] || w.dim[2] != 1 || w.dim[3] != x.dim[3])
        return ZN_FAIL(ZN_ESHAPE, "%lld channels need weights for each of them", (long long)x.dim[3]);
    n->shape =
        ZN_SHAPE(x.dim[0], (x.dim[1] + k->stride - 1) / k->stride, (x.dim[2] + k->stride - 1) / k->stride, x.dim[3]);
    return ZN_OK;
}

/* in, out: of the forward pass. */
static zn_channel_conv_args args_of(const zn_node *n, const zn_node *in, const zn_node *out)
{
    const spec *k = n->attribute;
    return (zn_channel_conv_args){ .x = n->source[0]->data,
                                   .w = n->source[1]->data,
                                   .y = n->data,
                                   .h = (int)in->shape.dim[1],
                                   .wide = (int)in->shape.dim[2],
                                   .oh = (int)out->shape.dim[1],
                                   .ow = (int)out->shape.dim[2],
                                   .c = zn_channels(n),
                                   .side = (int)n->source[1]->shape.dim[0],
                                   .stride = k->stride,
                                   .pad = k->pad };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_channel_conv_args a = args_of(n, n->source[0], n);
    zn_launch(c, zn_k_channel_conv, n->shape.dim[0] * n->shape.dim[1], 1, &a);
}

static void run_gradient(const zn_node *n, const zn_launch_context *c)
{
    const zn_channel_conv_args a = args_of(n, n, n->source[0]);
    zn_launch(c, zn_k_channel_conv_grad, n->shape.dim[0] * n->shape.dim[1], 1, &a);
}

/* Source 2 only gives the shape. */
static zn_status gradient_shape(zn_node *n)
{
    n->shape = n->source[2]->shape;
    return ZN_OK;
}

static void gradient(zn_node *n, zn_node *dy)
{
    if (zn_needs_gradient(n->source[1])) {
        zn_graph_poison(n->graph, ZN_EUNSUPPORTED, "the weights of a convolution by channels are not trained");
        return;
    }
    zn_node *sources[] = { dy, n->source[1], n->source[0] };
    zn_accumulate(n->source[0], zn_apply(&zn_op_channel_conv_grad, n->attribute, n->attribute_size, sources, 3));
}

static double flops(const zn_node *n)
{
    const int64_t side = n->source[1]->shape.dim[0];
    return 2.0 * (double)(side * side) * (double)zn_shape_count(n->shape);
}

static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    const spec *k = n->attribute;
    *lo = *lo * k->stride - k->pad;
    *hi = (*hi - 1) * k->stride - k->pad + n->source[1]->shape.dim[0];
}

const zn_op zn_op_channel_conv = { .name = "channel_conv",
                                   .shape = shape,
                                   .run = run,
                                   .launches = zn_launches,
                                   .gradient = gradient,
                                   .flops = flops,
                                   .reach = reach };
const zn_op zn_op_channel_conv_grad = { .name = "channel_conv_grad",
                                        .shape = gradient_shape,
                                        .run = run_gradient,
                                        .launches = zn_launches,
                                        .flops = flops,
                                        .global = true };

zn_node *zn_channel_conv(zn_node *x, zn_node *w, int stride, int pad)
{
    const spec k = { stride, pad };
    return zn_apply(&zn_op_channel_conv, &k, sizeof k, (zn_node *[]){ x, w }, 2);
}

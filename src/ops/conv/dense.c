/* Dense product on every pixel: y = x w + bias, for feature maps of few pixels with too many weights to pack
 * (kernels/dense.h). */
#include "kernels/dense.h"

#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

/* The shape of the weights; the weight gradient stores it as its attribute. */
static zn_shape weights_of(const zn_node *n) { return n->attribute ? *(zn_shape *)n->attribute : n->source[1]->shape; }

static zn_dense_args sizes_of(const zn_node *n)
{
    const zn_shape w = weights_of(n);
    zn_dense_args a = { .k = (int)w.dim[2], .n = (int)w.dim[3] };
    a.rows = zn_positions(n->source[0]);
    return a;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)n;
    (void)p;
    return (zn_needs){ .thread_scratch = ZN_DENSE_SCRATCH };
}

static double flops(const zn_node *n)
{
    const zn_dense_args a = sizes_of(n);
    return 2.0 * (double)a.rows * a.k * a.n;
}

static zn_status shape(zn_node *n)
{
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    char a[96], b[96];
    if (w.rank != 4 || w.dim[0] != 1 || w.dim[1] != 1 || w.dim[2] != x.dim[x.rank - 1])
        return ZN_FAIL(ZN_ESHAPE, "input %s does not fit dense weights %s", zn_shape_text(x, a, sizeof a),
                       zn_shape_text(w, b, sizeof b));
    if (w.dim[3] % ZN_DENSE_COLUMNS)
        return ZN_FAIL(ZN_ESHAPE, "dense weights need outputs in multiples of %d", ZN_DENSE_COLUMNS);
    if (n->source_count > 2 && zn_shape_count(n->source[2]->shape) != w.dim[3])
        return ZN_FAIL(ZN_ESHAPE, "the bias needs %lld values", (long long)w.dim[3]);
    n->shape = x;
    n->shape.dim[x.rank - 1] = w.dim[3];
    return ZN_OK;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_dense_args a = sizes_of(n);
    a.x = n->source[0]->data;
    a.w = n->source[1]->data;
    a.bias = n->source_count > 2 ? n->source[2]->data : NULL;
    a.y = n->data;
    zn_launch(c, zn_k_dense, zn_dense_units(&a), 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *w = n->source[1], *bias = n->source_count > 2 ? n->source[2] : NULL;
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_dense_grad, NULL, 0, (zn_node *[]){ dy, w }, 2));
    if (zn_needs_gradient(w))
        zn_accumulate(w, zn_apply(&zn_op_dense_weight_grad, &w->shape, sizeof w->shape, (zn_node *[]){ x, dy }, 2));
    if (bias && zn_needs_gradient(bias))
        zn_accumulate(bias, zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1));
}

const zn_op zn_op_dense = { .name = "dense",
                            .shape = shape,
                            .run = run,
                            .launches = zn_launches,
                            .needs = needs,
                            .gradient = gradient,
                            .flops = flops,
                            .joins = true };

zn_node *zn_dense(zn_node *x, zn_node *w, zn_node *bias)
{
    return zn_apply(&zn_op_dense, NULL, 0, (zn_node *[]){ x, w, bias }, bias ? 3 : 2);
}

/* dx = dy w^T */
static zn_status grad_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    n->shape.dim[n->shape.rank - 1] = n->source[1]->shape.dim[2];
    return ZN_OK;
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_dense_args a = sizes_of(n);
    a.dy = n->source[0]->data;
    a.w = n->source[1]->data;
    a.y = n->data;
    zn_launch(c, zn_k_dense_grad, zn_dense_grad_units(&a), 1, &a);
}

const zn_op zn_op_dense_grad = {
    .name = "dense_grad", .shape = grad_shape, .run = grad_run, .launches = zn_launches, .needs = needs, .flops = flops
};

/* dw = x^T dy */
static zn_status weight_shape(zn_node *n)
{
    n->shape = weights_of(n);
    return ZN_OK;
}

static void weight_run(const zn_node *n, const zn_launch_context *c)
{
    zn_dense_args a = sizes_of(n);
    a.x = n->source[0]->data;
    a.dy = n->source[1]->data;
    a.y = n->data;
    zn_launch(c, zn_k_dense_weight_grad, zn_dense_weight_grad_units(&a), 1, &a);
}

const zn_op zn_op_dense_weight_grad = { .name = "dense_weight_grad",
                                        .shape = weight_shape,
                                        .run = weight_run,
                                        .launches = zn_launches,
                                        .needs = needs,
                                        .flops = flops,
                                        .global = true };

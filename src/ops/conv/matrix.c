/* The product with weights in their file format (kernels/matrix.h). With float weights its gradients are
 * convolutions: w is [1,1,out,in], which are the convolution weights that map dy to dx. */
#include "kernels/matrix.h"

#include "base/fail.h"
#include "ops/ops.h"

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    char a[96], b[96];
    if (w.rank != 4 || w.dim[0] * w.dim[1] != 1 || w.dim[3] != x.dim[3])
        return ZN_FAIL(ZN_ESHAPE, "input %s does not fit a matrix %s", zn_shape_text(x, a, sizeof a),
                       zn_shape_text(w, b, sizeof b));
    if (n->source_count > 2 && zn_shape_count(n->source[2]->shape) != w.dim[2])
        return ZN_FAIL(ZN_ESHAPE, "the bias needs %lld values", (long long)w.dim[2]);
    n->shape = x;
    n->shape.dim[3] = w.dim[2];
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)n;
    (void)p;
    return (zn_needs){ .thread_scratch = ZN_MATRIX_SCRATCH };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0], *w = n->source[1];
    const zn_matrix_args a = { .x = x->data,
                               .w = w->packed ? *w->packed : zn_packed_floats(w->data, w->shape.dim[3]),
                               .bias = n->source_count > 2 ? n->source[2]->data : NULL,
                               .y = n->data,
                               .rows = zn_shape_count(x->shape) / x->shape.dim[3],
                               .in = (int)w->shape.dim[3],
                               .out = (int)w->shape.dim[2] };
    zn_launch(c, zn_k_matrix, zn_matrix_units(&a), 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    static const zn_conv_spec one = { .stride = 1 };
    zn_node *x = n->source[0], *w = n->source[1], *bias = n->source_count > 2 ? n->source[2] : NULL;
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_conv(dy, w, NULL, one));
    if (zn_needs_gradient(w))
        zn_accumulate(w, zn_conv_weight_gradient(dy, x, &one, w->shape.dim));
    if (bias && zn_needs_gradient(bias))
        zn_accumulate(bias, zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1));
}

static double flops(const zn_node *n)
{
    return 2.0 * (double)zn_shape_count(n->shape) * (double)n->source[0]->shape.dim[3];
}

const zn_op zn_op_matrix = { .name = "matrix",
                             .shape = shape,
                             .run = run,
                             .gradient = gradient,
                             .needs = needs,
                             .flops = flops,
                             .takes_packed = true };

zn_node *zn_matrix(zn_node *x, zn_node *w, zn_node *bias)
{
    return zn_apply(&zn_op_matrix, NULL, 0, (zn_node *[]){ x, w, bias }, bias ? 3 : 2);
}

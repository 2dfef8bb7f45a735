/* Fourier features of coordinates (kernels/sequence.h); the frequencies are fixed. */
#include "base/fail.h"
#include "kernels/sequence.h"
#include "ops/ops.h"

static zn_status shape(zn_node *n)
{
    const zn_shape b = n->source[1]->shape;
    if (b.rank != 2 || b.dim[1] != zn_channels(n->source[0]))
        return ZN_FAIL(ZN_ESHAPE, "frequencies need as many sides as the coordinates");
    n->shape = n->source[0]->shape;
    n->shape.dim[n->shape.rank - 1] = 2 * b.dim[0];
    return ZN_OK;
}

static zn_fourier_args args_of(const zn_node *n)
{
    const zn_shape b = n->source[1]->shape;
    return (zn_fourier_args){ .p = n->source[0]->data,
                              .b = n->source[1]->data,
                              .to = n->data,
                              .features = (int)b.dim[0],
                              .sides = (int)b.dim[1] };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_fourier_args a = args_of(n);
    zn_launch(c, zn_k_fourier, zn_positions(n), 16, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *p = n->source[0];
    if (zn_needs_gradient(p))
        zn_accumulate(p, zn_apply(&zn_op_fourier_grad, NULL, 0, (zn_node *[]){ p, n->source[1], n, dy }, 4));
}

const zn_op zn_op_fourier = {
    .name = "fourier", .shape = shape, .run = run, .launches = zn_launches, .gradient = gradient
};

zn_node *zn_fourier(zn_node *p, zn_node *b) { return zn_apply(&zn_op_fourier, NULL, 0, (zn_node *[]){ p, b }, 2); }

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_fourier_args a = args_of(n);
    a.y = n->source[2]->data;
    a.dy = n->source[3]->data;
    zn_launch(c, zn_k_fourier_grad, zn_positions(n), 16, &a);
}

const zn_op zn_op_fourier_grad = {
    .name = "fourier_grad", .shape = zn_like_first, .run = grad_run, .launches = zn_launches
};

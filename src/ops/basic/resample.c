/* Nearest x2 upsampling, its gradient, and zero insertion. */
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static zn_status double_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    n->shape = n->source[0]->shape;
    n->shape.dim[1] *= 2;
    n->shape.dim[2] *= 2;
    return ZN_OK;
}

static zn_status half_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    n->shape = n->source[0]->shape;
    if (n->shape.dim[1] % 2 || n->shape.dim[2] % 2)
        return ZN_FAIL(ZN_ESHAPE, "sides %lldx%lld are not even", (long long)n->shape.dim[2],
                       (long long)n->shape.dim[1]);
    n->shape.dim[1] /= 2;
    n->shape.dim[2] /= 2;
    return ZN_OK;
}

/* From a map of half the height and width. */
static void launch(const zn_node *n, zn_body body, const zn_launch_context *c)
{
    const int64_t *d = n->source[0]->shape.dim;
    const zn_resample_args a = {
        .x = n->source[0]->data, .y = n->data, .h = (int)d[1], .w = (int)d[2], .c = (int)d[3], .type = n->type
    };
    zn_launch(c, body, n->shape.dim[0] * n->shape.dim[1], 4, &a);
}

static zn_node *apply1(const zn_op *op, zn_node *x) { return zn_apply(op, NULL, 0, (zn_node *[]){ x }, 1); }

/* The CPU copies 16-bit values in pairs. */
static void upsample2_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t *d = n->source[0]->shape.dim;
    const zn_resample_args pairs = {
        .x = n->source[0]->data, .y = n->data, .h = (int)d[1], .w = (int)d[2], .c = (int)d[3] / 2
    };
    if (c->device || n->type == ZN_TYPE_F32)
        launch(n, zn_k_upsample2, c);
    else
        zn_launch(c, zn_k_upsample2, n->shape.dim[0] * n->shape.dim[1], 4, &pairs);
}
static void upsample2_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], apply1(&zn_op_upsample2_grad, dy));
}
static void halve_reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)n;
    (void)p;
    *lo = *lo >> 1; /* rounds down, also below zero */
    *hi = (*hi + 1) >> 1;
}
const zn_op zn_op_upsample2 = { .name = "upsample2",
                                .shape = double_shape,
                                .run = upsample2_run,
                                .types = zn_types_alike,
                                .host_types = zn_host_types_of_pairs,
                                .launches = zn_launches,
                                .gradient = upsample2_gradient,
                                .reach = halve_reach };
zn_node *zn_upsample2(zn_node *x) { return apply1(&zn_op_upsample2, x); }

/* With an attribute, true, it is the mean of four pixels instead of their sum. */
static void upsample2_grad_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t *d = n->shape.dim;
    const zn_resample_args a = { .x = n->source[0]->data,
                                 .y = n->data,
                                 .h = (int)d[1],
                                 .w = (int)d[2],
                                 .c = (int)d[3],
                                 .mean = n->attribute != NULL,
                                 .type = n->type };
    zn_launch(c, zn_k_upsample2_grad, d[0] * d[1], 4, &a);
}
static void upsample2_grad_gradient(zn_node *n, zn_node *dy)
{
    zn_node *up = zn_upsample2(dy);
    zn_accumulate(n->source[0], n->attribute ? zn_scale(up, 0.25f) : up);
}
static void double_reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)n;
    (void)p;
    *lo *= 2;
    *hi *= 2;
}
const zn_op zn_op_upsample2_grad = { .gradient = upsample2_grad_gradient,
                                     .reach = double_reach,
                                     .name = "upsample2_grad",
                                     .shape = half_shape,
                                     .run = upsample2_grad_run,
                                     .types = zn_types_alike,
                                     .launches = zn_launches };

zn_node *zn_downsample2(zn_node *x)
{
    const bool mean = true;
    return zn_apply(&zn_op_upsample2_grad, &mean, sizeof mean, (zn_node *[]){ x }, 1);
}

static void dilate2_run(const zn_node *n, const zn_launch_context *c) { launch(n, zn_k_dilate2, c); }
const zn_op zn_op_dilate2 = {
    .name = "dilate2", .shape = double_shape, .run = dilate2_run, .types = zn_types_alike, .launches = zn_launches
};

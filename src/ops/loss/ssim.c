/* Structural similarity as a loss: 1 - SSIM, for maps with values in [0,1]. */
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/loss.h"
#include "ops/ops.h"

static int64_t planes_of(const zn_node *n) { return n->source[0]->shape.dim[0] * n->source[0]->shape.dim[3]; }

static zn_ssim_args args_of(const zn_node *n)
{
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_ssim_args){
        .a = n->source[0]->data, .b = n->source[1]->data, .h = (int)d[1], .w = (int)d[2], .c = (int)d[3]
    };
}

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    ZN_TRY(zn_same_shape(n));
    if (n->shape.dim[1] < ZN_SSIM_WINDOW || n->shape.dim[2] < ZN_SSIM_WINDOW)
        return ZN_FAIL(ZN_ESHAPE, "sides %lldx%lld are smaller than its window of %d", (long long)n->shape.dim[2],
                       (long long)n->shape.dim[1], ZN_SSIM_WINDOW);
    n->shape = ZN_SHAPE(1);
    return ZN_OK;
}

/* Floats of the shared scratch that hold the mean of each plane; the maps of a device come after them. */
static int64_t means_of(const zn_node *n) { return (planes_of(n) + 15) / 16 * 16; }

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    const int64_t *d = n->source[0]->shape.dim;
    const int h = (int)d[1], w = (int)d[2];
    const bool device = p->cpu & ZN_CPU_CUDA;
    return (zn_needs){ .thread_scratch = device ? 0 : zn_ssim_scratch(h, w),
                       .shared_scratch =
                           sizeof(float) * (size_t)means_of(n) + (device ? zn_ssim_maps(planes_of(n), h, w) : 0) };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_ssim_args a = args_of(n);
    a.y = c->shared;
    a.maps = a.y + means_of(n);
    zn_launch(c, zn_k_ssim, planes_of(n), 1, &a);
    const zn_total_args total = {
        .x = a.y, .y = n->data, .count = planes_of(n), .divisor = (double)planes_of(n), .complement = true
    };
    zn_launch(c, zn_k_total, 1, 1, &total);
}

static zn_node *grad(zn_node *a, zn_node *b, zn_node *dy)
{
    return zn_apply(&zn_op_ssim_grad, NULL, 0, (zn_node *[]){ a, b, dy }, 3);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *a = n->source[0], *b = n->source[1];
    dy = zn_scale(dy, -1.0f / (float)planes_of(n));
    zn_accumulate(a, grad(a, b, dy));
    if (zn_needs_gradient(b))
        zn_accumulate(b, grad(b, a, dy));
}

/* Five moments, two filters of eleven taps each. */
static double flops(const zn_node *n)
{
    return 5.0 * 2 * 2 * ZN_SSIM_WINDOW * (double)zn_shape_count(n->source[0]->shape);
}

const zn_op zn_op_ssim = { .name = "ssim",
                           .shape = shape,
                           .run = run,
                           .launches = zn_launches,
                           .gradient = gradient,
                           .needs = needs,
                           .flops = flops,
                           .global = true };
zn_node *zn_ssim_loss(zn_node *a, zn_node *b) { return zn_apply(&zn_op_ssim, NULL, 0, (zn_node *[]){ a, b }, 2); }

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_ssim_args a = args_of(n);
    a.dy = n->source[2]->data;
    a.y = n->data;
    a.maps = (float *)c->shared + means_of(n);
    zn_launch(c, zn_k_ssim_grad, planes_of(n), 1, &a);
}

const zn_op zn_op_ssim_grad = { .name = "ssim_grad",
                                .shape = zn_like_first,
                                .run = grad_run,
                                .launches = zn_launches,
                                .needs = needs,
                                .flops = flops };

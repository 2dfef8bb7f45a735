/* Block gates (mask from energy, and its application), and SRIG. */
#include "kernels/gates.h"

#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"

static int64_t blocks_of(const zn_node *x) { return (zn_positions(x) + ZN_MIX_BLOCK - 1) / ZN_MIX_BLOCK; }

/* Sums the partials [units][2][count] and keeps the half selected by `which`. */
static void sum_half(const zn_node *n, const zn_launch_context *c, int64_t units, int64_t both, int64_t first)
{
    float *total = (float *)c->shared + units * both;
    const zn_reduce_args sum = { .x = c->shared, .y = total, .rows = both, .c = (int)units };
    zn_launch(c, zn_k_sum_partials, both, 1024, &sum);
    const zn_unary_args half = { .x = total + first, .y = n->data };
    zn_launch(c, zn_k_copy, zn_shape_count(n->shape), 1 << 14, &half);
}

/* ---- mask: sources x, w, v and optionally eps ---- */

typedef struct gate_spec {
    zn_gate_mode mode;
    float temperature;
    int which; /* param_grad: 0 for w, 1 for v */
} gate_spec;

static zn_gate_args gate_args(const zn_node *n)
{
    const gate_spec *k = n->attribute;
    const zn_node *x = n->source[0];
    return (zn_gate_args){ .x = x->data,
                           .w = n->source[1]->data,
                           .v = n->source[2]->data,
                           .pixels = zn_positions(x),
                           .c = zn_channels(x),
                           .temperature = k->temperature,
                           .mode = k->mode };
}

static zn_status mask_shape(zn_node *n)
{
    const zn_shape x = n->source[0]->shape;
    const int64_t c = x.dim[x.rank - 1], blocks = c / ZN_GATE_BLOCK;
    if (c % ZN_GATE_BLOCK || zn_shape_count(n->source[1]->shape) != blocks ||
        zn_shape_count(n->source[2]->shape) != blocks)
        return ZN_FAIL(ZN_ESHAPE, "a gate of %lld channels needs %lld scales and biases", (long long)c,
                       (long long)blocks);
    n->shape = x;
    n->shape.dim[x.rank - 1] = blocks;
    if (n->source_count > 3 && zn_shape_count(n->source[3]->shape) != zn_shape_count(n->shape))
        return ZN_FAIL(ZN_ESHAPE, "the noise of a gate has not one number for each block");
    return ZN_OK;
}

static void mask_run(const zn_node *n, const zn_launch_context *c)
{
    zn_gate_args a = gate_args(n);
    a.eps = n->source_count > 3 ? n->source[3]->data : NULL;
    a.y = n->data;
    zn_launch(c, zn_k_gate_mask, a.pixels, 1 + (1 << 14) / a.c, &a);
}

/* Sources of the gradients: x, w, v, dm and, with noise, eps. */
static void mask_gradient(zn_node *n, zn_node *dm)
{
    gate_spec k = *(gate_spec *)n->attribute;
    if (k.mode == ZN_GATE_HARD)
        return;
    zn_node *sources[] = { n->source[0], n->source[1], n->source[2], dm, n->source_count > 3 ? n->source[3] : NULL };
    const int count = n->source_count + 1;
    if (zn_needs_gradient(n->source[0]))
        zn_accumulate(n->source[0], zn_apply(&zn_op_gate_mask_grad, &k, sizeof k, sources, count));
    for (k.which = 0; k.which < 2; k.which++)
        if (zn_needs_gradient(n->source[1 + k.which]))
            zn_accumulate(n->source[1 + k.which], zn_apply(&zn_op_gate_mask_param_grad, &k, sizeof k, sources, count));
}

/* One per element, here and when the mask is applied. */
static double flops(const zn_node *n) { return (double)zn_shape_count(n->source[0]->shape); }

const zn_op zn_op_gate_mask = { .name = "gate_mask",
                                .shape = mask_shape,
                                .run = mask_run,
                                .launches = zn_launches,
                                .gradient = mask_gradient,
                                .flops = flops };

static zn_gate_args mask_grad_args(const zn_node *n)
{
    zn_gate_args a = gate_args(n);
    a.dm = n->source[3]->data;
    a.eps = n->source_count > 4 ? n->source[4]->data : NULL;
    return a;
}

static void mask_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_gate_args a = mask_grad_args(n);
    a.y = n->data;
    zn_launch(c, zn_k_gate_mask_grad, a.pixels, 1 + (1 << 14) / a.c, &a);
}

const zn_op zn_op_gate_mask_grad = {
    .name = "gate_mask_grad", .shape = zn_like_first, .run = mask_grad_run, .launches = zn_launches
};

static zn_needs mask_param_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const int64_t both = 2 * zn_shape_count(n->shape);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)((blocks_of(n->source[0]) + 1) * both) };
}

static void mask_param_run(const zn_node *n, const zn_launch_context *c)
{
    zn_gate_args a = mask_grad_args(n);
    const int64_t units = blocks_of(n->source[0]), count = zn_shape_count(n->shape);
    a.partial = c->shared;
    zn_launch(c, zn_k_gate_mask_param_grad, units, 1, &a);
    sum_half(n, c, units, 2 * count, ((gate_spec *)n->attribute)->which * count);
}

const zn_op zn_op_gate_mask_param_grad = { .name = "gate_mask_param_grad",
                                           .shape = zn_like_second,
                                           .run = mask_param_run,
                                           .launches = zn_launches,
                                           .needs = mask_param_needs,
                                           .global = true };

zn_node *zn_gate_mask(zn_node *x, zn_node *w, zn_node *v, zn_node *eps, zn_gate_mode mode, float temperature)
{
    const gate_spec k = { mode, temperature, 0 };
    return zn_apply(&zn_op_gate_mask, &k, sizeof k, (zn_node *[]){ x, w, v, eps }, eps ? 4 : 3);
}

/* ---- application: y = mask x, block by block ---- */

static zn_status apply_shape(zn_node *n)
{
    const zn_shape x = n->source[0]->shape, m = n->source[1]->shape;
    n->shape = x;
    if (zn_shape_count(m) * ZN_GATE_BLOCK != zn_shape_count(x))
        return ZN_FAIL(ZN_ESHAPE, "the mask does not fit the tensor");
    return ZN_OK;
}

static void apply_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0];
    const zn_gate_args a = { .x = x->data, .mask = n->source[1]->data, .y = n->data, .c = zn_channels(x) };
    zn_launch(c, zn_k_gate_apply, zn_positions(x), 1 + (1 << 14) / a.c, &a);
}

static void apply_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *mask = n->source[1];
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_gate_apply(dy, mask));
    if (zn_needs_gradient(mask))
        zn_accumulate(mask, zn_apply(&zn_op_gate_apply_mask_grad, NULL, 0, (zn_node *[]){ x, mask, dy }, 3));
}

const zn_op zn_op_gate_apply = { .name = "gate_apply",
                                 .shape = apply_shape,
                                 .run = apply_run,
                                 .launches = zn_launches,
                                 .gradient = apply_gradient,
                                 .flops = flops };
zn_node *zn_gate_apply(zn_node *x, zn_node *mask)
{
    return zn_apply(&zn_op_gate_apply, NULL, 0, (zn_node *[]){ x, mask }, 2);
}

static void apply_mask_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0];
    const zn_gate_args a = { .x = x->data, .dy = n->source[2]->data, .y = n->data, .c = zn_channels(x) };
    zn_launch(c, zn_k_gate_apply_mask_grad, zn_positions(x), 1 + (1 << 14) / a.c, &a);
}

const zn_op zn_op_gate_apply_mask_grad = {
    .name = "gate_apply_mask_grad", .shape = zn_like_second, .run = apply_mask_run, .launches = zn_launches
};

/* ---- SRIG: sources u, w [c,5], b [c] ---- */

static zn_srig_args srig_args(const zn_node *n)
{
    const zn_node *u = n->source[0];
    return (zn_srig_args){
        .u = u->data, .w = n->source[1]->data, .b = n->source[2]->data, .pixels = zn_positions(u), .c = zn_channels(u)
    };
}

static zn_status srig_shape(zn_node *n)
{
    const zn_shape u = n->source[0]->shape;
    const int64_t c = u.dim[u.rank - 1];
    n->shape = u;
    if (zn_shape_count(n->source[1]->shape) != 5 * c || zn_shape_count(n->source[2]->shape) != c)
        return ZN_FAIL(ZN_ESHAPE, "SRIG over %lld channels needs %lldx5 weights", (long long)c, (long long)c);
    return ZN_OK;
}

/* Bytes of scratch lines for a GPU. */
static size_t srig_lines(const zn_node *n, const zn_prepare *p, int64_t blocks)
{
    return p->cpu & ZN_CPU_CUDA ? sizeof(float) * (size_t)(blocks * ZN_SRIG_GPU_LINES * srig_args(n).c) : 0;
}

static zn_needs srig_needs(const zn_node *n, const zn_prepare *p)
{
    return (zn_needs){ .thread_scratch = zn_srig_scratch(srig_args(n).c),
                       .shared_scratch = srig_lines(n, p, ZN_SRIG_GPU_BLOCKS) };
}

static void srig_run(const zn_node *n, const zn_launch_context *c)
{
    zn_srig_args a = srig_args(n);
    a.y = n->data;
    a.lines = c->shared;
    zn_launch(c, zn_k_srig, a.pixels, 1, &a);
}

static void srig_gradient(zn_node *n, zn_node *dy)
{
    zn_node *sources[] = { n->source[0], n->source[1], n->source[2], dy };
    if (zn_needs_gradient(n->source[0]))
        zn_accumulate(n->source[0], zn_apply(&zn_op_srig_grad, NULL, 0, sources, 4));
    for (int which = 0; which < 2; which++)
        if (zn_needs_gradient(n->source[1 + which]))
            zn_accumulate(n->source[1 + which], zn_apply(&zn_op_srig_param_grad, &which, sizeof which, sources, 4));
}

static double srig_flops(const zn_node *n) { return 84.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_srig = { .name = "srig",
                           .shape = srig_shape,
                           .run = srig_run,
                           .launches = zn_launches,
                           .gradient = srig_gradient,
                           .needs = srig_needs,
                           .flops = srig_flops };
zn_node *zn_srig(zn_node *u, zn_node *w, zn_node *b)
{
    return zn_apply(&zn_op_srig, NULL, 0, (zn_node *[]){ u, w, b }, 3);
}

static void srig_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_srig_args a = srig_args(n);
    a.dy = n->source[3]->data;
    a.y = n->data;
    a.lines = c->shared;
    zn_launch(c, zn_k_srig_grad, a.pixels, 1, &a);
}

const zn_op zn_op_srig_grad = {
    .name = "srig_grad", .shape = zn_like_first, .run = srig_grad_run, .launches = zn_launches, .needs = srig_needs
};

static zn_status srig_param_shape(zn_node *n)
{
    n->shape = n->source[1 + *(int *)n->attribute]->shape;
    return ZN_OK;
}

static zn_needs srig_param_needs(const zn_node *n, const zn_prepare *p)
{
    zn_needs needs = srig_needs(n, p);
    const int64_t units = blocks_of(n->source[0]);
    needs.shared_scratch = sizeof(float) * (size_t)((units + 1) * 6 * srig_args(n).c) + srig_lines(n, p, units);
    return needs;
}

static void srig_param_run(const zn_node *n, const zn_launch_context *c)
{
    zn_srig_args a = srig_args(n);
    const int64_t units = blocks_of(n->source[0]);
    a.dy = n->source[3]->data;
    a.partial = c->shared;
    a.lines = c->device ? a.partial + (units + 1) * 6 * a.c : NULL;
    zn_launch(c, zn_k_srig_param_grad, units, 1, &a);
    sum_half(n, c, units, 6 * (int64_t)a.c, *(int *)n->attribute ? 5 * (int64_t)a.c : 0);
}

const zn_op zn_op_srig_param_grad = { .name = "srig_param_grad",
                                      .shape = srig_param_shape,
                                      .run = srig_param_run,
                                      .launches = zn_launches,
                                      .needs = srig_param_needs,
                                      .global = true };

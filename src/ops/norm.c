/* Group norm over [N,H,W,C]: runs of C/groups channels share mean and variance over the whole map. */
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

typedef struct spec {
    int groups;
    float eps;
} spec;

static zn_group_norm_args args_of(const zn_node *x, const spec *k)
{
    const int64_t *d = x->shape.dim;
    return (zn_group_norm_args){
        .x = x->data, .n = d[0], .pixels = d[1] * d[2], .c = (int)d[3], .groups = k->groups, .eps = k->eps
    };
}

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const spec *k = n->attribute;
    const int64_t c = n->source[0]->shape.dim[3];
    if (k->groups < 1 || c % k->groups)
        return ZN_FAIL(ZN_ESHAPE, "%lld channels do not divide into %d groups", (long long)c, k->groups);
    for (int i = 1; i < 3; i++)
        if (zn_shape_count(n->source[i]->shape) != c)
            return ZN_FAIL(ZN_ESHAPE, "gamma and beta need %lld values", (long long)c);
    n->shape = n->source[0]->shape;
    return ZN_OK;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_group_norm_args a = args_of(n->source[0], n->attribute);
    a.gamma = n->source[1]->data;
    a.beta = n->source[2]->data;
    a.y = n->data;
    zn_launch(c, zn_k_group_norm, a.n * a.groups, 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    const size_t size = sizeof(spec);
    zn_node *x = n->source[0], *gamma = n->source[1], *beta = n->source[2];
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_group_norm_grad, n->attribute, size, (zn_node *[]){ x, gamma, dy }, 3));
    for (int which = 0; which < 2; which++) {
        zn_node *p = which ? beta : gamma;
        if (!zn_needs_gradient(p))
            continue;
        const struct {
            spec k;
            int which;
        } attribute = { *(spec *)n->attribute, which };
        zn_accumulate(p,
                      zn_apply(&zn_op_group_norm_param_grad, &attribute, sizeof attribute, (zn_node *[]){ x, dy }, 2));
    }
}

static double flops(const zn_node *n) { return 6.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_group_norm = {
    .name = "group_norm", .shape = shape, .run = run, .gradient = gradient, .flops = flops, .global = true
};
zn_node *zn_group_norm(zn_node *x, zn_node *gamma, zn_node *beta, int groups, float eps)
{
    const spec k = { groups, eps };
    return zn_apply(&zn_op_group_norm, &k, sizeof k, (zn_node *[]){ x, gamma, beta }, 3);
}

static zn_status grad_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    return ZN_OK;
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_group_norm_args a = args_of(n->source[0], n->attribute);
    a.gamma = n->source[1]->data;
    a.dy = n->source[2]->data;
    a.y = n->data;
    zn_launch(c, zn_k_group_norm_grad, a.n * a.groups, 1, &a);
}

const zn_op zn_op_group_norm_grad = { .name = "group_norm_grad", .shape = grad_shape, .run = grad_run, .global = true };

/* Both parameter gradients come from one pass; the node keeps the one that its attribute names. */
static zn_status param_grad_shape(zn_node *n)
{
    n->shape = ZN_SHAPE(n->source[0]->shape.dim[3]);
    return ZN_OK;
}

static zn_needs param_grad_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const spec *k = n->attribute;
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)(d[3] + 2 * d[0] * k->groups) };
}

static void param_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_group_norm_args a = args_of(n->source[0], n->attribute);
    const int which = *(const int *)((const spec *)n->attribute + 1);
    float *other = c->shared;
    a.dy = n->source[1]->data;
    a.dgamma = which ? other : n->data;
    a.dbeta = which ? n->data : other;
    a.stats = other + a.c;
    zn_launch(c, zn_k_group_norm_param_grad, a.groups, 1, &a);
}

const zn_op zn_op_group_norm_param_grad = { .name = "group_norm_param_grad",
                                            .shape = param_grad_shape,
                                            .run = param_grad_run,
                                            .needs = param_grad_needs,
                                            .global = true };

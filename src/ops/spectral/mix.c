/* Ops on each pixel's channels with per-channel parameters: products and three taps. They share the shape rule and
 * the summation of parameter gradients, so each op is a row of a table. */
#include "kernels/mix.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

enum { SCALE, TAPS, KINDS };

static const struct {
    const char *name;
    int rows; /* parameters per channel */
    zn_body forward, grad, param_grad;
    double flops, slots; /* per element */
} kinds[KINDS] = {
    [SCALE] = { "scale_channels", 1, zn_k_scale_channels, NULL, zn_k_scale_channels_grad, 1, 1 },
    [TAPS] = { "taps", 3, zn_k_taps, zn_k_taps_grad, zn_k_taps_param_grad, 5, 3 },
};

typedef struct spec {
    int kind;
} spec;

static zn_mix_args args_of(const zn_node *n)
{
    const zn_shape s = n->source[0]->shape;
    const int c = (int)s.dim[s.rank - 1];
    return (zn_mix_args){ .x = n->source[0]->data, .c = c, .pixels = zn_shape_count(s) / c };
}

static int64_t grain_of(const zn_mix_args *a) { return 1 + (1 << 14) / a->c; }

static zn_status shape(zn_node *n)
{
    const spec *k = n->attribute;
    const zn_shape s = n->source[0]->shape;
    const int64_t want = s.dim[s.rank - 1] * kinds[k->kind].rows, have = zn_shape_count(n->source[1]->shape);
    n->shape = s;
    if (have != want)
        return ZN_FAIL(ZN_ESHAPE, "%s needs %lld parameters, not %lld", kinds[k->kind].name, (long long)want,
                       (long long)have);
    return ZN_OK;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_mix_args a = args_of(n);
    a.w = n->source[1]->data;
    a.y = n->data;
    a.x_type = n->source[0]->type;
    a.y_type = n->type;
    zn_launch(c, kinds[((spec *)n->attribute)->kind].forward, a.pixels, grain_of(&a), &a);
}

static zn_node *apply(const zn_op *op, const void *attribute, zn_node *a, zn_node *b, zn_node *c)
{
    return zn_apply(op, attribute, sizeof(spec), (zn_node *[]){ a, b, c }, c ? 3 : 2);
}

static void gradient(zn_node *n, zn_node *dy)
{
    const spec *k = n->attribute;
    zn_node *x = n->source[0], *w = n->source[1];
    if (zn_needs_gradient(x)) /* the gradient of a product is a product */
        zn_accumulate(x, k->kind == SCALE ? apply(&zn_op_mix, k, dy, w, NULL) : apply(&zn_op_mix_grad, k, x, w, dy));
    if (zn_needs_gradient(w))
        zn_accumulate(w, apply(&zn_op_mix_param_grad, k, x, w, dy));
}

static double flops(const zn_node *n)
{
    return kinds[((spec *)n->attribute)->kind].flops * (double)zn_shape_count(n->shape);
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return kinds[((spec *)n->attribute)->kind].slots * (double)zn_shape_count(n->shape);
}

static const char *kernel(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return kinds[((spec *)n->attribute)->kind].name;
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    return ((spec *)n->attribute)->kind == SCALE ? zn_types_of_map(n, p) : (zn_node_types){ 0 };
}

const zn_op zn_op_mix = { .name = "mix",
                          .shape = shape,
                          .run = run,
                          .types = types,
                          .launches = zn_launches,
                          .gradient = gradient,
                          .flops = flops,
                          .slots = slots,
                          .kernel = kernel };

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_mix_args a = args_of(n);
    a.w = n->source[1]->data;
    a.dy = n->source[2]->data;
    a.y = n->data;
    zn_launch(c, kinds[((spec *)n->attribute)->kind].grad, a.pixels, grain_of(&a), &a);
}

const zn_op zn_op_mix_grad = { .name = "mix_grad",
                               .shape = zn_like_first,
                               .run = grad_run,
                               .launches = zn_launches,
                               .flops = flops,
                               .kernel = kernel };

static int64_t blocks_of(const zn_mix_args *a) { return zn_sum_blocks(a->pixels); }

static zn_needs param_grad_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_mix_args a = args_of(n);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)(blocks_of(&a) * zn_shape_count(n->shape)) };
}

static void param_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_mix_args a = args_of(n);
    const int64_t blocks = blocks_of(&a), count = zn_shape_count(n->shape);
    a.w = n->source[1]->data;
    a.dy = n->source[2]->data;
    a.partial = c->shared;
    zn_launch(c, kinds[((spec *)n->attribute)->kind].param_grad, blocks, 1, &a);
    const zn_reduce_args sum = { .x = a.partial, .y = n->data, .rows = count, .c = (int)blocks };
    zn_launch(c, zn_k_sum_partials, count, 1024, &sum);
}

const zn_op zn_op_mix_param_grad = { .name = "mix_param_grad",
                                     .shape = zn_like_second,
                                     .run = param_grad_run,
                                     .launches = zn_launches,
                                     .needs = param_grad_needs,
                                     .global = true };

static zn_node *mix(int kind, zn_node *x, zn_node *w)
{
    const spec k = { kind };
    return apply(&zn_op_mix, &k, x, w, NULL);
}

zn_node *zn_scale_channels(zn_node *x, zn_node *w) { return mix(SCALE, x, w); }
zn_node *zn_taps(zn_node *x, zn_node *w) { return mix(TAPS, x, w); }

bool zn_is_scale_channels(const zn_node *n) { return ((spec *)n->attribute)->kind == SCALE; }

/* Attention with q, k and v from separate nodes. All three gradients read the same weights, so one op computes them:
 * dq is its result, dk and dv are stored in its tail. */
#include "ops/sequence/attention.h"

#include "base/fail.h"
#include "graph/types.h"
#include "ops/ops.h"

#include <math.h>

static int64_t rows_of(const zn_node *n) { return zn_positions(n) / n->shape.dim[0]; }

/* Rows with a node's shape at `data`, in heads of `width`. */
static zn_rows rows_at(const zn_node *n, float *data, int64_t width)
{
    return (zn_rows){ data, rows_of(n) * zn_channels(n), width, zn_channels(n) };
}

static zn_attention_args args_of(const zn_node *n)
{
    const zn_attend_spec *s = n->attribute;
    const zn_node *q = n->source[0], *k = n->source[1], *v = n->source[2];
    const int64_t width = zn_channels(q) / s->heads;
    return (zn_attention_args){ .q = rows_at(q, q->data, width),
                                .k = rows_at(k, k->data, width),
                                .v = rows_at(v, v->data, width),
                                .queries = rows_of(q),
                                .keys = rows_of(k),
                                .heads = s->heads,
                                .width = (int)width,
                                .share = s->heads / s->groups,
                                .causal = s->causal,
                                .scale = 1 / sqrtf((float)width) };
}

static zn_status shape(zn_node *n)
{
    const zn_attend_spec *s = n->attribute;
    const zn_node *q = n->source[0], *k = n->source[1];
    char a[96], b[96];
    n->shape = q->shape;
    if (s->heads < 1 || s->groups < 1 || s->heads % s->groups || zn_channels(q) % s->heads)
        return ZN_FAIL(ZN_ESHAPE, "%d channels are not %d heads in %d groups", zn_channels(q), s->heads, s->groups);
    if (!zn_shape_equal(k->shape, n->source[2]->shape) || k->shape.dim[0] != q->shape.dim[0] ||
        zn_channels(k) != zn_channels(q) / s->heads * s->groups || (s->causal && rows_of(k) < rows_of(q)))
        return ZN_FAIL(ZN_ESHAPE, "queries %s do not fit keys %s", zn_shape_text(q->shape, a, sizeof a),
                       zn_shape_text(k->shape, b, sizeof b));
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    zn_attention_args a = args_of(n);
    a.type = n->type;
    return zn_attention_needs(&a, p);
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_attention_args a = args_of(n);
    a.y = rows_at(n, n->data, a.width);
    a.math = zn_attention_prepared(c);
    a.type = n->type;
    a.stats = zn_attention_is_wide(&a) ? c->shared : NULL;
    zn_launch(c, zn_k_attention, n->shape.dim[0] * a.heads * zn_attention_blocks(&a), 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *q = n->source[0];
    zn_node *all = zn_apply(&zn_op_attend_grad, n->attribute, n->attribute_size,
                            (zn_node *[]){ q, n->source[1], n->source[2], dy }, 4);
    zn_accumulate(q, all);
    for (int i = 1; i < 3; i++)
        zn_accumulate_tail(n->source[i], all, (i - 1) * zn_shape_count(n->source[1]->shape));
}

/* Counted as if every query attended to every key. */
static double flops(const zn_node *n)
{
    return 4.0 * (double)rows_of(n->source[1]) * (double)zn_shape_count(n->source[0]->shape);
}

static double flops_done(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return ((zn_attend_spec *)n->attribute)->causal ? 0.5 * flops(n) : flops(n);
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const zn_attend_spec *s = n->attribute;
    const int width = zn_channels(n->source[0]) / s->heads;
    return zn_attention_narrow(width, rows_of(n->source[0])) ? zn_types_alike(n, p) : (zn_node_types){ 0 };
}

const zn_op zn_op_attend = { .name = "attend",
                             .shape = shape,
                             .run = run,
                             .launches = zn_launches,
                             .types = types,
                             .gradient = gradient,
                             .needs = needs,
                             .prepare = zn_attention_prepare,
                             .math = zn_attention_math,
                             .flops = flops,
                             .flops_done = flops_done,
                             .global = true };

zn_node *zn_attend(zn_node *q, zn_node *k, zn_node *v, zn_attend_spec spec)
{
    return zn_apply(&zn_op_attend, &spec, sizeof spec, (zn_node *[]){ q, k, v }, 3);
}

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    const zn_attention_args a = args_of(n);
    return zn_attention_grad_needs(&a, n->shape.dim[0], p);
}

static int64_t grad_tail(const zn_node *n) { return 2 * zn_shape_count(n->source[1]->shape); }

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_attention_args a = args_of(n);
    const zn_node *k = n->source[1];
    float *tail = zn_node_tail(n);
    a.y = rows_at(n->source[3], n->source[3]->data, a.width);
    a.dq = rows_at(n, n->data, a.width);
    a.dk = rows_at(k, tail, a.width);
    a.dv = rows_at(k, tail + zn_shape_count(k->shape), a.width);
    a.math = zn_attention_prepared(c);
    a.stats = c->shared;
    zn_launch(c, zn_k_attention_grad, n->shape.dim[0] * zn_attention_groups(&a), 1, &a);
}

static double grad_flops(const zn_node *n) { return 2.5 * flops(n); }

const zn_op zn_op_attend_grad = { .name = "attend_grad",
                                  .shape = shape,
                                  .run = grad_run,
                                  .launches = zn_launches,
                                  .needs = grad_needs,
                                  .prepare = zn_attention_prepare,
                                  .math = zn_attention_math,
                                  .flops = grad_flops,
                                  .tail = grad_tail,
                                  .global = true };

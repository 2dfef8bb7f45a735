/* Self-attention over the pixels of a map. */
#include "ops/sequence/attention.h"

#include "base/cpu.h"
#include "base/fail.h"
#include "ops/conv/matrix.h"
#include "ops/ops.h"

#include <math.h>

/* ---- shared with attend.c ---- */

zn_needs zn_attention_needs(const zn_attention_args *a, const zn_prepare *p)
{
    const bool gpu = p->cpu & ZN_CPU_CUDA;
    return (zn_needs){ .thread_scratch = gpu ? 0 : zn_attention_scratch(a),
                       .shared_scratch = gpu ? zn_attention_wide_bytes(a) : 0,
                       .prepared = sizeof(zn_precision) };
}

zn_needs zn_attention_grad_needs(const zn_attention_args *a, int64_t samples, const zn_prepare *p)
{
    if (p->cpu & ZN_CPU_CUDA)
        return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)zn_attention_stats(a, samples),
                           .prepared = sizeof(zn_precision) };
    return (zn_needs){ .thread_scratch = zn_attention_grad_scratch(a), .prepared = sizeof(zn_precision) };
}

/* Whether the last source of an attention, its values, comes from a product with quantised weights. What is between
 * them has it as its first source. */
static bool has_quantised_values(const zn_node *n)
{
    const zn_node *v = n->source[n->source_count - 1];
    while (v->op != &zn_op_matrix && v->source_count > 0)
        v = v->source[0];
    return v->op == &zn_op_matrix && zn_matrix_is_quantised(v);
}

zn_precision zn_attention_math(const zn_node *n, const zn_prepare *p)
{
    const zn_precision narrow = p->math == ZN_PRECISION_INT8 ? ZN_PRECISION_BF16 : p->math;
    if (p->cpu & ZN_CPU_CUDA)
        return narrow;
    if (p->math == ZN_PRECISION_INT8 && !has_quantised_values(n))
        return ZN_PRECISION_F32;
    return narrow == ZN_PRECISION_BF16 && p->cpu & (ZN_CPU_AMX_BF16 | ZN_CPU_BF16) ? ZN_PRECISION_BF16
                                                                                   : ZN_PRECISION_F32;
}

void zn_attention_prepare(const zn_node *n, const zn_prepare *p, void *prepared)
{
    *(zn_precision *)prepared = zn_attention_math(n, p);
}

/* ---- q, k and v in one map ---- */

typedef struct attention_spec {
    int heads;
    bool apart; /* q of all heads, then k of all, then v; otherwise q, k and v of each head */
} attention_spec;

static const attention_spec *spec_of(const zn_node *n) { return n->attribute; }

/* qkv [N,H,W,3C] */
static zn_attention_args args_of(const zn_node *qkv, const attention_spec *s)
{
    const int64_t *d = qkv->shape.dim, pixels = d[1] * d[2], c = d[3] / 3, width = c / s->heads;
    const int64_t apart = s->apart ? c : width; /* from q to k, from k to v */
    const zn_rows q = { qkv->data, 3 * pixels * c, s->apart ? width : 3 * width, 3 * c };
    zn_attention_args a = { .q = q,
                            .k = q,
                            .v = q,
                            .queries = pixels,
                            .keys = pixels,
                            .heads = s->heads,
                            .width = (int)width,
                            .scale = 1 / sqrtf((float)width) };
    if (q.data) {
        a.k.data = zn_values_at(qkv, apart);
        a.v.data = zn_values_at(qkv, 2 * apart);
    }
    return a;
}

/* [N,H,W,C] */
static zn_rows rows_of(const zn_node *n, int heads)
{
    const int64_t *d = n->shape.dim;
    return (zn_rows){ n->data, d[1] * d[2] * d[3], d[3] / heads, d[3] };
}

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const int64_t c = n->source[0]->shape.dim[3];
    const int heads = spec_of(n)->heads;
    if (heads < 1 || c % (3 * heads))
        return ZN_FAIL(ZN_ESHAPE, "%lld channels are not q, k and v of %d heads", (long long)c, heads);
    n->shape = n->source[0]->shape;
    n->shape.dim[3] = c / 3;
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    zn_attention_args a = args_of(n->source[0], spec_of(n));
    a.type = n->type;
    return zn_attention_needs(&a, p);
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_attention_args a = args_of(n->source[0], spec_of(n));
    a.y = rows_of(n, a.heads);
    a.math = zn_attention_prepared(c);
    a.type = n->type;
    a.stats = zn_attention_is_wide(&a) ? c->shared : NULL;
    zn_launch(c, zn_k_attention, n->shape.dim[0] * a.heads * zn_attention_blocks(&a), 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0];
    zn_accumulate(x, zn_apply(&zn_op_attention_grad, n->attribute, n->attribute_size, (zn_node *[]){ x, dy }, 2));
}

static double flops(const zn_node *n)
{
    const int64_t *d = n->shape.dim;
    return 4.0 * (double)(d[1] * d[2]) * (double)zn_shape_count(n->shape);
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const int width = (int)(n->shape.dim[3] / spec_of(n)->heads);
    return zn_attention_narrow(width, n->shape.dim[1] * n->shape.dim[2]) ? zn_types_alike(n, p) : (zn_node_types){ 0 };
}

const zn_op zn_op_attention = { .name = "attention",
                                .shape = shape,
                                .run = run,
                                .launches = zn_launches,
                                .types = types,
                                .gradient = gradient,
                                .needs = needs,
                                .prepare = zn_attention_prepare,
                                .math = zn_attention_math,
                                .flops = flops,
                                .global = true };

zn_node *zn_attention(zn_node *qkv, int heads)
{
    const attention_spec s = { heads, false };
    return zn_apply(&zn_op_attention, &s, sizeof s, (zn_node *[]){ qkv }, 1);
}

zn_node *zn_attention_apart(zn_node *qkv, int heads)
{
    const attention_spec s = { heads, true };
    return zn_apply(&zn_op_attention, &s, sizeof s, (zn_node *[]){ qkv }, 1);
}

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    const zn_attention_args a = args_of(n->source[0], spec_of(n));
    return zn_attention_grad_needs(&a, n->shape.dim[0], p);
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_attention_args a = args_of(n->source[0], spec_of(n));
    const zn_attention_args to = args_of(n, spec_of(n));
    a.y = rows_of(n->source[1], a.heads);
    a.dq = to.q;
    a.dk = to.k;
    a.dv = to.v;
    a.math = zn_attention_prepared(c);
    a.stats = c->shared;
    zn_launch(c, zn_k_attention_grad, n->shape.dim[0] * a.heads, 1, &a);
}

static double grad_flops(const zn_node *n) { return 2.5 * flops(n->source[1]); }

const zn_op zn_op_attention_grad = { .name = "attention_grad",
                                     .shape = zn_like_first,
                                     .run = grad_run,
                                     .launches = zn_launches,
                                     .needs = grad_needs,
                                     .prepare = zn_attention_prepare,
                                     .math = zn_attention_math,
                                     .flops = grad_flops,
                                     .global = true };

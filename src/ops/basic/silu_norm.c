/* Group norm with the modulations, the SiLU and the dropout that follow it, as one op (kernels/silu_norm.h), for
 * networks that train on a device: one by one they would read and write the map a dozen times, and keep four maps for
 * the gradient in place of one.
 *
 * Sources: x, gamma, beta, then scale, shift, gain and the seeds of dropout, as far as there are any. The table that
 * the gradient needs again is in the tail. */
#include "kernels/silu_norm.h"

#include "base/alloc.h"
#include "graph/types.h"
#include "kernels/kernels.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

typedef struct spec {
    int groups;
    float eps;
    bool scale, shift, gain, drops;
    float share; /* of dropout, and its place */
    int place;
    bool more; /* gradient: there is a map to be added to it */
} spec;

static int64_t grain_of(const zn_node *x) { return 1 + (1 << 14) / zn_channels(x); }
static int64_t table_count(const zn_node *x) { return x->shape.dim[0] * zn_channels(x); }

/* The arguments that are the same forward and in the gradient; from: the sources of the norm. */
static zn_silu_norm_args args_of(const spec *k, zn_node *const *from)
{
    const zn_node *x = from[0];
    int next = 3;
    zn_silu_norm_args a = { .x = x->data,
                            .gamma = from[1]->data,
                            .beta = from[2]->data,
                            .n = x->shape.dim[0],
                            .pixels = zn_positions(x) / x->shape.dim[0],
                            .c = zn_channels(x),
                            .groups = k->groups,
                            .eps = k->eps,
                            .share = k->share,
                            .place = (uint32_t)k->place,
                            .x_type = x->type };
    a.scale = k->scale ? from[next++]->data : NULL;
    a.shift = k->shift ? from[next++]->data : NULL;
    a.gain = k->gain ? from[next++]->data : NULL;
    a.seeds = k->drops ? from[next++]->data : NULL;
    return a;
}

/* ---- forward ---- */

static int64_t partial_count(const zn_silu_norm_args *a) { return 2 * a->n * zn_silu_norm_blocks(a) * a->c; }

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_silu_norm_args a = args_of(n->attribute, n->source);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)partial_count(&a) };
}

static int64_t tail(const zn_node *n) { return 4 * table_count(n); }

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_silu_norm_args a = args_of(n->attribute, n->source);
    a.y = n->data;
    a.y_type = n->type;
    a.table = zn_node_tail(n);
    a.partial = c->shared;
    if (c->device) {
        zn_launch(c, zn_k_silu_norm, a.n * a.groups, 1, &a);
        return;
    }
    zn_launch(c, zn_k_silu_norm_sums, a.n * zn_silu_norm_blocks(&a), 1, &a);
    zn_launch(c, zn_k_silu_norm_merge, a.n * a.groups, 1, &a);
    zn_launch(c, zn_k_silu_norm_apply, a.n * a.pixels, grain_of(n), &a);
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 1 };
}

/* The gradients of gamma, beta, scale, shift and gain are in the tail, in this order. What x got from others is added
 * in the same pass. */
static void gradient(zn_node *n, zn_node *dy)
{
    spec k = *(spec *)n->attribute;
    zn_node *x = n->source[0], *before = zn_take_gradient(x), *sources[ZN_MAX_SOURCES];
    const int modulations = k.scale + k.shift + k.gain;
    const int64_t channels = zn_channels(x);
    int count = 0;
    k.more = before != NULL;
    for (int i = 0; i < n->source_count; i++)
        sources[count++] = n->source[i];
    sources[count++] = dy;
    sources[count++] = n; /* for its tail */
    if (before)
        sources[count++] = before;
    zn_node *all = zn_apply(&zn_op_silu_norm_grad, &k, sizeof k, sources, count);
    zn_accumulate(x, all);
    zn_accumulate_tail(n->source[1], all, 0);
    zn_accumulate_tail(n->source[2], all, channels);
    for (int i = 0; i < modulations; i++)
        zn_accumulate_tail(n->source[3 + i], all, 2 * channels + i * table_count(x));
}

static double flops(const zn_node *n) { return 10.0 * (double)zn_shape_count(n->shape); }

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const double drops = ((spec *)n->attribute)->drops ? 8 : 0;
    return (4.0 + ZN_SLOTS_SILU + drops) * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_silu_norm = { .name = "silu_norm",
                                .shape = zn_like_first,
                                .run = run,
                                .launches = zn_launches,
                                .types = types,
                                .gradient = gradient,
                                .needs = needs,
                                .flops = flops,
                                .slots = slots,
                                .tail = tail,
                                .global = true };

/* ---- gradient; sources: those of the norm, dy, the norm itself, then the map to be added ---- */

static int own_sources(const spec *k) { return 3 + k->scale + k->shift + k->gain + k->drops; }

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_silu_norm_args a = args_of(n->attribute, n->source);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)(partial_count(&a) + 4 * table_count(n)) };
}

static int64_t grad_tail(const zn_node *n)
{
    const spec *k = n->attribute;
    return 2 * zn_channels(n) + (k->scale + k->shift + k->gain) * table_count(n);
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    const spec *k = n->attribute;
    const int own = own_sources(k);
    const int64_t table = table_count(n);
    zn_silu_norm_args a = args_of(k, n->source);
    float *next = zn_node_tail(n) + 2 * a.c;
    a.dy = n->source[own]->data;
    a.dy_type = n->source[own]->type;
    a.table = zn_node_tail(n->source[own + 1]);
    a.more = k->more ? n->source[own + 2]->data : NULL;
    a.more_type = k->more ? n->source[own + 2]->type : ZN_TYPE_F32;
    a.y = n->data;
    a.y_type = n->type;
    a.partial = c->shared;
    a.line = a.partial + partial_count(&a);
    a.sums = a.line + 2 * table;
    float **const to[] = { k->scale ? &a.d_scale : NULL, k->shift ? &a.d_shift : NULL, k->gain ? &a.d_gain : NULL };
    for (int i = 0; i < 3; i++)
        if (to[i]) {
            *to[i] = next;
            next += table;
        }
    if (c->device && zn_silu_norm_is_whole(&a)) {
        zn_launch(c, zn_k_silu_norm_back, a.n * a.groups, 1, &a);
    } else {
        zn_launch(c, zn_k_silu_norm_grad_sums, a.n * zn_silu_norm_blocks(&a), 1, &a);
        zn_launch(c, zn_k_silu_norm_grad_merge, a.n * a.groups, 1, &a);
        zn_launch(c, zn_k_silu_norm_grad, a.n * a.pixels, grain_of(n), &a);
    }
    const zn_reduce_args sum = { .x = a.sums, .y = zn_node_tail(n), .rows = 2 * (int64_t)a.c, .c = (int)a.n };
    zn_launch(c, zn_k_sum_partials, sum.rows, 1024, &sum);
}

/* Of the norm itself, only the tail is read. */
static zn_node_types grad_types(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const spec *k = n->attribute;
    return (zn_node_types){ .result = true, .sources = 1u | (k->more ? 7u : 3u) << own_sources(k) };
}

static double grad_flops(const zn_node *n) { return 30.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_silu_norm_grad = { .name = "silu_norm_grad",
                                     .shape = zn_like_first,
                                     .run = grad_run,
                                     .launches = zn_launches,
                                     .types = grad_types,
                                     .needs = grad_needs,
                                     .flops = grad_flops,
                                     .tail = grad_tail,
                                     .global = true };

/* ---- fusion ---- */

/* A SiLU, with all before it. */
static void fuse_silu(zn_node *n, int *uses)
{
    zn_norm norm;
    zn_node *sources[ZN_MAX_SOURCES];
    const int count = n->op == &zn_op_silu ? zn_norm_before(n, uses, &norm, sources) : 0;
    if (!count)
        return;
    const spec k = {
        .groups = norm.groups, .eps = norm.eps, .scale = norm.scale, .shift = norm.shift, .gain = norm.gain
    };
    zn_fuse_become(n, uses, &zn_op_silu_norm, &k, sizeof k, sources, count);
}

/* A dropout after such a norm. */
static void fuse_dropout(zn_node *n, int *uses)
{
    zn_node *norm = n->source[0], *sources[ZN_MAX_SOURCES];
    if (n->op != &zn_op_dropout || norm->op != &zn_op_silu_norm || uses[norm->index] != 1 ||
        zn_shape_count(n->source[1]->shape) != norm->shape.dim[0])
        return;
    spec k = *(spec *)norm->attribute;
    if (k.drops)
        return;
    k.drops = true;
    zn_dropout_settings(n, &k.share, &k.place);
    for (int i = 0; i < norm->source_count; i++)
        sources[i] = norm->source[i];
    sources[norm->source_count] = n->source[1];
    zn_fuse_become(n, uses, &zn_op_silu_norm, &k, sizeof k, sources, norm->source_count + 1);
}

void zn_graph_fuse_silu_norms(zn_graph *g, zn_node *const *outputs, int count)
{
    int *uses = zn_fuse_count_uses(g, outputs, count);
    if (!uses)
        return; /* the unfused graph computes the same */
    for (int i = 0; i < zn_graph_count(g); i++) {
        fuse_silu(zn_graph_at(g, i), uses);
        fuse_dropout(zn_graph_at(g, i), uses);
    }
    zn_free(uses);
}

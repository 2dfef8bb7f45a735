/* Grouped 1x1 and depthwise 3x3 convolutions. */
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"

/* ---- grouped 1x1: x [..,cin], w [groups][cout/groups][cin/groups], bias [cout]; attribute: interleave ---- */

static zn_grouped_args grouped_args(const zn_node *n)
{
    const zn_node *x = n->source[0], *w = n->source[1];
    const int cin = zn_channels(x), groups = (int)w->shape.dim[0];
    return (zn_grouped_args){ .w = w->data,
                              .pixels = zn_positions(x),
                              .cin = cin,
                              .cout = (int)(w->shape.dim[1] * groups),
                              .groups = groups,
                              .interleave = *(bool *)n->attribute };
}

static zn_needs grouped_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_grouped_args a = grouped_args(n);
    return (zn_needs){ .thread_scratch = zn_grouped_scratch(&a) };
}

/* Enough pixels to amortise packing the weights. */
enum { GROUPED_GRAIN = 4 * ZN_GROUPED_PIXELS };

static zn_status grouped_shape(zn_node *n)
{
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    char a[96], b[96];
    if (w.rank != 3 || w.dim[0] * w.dim[2] != x.dim[x.rank - 1])
        return ZN_FAIL(ZN_ESHAPE, "input %s does not fit grouped weights %s", zn_shape_text(x, a, sizeof a),
                       zn_shape_text(w, b, sizeof b));
    n->shape = x;
    n->shape.dim[x.rank - 1] = w.dim[0] * w.dim[1];
    if (n->source_count > 2 && zn_shape_count(n->source[2]->shape) != n->shape.dim[x.rank - 1])
        return ZN_FAIL(ZN_ESHAPE, "the bias needs %lld values", (long long)n->shape.dim[x.rank - 1]);
    return ZN_OK;
}

static void grouped_run(const zn_node *n, const zn_launch_context *c)
{
    zn_grouped_args a = grouped_args(n);
    a.x = n->source[0]->data;
    a.bias = n->source_count > 2 ? n->source[2]->data : NULL;
    a.y = n->data;
    zn_launch(c, zn_k_grouped, a.pixels, GROUPED_GRAIN, &a);
}

/* From the order of interleaved outputs, j * groups + g, to the order of the parameters. */
static zn_node *part(zn_node *x, int groups)
{
    const int count = (int)x->shape.dim[0], each = count / groups;
    int32_t *from = zn_arena_alloc(zn_graph_arena(x->graph), sizeof *from * (size_t)count);
    if (!from)
        return zn_graph_poison(x->graph, ZN_ENOMEM, "out of memory while building a graph");
    for (int i = 0; i < count; i++)
        from[i] = i % each * groups + i / each;
    return zn_select_channels(x, from, count);
}

static void grouped_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *w = n->source[1], *sources[] = { x, w, dy };
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_grouped_grad, n->attribute, n->attribute_size, sources, 3));
    if (zn_needs_gradient(w))
        zn_accumulate(w, zn_apply(&zn_op_grouped_weight_grad, n->attribute, n->attribute_size, sources, 3));
    if (n->source_count > 2 && zn_needs_gradient(n->source[2])) {
        zn_node *sum = zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1);
        zn_accumulate(n->source[2], *(bool *)n->attribute ? part(sum, (int)w->shape.dim[0]) : sum);
    }
}

static double grouped_flops(const zn_node *n)
{
    return 2.0 * (double)zn_shape_count(n->shape) * (double)n->source[1]->shape.dim[2];
}

const zn_op zn_op_grouped = { .name = "grouped",
                              .shape = grouped_shape,
                              .run = grouped_run,
                              .launches = zn_launches,
                              .gradient = grouped_gradient,
                              .needs = grouped_needs,
                              .flops = grouped_flops };

static zn_node *grouped(zn_node *x, zn_node *w, zn_node *bias, bool interleave)
{
    return zn_apply(&zn_op_grouped, &interleave, sizeof interleave, (zn_node *[]){ x, w, bias }, bias ? 3 : 2);
}

bool zn_grouped_is_interleaved(const zn_node *n) { return *(bool *)n->attribute; }

zn_node *zn_grouped_conv(zn_node *x, zn_node *w, zn_node *bias) { return grouped(x, w, bias, false); }
zn_node *zn_grouped_interleaved(zn_node *x, zn_node *w, zn_node *bias) { return grouped(x, w, bias, true); }

static void grouped_grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_grouped_args a = grouped_args(n);
    a.dy = n->source[2]->data;
    a.y = n->data;
    zn_launch(c, zn_k_grouped_grad, a.pixels, GROUPED_GRAIN, &a);
}

/* Each of the two gradients takes as many multiplications as the forward pass. */
static double grouped_grad_flops(const zn_node *n)
{
    return 2.0 * (double)zn_shape_count(n->source[2]->shape) * (double)n->source[1]->shape.dim[2];
}

const zn_op zn_op_grouped_grad = { .name = "grouped_grad",
                                   .shape = zn_like_first,
                                   .run = grouped_grad_run,
                                   .launches = zn_launches,
                                   .needs = grouped_needs,
                                   .flops = grouped_grad_flops };

/* Sums [blocks][count] partials from shared scratch into the node. */
static void sum_partials(const zn_node *n, const zn_launch_context *c, int64_t blocks)
{
    const zn_reduce_args sum = { .x = c->shared, .y = n->data, .rows = zn_shape_count(n->shape), .c = (int)blocks };
    zn_launch(c, zn_k_sum_partials, sum.rows, 1024, &sum);
}

static zn_needs grouped_weight_needs(const zn_node *n, const zn_prepare *p)
{
    zn_needs needs = grouped_needs(n, p);
    const zn_grouped_args a = grouped_args(n);
    const int64_t blocks = zn_sum_parts(a.pixels, p->cpu & ZN_CPU_CUDA);
    needs.shared_scratch = sizeof(float) * (size_t)(blocks * zn_shape_count(n->shape));
    return needs;
}

static void grouped_weight_run(const zn_node *n, const zn_launch_context *c)
{
    zn_grouped_args a = grouped_args(n);
    const int64_t blocks = zn_sum_parts(a.pixels, c->device);
    a.x = n->source[0]->data;
    a.dy = n->source[2]->data;
    a.partial = c->shared;
    zn_launch(c, zn_k_grouped_weight_grad, blocks * a.groups, 1, &a);
    sum_partials(n, c, blocks);
}

const zn_op zn_op_grouped_weight_grad = { .name = "grouped_weight_grad",
                                          .shape = zn_like_second,
                                          .run = grouped_weight_run,
                                          .launches = zn_launches,
                                          .needs = grouped_weight_needs,
                                          .flops = grouped_grad_flops,
                                          .global = true };

/* ---- depthwise 3x3: x [N,H,W,C], w [C,3,3], zero padding ---- */

typedef struct depthwise_spec {
    bool flip, add_x; /* flip: the gradient; add_x: x + conv(x) */
} depthwise_spec;

static zn_depthwise_args depthwise_args(const zn_node *n)
{
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_depthwise_args){
        .x = n->source[0]->data, .n = (int)d[0], .h = (int)d[1], .wide = (int)d[2], .c = (int)d[3]
    };
}

static zn_status depthwise_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    if (w.rank != 3 || w.dim[0] != x.dim[3] || w.dim[1] != 3 || w.dim[2] != 3)
        return ZN_FAIL(ZN_ESHAPE, "depthwise weights must be %lldx3x3", (long long)x.dim[3]);
    n->shape = x;
    return ZN_OK;
}

static zn_needs depthwise_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .thread_scratch = sizeof(float) * 9 * (size_t)n->source[0]->shape.dim[3] };
}

enum { DEPTHWISE_GRAIN = 64, DEPTHWISE_ROWS = 8, DEPTHWISE_PARTS = 64 };

/* Rows per task: enough pixels to amortise reordering the weights, and consecutive rows, which share inputs; but
 * enough tasks for many threads. */
static int64_t depthwise_grain(const zn_depthwise_args *a)
{
    const int64_t most = (int64_t)a->n * a->h / DEPTHWISE_PARTS, rows = most < DEPTHWISE_ROWS ? most : DEPTHWISE_ROWS;
    const int64_t least = 1 + DEPTHWISE_GRAIN / a->wide;
    return rows > least ? rows : least;
}

static void depthwise_run(const zn_node *n, const zn_launch_context *c)
{
    const depthwise_spec *k = n->attribute;
    zn_depthwise_args a = depthwise_args(n);
    a.w = n->source[1]->data;
    a.y = n->data;
    a.flip = k->flip;
    a.add_x = k->add_x;
    zn_launch(c, zn_k_depthwise, (int64_t)a.n * a.h, depthwise_grain(&a), &a);
}

static void depthwise_gradient(zn_node *n, zn_node *dy)
{
    const depthwise_spec *k = n->attribute, back = { !k->flip, k->add_x };
    if (zn_needs_gradient(n->source[0]))
        zn_accumulate(n->source[0],
                      zn_apply(&zn_op_depthwise, &back, sizeof back, (zn_node *[]){ dy, n->source[1] }, 2));
    if (zn_needs_gradient(n->source[1]))
        zn_accumulate(n->source[1], zn_apply(&zn_op_depthwise_weight_grad, NULL, 0,
                                             (zn_node *[]){ n->source[0], n->source[1], dy }, 3));
}

static double depthwise_flops(const zn_node *n)
{
    return (18.0 + ((depthwise_spec *)n->attribute)->add_x) * (double)zn_shape_count(n->shape);
}

/* The sum starts with the added input. */
static double depthwise_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return 9.0 * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_depthwise = { .name = "depthwise",
                                .shape = depthwise_shape,
                                .run = depthwise_run,
                                .launches = zn_launches,
                                .gradient = depthwise_gradient,
                                .needs = depthwise_needs,
                                .flops = depthwise_flops,
                                .slots = depthwise_slots,
                                .reach = zn_reach_neighbours };

static zn_node *depthwise(zn_node *x, zn_node *w, bool add_x)
{
    const depthwise_spec k = { false, add_x };
    return zn_apply(&zn_op_depthwise, &k, sizeof k, (zn_node *[]){ x, w }, 2);
}

bool zn_depthwise_is_residual(const zn_node *n)
{
    const depthwise_spec *k = n->attribute;
    return k->add_x && !k->flip;
}

zn_node *zn_depthwise(zn_node *x, zn_node *w) { return depthwise(x, w, false); }
zn_node *zn_depthwise_residual(zn_node *x, zn_node *w) { return depthwise(x, w, true); }

static zn_needs depthwise_weight_needs(const zn_node *n, const zn_prepare *p)
{
    zn_needs needs = depthwise_needs(n, p);
    const int64_t *d = n->source[0]->shape.dim;
    needs.shared_scratch = sizeof(float) * (size_t)(zn_sum_parts(d[0] * d[1], p->cpu & ZN_CPU_CUDA) * 9 * d[3]);
    return needs;
}

static void depthwise_weight_run(const zn_node *n, const zn_launch_context *c)
{
    zn_depthwise_args a = depthwise_args(n);
    const int64_t blocks = zn_sum_parts((int64_t)a.n * a.h, c->device);
    a.dy = n->source[2]->data;
    a.partial = c->shared;
    zn_launch(c, zn_k_depthwise_weight_grad, blocks, 1, &a);
    sum_partials(n, c, blocks);
}

static double depthwise_weight_flops(const zn_node *n) { return 18.0 * (double)zn_shape_count(n->source[0]->shape); }

const zn_op zn_op_depthwise_weight_grad = { .name = "depthwise_weight_grad",
                                            .shape = zn_like_second,
                                            .run = depthwise_weight_run,
                                            .launches = zn_launches,
                                            .needs = depthwise_weight_needs,
                                            .flops = depthwise_weight_flops,
                                            .global = true };

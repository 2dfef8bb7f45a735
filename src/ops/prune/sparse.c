/* Depthwise 3x3 followed by a block gate: y = mask e, and e is not computed where the mask is 0 (kernels/gates.h).
 *
 * The gradient of the mask needs e also where it was skipped: a straight-through gate needs a gradient for pruned
 * blocks. If the pattern is a constant (zn_positive, hard gates), that gradient is not requested, and nothing dense
 * is computed. */
#include "base/fail.h"
#include "kernels/gates.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

/* Sources: x [N,H,W,C], w [C,3,3], dy in the gradients, and last the mask [N,H,W,C/8] if there is one. */
static zn_sparse_args args_of(const zn_node *n, bool gradient)
{
    const zn_node *x = n->source[0];
    const int mask = gradient ? 3 : 2;
    return (zn_sparse_args){ .x = x->data,
                             .w = n->source[1]->data,
                             .dy = gradient ? n->source[2]->data : NULL,
                             .mask = n->source_count > mask ? n->source[mask]->data : NULL,
                             .y = n->data,
                             .n = (int)x->shape.dim[0],
                             .h = (int)x->shape.dim[1],
                             .wide = (int)x->shape.dim[2],
                             .c = (int)x->shape.dim[3] };
}

static int64_t pixels_of(const zn_node *x) { return zn_shape_count(x->shape) / x->shape.dim[3]; }

/* Buffer shared by all threads: words of the mask, followed by the op's own floats. */
static size_t shared_words(const zn_node *x) { return (size_t)(pixels_of(x) * zn_sparse_words((int)x->shape.dim[3])); }

static size_t shared_bytes(const zn_node *x, int64_t floats)
{
    return sizeof(uint64_t) * shared_words(x) + sizeof(float) * (size_t)floats;
}

/* Returns the start of the floats. A GPU reads the mask itself. */
static float *look(const zn_launch_context *c, const zn_node *x, zn_sparse_args *a)
{
    uint64_t *open = c->shared;
    const zn_sparse_look_args k = { .mask = a->mask, .open = open, .c = a->c };
    if (a->mask && !c->device) {
        zn_launch(c, zn_k_sparse_look, pixels_of(x), 1 + 4096 / a->c, &k);
        a->open = open;
    }
    return (float *)(open + shared_words(x));
}

/* Masks, and the transposed weights; a GPU does without either. */
static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_node *x = n->source[0];
    return (zn_needs){ .shared_scratch = shared_bytes(x, 9 * zn_sparse_row((int)x->shape.dim[3])) };
}

static void launch(const zn_launch_context *c, const zn_node *x, zn_body body, zn_sparse_args *a)
{
    float *turned = look(c, x, a);
    const zn_sparse_turn_args t = { .w = a->w, .turned = turned, .c = a->c };
    if (!c->device)
        zn_launch(c, zn_k_sparse_turn, a->c, 512, &t);
    a->turned = turned;
    zn_launch(c, body, pixels_of(x), 1 + 4096 / a->c, a);
}

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    if (w.rank != 3 || w.dim[0] != x.dim[3] || w.dim[1] != 3 || w.dim[2] != 3)
        return ZN_FAIL(ZN_ESHAPE, "depthwise weights must be %lldx3x3", (long long)x.dim[3]);
    if (x.dim[3] % ZN_GATE_BLOCK)
        return ZN_FAIL(ZN_ESHAPE, "%lld channels do not divide into blocks of %d", (long long)x.dim[3], ZN_GATE_BLOCK);
    if (n->source_count > 2 && zn_shape_count(n->source[2]->shape) * ZN_GATE_BLOCK != zn_shape_count(x))
        return ZN_FAIL(ZN_ESHAPE, "the mask does not fit the tensor");
    n->shape = x;
    return ZN_OK;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_sparse_args a = args_of(n, false);
    launch(c, n->source[0], zn_k_sparse_depthwise, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *w = n->source[1], *mask = n->source_count > 2 ? n->source[2] : NULL;
    zn_node *sources[] = { x, w, dy, mask };
    const int count = mask ? 4 : 3;
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_sparse_depthwise_grad, NULL, 0, sources, count));
    if (zn_needs_gradient(w))
        zn_accumulate(w, zn_apply(&zn_op_sparse_depthwise_weight_grad, NULL, 0, sources, count));
    if (mask && zn_needs_gradient(mask))
        zn_accumulate(mask, zn_apply(&zn_op_gate_apply_mask_grad, NULL, 0,
                                     (zn_node *[]){ zn_sparse_depthwise(x, w, NULL), mask, dy }, 3));
}

static double flops(const zn_node *n) { return 18.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_sparse_depthwise = { .name = "sparse_depthwise",
                                       .shape = shape,
                                       .run = run,
                                       .launches = zn_launches,
                                       .gradient = gradient,
                                       .needs = needs,
                                       .flops = flops,
                                       .reach = zn_reach_neighbours };

zn_node *zn_sparse_depthwise(zn_node *x, zn_node *w, zn_node *mask)
{
    return zn_apply(&zn_op_sparse_depthwise, NULL, 0, (zn_node *[]){ x, w, mask }, mask ? 3 : 2);
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_sparse_args a = args_of(n, true);
    launch(c, n->source[0], zn_k_sparse_depthwise_grad, &a);
}

const zn_op zn_op_sparse_depthwise_grad = { .name = "sparse_depthwise_grad",
                                            .shape = zn_like_first,
                                            .run = grad_run,
                                            .launches = zn_launches,
                                            .needs = needs,
                                            .flops = flops,
                                            .reach = zn_reach_neighbours };

static double weight_flops(const zn_node *n) { return flops(n->source[0]); }

/* One sum per image. */
static zn_needs weight_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_needs){ .thread_scratch = zn_sparse_scratch((int)d[1], (int)d[2]),
                       .shared_scratch = shared_bytes(n->source[0], d[0] * zn_shape_count(n->shape)) };
}

static void weight_run(const zn_node *n, const zn_launch_context *c)
{
    zn_sparse_args a = args_of(n, true);
    const int64_t count = zn_shape_count(n->shape);
    float *sums = look(c, n->source[0], &a);
    a.partial = a.n == 1 ? n->data : sums;
    zn_launch(c, zn_k_sparse_depthwise_weight_grad, a.n * zn_sparse_strips(&a), 1, &a);
    const zn_line_fold_args sum = { .partial = a.partial, .y = n->data, .blocks = a.n, .count = count };
    if (a.n > 1)
        zn_launch(c, zn_k_line_fold, (count + ZN_LINE_FOLD - 1) / ZN_LINE_FOLD, 4, &sum);
}

const zn_op zn_op_sparse_depthwise_weight_grad = { .name = "sparse_depthwise_weight_grad",
                                                   .shape = zn_like_second,
                                                   .run = weight_run,
                                                   .launches = zn_launches,
                                                   .needs = weight_needs,
                                                   .flops = weight_flops,
                                                   .global = true };

/* Rearrangements: pixel shuffle and unshuffle (PyTorch order), space to depth and back (TensorFlow order), and
 * selection of channels. */
#include "base/fail.h"
#include "kernels/mix.h"
#include "ops/ops.h"

#include <string.h>

static zn_node *apply_factor(const zn_op *op, zn_node *x, int r)
{
    return zn_apply(op, &r, sizeof r, (zn_node *[]){ x }, 1);
}

static zn_status unshuffle_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const int r = *(int *)n->attribute;
    const zn_shape x = n->source[0]->shape;
    if (x.dim[1] % r || x.dim[2] % r)
        return ZN_FAIL(ZN_ESHAPE, "sides %lldx%lld are not multiples of %d", (long long)x.dim[2], (long long)x.dim[1],
                       r);
    n->shape = ZN_SHAPE(x.dim[0], x.dim[1] / r, x.dim[2] / r, x.dim[3] * r * r);
    return ZN_OK;
}

static zn_status shuffle_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const int r = *(int *)n->attribute;
    const zn_shape x = n->source[0]->shape;
    if (x.dim[3] % (r * r))
        return ZN_FAIL(ZN_ESHAPE, "%lld channels are not a multiple of %d", (long long)x.dim[3], r * r);
    n->shape = ZN_SHAPE(x.dim[0], x.dim[1] * r, x.dim[2] * r, x.dim[3] / (r * r));
    return ZN_OK;
}

static void launch(const zn_node *n, const zn_node *small, const zn_node *large, zn_body body,
                   const zn_launch_context *c)
{
    const int64_t *s = small->shape.dim;
    const zn_shuffle_args a = { .x = n->source[0]->data,
                                .y = n->data,
                                .h = (int)s[1],
                                .w = (int)s[2],
                                .c = (int)large->shape.dim[3],
                                .r = *(int *)n->attribute };
    zn_launch(c, body, s[0] * s[1], 1, &a);
}

static void unshuffle_run(const zn_node *n, const zn_launch_context *c)
{
    launch(n, n, n->source[0], zn_k_unshuffle, c);
}
static void shuffle_run(const zn_node *n, const zn_launch_context *c) { launch(n, n->source[0], n, zn_k_shuffle, c); }

static void unshuffle_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_pixel_shuffle(dy, *(int *)n->attribute));
}

static void shuffle_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_pixel_unshuffle(dy, *(int *)n->attribute));
}

static void unshuffle_reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    *lo *= *(int *)n->attribute;
    *hi *= *(int *)n->attribute;
}

static void shuffle_reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    const int64_t r = *(int *)n->attribute;
    *lo = *lo >= 0 ? *lo / r : -((-*lo + r - 1) / r);
    *hi = (*hi + r - 1) / r;
}

const zn_op zn_op_unshuffle = { .name = "unshuffle",
                                .shape = unshuffle_shape,
                                .run = unshuffle_run,
                                .launches = zn_launches,
                                .gradient = unshuffle_gradient,
                                .reach = unshuffle_reach };
const zn_op zn_op_shuffle = { .name = "shuffle",
                              .shape = shuffle_shape,
                              .run = shuffle_run,
                              .launches = zn_launches,
                              .gradient = shuffle_gradient,
                              .reach = shuffle_reach };

int zn_shuffle_factor(const zn_node *n) { return *(int *)n->attribute; }
zn_node *zn_pixel_unshuffle(zn_node *x, int r) { return apply_factor(&zn_op_unshuffle, x, r); }
zn_node *zn_pixel_shuffle(zn_node *x, int r) { return apply_factor(&zn_op_shuffle, x, r); }

/* ---- the same with the channels innermost: patches, as read by a convolution with kernel = stride ---- */

static void space_run(const zn_node *n, const zn_launch_context *c)
{
    launch(n, n, n->source[0], zn_k_space_to_depth, c);
}
static void depth_run(const zn_node *n, const zn_launch_context *c)
{
    launch(n, n->source[0], n, zn_k_depth_to_space, c);
}

static void space_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_depth_to_space(dy, *(int *)n->attribute));
}

static void depth_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_space_to_depth(dy, *(int *)n->attribute));
}

const zn_op zn_op_space_to_depth = { .name = "space_to_depth",
                                     .shape = unshuffle_shape,
                                     .run = space_run,
                                     .launches = zn_launches,
                                     .gradient = space_gradient,
                                     .reach = unshuffle_reach };
const zn_op zn_op_depth_to_space = { .name = "depth_to_space",
                                     .shape = shuffle_shape,
                                     .run = depth_run,
                                     .launches = zn_launches,
                                     .gradient = depth_gradient,
                                     .reach = shuffle_reach };

zn_node *zn_space_to_depth(zn_node *x, int r) { return apply_factor(&zn_op_space_to_depth, x, r); }
zn_node *zn_depth_to_space(zn_node *x, int r) { return apply_factor(&zn_op_depth_to_space, x, r); }

/* ---- selection: y[k] = x[from[k]], zero where from[k] < 0; attribute: cin, then from[cout] ---- */

static int cin_of(const zn_node *n) { return *(int32_t *)n->attribute; }
static const int32_t *from_of(const zn_node *n) { return (int32_t *)n->attribute + 1; }
static int cout_of(const zn_node *n) { return (int)(n->attribute_size / sizeof(int32_t)) - 1; }

static zn_status select_shape(zn_node *n)
{
    const zn_shape x = n->source[0]->shape;
    if (x.dim[x.rank - 1] != cin_of(n))
        return ZN_FAIL(ZN_ESHAPE, "a selection of %d channels gets %lld", cin_of(n), (long long)x.dim[x.rank - 1]);
    n->shape = x;
    n->shape.dim[x.rank - 1] = cout_of(n);
    return ZN_OK;
}

static zn_status select_grad_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    n->shape.dim[n->shape.rank - 1] = cin_of(n);
    return ZN_OK;
}

/* The indices are prepared data, because a device has no copy of attributes. */
static zn_needs select_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .prepared = sizeof(int32_t) * (size_t)cout_of(n) };
}

static void select_prepare(const zn_node *n, const zn_prepare *p, void *prepared)
{
    (void)p;
    memcpy(prepared, from_of(n), sizeof(int32_t) * (size_t)cout_of(n));
}

static void select_launch(const zn_node *n, zn_body body, const zn_launch_context *c)
{
    const zn_select_args a = {
        .x = n->source[0]->data, .y = n->data, .from = c->prepared, .cin = cin_of(n), .cout = cout_of(n)
    };
    zn_launch(c, body, zn_positions(n), 1 + (1 << 14) / a.cout, &a);
}

static void select_run(const zn_node *n, const zn_launch_context *c) { select_launch(n, zn_k_select, c); }
static void select_grad_run(const zn_node *n, const zn_launch_context *c) { select_launch(n, zn_k_select_grad, c); }

static void select_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], zn_apply(&zn_op_select_grad, n->attribute, n->attribute_size, (zn_node *[]){ dy }, 1));
}

const zn_op zn_op_select = { .name = "select",
                             .shape = select_shape,
                             .run = select_run,
                             .launches = zn_launches,
                             .gradient = select_gradient,
                             .needs = select_needs,
                             .prepare = select_prepare };
const zn_op zn_op_select_grad = { .name = "select_grad",
                                  .shape = select_grad_shape,
                                  .run = select_grad_run,
                                  .launches = zn_launches,
                                  .needs = select_needs,
                                  .prepare = select_prepare };

bool zn_selects_first(const zn_node *n)
{
    for (int i = 0; i < cout_of(n); i++)
        if (from_of(n)[i] != (i < cin_of(n) ? i : -1))
            return false;
    return true;
}

zn_node *zn_select_channels(zn_node *x, const int32_t *from, int count)
{
    int32_t *attribute = zn_arena_alloc(zn_graph_arena(x->graph), sizeof(int32_t) * (size_t)(count + 1));
    if (!attribute)
        return zn_graph_poison(x->graph, ZN_ENOMEM, "out of memory while building a graph");
    attribute[0] = (int32_t)zn_channels(x);
    memcpy(attribute + 1, from, sizeof(int32_t) * (size_t)count);
    for (int i = 0; i < count; i++)
        if (from[i] >= attribute[0])
            return zn_graph_poison(x->graph, ZN_EFORMAT, "a permutation points outside its channels");
    return zn_apply(&zn_op_select, attribute, sizeof(int32_t) * (size_t)(count + 1), (zn_node *[]){ x }, 1);
}

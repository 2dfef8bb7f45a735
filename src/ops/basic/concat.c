/* Concatenation of feature maps along channels, and a range of channels of one map. */
#include "base/fail.h"
#include "kernels/mix.h"
#include "ops/ops.h"

/* Pairs of 16-bit numbers are copied as floats. */
static void copy(const zn_node *n, const zn_launch_context *c, zn_channel_copy_args a)
{
    if (n->type != ZN_TYPE_F32) {
        a.from /= 2, a.to /= 2;
        a.count /= 2;
    }
    zn_launch(c, zn_k_copy_channels, zn_positions(n), 1 + (1 << 14) / a.count, &a);
}

/* 16 bits, if no pair is cut. */
static zn_node_types types(const zn_node *n, bool even, const zn_prepare *p)
{
    for (int i = 0; i < n->source_count; i++)
        even &= zn_channels(n->source[i]) % 2 == 0;
    return even ? zn_types_alike(n, p) : (zn_node_types){ 0 };
}

/* ---- concat ---- */

static zn_status concat_shape(zn_node *n)
{
    const zn_node *first = n->source[0];
    char a[96], b[96];
    n->shape = first->shape;
    for (int i = 1; i < n->source_count; i++) {
        zn_shape other = n->source[i]->shape;
        other.dim[other.rank - 1] = zn_channels(first);
        if (!zn_shape_equal(other, first->shape))
            return ZN_FAIL(ZN_ESHAPE, "maps %s and %s do not lie beside each other",
                           zn_shape_text(first->shape, a, sizeof a), zn_shape_text(n->source[i]->shape, b, sizeof b));
        n->shape.dim[n->shape.rank - 1] += zn_channels(n->source[i]);
    }
    return ZN_OK;
}

static void concat_run(const zn_node *n, const zn_launch_context *c)
{
    int at = 0;
    zn_device_group_begin(c->device);
    for (int i = 0; i < n->source_count; i++) {
        const int width = zn_channels(n->source[i]);
        copy(n, c,
             (zn_channel_copy_args){ .x = n->source[i]->data,
                                     .y = zn_values_at(n, at),
                                     .from = width,
                                     .to = zn_channels(n),
                                     .count = width });
        at += width;
    }
    zn_device_group_end(c->device);
}

static zn_node_types concat_types(const zn_node *n, const zn_prepare *p) { return types(n, true, p); }

static void concat_gradient(zn_node *n, zn_node *dy)
{
    int at = 0;
    for (int i = 0; i < n->source_count; i++) {
        const int width = zn_channels(n->source[i]);
        if (zn_needs_gradient(n->source[i]))
            zn_accumulate(n->source[i], zn_slice_channels(dy, at, width));
        at += width;
    }
}

const zn_op zn_op_concat = { .name = "concat",
                             .shape = concat_shape,
                             .run = concat_run,
                             .types = concat_types,
                             .host_types = zn_host_types_of_pairs,
                             .launches = zn_launches,
                             .gradient = concat_gradient };

zn_node *zn_concat(zn_node *a, zn_node *b) { return zn_apply(&zn_op_concat, NULL, 0, (zn_node *[]){ a, b }, 2); }

/* ---- slice ---- */

typedef struct slice_spec {
    int first, count;
    int whole; /* gradient: channels of the map that was sliced */
} slice_spec;

static zn_status slice_shape(zn_node *n)
{
    const slice_spec *k = n->attribute;
    const int64_t c = zn_channels(n->source[0]);
    n->shape = n->source[0]->shape;
    if (k->first < 0 || k->count < 1 || k->first + k->count > c)
        return ZN_FAIL(ZN_ESHAPE, "of %lld channels, %d to %d cannot be taken", (long long)c, k->first,
                       k->first + k->count - 1);
    n->shape.dim[n->shape.rank - 1] = k->count;
    return ZN_OK;
}

static void slice_run(const zn_node *n, const zn_launch_context *c)
{
    const slice_spec *k = n->attribute;
    copy(n, c,
         (zn_channel_copy_args){ .x = zn_values_at(n->source[0], k->first),
                                 .y = n->data,
                                 .from = zn_channels(n->source[0]),
                                 .to = k->count,
                                 .count = k->count });
}

static zn_node_types slice_types(const zn_node *n, const zn_prepare *p)
{
    const slice_spec *k = n->attribute;
    return types(n, (k->first | k->count) % 2 == 0, p);
}

static zn_node_types slice_host_types(const zn_node *n, const zn_prepare *p)
{
    return ((slice_spec *)n->attribute)->first % 2 ? (zn_node_types){ 0 } : zn_host_types_of_pairs(n, p);
}

static void slice_gradient(zn_node *n, zn_node *dy)
{
    slice_spec k = *(slice_spec *)n->attribute;
    k.whole = zn_channels(n->source[0]);
    zn_accumulate(n->source[0], zn_apply(&zn_op_slice_grad, &k, sizeof k, (zn_node *[]){ dy }, 1));
}

const zn_op zn_op_slice = { .name = "slice",
                            .shape = slice_shape,
                            .run = slice_run,
                            .types = slice_types,
                            .host_types = slice_host_types,
                            .launches = zn_launches,
                            .gradient = slice_gradient };

zn_node *zn_slice_channels(zn_node *x, int first, int count)
{
    const slice_spec k = { first, count, 0 };
    return zn_apply(&zn_op_slice, &k, sizeof k, (zn_node *[]){ x }, 1);
}

zn_node *zn_slice_whole(zn_node *n, int *first, int *whole)
{
    const bool sliced = n->op == &zn_op_slice;
    zn_node *from = sliced ? n->source[0] : n;
    *first = sliced ? ((slice_spec *)n->attribute)->first : 0;
    *whole = zn_channels(from);
    return from;
}

static zn_status slice_grad_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    n->shape.dim[n->shape.rank - 1] = ((slice_spec *)n->attribute)->whole;
    return ZN_OK;
}

static void slice_grad_run(const zn_node *n, const zn_launch_context *c)
{
    const slice_spec *k = n->attribute;
    copy(n, c,
         (zn_channel_copy_args){ .x = n->source[0]->data,
                                 .y = n->data,
                                 .from = k->count,
                                 .to = k->whole,
                                 .count = k->count,
                                 .skip = k->first,
                                 .clear = true });
}

const zn_op zn_op_slice_grad = {
    .name = "slice_grad", .shape = slice_grad_shape, .run = slice_grad_run, .launches = zn_launches
};

/* Fusion for GPUs: a norm with the modulation, the rotary positions or the gate and the addition after it, and the
 * product of two halves of a feed-forward part. On 16-bit maps the steps between are not rounded, so results are not
 * those of separate steps. */
#include "base/alloc.h"
#include "kernels/token.h"
#include "ops/passes/fuse.h"

static bool lone(const zn_node *n, const zn_op *op, const int *uses) { return n->op == op && uses[n->index] == 1; }

/* Whether n is a norm that the kernel knows, with one reader, and one row of `scale` fits it. */
static bool norm_with(const zn_node *n, const zn_node *scale, const int *uses)
{
    return lone(n, &zn_op_rms_norm, uses) && !zn_rms_norm_has_limit(n) && zn_channels(n) <= ZN_GATED_NORM_MOST &&
           zn_shape_count(scale->shape) == zn_channels(n);
}

/* Reads a scale where it was before it was cut out of one row and clamped. */
static zn_node *scale_before(zn_node *scale, zn_gated_norm *k)
{
    if (scale->op == &zn_op_soft_clamp) {
        k->limit = *(const float *)scale->attribute;
        scale = scale->source[0];
    }
    for (;;) {
        int first, whole;
        zn_node *const from = zn_slice_whole(scale, &first, &whole);
        if (from == scale || zn_shape_count(from->shape) != whole)
            return scale;
        k->first += first;
        scale = from;
    }
}

static void become_norm(zn_node *n, int *uses, const zn_node *norm, zn_node *scale, bool plus_one, zn_node *residual)
{
    zn_gated_norm k = { .eps = zn_rms_norm_eps(norm), .plus_one = plus_one };
    scale = scale_before(scale, &k);
    zn_node *const sources[] = { norm->source[0], norm->source[1], scale, residual };
    zn_fuse_become(n, uses, &zn_op_gated_norm, &k, sizeof k, sources, residual ? 4 : 3);
}

static void fuse_modulation(zn_node *n, int *uses)
{
    if (n->source_count == 2 && norm_with(n->source[0], n->source[1], uses))
        become_norm(n, uses, n->source[0], n->source[1], true, NULL);
}

static void fuse_gate(zn_node *n, int *uses)
{
    for (int side = 0; side < 2; side++) {
        zn_node *gated = n->source[side], *other = n->source[1 - side];
        if (!lone(gated, &zn_op_mix, uses) || !zn_is_scale_channels(gated) ||
            !norm_with(gated->source[0], gated->source[1], uses))
            continue;
        become_norm(n, uses, gated->source[0], gated->source[1], false, other);
        return;
    }
}

static void fuse_product(zn_node *n, int *uses)
{
    zn_node *gate = n->source[0];
    if (lone(gate, &zn_op_silu, uses))
        zn_fuse_become(n, uses, &zn_op_silu_multiply, NULL, 0, (zn_node *[]){ gate->source[0], n->source[1] }, 2);
}

void zn_graph_fuse_tokens(zn_graph *g, zn_node *const *outputs, int count)
{
    int *uses = zn_fuse_count_uses(g, outputs, count);
    for (int i = 0; i < zn_graph_count(g) && uses; i++) { /* out of memory: the unfused graph computes the same */
        zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_modulate)
            fuse_modulation(n, uses);
        else if (n->op == &zn_op_add)
            fuse_gate(n, uses);
        else if (n->op == &zn_op_multiply)
            fuse_product(n, uses);
        zn_fuse_norm_rope(n, uses);
    }
    zn_free(uses);
}

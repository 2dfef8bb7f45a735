/* Rotary position embeddings (kernels/rope.h). The tables are not parameters and get no gradient. On a device they take
 * over the norm of heads before them (kernels/token.h). */
#include "kernels/rope.h"

#include "base/fail.h"
#include "kernels/token.h"
#include "ops/passes/fuse.h"

typedef struct rope_spec {
    bool halves, back;
    float eps; /* of the norm */
} rope_spec;

static zn_status shape(zn_node *n)
{
    const zn_node *x = n->source[0], *table = n->source[1];
    char a[96], b[96];
    n->shape = x->shape;
    if (!zn_shape_equal(table->shape, n->source[2]->shape) || zn_channels(x) % (2 * zn_channels(table)) ||
        zn_positions(x) % zn_positions(table))
        return ZN_FAIL(ZN_ESHAPE, "tokens %s cannot be turned by angles %s", zn_shape_text(x->shape, a, sizeof a),
                       zn_shape_text(table->shape, b, sizeof b));
    return ZN_OK;
}

/* All samples use the same angles. */
static zn_rope_args args_of(const zn_node *n)
{
    const zn_node *x = n->source[0], *table = n->source[1];
    const rope_spec *k = n->attribute;
    return (zn_rope_args){ .x = x->data,
                           .cos = table->data,
                           .sin = n->source[2]->data,
                           .y = n->data,
                           .period = zn_positions(table),
                           .heads = zn_channels(x) / (2 * zn_channels(table)),
                           .pairs = zn_channels(table),
                           .type = n->type,
                           .halves = k->halves,
                           .back = k->back };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_rope_args a = args_of(n);
    zn_launch(c, zn_k_rope, zn_positions(n), 1 + (1 << 14) / zn_channels(n), &a);
}

static zn_node *rope(zn_node *x, zn_node *cosines, zn_node *sines, rope_spec k)
{
    return zn_apply(&zn_op_rope, &k, sizeof k, (zn_node *[]){ x, cosines, sines }, 3);
}

/* The gradient is the opposite rotation. */
static void gradient(zn_node *n, zn_node *dy)
{
    rope_spec k = *(rope_spec *)n->attribute;
    k.back = !k.back;
    zn_accumulate(n->source[0], rope(dy, n->source[1], n->source[2], k));
}

static double flops(const zn_node *n) { return 3.0 * (double)zn_shape_count(n->shape); }

/* A product and a multiply-add. */
static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return 2.0 * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_rope = { .name = "rope",
                           .shape = shape,
                           .run = run,
                           .launches = zn_launches,
                           .types = zn_types_like_first,
                           .gradient = gradient,
                           .flops = flops,
                           .slots = slots,
                           .global = true,
                           .in_place = zn_first_source };

zn_node *zn_rope(zn_node *x, zn_node *cosines, zn_node *sines, bool halves)
{
    return rope(x, cosines, sines, (rope_spec){ .halves = halves });
}

/* ---- with the norm before it ---- */

static void norm_run(const zn_node *n, const zn_launch_context *c)
{
    const rope_spec *k = n->attribute;
    const zn_norm_rope_args a = { .rope = args_of(n), .w = n->source[3]->data, .eps = k->eps };
    zn_launch(c, zn_k_norm_rope, zn_positions(n), 1 + (1 << 14) / zn_channels(n), &a);
}

static double norm_flops(const zn_node *n) { return 7.0 * (double)zn_shape_count(n->shape); }

static double norm_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return 5.0 * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_norm_rope = { .name = "norm_rope",
                                .shape = shape,
                                .run = norm_run,
                                .launches = zn_launches,
                                .types = zn_types_like_first,
                                .flops = norm_flops,
                                .slots = norm_slots,
                                .global = true,
                                .in_place = zn_first_source };

static bool is_lone(const zn_node *n, const zn_op *op, const int *uses) { return n->op == op && uses[n->index] == 1; }

/* A norm of heads lies between two reshapes (zn_rms_norm_heads). */
void zn_fuse_norm_rope(zn_node *n, int *uses)
{
    if (n->op != &zn_op_rope || !is_lone(n->source[0], &zn_op_reshape, uses))
        return;
    const zn_node *norm = n->source[0]->source[0];
    const int width = 2 * zn_channels(n->source[1]);
    if (!is_lone(norm, &zn_op_rms_norm, uses) || zn_rms_norm_has_limit(norm) || zn_channels(norm) != width ||
        width & (width - 1) || width < ZN_NORM_ROPE_LEAST || width > ZN_NORM_ROPE_MOST ||
        !is_lone(norm->source[0], &zn_op_reshape, uses) || !zn_shape_equal(norm->source[0]->source[0]->shape, n->shape))
        return;
    rope_spec k = *(const rope_spec *)n->attribute;
    k.eps = zn_rms_norm_eps(norm);
    zn_node *const sources[] = { norm->source[0]->source[0], n->source[1], n->source[2], norm->source[1] };
    zn_fuse_become(n, uses, &zn_op_norm_rope, &k, sizeof k, sources, 4);
}

/* Rotary position embeddings (kernels/rope.h). The tables are not parameters and get no gradient. */
#include "kernels/rope.h"

#include "base/fail.h"
#include "ops/ops.h"

typedef struct rope_spec {
    bool halves, back;
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
static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0], *table = n->source[1];
    const rope_spec *k = n->attribute;
    const zn_rope_args a = { .x = x->data,
                             .cos = table->data,
                             .sin = n->source[2]->data,
                             .y = n->data,
                             .period = zn_positions(table),
                             .heads = zn_channels(x) / (2 * zn_channels(table)),
                             .pairs = zn_channels(table),
                             .type = n->type,
                             .halves = k->halves,
                             .back = k->back };
    zn_launch(c, zn_k_rope, zn_positions(x), 1 + (1 << 14) / zn_channels(x), &a);
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

/* DeepSpectralLinear (specification A4) as one op, which fusion makes of the layer's parts:
 *
 *     select to d channels, depth times (permute, scale by a row, transform), select the first, add bias
 *
 * with the pixel unshuffle before it and the pixel shuffle after it. Sources: x, s [depth,d], table [depth,d], bias. */
#include "base/fail.h"
#include "kernels/spectral.h"
#include "ops/fuse.h"
#include "ops/slots.h"

typedef struct spec {
    int cout, depth;
    bool shuffle_in, shuffle_out;
} spec;

static const spec *spec_of(const zn_node *n) { return n->attribute; }
static int d_of(const zn_node *n) { return (int)n->source[1]->shape.dim[1]; }

static zn_status shape(zn_node *n)
{
    const spec *k = spec_of(n);
    zn_shape s = n->source[0]->shape;
    if (k->shuffle_in)
        s = ZN_SHAPE(s.dim[0], s.dim[1] / 2, s.dim[2] / 2, s.dim[3] * 4);
    s.dim[3] = k->cout;
    if (k->shuffle_out)
        s = ZN_SHAPE(s.dim[0], s.dim[1] * 2, s.dim[2] * 2, s.dim[3] / 4);
    n->shape = s;
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .thread_scratch = zn_spectral_linear_scratch(d_of(n)),
                       .shared_scratch = sizeof(int32_t) * (size_t)zn_shape_count(n->source[2]->shape) };
}

/* The table holds whole numbers as floats, checked when it was loaded. */
static void run(const zn_node *n, const zn_launch_context *c)
{
    const spec *k = spec_of(n);
    const int64_t *x = n->source[0]->shape.dim, entries = zn_shape_count(n->source[2]->shape);
    int32_t *from = c->shared;
    for (int64_t i = 0; i < entries; i++) {
        const float f = n->source[2]->data[i];
        from[i] = f >= 0 && f < (float)d_of(n) ? (int32_t)f : 0;
    }
    const int shrink = k->shuffle_in ? 2 : 1;
    const zn_spectral_linear_args a = { .x = n->source[0]->data,
                                        .s = n->source[1]->data,
                                        .from = from,
                                        .bias = n->source[3]->data,
                                        .y = n->data,
                                        .wide = (int)x[2] / shrink,
                                        .cin = (int)x[3] * shrink * shrink,
                                        .cout = k->cout,
                                        .d = d_of(n),
                                        .depth = k->depth,
                                        .shuffle_in = k->shuffle_in,
                                        .shuffle_out = k->shuffle_out };
    zn_launch(c, zn_k_spectral_linear, x[0] * x[1] / shrink, 1, &a);
}

/* Transform and scale at d channels, and the bias. */
static double flops(const zn_node *n)
{
    const spec *k = spec_of(n);
    const double pixels = (double)zn_shape_count(n->shape) / k->cout;
    return pixels * (k->depth * d_of(n) * (log2(d_of(n)) + 1) + k->cout);
}

static int power_of_two(int n)
{
    int power = 1;
    while (power < n)
        power *= 2;
    return power;
}

/* A transform of d of which `used` inputs are not zero, or as many outputs are wanted: beyond the next power of two a
 * step has no differences to take, and on the way in not even sums. */
static double stage_slots(int d, int used, bool out)
{
    const double few = power_of_two(used);
    return (out ? d * ZN_SLOTS_FACTOR + d - few : few * ZN_SLOTS_FACTOR) + few * zn_slots_wht(few);
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const spec *k = spec_of(n);
    const int d = d_of(n), cin = (int)n->source[0]->shape.dim[3] * (k->shuffle_in ? 4 : 1);
    const double first = stage_slots(d, cin, false), last = stage_slots(d, k->cout, true);
    const double whole = d * (zn_slots_wht(d) + ZN_SLOTS_FACTOR);
    const double stages = k->depth > 1 ? first + last + (k->depth - 2) * whole : first < last ? first : last;
    return (double)zn_shape_count(n->shape) / k->cout * (stages + k->cout);
}

static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    const spec *k = spec_of(n);
    if (k->shuffle_out) {
        *lo = *lo >> 1;
        *hi = (*hi + 1) >> 1;
    }
    *lo *= k->shuffle_in ? 2 : 1;
    *hi *= k->shuffle_in ? 2 : 1;
}

const zn_op zn_op_spectral_linear = { .name = "spectral_linear",
                                      .shape = shape,
                                      .run = run,
                                      .needs = needs,
                                      .flops = flops,
                                      .slots = slots,
                                      .reach = reach };

/* n's only-read first source if it is of this op, else NULL. */
static zn_node *before(const zn_node *n, const zn_op *op, const int *uses)
{
    zn_node *s = n ? n->source[0] : NULL;
    return s && s->op == op && uses[s->index] == 1 ? s : NULL;
}

/* One stage that ends in the transform n: returns the node before it, and what it used. */
static zn_node *stage_before(const zn_node *n, const int *uses, int stage, zn_node **s, zn_node **table)
{
    zn_node *scaled = n->op == &zn_op_wht && zn_wht_is(n, 3, 1) ? before(n, &zn_op_mix, uses) : NULL;
    zn_node *moved = scaled && zn_is_scale_channels(scaled) ? before(scaled, &zn_op_permute, uses) : NULL;
    zn_node *row = moved ? scaled->source[1] : NULL;
    if (!row || row->op != &zn_op_row || zn_row_index(row) != stage || zn_permute_row(moved) != stage)
        return NULL;
    if ((*s && *s != row->source[0]) || (*table && *table != moved->source[1]))
        return NULL;
    *s = row->source[0];
    *table = moved->source[1];
    return moved->source[0];
}

void zn_fuse_spectral_linear(zn_node *n, int *uses)
{
    const int two = 2;
    if (n->op == &zn_op_shuffle && *(int *)n->attribute == two) {
        zn_node *linear = before(n, &zn_op_spectral_linear, uses);
        if (!linear || spec_of(linear)->shuffle_out)
            return;
        spec k = *spec_of(linear);
        k.shuffle_out = true;
        zn_fuse_become(n, uses, linear->op, &k, sizeof k, linear->source, linear->source_count);
        return;
    }
    zn_node *kept = n->op == &zn_op_add_channels && n->shape.rank == 4 ? before(n, &zn_op_select, uses) : NULL;
    if (!kept || !zn_selects_first(kept) || kept->source[0]->op != &zn_op_wht || uses[kept->source[0]->index] != 1)
        return;
    zn_node *s = NULL, *table = NULL, *x = kept->source[0];
    const zn_node *end = x;
    int depth = 0;
    for (const zn_node *w = end; w->op == &zn_op_wht && depth < 64; depth++) { /* count the stages first */
        const zn_node *scaled = w->source[0], *moved = scaled->source_count ? scaled->source[0] : NULL;
        if (!moved || moved->op != &zn_op_permute)
            break;
        w = moved->source[0];
    }
    for (int stage = depth - 1; stage >= 0 && x; stage--)
        x = uses[x->index] == 1 ? stage_before(x, uses, stage, &s, &table) : NULL;
    if (!x || depth == 0 || s->shape.dim[0] != depth || table->shape.dim[0] != depth)
        return;
    if (x->op != &zn_op_select || uses[x->index] != 1 || !zn_selects_first(x))
        return;
    spec k = { (int)n->shape.dim[3], depth, false, false };
    zn_node *input = x->source[0];
    if (input->op == &zn_op_unshuffle && uses[input->index] == 1 && *(int *)input->attribute == two) {
        k.shuffle_in = true;
        input = input->source[0];
    }
    zn_fuse_become(n, uses, &zn_op_spectral_linear, &k, sizeof k, (zn_node *[]){ input, s, table, n->source[1] }, 4);
}

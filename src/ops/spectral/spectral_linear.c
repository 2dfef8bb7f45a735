/* DeepSpectralLinear (specification A4) as one op, which fusion creates from the layer's parts:
 *
 *     select to d channels, depth times (permute, scale by a row, transform), select the first, add bias
 *
 * with the pixel unshuffle before it and the pixel shuffle after it. Sources: x, s [depth,d], table [depth,d], bias.
 *
 * With few input or output channels, a product with the matrix of the whole layer is cheaper than the transforms.
 * The matrix is then computed once, and the op runs as a 1x1 convolution. */
#include "base/fail.h"
#include "kernels/mix.h"
#include "kernels/spectral.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

#include <string.h>

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

static zn_conv_shape conv_of(const zn_node *n)
{
    const spec *k = spec_of(n);
    const int64_t *x = n->source[0]->shape.dim;
    const int shrink = k->shuffle_in ? 2 : 1, h = (int)x[1] / shrink, w = (int)x[2] / shrink;
    return (zn_conv_shape){ .n = (int)x[0],
                            .h = h,
                            .w = w,
                            .cin = (int)x[3] * shrink * shrink,
                            .cout = k->cout,
                            .kh = 1,
                            .kw = 1,
                            .stride = 1,
                            .oh = h,
                            .ow = w,
                            .unshuffle = k->shuffle_in,
                            .shuffle = k->shuffle_out };
}

static double stages_slots(const zn_node *n);

/* The kernel that multiplies with the whole matrix, or NULL if the stages are cheaper. */
static const zn_conv_kernel *dense_kernel(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = conv_of(n);
    if (!p->constant_parameters || (s.unshuffle && !zn_conv_can_shuffle(s.cin)) ||
        (s.shuffle && !zn_conv_can_shuffle(s.cout)) || (double)s.cin * s.cout > stages_slots(n))
        return NULL;
    return zn_conv_choose(&s, (zn_conv_wish){ .math = ZN_PRECISION_F32, .cpu = p->cpu });
}

/* What prepare stores: the choice. */
typedef struct prepared {
    const zn_conv_kernel *kernel;
} prepared;

/* Packed weights, followed by the matrix they come from and two rows of d. */
static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_kernel *k = dense_kernel(n, p);
    const zn_conv_shape s = conv_of(n);
    if (k)
        return (zn_needs){ .thread_scratch = k->scratch_bytes(&s),
                           .prepared = sizeof(prepared),
                           .packed = zn_aligned(k->packed_bytes(&s)) +
                                     sizeof(float) * ((size_t)s.cin * (size_t)s.cout + 2 * (size_t)d_of(n)) };
    return (zn_needs){ .thread_scratch = zn_spectral_linear_scratch(d_of(n), spec_of(n)->depth),
                       .shared_scratch = sizeof(int32_t) * (size_t)zn_shape_count(n->source[2]->shape),
                       .prepared = sizeof(prepared) };
}

/* The table holds integers as floats, checked when it was loaded. */
static int32_t entry(const zn_node *n, int64_t i)
{
    const float f = n->source[2]->data[i];
    return f >= 0 && f < (float)d_of(n) ? (int32_t)f : 0;
}

/* t = its product with the matrix of all stages, or with the transposed matrix if `back`. u: a buffer of the same
 * size. */
static void through(const zn_node *n, bool back, float *t, float *u)
{
    const int d = d_of(n), depth = spec_of(n)->depth;
    for (int i = 0; i < depth; i++) {
        const int64_t first = (int64_t)(back ? depth - 1 - i : i) * d;
        const float *s = n->source[1]->data + first;
        if (back)
            zn_wht_line(t, d);
        memset(u, 0, sizeof(float) * (size_t)d);
        for (int k = 0; k < d; k++) {
            const int32_t from = entry(n, first + k);
            if (back)
                u[from] += s[k] * t[k];
            else
                u[k] = s[k] * t[from];
        }
        if (!back)
            zn_wht_line(u, d);
        memcpy(t, u, sizeof(float) * (size_t)d);
    }
}

static void prepare(const zn_node *n, const zn_prepare *p, void *memory)
{
    *(prepared *)memory = (prepared){ .kernel = dense_kernel(n, p) };
}

static zn_packing packing(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = conv_of(n);
    return (zn_packing){ .kernel = dense_kernel(n, p),
                         .geometry = { s.cin, s.cout, s.unshuffle, s.shuffle, spec_of(n)->depth, d_of(n) },
                         .sources = 1u << 1 | 1u << 2 };
}

static void pack(const zn_node *n, const zn_prepare *p, void *packed)
{
    const zn_conv_shape s = conv_of(n);
    const zn_conv_kernel *kernel = dense_kernel(n, p);
    float *w = (float *)(void *)((char *)packed + zn_aligned(kernel->packed_bytes(&s))),
          *t = w + (int64_t)s.cin * s.cout;
    const bool back = s.cout < s.cin; /* one unit vector per channel of the smaller side */
    for (int i = 0; i < (back ? s.cout : s.cin); i++) {
        memset(t, 0, sizeof(float) * (size_t)d_of(n));
        t[i] = 1;
        through(n, back, t, t + d_of(n));
        for (int k = 0; k < (back ? s.cin : s.cout); k++)
            w[back ? (int64_t)k * s.cout + i : (int64_t)i * s.cout + k] = t[k];
    }
    kernel->pack(&s, w, packed);
}

/* PARTS: minimum number of tasks per thread; a task reads memory in order. ROWS: rows of a map that amortise the
 * tables a kernel computes first. */
enum { PARTS = 4, ROWS = 4 };

/* Units per task. */
static int64_t grain_of(const zn_launch_context *c, int64_t units, int64_t least)
{
    const int64_t grain = units / (PARTS * zn_pool_threads(c->pool));
    return grain < least ? least : grain;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const prepared *q = c->prepared;
    if (q->kernel) {
        const zn_conv_args a = {
            .s = conv_of(n), .x = n->source[0]->data, .packed = c->packed, .bias = n->source[3]->data, .y = n->data
        };
        const int64_t units = q->kernel->units(&a.s);
        zn_launch(c, q->kernel->run, units, grain_of(c, units, 1), &a);
        return;
    }
    const spec *k = spec_of(n);
    const int64_t *x = n->source[0]->shape.dim, entries = zn_shape_count(n->source[2]->shape);
    int32_t *from = c->shared;
    const zn_indices_args table = { .table = n->source[2]->data, .indices = from, .limit = d_of(n) };
    zn_launch(c, zn_k_indices, entries, 1 << 12, &table);
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
    const int64_t rows = x[0] * x[1] / shrink;
    zn_launch(c, zn_k_spectral_linear, rows, grain_of(c, rows, ROWS), &a);
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

/* A transform of d with `used` nonzero inputs, or `used` outputs wanted. Above the next power of two a step needs no
 * differences, and for inputs no sums either. */
static double stage_slots(int d, int used, bool out)
{
    const double few = power_of_two(used);
    return (out ? d * ZN_SLOTS_FACTOR + d - few : few * ZN_SLOTS_FACTOR) + few * zn_slots_wht(few);
}

/* Per pixel. */
static double stages_slots(const zn_node *n)
{
    const spec *k = spec_of(n);
    const int d = d_of(n), cin = (int)n->source[0]->shape.dim[3] * (k->shuffle_in ? 4 : 1);
    const double first = stage_slots(d, cin, false), last = stage_slots(d, k->cout, true);
    const double whole = d * (zn_slots_wht(d) + ZN_SLOTS_FACTOR);
    return (k->depth > 1 ? first + last + (k->depth - 2) * whole : first < last ? first : last) + k->cout;
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = conv_of(n);
    const zn_conv_kernel *k = dense_kernel(n, p);
    if (k)
        return k->slots ? k->slots(&s) : 0.5 * k->flops(&s);
    return (double)s.n * s.oh * s.ow * stages_slots(n);
}

static const char *kernel_name(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_kernel *k = dense_kernel(n, p);
    return k ? k->name : n->op->name;
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
                                      .launches = zn_launches,
                                      .needs = needs,
                                      .prepare = prepare,
                                      .pack = pack,
                                      .packing = packing,
                                      .flops = flops,
                                      .slots = slots,
                                      .kernel = kernel_name,
                                      .reach = reach };

/* The first source of n if it has this op and n is its only reader, otherwise NULL. */
static zn_node *before(const zn_node *n, const zn_op *op, const int *uses)
{
    zn_node *s = n ? n->source[0] : NULL;
    return s && s->op == op && uses[s->index] == 1 ? s : NULL;
}

/* One stage that ends in the transform n: returns the node before it, and the parameters it used. */
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

/* 3x3 convolutions of a device that normalise what they read and measure what they write (kernels/norm_conv.h), and the
 * pass that makes them of convolutions with group norms between them, as in a U-Net.
 *
 * Sources: x, weights, bias, the residual, gamma, beta, the numbers of a modulation, and the map beside x, as far as
 * there are any. What was measured is the tail. The kernels know maps of BF16 alone, so the pass takes only what
 * zn_types_choose makes BF16. */
#include "kernels/norm_conv.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "graph/types.h"
#include "ops/passes/pairs.h"

typedef struct spec {
    bool up2, residual;
    bool measures;
    bool normalises;
    zn_norm norm;
} spec;

static const spec *spec_of(const zn_node *n) { return n->attribute; }
static int first_of_norm(const spec *k) { return k->residual ? 4 : 3; }
static const zn_node *more_of(const zn_node *n)
{
    return spec_of(n)->normalises && spec_of(n)->norm.pair ? n->source[n->source_count - 1] : NULL;
}

/* Of a norm_conv, and of a convolution that may become one. */
static zn_conv_shape shape_of(const zn_node *n)
{
    const bool is_conv = n->op == &zn_op_conv;
    const int64_t *x = n->source[0]->shape.dim, *w = n->source[1]->shape.dim;
    return (zn_conv_shape){ .n = (int)x[0],
                            .h = (int)x[1],
                            .w = (int)x[2],
                            .cin = (int)w[2],
                            .cout = (int)w[3],
                            .kh = (int)w[0],
                            .kw = (int)w[1],
                            .stride = 1,
                            .pad = 1,
                            .up2 = is_conv ? ((zn_conv_spec *)n->attribute)->up2 : spec_of(n)->up2,
                            .oh = (int)n->shape.dim[1],
                            .ow = (int)n->shape.dim[2] };
}

static const zn_conv_kernel *kernel_for(const zn_node *n, zn_precision math, uint32_t cpu)
{
    const zn_conv_shape s = shape_of(n);
    return zn_conv_choose(&s, (zn_conv_wish){ .math = math, .whole = true, .cpu = cpu });
}
static const zn_conv_kernel *kernel_of(const zn_node *n, const zn_prepare *p) { return kernel_for(n, p->math, p->cpu); }

/* What prepare stores for run. */
typedef struct prepared {
    const zn_conv_kernel *kernel;
    int blocks[2]; /* in which x and the map beside it were measured */
} prepared;

static size_t table_bytes(const zn_node *n)
{
    const zn_conv_shape s = shape_of(n);
    return spec_of(n)->normalises ? zn_aligned(sizeof(float) * (size_t)zn_norm_conv_table(s.n, s.cin)) : 0;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    const zn_conv_kernel *k = kernel_of(n, p);
    const size_t room = k->workspace_bytes ? k->workspace_bytes(&s, ZN_TYPE_BF16) : 0;
    return (zn_needs){ .shared_scratch = table_bytes(n) + room,
                       .packed = k->packed_bytes(&s),
                       .prepared = sizeof(prepared),
                       .replaces = true };
}

static int blocks_of(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    return kernel_of(n, p)->measures(&s);
}

static void prepare(const zn_node *n, const zn_prepare *p, void *memory)
{
    const zn_node *more = more_of(n);
    *(prepared *)memory = (prepared){ .kernel = kernel_of(n, p),
                                      .blocks = { spec_of(n)->normalises ? blocks_of(n->source[0], p) : 0,
                                                  more ? blocks_of(more, p) : 0 } };
}

static void pack(const zn_node *n, const zn_prepare *p, void *packed)
{
    const zn_conv_shape s = shape_of(n);
    kernel_of(n, p)->pack(&s, n->source[1]->data, packed);
}

static zn_packing packing(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    return (zn_packing){ .kernel = kernel_of(n, p),
                         .geometry = { s.kh, s.kw, s.cin, s.cout, s.stride, s.pad, s.up2 },
                         .sources = 1u << 1,
                         .type = ZN_TYPE_BF16 };
}

/* Only one kind of device has kernels for it. */
enum { DEVICE = ZN_CPU_CUDA | ZN_CPU_HOPPER };
static int64_t tail(const zn_node *n)
{
    const zn_conv_shape s = shape_of(n);
    return spec_of(n)->measures
               ? zn_measured_floats(s.n, kernel_for(n, ZN_PRECISION_BF16, DEVICE)->measures(&s), s.cout)
               : 0;
}

static zn_measured measured_of(const zn_node *n, int blocks)
{
    return (zn_measured){ .at = zn_node_tail(n), .blocks = blocks, .c = (int)zn_channels(n) };
}

/* first: of the sources, gamma; more: the map beside x, or NULL. */
static void set_norm(zn_norm_conv_args *a, const zn_node *n, const zn_norm *k, int first, const zn_node *more,
                     const prepared *q)
{
    const zn_node *x = n->source[0], *const *sources = (const zn_node *const *)n->source;
    const float **const numbers[] = { &a->n.scale, &a->n.shift, &a->n.gain };
    int64_t *const steps[] = { &a->n.scale_step, &a->n.shift_step, &a->n.gain_step };
    const bool there[] = { k->scale, k->shift, k->gain };
    a->n.n = x->shape.dim[0];
    a->n.pixels = x->shape.dim[1] * x->shape.dim[2];
    a->n.c = (int)(zn_channels(x) + (more ? zn_channels(more) : 0));
    a->n.groups = k->groups;
    a->n.eps = k->eps;
    a->n.act = k->act;
    a->n.gamma = sources[first]->data;
    a->n.beta = sources[first + 1]->data;
    for (int i = 0, next = first + 2; i < 3; i++)
        if (there[i]) {
            *numbers[i] = sources[next++]->data + k->first[i];
            *steps[i] = k->whole[i];
        }
    a->x = measured_of(x, q->blocks[0]);
    if (more) {
        a->n.more = more->data;
        a->n.split = (int)zn_channels(x);
        a->more = measured_of(more, q->blocks[1]);
    }
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const prepared *q = c->prepared;
    const spec *k = spec_of(n);
    zn_norm_conv_args a = { .a = { .s = shape_of(n),
                                   .x = n->source[0]->data,
                                   .packed = c->packed,
                                   .bias = n->source[2]->data,
                                   .residual = k->residual ? n->source[3]->data : NULL,
                                   .y = n->data,
                                   .x_type = n->source[0]->type,
                                   .residual_type = n->type,
                                   .y_type = n->type,
                                   .workspace = (char *)c->shared + table_bytes(n) } };
    if (k->normalises) {
        a.n.table = c->shared;
        set_norm(&a, n, &k->norm, first_of_norm(k), more_of(n), q);
    }
    if (k->measures)
        a.measured = zn_node_tail(n);
    zn_launch(c, q->kernel->run_normed, a.a.s.n, 1, &a);
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const unsigned maps = 1u | (spec_of(n)->residual ? 1u << 3 : 0) | (more_of(n) ? 1u << (n->source_count - 1) : 0);
    return (zn_node_types){ .result = true, .sources = maps, .alike = maps };
}

static double flops(const zn_node *n)
{
    const zn_conv_shape s = shape_of(n);
    return zn_conv_direct_flops(&s);
}
static double flops_done(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    return kernel_of(n, p)->flops(&s);
}
static const char *kernel_name(const zn_node *n, const zn_prepare *p) { return kernel_of(n, p)->name; }
static zn_precision math(const zn_node *n, const zn_prepare *p) { return (void)n, (void)p, ZN_PRECISION_BF16; }
static int in_place(const zn_node *n) { return spec_of(n)->residual ? 3 : -1; }

/* Made only from a convolution, which has checked the shapes. */
const zn_op zn_op_norm_conv = { .name = "norm_conv",
                                .run = run,
                                .types = types,
                                .launches = zn_launches,
                                .needs = needs,
                                .prepare = prepare,
                                .pack = pack,
                                .packing = packing,
                                .flops = flops,
                                .flops_done = flops_done,
                                .kernel = kernel_name,
                                .math = math,
                                .in_place = in_place,
                                .tail = tail,
                                .global = true };

/* ---- a norm alone ---- */

static const zn_node *beside(const zn_node *n)
{
    return ((zn_norm *)n->attribute)->pair ? n->source[n->source_count - 1] : NULL;
}

static zn_needs norm_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)zn_norm_conv_table(n->shape.dim[0], zn_channels(n)),
                       .prepared = sizeof(prepared) };
}

static void norm_prepare(const zn_node *n, const zn_prepare *p, void *memory)
{
    *(prepared *)memory =
        (prepared){ .blocks = { blocks_of(n->source[0], p), beside(n) ? blocks_of(beside(n), p) : 0 } };
}

static void norm_run(const zn_node *n, const zn_launch_context *c)
{
    zn_norm_conv_args a = { .n = { .x = n->source[0]->data,
                                   .y = n->data,
                                   .table = c->shared,
                                   .x_type = n->source[0]->type,
                                   .y_type = n->type } };
    set_norm(&a, n, n->attribute, 1, beside(n), c->prepared);
    zn_launch(c, zn_k_norm_measured, a.n.n, 1, &a);
}

static zn_node_types norm_types(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const unsigned maps = 1u | (beside(n) ? 1u << (n->source_count - 1) : 0);
    return (zn_node_types){ .result = true, .sources = maps, .alike = maps };
}

static double norm_flops(const zn_node *n) { return 6.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_norm_measured = { .name = "norm_measured",
                                    .run = norm_run,
                                    .types = norm_types,
                                    .launches = zn_launches,
                                    .needs = norm_needs,
                                    .prepare = norm_prepare,
                                    .flops = norm_flops,
                                    .global = true };

/* ---- the pass ---- */

enum { CHUNK = 64 };

/* Whether the maps of a convolution have the type that the kernels know. */
static bool has_bf16_maps(const zn_node *n, bool residual)
{
    return n->type == ZN_TYPE_BF16 && n->source[0]->type == ZN_TYPE_BF16 &&
           (!residual || n->source[3]->type == ZN_TYPE_BF16);
}

/* Whether n is a convolution that can be measured. */
static bool can_measure(const zn_node *n, uint32_t cpu)
{
    if (n->op == &zn_op_norm_conv || n->wide)
        return !n->wide;
    const zn_conv_spec *k = n->attribute;
    if (n->op != &zn_op_conv || n->source_count != (k->residual ? 4 : 3) || !k->bias || k->stride != 1 || k->pad != 1 ||
        k->beyond || k->relu || k->mask || k->lag || k->results || k->flipped || k->shuffle || k->unshuffle ||
        !zn_is_constant(n->source[1]) || !has_bf16_maps(n, k->residual))
        return false;
    const zn_conv_shape s = shape_of(n);
    const zn_conv_kernel *kernel = kernel_for(n, ZN_PRECISION_BF16, cpu);
    return kernel->measures && kernel->measures(&s) > 0;
}

/* Whether a group norm of BF16 reads maps that can be measured. */
static bool reads_measured(const zn_node *norm, uint32_t cpu)
{
    const zn_norm *k = norm->attribute;
    const zn_node *x = norm->source[0], *more = k->pair ? norm->source[norm->source_count - 1] : NULL;
    return norm->type == ZN_TYPE_BF16 && !k->pixels && k->act != ZN_ACT_RELU && can_measure(x, cpu) &&
           (!more || (can_measure(more, cpu) && zn_channels(x) % CHUNK == 0));
}

/* Convolutions of many tiles keep the matrix unit so busy that normalising in shared memory takes longer than a pass
 * over the map. They have the tallest tiles. */
static bool pays(const zn_node *n, uint32_t cpu)
{
    enum { WIDE = 8, TALL = 16 };
    const zn_conv_shape s = shape_of(n);
    return (int64_t)s.oh * s.ow / kernel_for(n, ZN_PRECISION_BF16, cpu)->measures(&s) < WIDE * TALL;
}

static bool can_normalise(const zn_node *n, const int *uses, uint32_t cpu)
{
    if (n->op != &zn_op_conv || !can_measure(n, cpu) || !pays(n, cpu))
        return false;
    const zn_node *norm = n->source[0];
    return norm->op == &zn_op_group_norm && uses[norm->index] == 1 && reads_measured(norm, cpu) &&
           n->source_count + norm->source_count - 1 <= ZN_MAX_SOURCES;
}

/* Without memory, a convolution stays one. */
static void become(zn_node *n, int *uses)
{
    zn_node *sources[ZN_MAX_SOURCES];
    for (int i = 0; i < n->source_count; i++)
        sources[i] = n->source[i];
    if (n->op == &zn_op_conv) {
        const zn_conv_spec *k = n->attribute;
        const spec s = { .up2 = k->up2, .residual = k->residual };
        zn_fuse_become(n, uses, &zn_op_norm_conv, &s, sizeof s, sources, n->source_count);
    }
}

static bool measure(zn_node *n, int *uses)
{
    become(n, uses);
    if (n->op == &zn_op_norm_conv)
        ((spec *)n->attribute)->measures = true;
    return n->op == &zn_op_norm_conv;
}

static void normalise(zn_node *n, int *uses)
{
    zn_node *norm = n->source[0], *sources[ZN_MAX_SOURCES];
    const zn_conv_spec *k = n->attribute;
    const spec s = { .up2 = k->up2, .residual = k->residual, .normalises = true, .norm = *(zn_norm *)norm->attribute };
    int count = 0;
    if (!measure(norm->source[0], uses) || (s.norm.pair && !measure(norm->source[norm->source_count - 1], uses)))
        return;
    sources[count++] = norm->source[0];
    for (int i = 1; i < n->source_count; i++)
        sources[count++] = n->source[i];
    for (int i = 1; i < norm->source_count; i++)
        sources[count++] = norm->source[i];
    zn_fuse_become(n, uses, &zn_op_norm_conv, &s, sizeof s, sources, count);
}

/* A norm that stays a step. */
static void read_measured(zn_node *n, int *uses)
{
    const zn_norm *k = n->attribute;
    if (measure(n->source[0], uses) && (!k->pair || measure(n->source[n->source_count - 1], uses)))
        n->op = &zn_op_norm_measured;
}

void zn_fuse_norm_convs(zn_graph *g, int *uses, uint32_t cpu)
{
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (uses[i] > 0 && can_normalise(n, uses, cpu))
            normalise(n, uses);
    }
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (uses[i] > 0 && n->op == &zn_op_group_norm && reads_measured(n, cpu))
            read_measured(n, uses);
    }
}

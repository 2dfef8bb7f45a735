/* A 1x1 convolution of two maps beside each other (kernels/pair.h), and the pass that makes a concatenation one with
 * the norm and the 1x1 convolution that read it, as in the way up of a U-Net. Sources: both maps, weights, bias. */
#include "kernels/pair.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/cpu.h"
#include "graph/types.h"
#include "ops/passes/pairs.h"

static zn_pair_args args_of(const zn_node *n)
{
    return (zn_pair_args){ .x = n->source[0]->data,
                           .more = n->source[1]->data,
                           .bias = n->source[3]->data,
                           .y = n->data,
                           .type = n->type,
                           .rows = zn_positions(n),
                           .split = zn_channels(n->source[0]),
                           .rest = zn_channels(n->source[1]),
                           .cout = zn_channels(n) };
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_pair_args a = args_of(n);
    return (zn_needs){ .shared_scratch = zn_pair_workspace(&a),
                       .packed = sizeof(uint16_t) * (size_t)zn_shape_count(n->source[2]->shape) };
}

static void pack(const zn_node *n, const zn_prepare *p, void *packed)
{
    (void)p;
    uint16_t *to = packed;
    for (int64_t i = 0; i < zn_shape_count(n->source[2]->shape); i++)
        to[i] = zn_f32_to_bf16(n->source[2]->data[i]);
}

static zn_packing packing(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const int64_t *w = n->source[2]->shape.dim;
    return (zn_packing){
        .kernel = &zn_op_pair_product, .geometry = { (int)w[2], (int)w[3] }, .sources = 1u << 2, .type = ZN_TYPE_BF16
    };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_pair_args a = args_of(n);
    a.w = c->packed;
    a.workspace = c->shared;
    zn_launch(c, zn_k_pair_product, a.rows, 1, &a);
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 3, .alike = 3 };
}

static double flops(const zn_node *n)
{
    return 2.0 * (double)zn_shape_count(n->shape) * (double)n->source[2]->shape.dim[2];
}

static zn_precision math(const zn_node *n, const zn_prepare *p) { return (void)n, (void)p, ZN_PRECISION_BF16; }

/* Made only from a convolution, which has checked the shapes. */
const zn_op zn_op_pair_product = { .name = "pair_product",
                                   .run = run,
                                   .types = types,
                                   .launches = zn_launches,
                                   .needs = needs,
                                   .pack = pack,
                                   .packing = packing,
                                   .flops = flops,
                                   .math = math };

/* ---- the pass ---- */

static bool is_whole(const zn_node *n) { return zn_channels(n) % ZN_PAIR_CHANNELS == 0; }

/* Whether n, which reads the concatenation, can read its parts. */
static bool can_read_parts(const zn_node *n, const zn_node *both)
{
    if (n->op == &zn_op_group_norm)
        return n->source[0] == both && n->source_count < ZN_MAX_SOURCES && !((zn_norm *)n->attribute)->pixels;
    const zn_conv_spec *k = n->attribute;
    return n->op == &zn_op_conv && n->source[0] == both && n->source_count == 3 && k->bias && k->stride == 1 &&
           !k->pad && !k->beyond && !k->up2 && !k->residual && !k->relu && !k->mask && !k->lag && !k->results &&
           !k->flipped && !k->shuffle && !k->unshuffle &&
           n->source[1]->shape.dim[0] * n->source[1]->shape.dim[1] == 1 && is_whole(n) && zn_is_constant(n->source[1]);
}

static void read_parts(zn_node *n, zn_node *both, int *uses)
{
    zn_node *sources[ZN_MAX_SOURCES];
    if (n->op == &zn_op_conv) {
        zn_node *const four[] = { both->source[0], both->source[1], n->source[1], n->source[2] };
        zn_fuse_become(n, uses, &zn_op_pair_product, NULL, 0, four, 4);
        return;
    }
    zn_norm k = *(zn_norm *)n->attribute;
    int count = 0;
    k.pair = true;
    for (; count < n->source_count; count++)
        sources[count] = n->source[count];
    sources[0] = both->source[0];
    sources[count++] = both->source[1];
    zn_fuse_become(n, uses, &zn_op_group_norm, &k, sizeof k, sources, count);
}

/* Whether all readers of a concatenation can read its parts. */
static bool can_go(const zn_graph *g, const zn_node *both, const int *uses)
{
    int readers = 0;
    if (both->op != &zn_op_concat || both->source_count != 2 || both->shape.rank != 4 || !is_whole(both->source[0]) ||
        !is_whole(both->source[1]))
        return false;
    for (int i = both->index + 1; i < zn_graph_count(g); i++)
        readers += uses[i] > 0 && can_read_parts(zn_graph_at(g, i), both);
    return readers > 0 && readers == uses[both->index];
}

/* Nodes that fusion has left without readers do not read either. */
static void forget_unread(const zn_graph *g, int *uses)
{
    for (int i = zn_graph_count(g) - 1; i >= 0; i--) {
        const zn_node *n = zn_graph_at(g, i);
        for (int s = 0; s < n->source_count && !uses[i]; s++)
            uses[n->source[s]->index]--;
    }
}

void zn_graph_fuse_pairs(zn_graph *g, zn_node *const *outputs, int count, zn_precision math, uint32_t cpu)
{
    int *uses = math == ZN_PRECISION_BF16 && cpu & ZN_CPU_CUDA ? zn_fuse_count_uses(g, outputs, count) : NULL;
    if (uses)
        forget_unread(g, uses);
    for (int i = 0; i < zn_graph_count(g) && uses; i++) {
        zn_node *both = zn_graph_at(g, i);
        if (!can_go(g, both, uses))
            continue;
        for (int k = i + 1; k < zn_graph_count(g); k++)
            if (uses[k] > 0 && can_read_parts(zn_graph_at(g, k), both))
                read_parts(zn_graph_at(g, k), both, uses);
    }
    const zn_prepare p = { .math = math, .cpu = cpu, .constant_parameters = true, .whole = true, .threads = 1 };
    if (uses && zn_types_choose(g, outputs, count, &p) == ZN_OK)
        zn_fuse_norm_convs(g, uses, cpu);
    zn_free(uses);
}

/* Fusion: a convolution reads its input through the upsampling before it, and includes the residual addition and
 * ReLU after it, or the gradient of the ReLU that wrote its forward input. With 1x1 kernels it reads through a pixel
 * unshuffle and writes through a pixel shuffle. Blocks and layers of the Zenith models have their own files (fuse.h).
 */
#include "ops/passes/fuse.h"
#include "base/alloc.h"

#include <string.h>

int *zn_fuse_count_uses(zn_graph *g, zn_node *const *outputs, int count)
{
    int *uses = zn_calloc((size_t)zn_graph_count(g) + 1, sizeof *uses);
    if (!uses)
        return NULL;
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        for (int s = 0; s < n->source_count; s++)
            uses[n->source[s]->index]++;
    }
    for (int i = 0; i < count; i++)
        uses[outputs[i]->index]++;
    return uses;
}

/* n becomes the convolution `from`, but keeps its position in the order of execution. */
static zn_conv_spec *become(zn_node *n, const zn_node *from)
{
    n->op = from->op;
    n->name = from->name;
    n->attribute = from->attribute;
    n->attribute_size = from->attribute_size;
    n->source_count = from->source_count;
    memcpy(n->source, from->source, sizeof n->source);
    return n->attribute;
}

/* n no longer reads its sources; a source without readers releases its own sources too. */
static void forget_sources(const zn_node *n, int *uses)
{
    for (int i = 0; i < n->source_count; i++)
        if (--uses[n->source[i]->index] == 0)
            forget_sources(n->source[i], uses);
}

void zn_fuse_become(zn_node *n, int *uses, const zn_op *op, const void *attribute, size_t attribute_size,
                    zn_node *const *sources, int count)
{
    void *copy = attribute_size ? zn_arena_alloc(zn_graph_arena(n->graph), attribute_size) : NULL;
    if (attribute_size && !copy)
        return; /* the unfused graph computes the same */
    if (copy)
        memcpy(copy, attribute, attribute_size);
    for (int i = 0; i < count; i++)
        uses[sources[i]->index]++;
    forget_sources(n, uses);
    n->op = op;
    n->attribute = copy;
    n->attribute_size = attribute_size;
    n->source_count = count;
    memmove(n->source, sources, sizeof *sources * (size_t)count);
}

static bool lone_conv(const zn_node *n, const int *uses) { return n->op == &zn_op_conv && uses[n->index] == 1; }

static void fuse_upsample(zn_node *n, int *uses)
{
    zn_conv_spec *k = n->attribute;
    zn_node *up = n->source[0];
    if (up->op != &zn_op_upsample2 || k->stride != 1 || k->up2)
        return;
    k->up2 = true;
    n->source[0] = up->source[0];
    uses[up->index]--;
    uses[up->source[0]->index]++;
}

/* A convolution that only changes channels, with nothing fused to it that would have to be shuffled too. */
static bool is_pointwise(const zn_node *n)
{
    const zn_conv_spec *k = n->attribute;
    const int64_t *w = n->source[1]->shape.dim;
    return w[0] == 1 && w[1] == 1 && k->stride == 1 && k->pad == 0 && !k->beyond && !k->up2 && !k->residual &&
           !k->relu && !k->mask;
}

static void fuse_unshuffle(zn_node *n, int *uses)
{
    zn_conv_spec *k = n->attribute;
    zn_node *before = n->source[0];
    if (before->op != &zn_op_unshuffle || uses[before->index] != 1 || zn_shuffle_factor(before) != 2 ||
        !is_pointwise(n) || k->unshuffle || !zn_conv_can_shuffle(before->shape.dim[3]))
        return;
    k->unshuffle = true;
    n->source[0] = before->source[0];
    uses[before->index] = 0;
}

static void fuse_before(zn_node *conv, int *uses)
{
    fuse_upsample(conv, uses);
    fuse_unshuffle(conv, uses);
}

static void fuse_shuffle(zn_node *n, int *uses)
{
    zn_node *conv = n->source[0];
    if (!lone_conv(conv, uses) || zn_shuffle_factor(n) != 2 || !is_pointwise(conv) ||
        ((zn_conv_spec *)conv->attribute)->shuffle || !zn_conv_can_shuffle(conv->shape.dim[3]))
        return;
    become(n, conv)->shuffle = true;
    uses[conv->index] = 0;
}

static void fuse_add(zn_node *n, int *uses)
{
    for (int side = 1; side >= 0; side--) {
        zn_node *conv = n->source[side], *other = n->source[1 - side];
        const zn_conv_spec *k = conv->attribute;
        if (!lone_conv(conv, uses) || k->residual || k->relu || k->mask || other == conv)
            continue;
        zn_conv_spec *fused = become(n, conv);
        fused->residual = true;
        n->source[n->source_count++] = other;
        uses[conv->index] = 0;
        return;
    }
}

static void fuse_relu(zn_node *n, int *uses)
{
    zn_node *conv = n->source[0];
    const zn_conv_spec *k = conv->attribute;
    if (!lone_conv(conv, uses) || k->relu || k->mask || k->lag || k->results)
        return;
    become(n, conv)->relu = true;
    uses[conv->index] = 0;
}

/* Not where results without a sample would have to be masked too. */
static void fuse_relu_grad(zn_node *n, int *uses)
{
    zn_node *mask = n->source[0], *conv = n->source[1];
    const zn_conv_spec *k = conv->attribute;
    if (!lone_conv(conv, uses) || k->relu || k->mask || k->lag || conv->source[0]->shape.dim[0] != n->shape.dim[0])
        return;
    become(n, conv)->mask = true;
    n->source[n->source_count++] = mask;
    uses[conv->index] = 0;
}

void zn_graph_fuse(zn_graph *g, zn_node *const *outputs, int count)
{
    int *uses = zn_fuse_count_uses(g, outputs, count);
    if (!uses)
        return; /* the unfused graph computes the same */
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_conv)
            fuse_before(n, uses);
        else if (n->op == &zn_op_shuffle)
            fuse_shuffle(n, uses);
        else if (n->op == &zn_op_add)
            fuse_add(n, uses);
        else if (n->op == &zn_op_relu)
            fuse_relu(n, uses);
        else if (n->op == &zn_op_relu_grad)
            fuse_relu_grad(n, uses);
        zn_fuse_norm(n, uses);
        zn_fuse_lite(n, uses);
        zn_fuse_lite_head(n, uses);
        zn_fuse_spectral_linear(n, uses);
        zn_fuse_tile_square(n, uses);
    }
    zn_free(uses);
    zn_gather_products(g);
}

/* Fusion for clips on a device: the chain of 2D convolutions that a causal convolution over frames is made of
 * (nn/video.c) becomes one step, with the residual that is added to it, and so do a norm and the SiLU after it.
 * Intermediate sums are then not rounded to 16 bits, so results differ by less than that rounding. */
#include "ops/passes/fuse.h"

#include "base/alloc.h"

/* What the parts of a chain have in common. */
typedef struct chain {
    zn_node *x, *before, *weights, *bias, *residual;
    unsigned own, kept; /* bit i: the frames that are i older, of x and of those before it */
} chain;

static const zn_conv_spec *spec_of(const zn_node *n) { return n->attribute; }

/* The parameter of which a convolution has one frame; NULL: another kind of convolution. */
static zn_node *table_of(const zn_node *n)
{
    if (n->op != &zn_op_conv || n->source[1]->op != &zn_op_row)
        return NULL;
    zn_node *table = n->source[1]->source[0];
    const zn_conv_spec *k = spec_of(n);
    const int64_t *d = table->shape.dim;
    const bool plain =
        k->stride == 1 && !k->beyond && !k->up2 && !k->relu && !k->mask && !k->unshuffle && !k->shuffle && !k->flipped;
    return plain && table->op == &zn_op_parameter && table->shape.rank == 5 && d[1] == d[2] && d[1] == 2 * k->pad + 1
               ? table
               : NULL;
}

/* The first convolution of the chain that ends with n: the one of the newest frames. */
static zn_node *first_of(zn_node *n, const int *uses)
{
    for (;;) {
        const zn_conv_spec *k = spec_of(n);
        zn_node *before = k->residual ? n->source[2 + k->bias] : NULL;
        if (!before || uses[before->index] != 1 || table_of(before) != table_of(n))
            return n;
        n = before;
    }
}

/* Adds a part to the chain. Returns whether it belongs there. */
static bool add_part(chain *c, zn_node *n)
{
    const zn_conv_spec *k = spec_of(n);
    const int depth = (int)c->weights->shape.dim[0], age = depth - 1 - zn_row_index(n->source[1]);
    zn_node *x = n->source[0];
    const bool own = x == c->x;
    if (!own && !c->before)
        c->before = x;
    if (!own && (x != c->before || x->shape.dim[0] != depth - 1))
        return false;
    unsigned *seen = own ? &c->own : &c->kept;
    if (*seen >> age & 1 || k->lag != (own ? age : age - (depth - 1)) || n->shape.dim[0] != c->x->shape.dim[0])
        return false;
    *seen |= 1u << age;
    return true;
}

static bool find_chain(zn_node *last, const int *uses, chain *c)
{
    enum { DEEPEST = 16 };
    zn_node *first = first_of(last, uses);
    const zn_conv_spec *k = spec_of(first);
    *c = (chain){ .x = first->source[0],
                  .weights = table_of(first),
                  .bias = k->bias ? first->source[2] : NULL,
                  .residual = k->residual ? first->source[2 + k->bias] : NULL };
    for (zn_node *n = last;; n = n->source[2 + spec_of(n)->bias]) {
        if (!add_part(c, n) || (n != first && spec_of(n)->bias))
            return false;
        if (n == first)
            break;
    }
    const int64_t depth = c->weights->shape.dim[0], frames = c->x->shape.dim[0];
    const unsigned all = (1u << (depth < DEEPEST ? depth : DEEPEST)) - 1;
    const unsigned own = frames < depth ? (1u << frames) - 1 : all;
    return depth > 1 && depth < DEEPEST && c->own == own && c->kept == (c->before ? all & ~1u : 0);
}

static void fuse_chain(zn_node *n, int *uses)
{
    chain c;
    zn_node *sources[5];
    int count = 0;
    if (!uses[n->index] || !table_of(n) || !find_chain(n, uses, &c))
        return;
    const zn_conv_frames k = {
        .pad = spec_of(n)->pad, .before = c.before != NULL, .bias = c.bias != NULL, .residual = c.residual != NULL
    };
    zn_node *const all[] = { c.x, c.weights, c.before, c.bias, c.residual };
    for (int i = 0; i < 5; i++)
        if (all[i])
            sources[count++] = all[i];
    zn_fuse_become(n, uses, &zn_op_conv_frames, &k, sizeof k, sources, count);
}

static bool is_among(const zn_node *n, zn_node *const *nodes, int count)
{
    for (int i = 0; i < count; i++)
        if (nodes[i] == n)
            return true;
    return false;
}

/* The convolution stays where it is in the order of execution, since what follows it overwrites the frames before x;
 * readers of the sum read the convolution. */
static void fuse_add(zn_node *n, int *uses, zn_node *const *outputs, int count)
{
    for (int side = 0; side < 2; side++) {
        zn_node *conv = n->source[side], *other = n->source[1 - side];
        if (conv->op != &zn_op_conv_frames || uses[conv->index] != 1 || other->index >= conv->index || n->wide ||
            is_among(n, outputs, count))
            continue;
        zn_conv_frames *k = conv->attribute;
        if (k->residual)
            continue;
        k->residual = true;
        conv->source[conv->source_count++] = other;
        for (int i = n->index + 1; i < zn_graph_count(n->graph); i++) {
            zn_node *reader = zn_graph_at(n->graph, i);
            for (int s = 0; s < reader->source_count; s++)
                if (reader->source[s] == n)
                    reader->source[s] = conv;
        }
        uses[conv->index] = uses[n->index];
        uses[n->index] = 0;
        return;
    }
}

void zn_graph_fuse_frames(zn_graph *g, zn_node *const *outputs, int count)
{
    int *uses = zn_fuse_count_uses(g, outputs, count);
    if (!uses)
        return; /* the unfused graph computes the same */
    for (int i = zn_graph_count(g) - 1; i >= 0; i--) {
        fuse_chain(zn_graph_at(g, i), uses);
        zn_fuse_rms_norm(zn_graph_at(g, i), uses);
    }
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->op == &zn_op_add && uses[i])
            fuse_add(zn_graph_at(g, i), uses, outputs, count);
    zn_free(uses);
}

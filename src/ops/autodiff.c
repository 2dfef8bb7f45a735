/* Gradients: walks the nodes backwards and lets each op append the nodes of its own gradient. */
#include "base/fail.h"
#include "ops/ops.h"

/* A node needs a gradient while `gradient` is not NULL; until the first contribution it points here. */
static zn_node wanted;

bool zn_needs_gradient(const zn_node *n) { return n->gradient != NULL; }

void zn_accumulate(zn_node *n, zn_node *g)
{
    if (!n->gradient || zn_is_poison(g))
        return;
    if (!zn_shape_equal(n->shape, g->shape)) {
        zn_graph_poison(n->graph, ZN_ESHAPE, "a gradient does not have the shape of its node");
        return;
    }
    n->gradient = n->gradient == &wanted ? g : zn_add(n->gradient, g);
}

/* Marks every node between wrt and `of`. */
static void mark(zn_graph *g, const zn_node *of, zn_node *const *wrt, int count)
{
    for (int i = 0; i < zn_graph_count(g); i++)
        zn_graph_at(g, i)->gradient = NULL;
    for (int i = 0; i < count; i++)
        wrt[i]->gradient = &wanted;
    for (int i = 0; i <= of->index; i++) {
        zn_node *n = zn_graph_at(g, i);
        for (int s = 0; s < n->source_count; s++)
            if (n->source[s]->gradient)
                n->gradient = &wanted;
    }
}

zn_status zn_graph_differentiate(zn_graph *g, zn_node *of, zn_node *seed, zn_node *const *wrt, int count,
                                 zn_node **gradients)
{
    ZN_TRY(zn_graph_status(g));
    const int last = of->index;
    mark(g, of, wrt, count);
    for (int i = 0; i < count; i++)
        gradients[i] = NULL;
    if (!of->gradient)
        return ZN_OK;
    if (!seed) {
        if (zn_shape_count(of->shape) != 1)
            return ZN_FAIL(ZN_ESHAPE, "only a scalar can be differentiated without a seed");
        seed = zn_ones_like(of);
    }
    zn_accumulate(of, seed);
    for (int i = last; i >= 0; i--) {
        zn_node *n = zn_graph_at(g, i);
        if (!n->gradient || n->gradient == &wanted || n->op->is_leaf)
            continue;
        if (!n->op->gradient)
            return ZN_FAIL(ZN_EUNSUPPORTED, "%s: op '%s' has no gradient", n->name, n->op->name);
        zn_graph_name_layer(g, n->name);
        n->op->gradient(n, n->gradient);
    }
    for (int i = 0; i < count; i++)
        gradients[i] = wrt[i]->gradient == &wanted ? NULL : wrt[i]->gradient;
    return zn_graph_status(g);
}

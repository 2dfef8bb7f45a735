/* Gradients: walks the nodes backward and lets each op append the nodes of its own gradient. To save memory, the
 * forward pass may be cut into segments (recompute.c). Copies of a segment's nodes are inserted before its
 * gradients, so values inside the segment are recomputed there instead of kept. */
#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"

/* A node needs a gradient if `gradient` is not NULL; it points here until the first contribution. */
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

zn_node *zn_take_gradient(zn_node *n)
{
    zn_node *before = n->gradient;
    if (!before || before == &wanted)
        return NULL;
    n->gradient = &wanted;
    return before;
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

/* The backward walk over the forward nodes [0,count), segment by segment. */
typedef struct walk {
    zn_graph *graph;
    int count;
    int *reader;     /* by node: its last reader among the forward nodes; count for requested nodes */
    bool *starts;    /* by node: it begins a segment */
    zn_node **stand; /* by node: what gradients are built from, the node itself or a copy that recomputes it */
} walk;

static zn_status walk_new(walk *w, zn_graph *g, int count, zn_node *const *wrt, int wanted_count)
{
    *w = (walk){ .graph = g,
                 .count = count,
                 .reader = zn_calloc((size_t)count, sizeof(int)),
                 .starts = zn_calloc((size_t)count, sizeof(bool)),
                 .stand = zn_calloc((size_t)count, sizeof(zn_node *)) };
    if (!w->reader || !w->starts || !w->stand)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for gradients");
    for (int i = 0; i < count; i++) {
        const zn_node *n = w->stand[i] = zn_graph_at(g, i);
        for (int s = 0; s < n->source_count; s++)
            w->reader[n->source[s]->index] = i;
    }
    for (int i = 0; i < wanted_count; i++)
        if (wrt[i]->index < count)
            w->reader[wrt[i]->index] = count;
    return ZN_OK;
}

static void walk_free(walk *w)
{
    zn_free(w->reader);
    zn_free(w->starts);
    zn_free(w->stand);
}

/* Copies the segment's nodes. A node that is read after the segment is kept and read directly; its copy only records
 * how it was computed. */
static void copy_segment(walk *w, int first, int end)
{
    for (int i = first; i < end; i++) {
        zn_node *n = zn_graph_at(w->graph, i), *sources[ZN_MAX_SOURCES];
        if (n->op->is_leaf || !n->gradient)
            continue;
        for (int s = 0; s < n->source_count; s++) {
            const int from = n->source[s]->index;
            sources[s] = from >= first && w->reader[from] < end ? w->stand[from] : n->source[s];
        }
        zn_graph_name_layer(w->graph, n->name);
        w->stand[i] = zn_apply(n->op, n->attribute, n->attribute_size, sources, n->source_count);
        w->stand[i]->gradient = n->gradient;
    }
}

/* Makes the nodes built since node `created` read kept nodes themselves, not their copies. */
static void read_kept(walk *w, int first, int end, int created)
{
    for (int k = created; k < zn_graph_count(w->graph); k++) {
        zn_node *n = zn_graph_at(w->graph, k);
        for (int s = 0; s < n->source_count; s++)
            for (int i = first; i < end; i++)
                if (w->reader[i] >= end && n->source[s] == w->stand[i])
                    n->source[s] = zn_graph_at(w->graph, i);
    }
}

static zn_status segment_gradients(walk *w, int first, int end, bool again)
{
    const int created = zn_graph_count(w->graph);
    if (again)
        copy_segment(w, first, end);
    ZN_TRY(zn_graph_status(w->graph));
    for (int i = end - 1; i >= first; i--) {
        zn_node *n = w->stand[i];
        zn_node *gradient = w->reader[i] >= end ? zn_graph_at(w->graph, i)->gradient : n->gradient;
        if (!gradient || gradient == &wanted || n->op->is_leaf)
            continue;
        if (!n->op->gradient)
            return ZN_FAIL(ZN_EUNSUPPORTED, "%s: op '%s' has no gradient", n->name, n->op->name);
        zn_graph_name_layer(w->graph, n->name);
        n->op->gradient(n, gradient);
    }
    if (again)
        read_kept(w, first, end, created);
    return ZN_OK;
}

static zn_status differentiate(walk *w, bool lean)
{
    if (lean)
        ZN_TRY(zn_recompute_segments(w->graph, w->count, w->starts));
    for (int end = w->count, first; end > 0; end = first) {
        first = end - 1;
        while (first > 0 && !w->starts[first])
            first--;
        ZN_TRY(segment_gradients(w, first, end, end < w->count)); /* the last results are still there */
    }
    return ZN_OK;
}

zn_status zn_graph_differentiate_as(zn_graph *g, zn_node *of, zn_node *seed, zn_node *const *wrt, int count,
                                    zn_node **gradients, bool lean)
{
    ZN_TRY(zn_graph_status(g));
    const int nodes = of->index + 1;
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
    walk w;
    zn_status status = walk_new(&w, g, nodes, wrt, count);
    if (status == ZN_OK)
        status = differentiate(&w, lean);
    walk_free(&w);
    ZN_TRY(status);
    for (int i = 0; i < count; i++)
        gradients[i] = wrt[i]->gradient == &wanted ? NULL : wrt[i]->gradient;
    return zn_graph_status(g);
}

zn_status zn_graph_differentiate(zn_graph *g, zn_node *of, zn_node *seed, zn_node *const *wrt, int count,
                                 zn_node **gradients)
{
    return zn_graph_differentiate_as(g, of, seed, wrt, count, gradients, false);
}

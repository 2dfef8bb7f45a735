/* Products that read the same values, next to each other (fuse.h). The order of leaves among themselves stays. */
#include "base/alloc.h"
#include "ops/passes/fuse.h"

enum { FEW = 4 }; /* fewer products of one value are left where they are */

typedef struct gatherer {
    zn_graph *graph;
    int *readers; /* by node: products that read it */
    bool *listed; /* by node */
    zn_node **order;
    int count;
} gatherer;

static void list(gatherer *t, zn_node *n)
{
    t->listed[n->index] = true;
    t->order[t->count++] = n;
}

static bool is_gathered(const gatherer *t, const zn_node *n)
{
    return n->op == &zn_op_dense && t->readers[n->source[0]->index] >= FEW;
}

static bool is_ready(const gatherer *t, const zn_node *n)
{
    for (int i = 0; i < n->source_count; i++)
        if (!t->listed[n->source[i]->index])
            return false;
    return true;
}

static void list_all(gatherer *t)
{
    const int nodes = zn_graph_count(t->graph);
    for (int i = 0; i < nodes; i++)
        if (zn_graph_at(t->graph, i)->op->is_leaf)
            list(t, zn_graph_at(t->graph, i));
    for (int i = 0; i < nodes; i++) {
        zn_node *n = zn_graph_at(t->graph, i);
        if (t->listed[i])
            continue;
        list(t, n);
        for (int k = i + 1; k < nodes && is_gathered(t, n); k++) {
            zn_node *other = zn_graph_at(t->graph, k);
            if (!t->listed[k] && is_gathered(t, other) && is_ready(t, other))
                list(t, other);
        }
    }
}

void zn_gather_products(zn_graph *g)
{
    const int nodes = zn_graph_count(g);
    const size_t size = (size_t)nodes + 1;
    bool any = false;
    gatherer t = { .graph = g,
                   .readers = zn_calloc(size, sizeof *t.readers),
                   .listed = zn_calloc(size, sizeof *t.listed),
                   .order = zn_calloc(size, sizeof(zn_node *)) };
    const bool enough = t.readers && t.listed && t.order; /* else the order stays */
    for (int i = 0; i < nodes && enough; i++)
        if (zn_graph_at(g, i)->op == &zn_op_dense)
            any |= ++t.readers[zn_graph_at(g, i)->source[0]->index] >= FEW;
    if (any) {
        list_all(&t);
        zn_graph_reorder(g, t.order);
    }
    zn_free(t.readers);
    zn_free(t.listed);
    zn_free(t.order);
}

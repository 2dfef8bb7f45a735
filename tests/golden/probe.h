/* A probe: a small graph with inputs and weights from a golden file, run forward and backward and compared with it.
 *
 *     probe p;
 *     ZN_TRY(probe_new(&p, g, "soft.", "w."));
 *     zn_node *x = probe_input(&p, "x"), *y = zn_relu(x);
 *     probe_want(&p, x, "x");                      // out.soft.grad.x
 *     return probe_finish(&p, y, "dy");            // out.soft.y, gradients of all parameters; frees the graph */
#ifndef ZN_GOLDEN_PROBE_H
#define ZN_GOLDEN_PROBE_H

#include "golden.h"

enum { PROBE_NODES = 128 };

typedef struct probe_item {
    zn_node *node;
    const char *name;
} probe_item;

typedef struct probe {
    golden *g;
    zn_graph *graph;
    const char *tag;     /* tag of the results: out.<tag>y */
    const char *weights; /* prefix of the parameters in the file */
    probe_item outputs[PROBE_NODES], wrt[PROBE_NODES];
    int output_count, wrt_count;
    zn_node *penalty; /* a scalar added to the loss, or NULL */
} probe;

zn_status probe_new(probe *p, golden *g, const char *tag, const char *weights);
/* Adds in.NAME as an input with its values. A missing tensor marks the graph as failed. */
zn_node *probe_input(probe *p, const char *name);
/* Compares node with out.<tag>NAME. */
void probe_output(probe *p, zn_node *node, const char *name);
/* Compares the gradient of a node with out.<tag>grad.NAME. Gradients of parameters are always compared. */
void probe_want(probe *p, zn_node *node, const char *name);
/* Runs the graph and compares everything. y is out.<tag>y. The loss is sum(y * in.SEED) + penalty. seed NULL: forward
 * only. */
zn_status probe_finish(probe *p, zn_node *y, const char *seed);

/* True if a tensor's name begins with prefix and then `begin`. */
bool probe_holds(const golden *g, const char *prefix, const char *begin);

/* Calls visit once for each distinct text between `begin` and `end` in the names of tensors. */
zn_status probe_each_name(golden *g, const char *begin, const char *end, zn_status (*visit)(golden *, const char *));

/* A row of a family's table. A file belongs to a row if its case has this name or if the name of one of its tensors
 * begins with it. */
typedef struct probe_case {
    const char *name, *telltale;
    zn_status (*run)(golden *g);
} probe_case;
const probe_case *probe_case_find(const probe_case *table, const golden *g);

#endif

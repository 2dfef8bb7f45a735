/* TAESD cases: single blocks with their gradients. */
#include "network.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/taesd/taesd.h"

#include <stdio.h>
#include <string.h>

static bool block_matches(const golden *g)
{
    return golden_has(g, "w.", "gn.conv.0.weight") || golden_has(g, "w.", "skip.conv.0.weight");
}

static zn_status bind_block(const golden *g, zn_graph *graph)
{
    for (int i = 0; i < zn_graph_count(graph); i++) {
        zn_node *n = zn_graph_at(graph, i);
        if (n->op != &zn_op_parameter)
            continue;
        const zn_weight *w = golden_find(g, "w.", n->name);
        if (!w)
            return ZN_FAIL(ZN_ENOTFOUND, "no tensor 'w.%s'", n->name);
        n->data = zn_arena_alloc(zn_graph_arena(graph), sizeof(float) * (size_t)zn_shape_count(n->shape));
        ZN_TRY(zn_weight_import(w, n->shape, n->layout, n->data));
    }
    return ZN_OK;
}

static zn_status check_block(golden *g, const char *prefix)
{
    enum { MAX = 64 };
    zn_graph *graph = zn_graph_new();
    zn_exec *e = NULL;
    float *x = NULL, *dy = NULL;
    zn_shape sx, sy;
    char name[300];
    zn_status status;
    snprintf(name, sizeof name, "%s.x", prefix);
    ZN_TRY_DONE(golden_load(g, "in.", name, &sx, &x));
    snprintf(name, sizeof name, "%s.dy", prefix);
    ZN_TRY_DONE(golden_load(g, "in.", name, &sy, &dy));
    snprintf(name, sizeof name, "%s.pool.0.weight", prefix);
    zn_node *input = zn_graph_input(graph, "x", sx), *seed = zn_graph_input(graph, "dy", sy);
    const zn_scope scope = { graph, prefix };
    zn_node *y = zn_taesd_block(scope, input, (int)sy.dim[3], golden_has(g, "w.", name));
    ZN_TRY_DONE(zn_graph_status(graph));
    ZN_TRY_DONE(bind_block(g, graph));
    zn_node *wrt[MAX] = { input }, *outputs[2 * MAX] = { y }, **gradients = outputs + 1;
    int count = 1;
    for (int i = 0; i < zn_graph_count(graph) && count < MAX; i++)
        if (zn_graph_at(graph, i)->op == &zn_op_parameter)
            wrt[count++] = zn_graph_at(graph, i);
    ZN_TRY_DONE(zn_graph_differentiate(graph, y, seed, wrt, count, gradients));
    zn_graph_fuse(graph, outputs, count + 1);
    ZN_TRY_DONE(golden_exec_new(g, graph, outputs, count + 1, &(zn_exec_options){ .training = true }, &e));
    memcpy(input->data, x, sizeof(float) * (size_t)zn_shape_count(sx));
    memcpy(seed->data, dy, sizeof(float) * (size_t)zn_shape_count(sy));
    ZN_TRY_DONE(zn_exec_run(e));
    snprintf(name, sizeof name, "%s.y", prefix);
    ZN_TRY_DONE(golden_compare(g, name, y->data, y->shape, GOLDEN_MAP, GOLDEN_FORWARD));
    for (int i = 0; i < count; i++) {
        const bool map = i == 0;
        snprintf(name, sizeof name, "%s.grad.%s", prefix, map ? "x" : wrt[i]->name + strlen(prefix) + 1);
        ZN_TRY_DONE(golden_compare(g, name, gradients[i]->data, wrt[i]->shape, map ? GOLDEN_MAP : (int)wrt[i]->layout,
                                   GOLDEN_GRADIENT));
    }
done:
    zn_exec_free(e);
    zn_graph_free(graph);
    zn_free(x);
    zn_free(dy);
    return status;
}

static zn_status block_run(golden *g)
{
    if (golden_has(g, "in.", "gn.x"))
        ZN_TRY(check_block(g, "gn"));
    if (golden_has(g, "in.", "skip.x"))
        ZN_TRY(check_block(g, "skip"));
    return ZN_OK;
}

const golden_kind golden_taesd_block = { "taesd block", block_matches, block_run };

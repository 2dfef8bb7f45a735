/* Graphs with a golden file's numbers. */
#include "probe.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

zn_status probe_new(probe *p, golden *g, const char *tag, const char *weights)
{
    *p = (probe){ .g = g, .tag = tag, .weights = weights, .graph = zn_graph_new() };
    return p->graph ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
}

zn_node *probe_input(probe *p, const char *name)
{
    zn_shape shape;
    float *data;
    if (golden_load(p->g, "in.", name, &shape, &data) != ZN_OK)
        return zn_graph_poison(p->graph, ZN_ENOTFOUND, zn_error_text());
    zn_node *n = zn_graph_input(p->graph, name, shape);
    n->data = zn_arena_alloc(zn_graph_arena(p->graph), sizeof(float) * (size_t)(zn_shape_count(shape) + 1));
    if (n->data)
        memcpy(n->data, data, sizeof(float) * (size_t)zn_shape_count(shape));
    zn_free(data);
    return n;
}

static void add(probe *p, probe_item *list, int *count, zn_node *node, const char *name)
{
    if (*count == PROBE_NODES)
        zn_graph_poison(p->graph, ZN_ELIMIT, "too many nodes for a probe");
    else
        list[(*count)++] = (probe_item){ node, name };
}

void probe_output(probe *p, zn_node *node, const char *name) { add(p, p->outputs, &p->output_count, node, name); }
void probe_want(probe *p, zn_node *node, const char *name) { add(p, p->wrt, &p->wrt_count, node, name); }

/* Gives every parameter its values and wants its gradient. */
static zn_status bind(probe *p)
{
    for (int i = 0; i < zn_graph_count(p->graph); i++) {
        zn_node *n = zn_graph_at(p->graph, i);
        if (n->op != &zn_op_parameter)
            continue;
        const zn_weight *w = golden_find(p->g, p->weights, n->name);
        if (!w)
            return ZN_FAIL(ZN_ENOTFOUND, "no tensor '%s%s'", p->weights, n->name);
        n->data = zn_arena_alloc(zn_graph_arena(p->graph), sizeof(float) * (size_t)zn_shape_count(n->shape));
        if (!n->data)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for '%s'", n->name);
        ZN_TRY(zn_weight_import(w, n->shape, n->layout, n->data));
        if (n->layout != ZN_LAYOUT_INDEX)
            probe_want(p, n, n->name);
    }
    return zn_graph_status(p->graph);
}

/* gradients[i] of the loss, NULL where there is none. */
static zn_status differentiate(probe *p, zn_node *y, zn_node *seed, zn_node **gradients)
{
    zn_node *wrt[PROBE_NODES], *more[PROBE_NODES] = { 0 };
    for (int i = 0; i < p->wrt_count; i++)
        wrt[i] = p->wrt[i].node;
    ZN_TRY(zn_graph_differentiate(p->graph, y, seed, wrt, p->wrt_count, gradients));
    if (p->penalty)
        ZN_TRY(zn_graph_differentiate(p->graph, p->penalty, NULL, wrt, p->wrt_count, more));
    for (int i = 0; i < p->wrt_count; i++)
        if (more[i])
            gradients[i] = gradients[i] ? zn_add(gradients[i], more[i]) : more[i];
    return zn_graph_status(p->graph);
}

static zn_status compare(probe *p, zn_node *const *gradients)
{
    char name[300];
    for (int i = 0; i < p->output_count; i++) {
        const probe_item *o = &p->outputs[i];
        snprintf(name, sizeof name, "%s%s", p->tag, o->name);
        ZN_TRY(golden_compare(p->g, name, o->node->data, o->node->shape, GOLDEN_MAP, GOLDEN_FORWARD));
    }
    for (int i = 0; i < p->wrt_count; i++) {
        const zn_node *n = p->wrt[i].node;
        snprintf(name, sizeof name, "%sgrad.%s", p->tag, p->wrt[i].name);
        if (gradients[i])
            ZN_TRY(golden_compare(p->g, name, gradients[i]->data, n->shape,
                                  n->op == &zn_op_parameter ? (int)n->layout : GOLDEN_MAP, GOLDEN_GRADIENT));
    }
    return ZN_OK;
}

static zn_status finish(probe *p, zn_node *y, const char *seed, zn_exec **e)
{
    zn_node *gradients[PROBE_NODES] = { 0 }, *outputs[2 * PROBE_NODES];
    int count = 0;
    zn_node *dy = seed ? probe_input(p, seed) : NULL;
    probe_output(p, y, "y");
    ZN_TRY(zn_graph_status(p->graph));
    ZN_TRY(bind(p));
    if (dy)
        ZN_TRY(differentiate(p, y, dy, gradients));
    for (int i = 0; i < p->output_count; i++)
        outputs[count++] = p->outputs[i].node;
    for (int i = 0; i < p->wrt_count; i++)
        if (gradients[i])
            outputs[count++] = gradients[i];
    zn_graph_fuse(p->graph, outputs, count);
    ZN_TRY(golden_exec_new(p->g, p->graph, outputs, count, &(zn_exec_options){ .training = true }, e));
    ZN_TRY(zn_exec_run(*e));
    return compare(p, gradients);
}

zn_status probe_finish(probe *p, zn_node *y, const char *seed)
{
    zn_exec *e = NULL;
    const zn_status status = finish(p, y, seed, &e);
    zn_exec_free(e);
    zn_graph_free(p->graph);
    p->graph = NULL;
    return status;
}

bool probe_holds(const golden *g, const char *prefix, const char *begin)
{
    const size_t p = strlen(prefix), b = strlen(begin);
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        if (strncmp(name, prefix, p) == 0 && strncmp(name + p, begin, b) == 0)
            return true;
    }
    return false;
}

const probe_case *probe_case_find(const probe_case *table, const golden *g)
{
    const char *name = zn_weights_metadata(g->file, "case");
    for (const probe_case *c = table; c->name; c++)
        if (name && strcmp(name, c->name) == 0)
            return c;
    for (const probe_case *c = table; c->name && g->nhwc; c++)
        if (probe_holds(g, "", c->telltale))
            return c;
    return NULL;
}

zn_status probe_each_name(golden *g, const char *begin, const char *end, zn_status (*visit)(golden *, const char *))
{
    const size_t b = strlen(begin), e = strlen(end);
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        const size_t n = strlen(name);
        char part[128];
        if (n <= b + e || n - b - e >= sizeof part || strncmp(name, begin, b) || strcmp(name + n - e, end))
            continue;
        snprintf(part, sizeof part, "%.*s", (int)(n - b - e), name + b);
        ZN_TRY(visit(g, part));
    }
    return ZN_OK;
}

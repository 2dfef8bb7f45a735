/* Builds graphs: appends nodes, names layers, and returns the poison node after a failure. */
#include "graph/graph.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/splits.h"

#include <stdio.h>
#include <string.h>

enum { OWNERS = 4 };

struct zn_graph {
    zn_arena arena;
    zn_node **nodes;
    int count;
    size_t capacity;
    const char *layer;
    int owners; /* that have splits */
    const zn_splits *splits[OWNERS];
    const char *prefix[OWNERS];
    int64_t largest;       /* lower bound for the result of zn_graph_largest_map */
    bool extracted, grows; /* grows: the result of zn_graph_grows, if extracted */
    zn_status status;
    char text[1100];
    zn_node poison;
};

const zn_op zn_op_input = { .name = "input", .is_leaf = true };
const zn_op zn_op_parameter = { .name = "parameter", .is_leaf = true };
static const zn_op op_poison = { .name = "poison", .is_leaf = true };

zn_graph *zn_graph_new(void)
{
    zn_graph *g = zn_calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->poison = (zn_node){ .op = &op_poison, .graph = g, .name = "poison", .shape = ZN_SHAPE(1, 1, 1, 1) };
    g->layer = "";
    return g;
}

void zn_graph_free(zn_graph *g)
{
    if (!g)
        return;
    zn_arena_free(&g->arena);
    zn_free(g->nodes);
    zn_free(g);
}

zn_status zn_graph_status(const zn_graph *g)
{
    if (!g || g->arena.failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory while building a graph");
    return g->status == ZN_OK ? ZN_OK : ZN_FAIL(g->status, "%s", g->text);
}

zn_node *zn_graph_poison(zn_graph *g, zn_status code, const char *text)
{
    if (g->status == ZN_OK) {
        g->status = code;
        snprintf(g->text, sizeof g->text, "%s", text);
    }
    return &g->poison;
}

bool zn_is_constant(const zn_node *n) { return n->op == &zn_op_parameter || n->constant; }
bool zn_is_poison(const zn_node *n) { return n->op == &op_poison; }

static zn_node *append(zn_graph *g, const zn_op *op)
{
    zn_node *n = ZN_GROW(g->nodes, g->capacity, g->count + 1) ? zn_arena_alloc(&g->arena, sizeof *n) : NULL;
    if (!n)
        return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
    *n = (zn_node){ .op = op, .graph = g, .index = g->count, .name = g->layer };
    g->nodes[g->count++] = n;
    return n;
}

static zn_node *leaf(zn_graph *g, const zn_op *op, const char *name, zn_shape shape)
{
    zn_node *n = append(g, op);
    if (n == &g->poison)
        return n;
    n->shape = shape;
    n->name = zn_arena_copy(&g->arena, name);
    if (n->name)
        return n;
    g->count--; /* removes the node again */
    return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
}

zn_node *zn_graph_input(zn_graph *g, const char *name, zn_shape shape) { return leaf(g, &zn_op_input, name, shape); }

zn_node *zn_graph_parameter(zn_graph *g, const char *name, zn_shape shape, zn_layout layout)
{
    if (!name)
        return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
    for (int i = 0; i < g->count; i++) {
        zn_node *n = g->nodes[i];
        if (n->op == &zn_op_parameter && strcmp(n->name, name) == 0)
            return zn_shape_equal(n->shape, shape) ? n : zn_graph_poison(g, ZN_ESHAPE, "a parameter has two shapes");
    }
    zn_node *n = leaf(g, &zn_op_parameter, name, shape);
    n->layout = layout;
    return n;
}

zn_arena *zn_graph_arena(zn_graph *g) { return &g->arena; }
int zn_graph_count(const zn_graph *g) { return g->count; }
zn_node *zn_graph_at(const zn_graph *g, int index) { return g->nodes[index]; }

void zn_graph_reorder(zn_graph *g, zn_node *const *order)
{
    for (int i = 0; i < g->count; i++) {
        g->nodes[i] = order[i];
        g->nodes[i]->index = i;
    }
}

int64_t zn_graph_largest_map(const zn_graph *g)
{
    int64_t largest = g->largest;
    for (int i = 0; i < g->count; i++) {
        const zn_shape s = g->nodes[i]->shape;
        const int64_t rows = zn_whole_rows(g->nodes[i]);
        if (s.rank == 4 && rows * s.dim[2] > largest)
            largest = rows * s.dim[2];
    }
    return largest;
}

bool zn_graph_grows(const zn_graph *g)
{
    if (g->extracted)
        return g->grows;
    for (int i = g->count - 1; i >= 0; i--)
        if (g->nodes[i]->shape.rank == 4 && !g->nodes[i]->op->is_leaf)
            return zn_whole_rows(g->nodes[i]) * g->nodes[i]->shape.dim[2] == zn_graph_largest_map(g);
    return false;
}

void zn_graph_name_layer(zn_graph *g, const char *name)
{
    const char *copy = zn_arena_copy(&g->arena, name);
    g->layer = copy ? copy : "";
}

void zn_graph_set_splits(zn_graph *g, const char *prefix, const zn_splits *splits)
{
    for (int i = 0; i < g->owners; i++)
        if (g->splits[i] == splits && strcmp(g->prefix[i], prefix) == 0)
            return;
    if (g->owners == OWNERS) {
        zn_graph_poison(g, ZN_ELIMIT, "too many models in one graph");
        return;
    }
    const char *copy = zn_arena_copy(&g->arena, prefix);
    if (!copy) /* zn_graph_status reports it */
        return;
    g->splits[g->owners] = splits;
    g->prefix[g->owners++] = copy;
}

/* The longest prefix counts: an owner without one has all layers that have no other owner. */
const zn_split *zn_graph_split(const zn_graph *g, const char *layer)
{
    const zn_splits *splits = NULL;
    size_t skip = 0;
    for (int i = 0; i < g->owners; i++) {
        const size_t length = strlen(g->prefix[i]);
        if (strncmp(layer, g->prefix[i], length) == 0 && (!splits || length > skip)) {
            splits = g->splits[i];
            skip = length;
        }
    }
    for (int i = 0; splits && i < splits->count; i++)
        if (strcmp(splits->all[i].layer, layer + skip) == 0)
            return &splits->all[i];
    return NULL;
}

zn_node *zn_apply(const zn_op *op, const void *attribute, size_t attribute_size, zn_node *const *sources, int count)
{
    zn_graph *g = sources[0]->graph;
    for (int i = 0; i < count; i++)
        if (sources[i] == &g->poison)
            return &g->poison;
    zn_node *n = append(g, op);
    if (n == &g->poison)
        return n;
    n->constant = true;
    for (int i = 0; i < count; i++) {
        n->source[n->source_count++] = sources[i];
        n->constant &= zn_is_constant(sources[i]);
    }
    if (attribute_size) {
        n->attribute = zn_arena_alloc(&g->arena, attribute_size);
        if (!n->attribute)
            return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
        memcpy(n->attribute, attribute, attribute_size);
        n->attribute_size = attribute_size;
    }
    const zn_status status = op->shape(n);
    if (status == ZN_OK)
        return n;
    char text[1100];
    snprintf(text, sizeof text, "%s%s%s: %s", n->name, n->name[0] ? ": " : "", op->name, zn_error_text());
    g->count--; /* removes the node again */
    return zn_graph_poison(g, status, text);
}

zn_graph *zn_graph_extract(const zn_graph *g, const zn_node *from, const zn_node *to, zn_shape shape, zn_node **input,
                           zn_node **output)
{
    zn_graph *copy = zn_graph_new();
    zn_node **map = zn_calloc((size_t)g->count + 1, sizeof *map);
    if (!copy || !map) {
        zn_free(map);
        zn_graph_free(copy);
        return NULL;
    }
    *input = map[from->index] = zn_graph_input(copy, from->name, shape);
    copy->extracted = true;
    copy->grows = zn_graph_grows(g);
    if (from->shape.rank == 4)
        copy->largest =
            zn_graph_largest_map(g) * (shape.dim[1] * shape.dim[2]) / (from->shape.dim[1] * from->shape.dim[2]);
    for (int i = 0; i <= to->index; i++) {
        const zn_node *n = g->nodes[i];
        if (n->op == &zn_op_parameter) {
            map[i] = zn_graph_parameter(copy, n->name, n->shape, n->layout);
            map[i]->role = n->role;
            map[i]->data = n->data;
            map[i]->packed = n->packed;
            map[i]->deferred = n->deferred;
        } else if ((i > from->index || n->constant) && !n->op->is_leaf) {
            zn_node *sources[ZN_MAX_SOURCES];
            bool whole = true;
            for (int s = 0; s < n->source_count; s++)
                whole &= (sources[s] = map[n->source[s]->index]) != NULL;
            if (!whole)
                continue;
            zn_graph_name_layer(copy, n->name);
            map[i] = zn_apply(n->op, n->attribute, n->attribute_size, sources, n->source_count);
            map[i]->wide = n->wide;
        }
    }
    *output = to == from ? *input : map[to->index];
    zn_free(map);
    return copy;
}

double zn_graph_flops(const zn_graph *g, const zn_node *output)
{
    bool *used = zn_calloc((size_t)g->count + 1, sizeof *used);
    double flops = 0;
    if (!used)
        return -1;
    used[output->index] = true;
    for (int i = output->index; i >= 0; i--) {
        const zn_node *n = g->nodes[i];
        if (!used[i] || n->constant)
            continue;
        for (int s = 0; s < n->source_count; s++)
            used[n->source[s]->index] = true;
        flops += n->op->flops ? n->op->flops(n) : 0;
    }
    zn_free(used);
    return flops;
}

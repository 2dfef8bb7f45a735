/* Sequences of tokens from golden files. */
#include "tokens.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

zn_status bench_new(bench *b, golden *g)
{
    *b = (bench){ .g = g, .graph = zn_graph_new() };
    return b->graph ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
}

void bench_free(bench *b)
{
    zn_exec_free(b->exec);
    zn_graph_free(b->graph);
}

void bench_turn(const float *from, int64_t samples, int64_t rows, int64_t columns, float *to)
{
    for (int64_t s = 0; s < samples; s++, from += rows * columns, to += rows * columns)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < columns; k++)
                to[k * rows + i] = from[i * columns + k];
}

zn_node *bench_part(bench *b, const char *name, form f, int64_t begin, int64_t end)
{
    zn_shape s;
    float *data;
    if (golden_load(b->g, "in.", name, &s, &data) != ZN_OK)
        return zn_graph_poison(b->graph, ZN_ENOTFOUND, zn_error_text());
    if (f != PLAIN && s.rank != 3) {
        zn_free(data);
        return zn_graph_poison(b->graph, ZN_ESHAPE, "sequences need three sides");
    }
    const int64_t length = f == TURNED ? s.dim[2] : s.dim[1], c = f == TURNED ? s.dim[1] : s.dim[2], n = s.dim[0];
    end = end < 0 ? length : end;
    const zn_shape ours = f == PLAIN ? s : ZN_SHAPE(n, 1, end - begin, c);
    zn_node *node = zn_graph_input(b->graph, name, ours);
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(s);
    float *all = zn_arena_alloc(zn_graph_arena(b->graph), bytes);
    node->data = zn_arena_alloc(zn_graph_arena(b->graph), bytes);
    if (all && node->data) {
        memcpy(all, data, bytes);
        if (f == TURNED)
            bench_turn(data, n, c, length, all);
        for (int64_t i = 0; i < n && f != PLAIN; i++)
            memcpy(node->data + i * (end - begin) * c, all + (i * length + begin) * c,
                   sizeof(float) * (size_t)((end - begin) * c));
        if (f == PLAIN)
            memcpy(node->data, all, bytes);
    }
    zn_free(data);
    return node;
}

zn_node *bench_input(bench *b, const char *name, form f) { return bench_part(b, name, f, 0, -1); }

static void add(bench *b, item *list, int *count, item i)
{
    if (*count == ITEMS)
        zn_graph_poison(b->graph, ZN_ELIMIT, "too many results");
    else
        list[(*count)++] = i;
}

void bench_output(bench *b, zn_node *n, const char *name, form f)
{
    add(b, b->outputs, &b->output_count, (item){ n, name, f });
}
void bench_want(bench *b, zn_node *n, const char *name, form f) { add(b, b->wrt, &b->wrt_count, (item){ n, name, f }); }

void bench_want_parameters(bench *b)
{
    for (int i = 0; i < zn_graph_count(b->graph); i++)
        if (zn_graph_at(b->graph, i)->op == &zn_op_parameter)
            bench_want(b, zn_graph_at(b->graph, i), zn_graph_at(b->graph, i)->name, PLAIN);
}

static zn_status compare(bench *b, const item *i, const zn_node *node, const char *prefix, int how)
{
    const int64_t *d = node->shape.dim, count = zn_shape_count(node->shape);
    const int layout = i->node->op == &zn_op_parameter ? (int)i->node->layout : GOLDEN_MAP;
    char name[256];
    snprintf(name, sizeof name, "%s%s", prefix, i->name);
    if (i->form == PLAIN)
        return golden_compare(b->g, name, node->data, node->shape, layout, how);
    if (i->form == ROWS)
        return golden_compare(b->g, name, node->data, ZN_SHAPE(d[2], d[3]), GOLDEN_MAP, how);
    if (i->form == TOKENS)
        return golden_compare(b->g, name, node->data, ZN_SHAPE(d[0], d[2], d[3]), GOLDEN_MAP, how);
    float *turned;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (size_t)count, (void **)&turned));
    bench_turn(node->data, d[0], d[2], d[3], turned);
    const zn_status status = golden_compare(b->g, name, turned, ZN_SHAPE(d[0], d[3], d[2]), GOLDEN_MAP, how);
    zn_free(turned);
    return status;
}

zn_status bench_run(bench *b, zn_node *of, zn_node *seed)
{
    zn_node *wrt[ITEMS], *gradients[ITEMS] = { 0 }, *outputs[2 * ITEMS];
    int count = 0;
    ZN_TRY(zn_graph_status(b->graph));
    for (int i = 0; i < b->wrt_count; i++)
        wrt[i] = b->wrt[i].node;
    if (of)
        ZN_TRY(zn_graph_differentiate(b->graph, of, seed, wrt, b->wrt_count, gradients));
    for (int i = 0; i < b->output_count; i++)
        outputs[count++] = b->outputs[i].node;
    for (int i = 0; i < b->wrt_count; i++)
        if (gradients[i])
            outputs[count++] = gradients[i];
    zn_graph_fuse(b->graph, outputs, count);
    ZN_TRY(golden_exec_new(b->g, b->graph, outputs, count, &(zn_exec_options){ .training = of }, &b->exec));
    ZN_TRY(zn_exec_run(b->exec));
    for (int i = 0; i < b->output_count; i++)
        ZN_TRY(compare(b, &b->outputs[i], b->outputs[i].node, "", GOLDEN_FORWARD));
    for (int i = 0; i < b->wrt_count; i++)
        if (gradients[i])
            ZN_TRY(compare(b, &b->wrt[i], gradients[i], "grad.", GOLDEN_GRADIENT));
    return ZN_OK;
}

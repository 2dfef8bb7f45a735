/* The networks of mamba_net.h: how they are built, started and given inputs. */
#include "mamba_net.h"

#include "diffusion/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

const zn_field tiny = { .width = 24,
                        .blocks = 2,
                        .features = 8,
                        .spread = 1,
                        .values = 3,
                        .latent = 12,
                        .embed = 20,
                        .colours = 3,
                        .hidden = 16,
                        .grid = 8,
                        .mixer = { .states = 6, .taps = 4, .expand = 2 } };

void check(zn_status status)
{
    if (status != ZN_OK)
        fail_msg("%s", zn_error_text());
}

zn_node *tokens(zn_graph *g, const char *name, int64_t n, int64_t length, int64_t c)
{
    return zn_graph_input(g, name, ZN_SHAPE(n, 1, length, c));
}

zn_status build(net *t, const zn_field *k, int64_t n, int64_t length, int64_t queries)
{
    zn_graph *g = t->graph = zn_graph_new();
    if (!g)
        return ZN_ENOMEM;
    t->points = tokens(g, "points", n, length, 2);
    t->values = tokens(g, "values", n, length, k->values);
    t->orders = zn_graph_input(g, "orders", ZN_SHAPE(2, n, ZN_SCAN_WAYS, length));
    t->query = tokens(g, "query", n, queries, 2);
    t->noisy = tokens(g, "noisy", n, queries, k->values);
    t->query_orders = zn_graph_input(g, "query_orders", ZN_SHAPE(2, n, ZN_SCAN_WAYS, queries));
    t->time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, n, k->width));
    t->target = tokens(g, "target", n, queries, k->values);
    t->cond = zn_field_encode((zn_scope){ g, "enc" }, t->points, t->values, t->orders, k);
    const zn_field_known known = { t->query_orders, t->time, t->cond };
    t->eps = zn_field_denoise((zn_scope){ g, "dec" }, t->query, t->noisy, &known, k);
    t->loss = zn_mean_square_error(t->eps, t->target);
    return zn_graph_status(g);
}

void start(net *t, const zn_field *k)
{
    int64_t fan_in = 1;
    for (int i = 0; i < zn_graph_count(t->graph); i++) {
        zn_node *n = zn_graph_at(t->graph, i);
        if (n->op != &zn_op_parameter)
            continue;
        zn_rng rng = zn_rng_new(zn_seed_for(9, n->name));
        n->data = zn_arena_alloc(zn_graph_arena(t->graph), sizeof(float) * (size_t)zn_shape_count(n->shape));
        assert_non_null(n->data);
        fan_in = n->shape.rank == 4 ? n->shape.dim[2] : fan_in;
        const zn_fresh fresh = { .shape = n->shape, .fan_in = fan_in, .rng = &rng, .out = n->data };
        assert_true(zn_start_fill(n, zn_field_start, &fresh));
        if (strstr(n->name, "head"))
            zn_start_linear(&fresh, (float)k->width);
        t->parameters[t->count++] = n;
    }
}

void net_new(net *t, const zn_field *k, int64_t n, int64_t length, int64_t queries, int threads, lesson teach)
{
    *t = (net){ 0 };
    check(build(t, k, n, length, queries));
    start(t, k);
    zn_node *outputs[260] = { t->cond, t->eps, t->loss };
    int count = 3;
    if (teach)
        check(
            zn_graph_differentiate_as(t->graph, t->loss, NULL, t->parameters, t->count, t->gradients, teach == AGAIN));
    for (int i = 0; i < t->count && teach; i++)
        if (t->gradients[i])
            outputs[count++] = t->gradients[i];
    check(zn_pool_new(threads, &t->pool));
    zn_graph_fuse(t->graph, outputs, count);
    check(zn_exec_new(t->graph, outputs, count, &(zn_exec_options){ .pool = t->pool, .training = teach }, &t->exec));
}

void net_free(net *t)
{
    zn_exec_free(t->exec);
    zn_graph_free(t->graph);
    zn_pool_free(t->pool);
}

void fill(zn_node *n, uint64_t seed, float scale, bool normal)
{
    zn_rng rng = zn_rng_new(seed);
    for (int64_t i = 0; i < zn_shape_count(n->shape); i++)
        n->data[i] = scale * (normal ? zn_rng_normal(&rng) : 2 * zn_rng_uniform(&rng) - 1);
}

void fill_all(net *t, const zn_field *k)
{
    fill(t->points, 1, 1, false);
    fill(t->values, 2, 1, true);
    fill(t->query, 3, 1, false);
    fill(t->noisy, 4, 1, true);
    fill(t->target, 5, 1, true);
    for (int64_t i = 0; i < t->time->shape.dim[2]; i++)
        zn_time_embedding(300 + 17.0 * (double)i, k->width, t->time->data + i * k->width);
}

void sort(net *t, const zn_field *k, const int64_t *counts, const int64_t *queries)
{
    const int64_t *p = t->points->shape.dim, *q = t->query->shape.dim;
    check(zn_scan_orders(t->points->data, counts, p[0], p[2], k->grid, t->orders->data));
    check(zn_scan_orders(t->query->data, queries, q[0], q[2], k->grid, t->query_orders->data));
}

/* Mamba mixers and sparse-field networks: numbers of parameters, start values, and what must not matter: the order in
 * which points come, points that fill up a batch, the number of threads. Results themselves are held against golden
 * files. */
#include "base/alloc.h"
#include "diffusion/schedule.h"
#include "graph/exec.h"
#include "models/mamba_field.h"
#include "train/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const zn_field tiny = { .width = 24,
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

/* An encoder and a denoiser on points of their own; results, and gradients where asked for. */
typedef struct net {
    zn_graph *graph;
    zn_exec *exec;
    zn_pool *pool;
    zn_node *points, *values, *orders, *query, *noisy, *query_orders, *time; /* inputs */
    zn_node *cond, *eps, *target, *loss;
    zn_node *parameters[256], *gradients[256];
    int count;
} net;

static void check(zn_status status)
{
    if (status != ZN_OK)
        fail_msg("%s", zn_error_text());
}

static zn_node *tokens(zn_graph *g, const char *name, int64_t n, int64_t length, int64_t c)
{
    return zn_graph_input(g, name, ZN_SHAPE(n, 1, length, c));
}

static zn_status build(net *t, const zn_field *k, int64_t n, int64_t length, int64_t queries)
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

/* Parameters with start values; what starts at 0 gets something, so that all of it shows. */
static void start(net *t, const zn_field *k)
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
        zn_field_start(k, n->name, n->shape, fan_in, &rng, n->data);
        if (strstr(n->name, "head"))
            zn_start_linear(k->width, n->shape, &rng, n->data);
        t->parameters[t->count++] = n;
    }
}

/* How a net is to be taught: not at all, or with all activations kept or computed again. */
typedef enum lesson { NONE, KEPT, AGAIN } lesson;

static void net_new(net *t, const zn_field *k, int64_t n, int64_t length, int64_t queries, int threads, lesson teach)
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

static void net_free(net *t)
{
    zn_exec_free(t->exec);
    zn_graph_free(t->graph);
    zn_pool_free(t->pool);
}

static void fill(zn_node *n, uint64_t seed, float scale, bool normal)
{
    zn_rng rng = zn_rng_new(seed);
    for (int64_t i = 0; i < zn_shape_count(n->shape); i++)
        n->data[i] = scale * (normal ? zn_rng_normal(&rng) : 2 * zn_rng_uniform(&rng) - 1);
}

static void fill_all(net *t, const zn_field *k)
{
    fill(t->points, 1, 1, false);
    fill(t->values, 2, 1, true);
    fill(t->query, 3, 1, false);
    fill(t->noisy, 4, 1, true);
    fill(t->target, 5, 1, true);
    for (int64_t i = 0; i < t->time->shape.dim[2]; i++)
        zn_time_embedding(300 + 17.0 * (double)i, k->width, t->time->data + i * k->width);
}

static void sort(net *t, const zn_field *k, const int64_t *counts, const int64_t *queries)
{
    const int64_t *p = t->points->shape.dim, *q = t->query->shape.dim;
    check(zn_scan_orders(t->points->data, counts, p[0], p[2], k->grid, t->orders->data));
    check(zn_scan_orders(t->query->data, queries, q[0], q[2], k->grid, t->query_orders->data));
}

static void expect_near(const float *a, const float *b, int64_t count, double within)
{
    double worst = 0, scale = 1e-3;
    for (int64_t i = 0; i < count; i++) {
        const double d = fabs((double)a[i] - (double)b[i]), size = fabs((double)b[i]);
        worst = d <= worst ? worst : d; /* NaN counts as worst */
        scale = size > scale ? size : scale;
    }
    if (!(worst <= within * scale))
        fail_msg("differs by %g of %g", worst, scale);
}

/* ---- sizes ---- */

static int64_t count_parameters(zn_graph *g, const char *begin)
{
    int64_t count = 0;
    check(zn_graph_status(g));
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_parameter && strncmp(n->name, begin, strlen(begin)) == 0)
            count += zn_shape_count(n->shape);
    }
    return count;
}

static void counts_are_those_of_the_specification(void **state)
{
    (void)state;
    net t = { 0 };
    check(build(&t, &zn_field_usual, 1, 4, 4));
    assert_int_equal(count_parameters(t.graph, "enc."), 12892672);
    assert_int_equal(count_parameters(t.graph, "dec."), 17884675);
    assert_int_equal(count_parameters(t.graph, "enc.blocks.0.mixer."), 2060288);
    zn_mamba_line((zn_scope){ t.graph, "line" }, tokens(t.graph, "x", 1, 4, 512), &zn_field_usual.mixer);
    assert_int_equal(count_parameters(t.graph, "line."), 1694720);
    zn_graph_free(t.graph);
}

/* ---- start values ---- */

static const zn_node *parameter(const net *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->parameters[i]->name, name) == 0)
            return t->parameters[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* All values lie within [low,high] and fill nearly all of it. */
static void expect_range(const net *t, const char *name, double low, double high)
{
    const zn_node *n = parameter(t, name);
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < zn_shape_count(n->shape); i++) {
        least = fmin(least, (double)n->data[i]);
        most = fmax(most, (double)n->data[i]);
    }
    const double slack = 1e-5 * fmax(fabs(low), fabs(high)), gap = 0.15 * (high - low);
    if (least < low - slack || most > high + slack || least > low + gap || most < high - gap)
        fail_msg("%s lies in %g..%g, not in %g..%g", name, least, most, low, high);
}

static void networks_start_as_they_should(void **state)
{
    (void)state;
    net t = { 0 };
    check(build(&t, &tiny, 1, 4, 4));
    start(&t, &tiny);
    const zn_node *rates = parameter(&t, "enc.blocks.1.mixer.A_log"), *d = parameter(&t, "enc.blocks.1.mixer.D");
    for (int64_t i = 0; i < zn_shape_count(rates->shape); i++)
        assert_true(fabsf(expf(rates->data[i]) - (float)(1 + i % tiny.mixer.states)) < 1e-4f);
    for (int64_t i = 0; i < zn_shape_count(d->shape); i++)
        assert_true(d->data[i] == 1);
    const double inner = 1 / sqrt(48), width = 1 / sqrt(24), inputs = 1 / sqrt(19);
    expect_range(&t, "enc.blocks.0.mixer.dt_proj.bias", log(expm1(0.001)), log(expm1(0.1)));
    expect_range(&t, "enc.blocks.0.mixer.dt_proj.weight", -1 / sqrt(2), 1 / sqrt(2));
    expect_range(&t, "enc.blocks.0.mixer.conv1d.weight", -0.5, 0.5);
    expect_range(&t, "enc.blocks.0.mixer.conv1d.bias", -0.5, 0.5);
    expect_range(&t, "enc.blocks.0.mixer.in_proj.weight", -width, width);
    expect_range(&t, "enc.blocks.0.mixer.x_proj.weight", -inner, inner);
    expect_range(&t, "enc.blocks.0.mixer.out_proj.weight", -inner / sqrt(2), inner / sqrt(2));
    expect_range(&t, "enc.embed.weight", -inputs, inputs);
    expect_range(&t, "enc.embed.bias", -inputs, inputs);
    assert_true(parameter(&t, "dec.norm_f.weight")->data[0] == 1);
    float head[3] = { 1, 1, 1 };
    zn_rng rng = zn_rng_new(1);
    zn_field_start(&tiny, "dec.head.bias", ZN_SHAPE(3), 24, &rng, head);
    assert_true(head[0] == 0 && head[1] == 0 && head[2] == 0);
    zn_graph_free(t.graph);
}

/* ---- what must not matter ---- */

enum { POINTS = 150, QUERIES = 90 };

static void the_order_of_points_does_not_matter(void **state)
{
    (void)state;
    net a, b;
    net_new(&a, &tiny, 1, POINTS, QUERIES, 2, NONE);
    net_new(&b, &tiny, 1, POINTS, QUERIES, 2, NONE);
    fill_all(&a, &tiny);
    fill_all(&b, &tiny);
    for (int64_t i = 0; i < POINTS; i++) { /* 77 and 150 have no common factor */
        const int64_t from = 77 * i % POINTS;
        memcpy(b.points->data + 2 * i, a.points->data + 2 * from, 2 * sizeof(float));
        memcpy(b.values->data + 3 * i, a.values->data + 3 * from, 3 * sizeof(float));
    }
    sort(&a, &tiny, NULL, NULL);
    sort(&b, &tiny, NULL, NULL);
    check(zn_exec_run(a.exec));
    check(zn_exec_run(b.exec));
    expect_near(b.cond->data, a.cond->data, tiny.latent, 1e-5);
    b.values->data[0] += 1; /* but the values do */
    check(zn_exec_run(b.exec));
    assert_true(memcmp(b.cond->data, a.cond->data, sizeof(float) * (size_t)tiny.latent) != 0);
    net_free(&a);
    net_free(&b);
}

/* A sample alone, and the same filled up beside a longer one. */
static void padding_does_not_matter(void **state)
{
    (void)state;
    enum { SHORT = 70, FEW = 41 };
    net a, b;
    net_new(&a, &tiny, 1, SHORT, FEW, 2, NONE);
    net_new(&b, &tiny, 2, POINTS, QUERIES, 2, NONE);
    fill_all(&a, &tiny);
    fill_all(&b, &tiny);
    memcpy(b.points->data, a.points->data, sizeof(float) * 2 * SHORT);
    memcpy(b.values->data, a.values->data, sizeof(float) * 3 * SHORT);
    memcpy(b.query->data, a.query->data, sizeof(float) * 2 * FEW);
    memcpy(b.noisy->data, a.noisy->data, sizeof(float) * 3 * FEW);
    sort(&a, &tiny, NULL, NULL);
    sort(&b, &tiny, (int64_t[]){ SHORT, POINTS }, (int64_t[]){ FEW, QUERIES });
    check(zn_exec_run(a.exec));
    check(zn_exec_run(b.exec));
    expect_near(b.cond->data, a.cond->data, tiny.latent, 1e-5);
    expect_near(b.eps->data, a.eps->data, 3 * FEW, 1e-5);
    net_free(&a);
    net_free(&b);
}

static void padded_tokens_give_zero(void **state)
{
    (void)state;
    enum { LENGTH = 9, THERE = 6, WIDTH = 24 };
    net t = { .graph = zn_graph_new() };
    zn_node *x = tokens(t.graph, "x", 1, LENGTH, WIDTH);
    zn_node *orders = zn_graph_input(t.graph, "orders", ZN_SHAPE(2, 1, ZN_SCAN_WAYS, LENGTH));
    zn_node *y = zn_mamba_plane((zn_scope){ t.graph, "mixer" }, x, orders, &tiny.mixer);
    start(&t, &tiny);
    check(zn_pool_new(1, &t.pool));
    check(zn_exec_new(t.graph, &y, 1, &(zn_exec_options){ .pool = t.pool }, &t.exec));
    fill(x, 1, 1, true);
    float points[2 * LENGTH];
    for (int i = 0; i < 2 * LENGTH; i++)
        points[i] = x->data[i] * 0.3f;
    check(zn_scan_orders(points, (int64_t[]){ THERE }, 1, LENGTH, 8, orders->data));
    check(zn_exec_run(t.exec));
    for (int i = 0; i < LENGTH * WIDTH; i++)
        assert_true((y->data[i] == 0) == (i >= THERE * WIDTH));
    net_free(&t);
}

static void expect_same_gradients(int threads, lesson teach)
{
    net t[2];
    for (int i = 0; i < 2; i++) {
        net_new(&t[i], &tiny, 2, POINTS, QUERIES, i ? threads : 1, i ? teach : KEPT);
        fill_all(&t[i], &tiny);
        sort(&t[i], &tiny, NULL, NULL);
        check(zn_exec_run(t[i].exec));
    }
    assert_memory_equal(t[0].eps->data, t[1].eps->data, sizeof(float) * 2 * 3 * QUERIES);
    for (int i = 0; i < t[0].count; i++)
        if (t[0].gradients[i])
            assert_memory_equal(t[0].gradients[i]->data, t[1].gradients[i]->data,
                                sizeof(float) * (size_t)zn_shape_count(t[0].parameters[i]->shape));
    net_free(&t[0]);
    net_free(&t[1]);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    expect_same_gradients(3, KEPT);
}

static void computing_again_does_not_change_a_bit(void **state)
{
    (void)state;
    expect_same_gradients(1, AGAIN);
}

/* Without values the denoiser works as with zeros. */
static void no_values_are_zeros(void **state)
{
    (void)state;
    net t = { 0 };
    check(build(&t, &tiny, 1, 20, 15));
    const zn_field_known known = { t.query_orders, t.time, t.cond };
    zn_node *outputs[] = { t.eps, zn_field_denoise((zn_scope){ t.graph, "dec" }, t.query, NULL, &known, &tiny) };
    start(&t, &tiny);
    check(zn_pool_new(1, &t.pool));
    check(zn_exec_new(t.graph, outputs, 2, &(zn_exec_options){ .pool = t.pool }, &t.exec));
    fill(t.points, 1, 1, false);
    fill(t.values, 2, 1, true);
    fill(t.query, 3, 1, false);
    sort(&t, &tiny, NULL, NULL);
    check(zn_exec_run(t.exec)); /* noisy values that nobody gave are zeros */
    assert_memory_equal(outputs[0]->data, outputs[1]->data, sizeof(float) * 3 * 15);
    net_free(&t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    zn_status status = ZN_ENOMEM;
    int failures = -1;
    for (int64_t nth = 1; status == ZN_ENOMEM; nth++, failures++) {
        net t = { 0 };
        zn_alloc_fail_at(nth);
        status = build(&t, &tiny, 1, 20, 15);
        for (int i = 0; status == ZN_OK && i < zn_graph_count(t.graph); i++)
            if (zn_graph_at(t.graph, i)->op == &zn_op_parameter)
                t.parameters[t.count++] = zn_graph_at(t.graph, i);
        if (status == ZN_OK)
            status = zn_graph_differentiate(t.graph, t.loss, NULL, t.parameters, t.count, t.gradients);
        zn_alloc_fail_at(0);
        zn_graph_free(t.graph);
    }
    check(status);
    assert_true(failures > 10);
}

static void encoder_and_denoiser_learn_together(void **state)
{
    (void)state;
    net t;
    zn_optim o;
    int64_t total = 0;
    net_new(&t, &tiny, 2, 40, 30, 2, KEPT);
    fill_all(&t, &tiny);
    sort(&t, &tiny, NULL, NULL);
    for (int i = 0; i < t.count; i++) {
        total += zn_shape_count(t.parameters[i]->shape);
        /* frequencies are fixed; everything else is learnt */
        assert_true(!t.gradients[i] == (strstr(t.parameters[i]->name, "fourier.B") != NULL));
    }
    check(zn_optim_new(&o, total, &(zn_optim_options){ .kind = ZN_ADAM, .lr = 3e-3f }));
    float first = 0;
    for (int step = 0; step < 60; step++) {
        check(zn_exec_run(t.exec));
        first = step ? first : t.loss->data[0];
        zn_optim_begin(&o, -1);
        for (int i = 0; i < t.count; i++)
            if (t.gradients[i])
                zn_optim_update(&o, t.pool, t.parameters[i]->data, t.gradients[i]->data,
                                zn_shape_count(t.parameters[i]->shape), NULL);
    }
    check(zn_exec_run(t.exec));
    if (!(t.loss->data[0] < 0.3f * first))
        fail_msg("loss %g after %g", (double)t.loss->data[0], (double)first);
    zn_optim_free(&o);
    net_free(&t);
}

/* ---- orders ---- */

static void bad_points_are_refused(void **state)
{
    (void)state;
    float table[2 * ZN_SCAN_WAYS * 2], points[] = { 0, 0, NAN, 0 };
    assert_int_equal(zn_scan_orders(points, NULL, 1, 2, 8, table), ZN_ENUMERIC);
    assert_string_equal(zn_error_text(), "point 1 of sample 0 is not finite");
    check(zn_scan_orders(points, (int64_t[]){ 1 }, 1, 2, 8, table)); /* what is not there may be anything */
    points[2] = 1e30f;                                               /* far outside: the last column */
    check(zn_scan_orders(points, NULL, 1, 2, 8, table));
    assert_int_equal(zn_scan_orders(points, (int64_t[]){ 3 }, 1, 2, 8, table), ZN_ESHAPE);
    assert_int_equal(zn_scan_orders(points, NULL, 1, 2, 0, table), ZN_ELIMIT);
    zn_alloc_fail_at(1);
    assert_int_equal(zn_scan_orders(points, NULL, 1, 2, 8, table), ZN_ENOMEM);
    zn_alloc_fail_at(0);
}

static void equal_points_keep_their_order(void **state)
{
    (void)state;
    static const float points[] = { 0.5f, 0, 0.5f, 0, -0.5f, 0.01f, 0.5f, 0 };
    static const float rows[] = { 2, 0, 1, 3 }, columns[] = { 2, 0, 1, 3 }, back[] = { 3, 1, 0, 2 };
    float table[2 * ZN_SCAN_WAYS * 4];
    check(zn_scan_orders(points, NULL, 1, 4, 8, table));
    assert_memory_equal(table, rows, sizeof rows);
    assert_memory_equal(table + 4, columns, sizeof columns);
    assert_memory_equal(table + 8, back, sizeof back);
    assert_memory_equal(table + 12, back, sizeof back);
    for (int k = 0; k < ZN_SCAN_WAYS; k++)
        for (int t = 0; t < 4; t++)
            assert_true(table[16 + 4 * k + (int)table[4 * k + t]] == (float)t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_specification),
        cmocka_unit_test(networks_start_as_they_should),
        cmocka_unit_test(the_order_of_points_does_not_matter),
        cmocka_unit_test(padding_does_not_matter),
        cmocka_unit_test(padded_tokens_give_zero),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(computing_again_does_not_change_a_bit),
        cmocka_unit_test(no_values_are_zeros),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(encoder_and_denoiser_learn_together),
        cmocka_unit_test(bad_points_are_refused),
        cmocka_unit_test(equal_points_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

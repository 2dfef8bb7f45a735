/* Sparse-field networks at work: what must not matter (the order in which points come, points that fill up a batch, the
 * number of threads, what is computed again), failing memory, and that they learn. */
#include "mamba_net.h"

#include "base/alloc.h"
#include "train/optimiser/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

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

enum { POINTS = 150, QUERIES = 90 };

void the_order_of_points_does_not_matter(void **state)
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
void padding_does_not_matter(void **state)
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

void padded_tokens_give_zero(void **state)
{
    (void)state;
    enum { LENGTH = 9, PRESENT = 6, WIDTH = 24 };
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
    check(zn_scan_orders(points, (int64_t[]){ PRESENT }, 1, LENGTH, 8, orders->data));
    check(zn_exec_run(t.exec));
    for (int i = 0; i < LENGTH * WIDTH; i++)
        assert_true((y->data[i] == 0) == (i >= PRESENT * WIDTH));
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

void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    expect_same_gradients(3, KEPT);
}

void computing_again_does_not_change_a_bit(void **state)
{
    (void)state;
    expect_same_gradients(1, AGAIN);
}

/* Without values the denoiser works as with zeros. */
void no_values_are_zeros(void **state)
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

void every_allocation_may_fail(void **state)
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

void encoder_and_denoiser_learn_together(void **state)
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

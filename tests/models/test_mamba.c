/* Mamba mixers and sparse-field networks: numbers of parameters, start values, orders of points; then the tests of runs
 * (mamba_runs.c). Results themselves are held against golden files. */
#include "mamba_net.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

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
    const zn_fresh fresh = { .shape = ZN_SHAPE(3), .fan_in = 24, .rng = &rng, .out = head };
    assert_true(zn_start_fill(parameter(&t, "dec.head.bias"), zn_field_start, &fresh));
    assert_true(head[0] == 0 && head[1] == 0 && head[2] == 0);
    zn_graph_free(t.graph);
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

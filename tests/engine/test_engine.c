/* The engine's promises: runs allocate nothing, fusion and tiles do not change the result, a bad shape is one sentence,
 * NaN names its stage, memory failure at any point is clean. */
#include "base/alloc.h"
#include "engine_bands.h"
#include "engine_cancel.h"
#include "part_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static float largest_difference(const float *a, const float *b, int64_t count)
{
    float worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
    return worst;
}

static void runs_allocate_nothing(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_pool *pool = pool_of(2);
    zn_runner *r;
    assert_int_equal(zn_runner_new(m, ZN_DECODER, ZN_SHAPE(1, 8, 8, 4), &(zn_runner_options){ .pool = pool }, &r),
                     ZN_OK);
    assert_int_equal(zn_runner_run(r), ZN_OK);
    const int64_t before = zn_alloc_calls();
    for (int i = 0; i < 3; i++)
        assert_int_equal(zn_runner_run(r), ZN_OK);
    assert_int_equal(zn_alloc_calls(), before);
    zn_runner_free(r);
    zn_pool_free(pool);
    zn_model_free(m);
}

static void tiles_equal_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        zn_part part;
        int width, height, tile;
    } cases[] = {
        { "taesd", ZN_DECODER, 200, 136, 64 },   { "taesd", ZN_ENCODER, 200, 136, 64 },
        { "taesd3", ZN_DECODER, 104, 264, 48 },  { "taef2", ZN_DECODER, 200, 136, 64 },
        { "taef2", ZN_ENCODER, 264, 200, 72 },   { "taesana", ZN_ENCODER, 320, 192, 96 },
        { "taesana", ZN_DECODER, 288, 224, 64 }, { "taesd", ZN_DECODER, 232, 64, 8 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        zn_model *m = model_of(cases[k].model);
        int64_t n, nt;
        float *whole = result_of(m, cases[k].part, cases[k].width, cases[k].height, 2, ZN_TILE_OFF, 0, &n);
        float *tiled = result_of(m, cases[k].part, cases[k].width, cases[k].height, 2, cases[k].tile, 0, &nt);
        assert_int_equal(n, nt);
        if (memcmp(whole, tiled, sizeof(float) * (size_t)n))
            fail_msg("%s part %d tile %d: differs by %g", cases[k].model, cases[k].part, cases[k].tile,
                     (double)largest_difference(whole, tiled, n));
        zn_free(whole);
        zn_free(tiled);
        zn_model_free(m);
    }
}

static void fusion_does_not_change_the_result(void **state)
{
    (void)state;
    zn_model *m = model_of("taef2");
    zn_pool *pool = pool_of(2);
    float *results[2];
    int64_t count = 0;
    for (int fused = 0; fused < 2; fused++) {
        zn_graph *g;
        zn_node *in, *out;
        zn_exec *e;
        assert_int_equal(zn_model_graph(m, ZN_DECODER, ZN_SHAPE(1, 9, 7, 32), &g, &in, &out), ZN_OK);
        if (fused)
            zn_graph_fuse(g, &out, 1);
        assert_int_equal(zn_exec_new(g, &out, 1, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
        fill(in->data, zn_shape_count(in->shape), 5);
        assert_int_equal(zn_exec_run(e), ZN_OK);
        count = zn_shape_count(out->shape);
        results[fused] = zn_alloc(sizeof(float) * (size_t)count);
        memcpy(results[fused], out->data, sizeof(float) * (size_t)count);
        zn_exec_free(e);
        zn_graph_free(g);
    }
    float scale = 0;
    for (int64_t i = 0; i < count; i++)
        scale = fmaxf(scale, fabsf(results[0][i]));
    assert_true(largest_difference(results[0], results[1], count) < 2e-5f * scale);
    zn_free(results[0]);
    zn_free(results[1]);
    zn_pool_free(pool);
    zn_model_free(m);
}

static void a_bad_shape_is_one_sentence(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(1, 4, 4, 3)), *y = zn_graph_input(g, "y", ZN_SHAPE(1, 4, 5, 3));
    zn_graph_name_layer(g, "block.7");
    zn_node *bad = zn_relu(zn_add(x, y));
    zn_relu(bad);
    assert_int_equal(zn_graph_status(g), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "block.7"));
    assert_non_null(strstr(zn_error_text(), "1x4x4x3"));
    zn_graph_free(g);
}

/* An input that is made late in a graph keeps its value while earlier nodes use memory and give it back. */
static void inputs_keep_their_values(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(1, 4, 4, 1));
    zn_node *y = zn_mean(zn_scale(zn_relu(zn_scale(x, 3)), 2)); /* big results die before the small input is read */
    zn_node *late = zn_graph_input(g, "late", ZN_SHAPE(1));
    zn_node *sum = zn_add(y, late);
    zn_exec *e;
    zn_pool *pool;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    assert_int_equal(zn_exec_new(g, &sum, 1, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    for (int i = 0; i < 16; i++)
        x->data[i] = 1;
    late->data[0] = 100;
    assert_int_equal(zn_exec_run(e), ZN_OK);
    assert_true(sum->data[0] == 106);
    zn_exec_free(e);
    zn_pool_free(pool);
    zn_graph_free(g);
}

static void nan_names_its_stage(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->parameters[i].name, "decoder.8.conv.2.bias") == 0)
            m->parameters[i].data[3] = 3e38f; /* overflows in the next convolution */
    zn_pool *pool = pool_of(1);
    zn_runner *r;
    assert_int_equal(zn_runner_new(m, ZN_DECODER, ZN_SHAPE(1, 8, 8, 4), &(zn_runner_options){ .pool = pool }, &r),
                     ZN_OK);
    fill(zn_runner_input(r), 8 * 8 * 4, 5);
    assert_int_equal(zn_runner_run(r), ZN_ENUMERIC);
    assert_non_null(strstr(zn_error_text(), "decoder.8.conv."));
    zn_runner_input(r)[7] = NAN;
    assert_int_equal(zn_runner_run(r), ZN_ENUMERIC);
    assert_non_null(strstr(zn_error_text(), "'latent'"));
    zn_runner_free(r);
    zn_pool_free(pool);
    zn_model_free(m);
}

/* Fails allocation 1, 2, 3, ... until everything succeeds. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    zn_status status = ZN_ENOMEM;
    int tried = 0;
    for (int64_t nth = 1; status != ZN_OK; nth++) {
        zn_model *m = NULL;
        zn_pool *pool = NULL;
        zn_runner *r = NULL;
        zn_alloc_fail_at(nth);
        status = zn_pool_new(1, &pool);
        if (status == ZN_OK)
            status = zn_model_random("taef2", 1, &m);
        const zn_runner_options o = { .pool = pool, .tile = 32 };
        if (status == ZN_OK)
            status = zn_runner_new(m, ZN_DECODER, ZN_SHAPE(1, 8, 8, 32), &o, &r);
        if (status == ZN_OK)
            status = zn_runner_run(r);
        zn_alloc_fail_at(0);
        if (status != ZN_OK && status != ZN_ENOMEM)
            fail_msg("allocation %lld: %s", (long long)nth, zn_error_text());
        zn_runner_free(r);
        zn_model_free(m);
        zn_pool_free(pool);
        nth += nth / 8; /* all of the first, then sparser */
        tried++;
    }
    assert_true(tried > 20);
}

static void counts_are_the_published_ones(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_cost cost;
    assert_int_equal(m->info.parameters, 1222532 + 1222531);
    assert_int_equal(zn_model_cost(m, ZN_DECODER, 512, 512, &cost), ZN_OK);
    assert_true(fabs(cost.gflop - 141.350) < 0.001);
    assert_int_equal(zn_model_cost(m, ZN_ENCODER, 512, 512, &cost), ZN_OK);
    assert_true(fabs(cost.gflop - 122.325) < 0.001);
    zn_model_free(m);
    m = model_of("taef2");
    assert_int_equal(m->info.parameters, 1338528 + 1338499);
    zn_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_allocate_nothing),
        cmocka_unit_test(tiles_equal_the_whole),
        cmocka_unit_test(bands_equal_the_whole),
        cmocka_unit_test(bands_cost_little),
        cmocka_unit_test(squares_fit_small_budgets),
        cmocka_unit_test(packed_weights_count),
        cmocka_unit_test(nan_in_a_band_names_its_stage),
        cmocka_unit_test(fusion_does_not_change_the_result),
        cmocka_unit_test(a_bad_shape_is_one_sentence),
        cmocka_unit_test(inputs_keep_their_values),
        cmocka_unit_test(nan_names_its_stage),
        cmocka_unit_test(progress_can_cancel),
        cmocka_unit_test(a_cancelled_run_leaves_no_trace),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(counts_are_the_published_ones),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}

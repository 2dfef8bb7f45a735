/* Losses have their known values and right gradients; their weights go from end to end. */
#include "../similarity.h"
#include "base/alloc.h"
#include "graph/exec.h"
#include "train/objective/objective.h"
#include "train/score/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/image.h>

enum { SIDE = 16, FLOATS = SIDE * SIDE * 3 };

typedef zn_node *(*loss_fn)(zn_node *a, zn_node *b);

/* A loss of two pictures, with its gradient by the first. */
typedef struct probe {
    zn_graph *graph;
    zn_pool *pool;
    zn_exec *exec;
    zn_node *a, *b, *loss, *gradient;
} probe;

static probe open_probe_of(loss_fn loss, int side)
{
    probe p = { .graph = zn_graph_new() };
    assert_int_equal(zn_pool_new(2, &p.pool), ZN_OK);
    p.a = zn_graph_input(p.graph, "a", ZN_SHAPE(1, side, side, 3));
    p.b = zn_graph_input(p.graph, "b", ZN_SHAPE(1, side, side, 3));
    p.loss = loss(p.a, p.b);
    assert_int_equal(zn_graph_differentiate(p.graph, p.loss, NULL, &p.a, 1, &p.gradient), ZN_OK);
    zn_node *outputs[] = { p.loss, p.gradient };
    assert_int_equal(zn_exec_new(p.graph, outputs, 2, &(zn_exec_options){ .pool = p.pool }, &p.exec), ZN_OK);
    zn_rng rng = zn_rng_new(5);
    for (int i = 0; i < side * side * 3; i++) {
        p.a->data[i] = zn_rng_uniform(&rng);
        p.b->data[i] = 0.7f * p.a->data[i] + 0.3f * zn_rng_uniform(&rng);
    }
    return p;
}

static probe open_probe(loss_fn loss) { return open_probe_of(loss, SIDE); }

static void close_probe(probe *p)
{
    zn_exec_free(p->exec);
    zn_graph_free(p->graph);
    zn_pool_free(p->pool);
}

static double value_of(probe *p)
{
    assert_int_equal(zn_exec_run(p->exec), ZN_OK);
    return (double)p->loss->data[0];
}

/* Along a random direction, where the steps are small enough for the kinks of absolute values not to matter. */
static void gradients_are_right(void **state)
{
    (void)state;
    static const loss_fn losses[] = { zn_laplacian_loss,      zn_haar_loss,   zn_ssim_loss,    zn_mean_square_error,
                                      zn_mean_absolute_error, zn_chroma_loss, zn_texture_loss, zn_contrast_loss };
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        probe p = open_probe(losses[k]);
        float *start = zn_alloc(sizeof(float) * FLOATS), *way = zn_alloc(sizeof(float) * FLOATS);
        zn_rng rng = zn_rng_new(k);
        value_of(&p);
        double slope = 0;
        memcpy(start, p.a->data, sizeof(float) * FLOATS);
        for (int i = 0; i < FLOATS; i++) {
            way[i] = zn_rng_normal(&rng) + (p.gradient->data[i] > 0 ? 1.0f : -1.0f);
            slope += (double)way[i] * (double)p.gradient->data[i];
        }
        double side[2];
        for (int s = 0; s < 2; s++) {
            for (int i = 0; i < FLOATS; i++)
                p.a->data[i] = start[i] + (s ? 1e-3f : -1e-3f) * way[i];
            side[s] = value_of(&p);
        }
        const double measured = (side[1] - side[0]) / 2e-3;
        if (fabs(measured - slope) > 0.02 * fabs(slope))
            fail_msg("loss %zu: slope %g, measured %g", k, slope, measured);
        zn_free(start);
        zn_free(way);
        close_probe(&p);
    }
}

/* The networks of LPIPS, with the weights that come with the program or random ones. Between two sides of a ReLU the
 * distance is smooth: along the gradient it changes as the gradient says, and back at equal images it is 0. */
static zn_model *judge;
static zn_node *lpips(zn_node *a, zn_node *b) { return zn_lpips_loss(judge, a, b); }

static void perceptual_gradients_are_right(void **state)
{
    (void)state;
    enum { LARGE = 40, COUNT = LARGE * LARGE * 3 };
    static const char *const names[] = { "lpips-squeeze", "lpips-alex" };
    for (int k = 0; k < 2; k++) {
        if (k == 0)
            assert_int_equal(zn_model_open(ZN_WEIGHTS "/lpips-squeeze.safetensors", &judge), ZN_OK);
        else
            assert_int_equal(zn_model_random(names[k], 3, &judge), ZN_OK);
        for (int i = 0; i < judge->count && k == 1; i++) /* random heads and biases are 0 */
            for (int64_t j = 0; j < zn_shape_count(judge->parameters[i].shape) && judge->parameters[i].shape.rank == 1;
                 j++)
                judge->parameters[i].data[j] = 0.1f;
        probe p = open_probe_of(lpips, LARGE);
        const double here = value_of(&p);
        double square = 0, side[2];
        float *start = zn_alloc(sizeof(float) * COUNT), *way = zn_alloc(sizeof(float) * COUNT);
        memcpy(start, p.a->data, sizeof(float) * COUNT);
        memcpy(way, p.gradient->data, sizeof(float) * COUNT);
        for (int i = 0; i < COUNT; i++)
            square += (double)way[i] * (double)way[i];
        const double step = 2e-3 / sqrt(square);
        for (int s = 0; s < 2; s++) {
            for (int i = 0; i < COUNT; i++)
                p.a->data[i] = start[i] + (float)(s ? step : -step) * way[i];
            side[s] = value_of(&p);
        }
        const double measured = (side[1] - side[0]) / (2 * step);
        if (!(here > 0) || fabs(measured - square) > 0.02 * square)
            fail_msg("%s: distance %g, slope %g, measured %g", names[k], here, square, measured);
        memcpy(p.b->data, p.a->data, sizeof(float) * COUNT);
        assert_true(fabs(value_of(&p)) < 1e-7);
        zn_free(start);
        zn_free(way);
        close_probe(&p);
        zn_model_free(judge);
    }
}

/* The term of two networks. */
static zn_model *judges[2];
static zn_node *lpips_of_two(zn_node *a, zn_node *b)
{
    zn_objective o = { .graph = a->graph, .lpips = { judges[0], judges[1] } };
    const zn_recipe r = { .lpips = 1 };
    zn_add_picture_terms(&o, &r, a, b);
    assert_int_equal(o.count, 1);
    return o.terms[0].value;
}

static void two_networks_count_half_each(void **state)
{
    (void)state;
    enum { LARGE = 40 };
    static const char text[] = "loss: {lpips: 1, lpips_model: lpips-squeeze+lpips-squeeze}\n";
    zn_recipe r;
    zn_objective o = { 0 };
    double alone[2];
    setenv("ZENITH_MODELS", ZN_WEIGHTS, 1);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &r), ZN_OK);
    assert_int_equal(zn_open_picture_terms(&o, &r), ZN_EINVALID);
    assert_string_equal(zn_error_text(), "loss.lpips_model names lpips-squeeze twice");
    judges[0] = o.lpips[0];
    assert_int_equal(zn_model_random("lpips-alex", 3, &judges[1]), ZN_OK);
    for (int i = 0; i < judges[1]->count; i++) /* random heads are 0 */
        if (judges[1]->parameters[i].shape.rank == 1)
            for (int64_t k = 0; k < zn_shape_count(judges[1]->parameters[i].shape); k++)
                judges[1]->parameters[i].data[k] = 0.1f;
    for (int k = 0; k < 2; k++) {
        judge = judges[k];
        probe p = open_probe_of(lpips, LARGE);
        alone[k] = value_of(&p);
        close_probe(&p);
    }
    probe p = open_probe_of(lpips_of_two, LARGE);
    const double both = value_of(&p), mean = (alone[0] + alone[1]) / 2;
    if (!(alone[0] > 0 && alone[1] > 0) || fabs(both - mean) > 1e-5 * mean)
        fail_msg("%g is not the mean of %g and %g", both, alone[0], alone[1]);
    close_probe(&p);
    zn_model_free(judges[1]);
    zn_objective_free(&o);
}

static void similarity_is_the_metric(void **state)
{
    (void)state;
    probe p = open_probe(zn_ssim_loss);
    double metric;
    assert_int_equal(similarity(p.a->data, p.b->data, p.a->shape, 0, 1, &metric), ZN_OK);
    assert_true(fabs(value_of(&p) - (1 - metric)) < 1e-5);
    memcpy(p.b->data, p.a->data, sizeof(float) * FLOATS);
    assert_true(fabs(value_of(&p)) < 1e-6);
    close_probe(&p);
}

/* Of rows of 8 bits. */
static void similarity_of_images_is_the_metric(void **state)
{
    (void)state;
    enum { WIDTH = 37, HEIGHT = 23, SAMPLES = WIDTH * HEIGHT * 3 };
    float a[SAMPLES], b[SAMPLES];
    zn_image *first, *second;
    assert_int_equal(zn_image_new(WIDTH, HEIGHT, 8, &first), ZN_OK);
    assert_int_equal(zn_image_new(WIDTH, HEIGHT, 8, &second), ZN_OK);
    zn_rng rng = zn_rng_new(6);
    for (int i = 0; i < SAMPLES; i++) {
        a[i] = (float)(zn_rng_next(&rng) % 256);
        b[i] = floorf(0.7f * a[i] + 0.3f * 255 * zn_rng_uniform(&rng));
        ((uint8_t *)first->pixels)[i] = (uint8_t)a[i];
        ((uint8_t *)second->pixels)[i] = (uint8_t)b[i];
    }
    double metric;
    zn_image_difference d;
    assert_int_equal(similarity(a, b, ZN_SHAPE(1, HEIGHT, WIDTH, 3), 0, 255, &metric), ZN_OK);
    assert_int_equal(zn_image_compare(first, second, &d), ZN_OK);
    assert_true(metric > 0.1 && metric < 0.99 && fabs(d.ssim - metric) < 1e-5);
    zn_image_free(first);
    zn_image_free(second);
}

/* Columns that alternate by 2d differ from a flat picture in the finest band alone: by d in the Laplacian one; the Haar
 * transform finds half of 2 x 2d across. */
static void bands_see_columns(void **state)
{
    (void)state;
    const float d = 0.1f;
    static const struct {
        loss_fn loss;
        double expected;
    } cases[] = { { zn_laplacian_loss, 4 * 0.1 }, { zn_haar_loss, 4 * 0.2 } };
    for (int k = 0; k < 2; k++) {
        probe p = open_probe(cases[k].loss);
        for (int i = 0; i < FLOATS; i++) {
            p.b->data[i] = 0.5f;
            p.a->data[i] = 0.5f + (i / 3 % 2 ? d : -d);
        }
        assert_true(fabs(value_of(&p) - cases[k].expected) < 1e-6);
        close_probe(&p);
    }
}

static zn_node *kl(zn_node *a, zn_node *b) { return zn_kl_gaussian(a, b); }

static void divergence_is_known(void **state)
{
    (void)state;
    probe p = open_probe(kl);
    for (int i = 0; i < FLOATS; i++) {
        p.a->data[i] = i % 2 ? 1.0f : -3.0f;
        p.b->data[i] = 0.5f;
    }
    assert_true(fabs(value_of(&p) - 0.5 * (5 + exp(0.5) - 0.5 - 1)) < 1e-5);
    close_probe(&p);
}

static void ramps_go_from_end_to_end(void **state)
{
    (void)state;
    const zn_ramp r = { 1, 3, 10, 20 }, jump = { 1, 0, 5, 5 }, flat = { .to = 7 };
    assert_true(zn_ramp_at(&r, 0) == 1 && zn_ramp_at(&r, 15) == 2 && zn_ramp_at(&r, 20) == 3 &&
                zn_ramp_at(&r, 99) == 3);
    assert_true(zn_ramp_at(&jump, 4) == 1 && zn_ramp_at(&jump, 5) == 0 && zn_ramp_at(&flat, 0) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(perceptual_gradients_are_right),
        cmocka_unit_test(two_networks_count_half_each),
        cmocka_unit_test(similarity_is_the_metric),
        cmocka_unit_test(similarity_of_images_is_the_metric),
        cmocka_unit_test(bands_see_columns),
        cmocka_unit_test(divergence_is_known),
        cmocka_unit_test(ramps_go_from_end_to_end),
    };
    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}

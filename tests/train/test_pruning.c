/* Block gates in training: the penalty has the right gradient and prunes, parts of a batch add up with noise in soft
 * gates too, and a run goes on from a checkpoint with the same bits. */
#include "base/alloc.h"
#include "graph/exec.h"
#include "train/run/trainer.h"
#include "train/score/metrics.h"
#include "train/score/yardstick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 64, BATCH = 4, FLOATS = SIDE * SIDE * 3 };

static zn_recipe recipe_of(const char *more)
{
    zn_recipe r;
    char text[300];
    snprintf(text, sizeof text, "model: zenith-hier\nsize: %d\nbatch: %d\nsteps: 40\nwarmup: 0\nema: 0\n%s", SIDE,
             BATCH, more);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &r), ZN_OK);
    return r;
}

static zn_model *small_model(void)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("zenith-hier", &known);
    zn_config config = *known;
    config.width = 4;
    config.latent = 256 * config.width;
    zn_model *m;
    assert_int_equal(zn_model_new(arch, &config, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    return m;
}

static float *some_pictures(void)
{
    float *p = zn_alloc(sizeof(float) * FLOATS * BATCH);
    zn_rng rng = zn_rng_new(3);
    for (int i = 0; i < FLOATS * BATCH; i++)
        p[i] = 0.5f + 0.4f * sinf(0.011f * (float)(i % 2971)) * zn_rng_uniform(&rng);
    return p;
}

static zn_trainer *trainer_of(zn_model *m, const zn_recipe *r, zn_pool *pool)
{
    zn_trainer *t;
    const zn_trainer_options o = { .model = m, .recipe = r, .pool = pool, .batch = BATCH / r->accumulate };
    assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
    return t;
}

/* ---- the penalty ---- */

static double value_at(zn_trainer *t, const float *pictures)
{
    memcpy(t->objective.input->data, pictures, sizeof(float) * FLOATS * BATCH);
    t->objective.terms[0].weight->data[0] = 1;
    assert_int_equal(zn_exec_run(t->exec), ZN_OK);
    return (double)t->objective.loss->data[0];
}

/* Along the gradient of one parameter; soft masks, since hard ones have steps in the place of slopes. */
static void check_slope(zn_trainer *t, const float *pictures, int i, double length)
{
    const zn_learner *l = &t->learner;
    float *w = l->parameters[i]->data, *start = zn_alloc(sizeof(float) * (size_t)l->counts[i]),
          *way = zn_alloc(sizeof(float) * (size_t)l->counts[i]);
    value_at(t, pictures);
    double square = 0, side[2];
    memcpy(start, w, sizeof(float) * (size_t)l->counts[i]);
    memcpy(way, l->gradients[i]->data, sizeof(float) * (size_t)l->counts[i]);
    for (int64_t k = 0; k < l->counts[i]; k++)
        square += (double)way[k] * (double)way[k];
    assert_true(square > 0);
    const double step = length / sqrt(square);
    for (int s = 0; s < 2; s++) {
        for (int64_t k = 0; k < l->counts[i]; k++)
            w[k] = start[k] + (float)(s ? step : -step) * way[k];
        side[s] = value_at(t, pictures);
    }
    memcpy(w, start, sizeof(float) * (size_t)l->counts[i]);
    const double measured = (side[1] - side[0]) / (2 * step);
    if (fabs(measured - square) > 0.02 * square)
        fail_msg("%s: slope %g, measured %g", l->parameters[i]->name, square, measured);
    zn_free(start);
    zn_free(way);
}

static void the_penalty_has_its_gradient(void **state)
{
    (void)state;
    const zn_recipe r = recipe_of("loss: {l1: 0, bands: 0}\ngates: {form: soft, penalty: 1, temperature: 0}\n");
    zn_model *m = small_model();
    zn_pool *pool;
    float *pictures = some_pictures();
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    for (int i = 0; i < m->count; i++) /* scores where masks have a slope */
        for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape); k++)
            if (strcmp(m->parameters[i].name, "gate1.w") == 0 || strcmp(m->parameters[i].name, "gate2.w") == 0)
                m->parameters[i].data[k] = 0.1f;
    zn_trainer *t = trainer_of(m, &r, pool);
    assert_int_equal(t->objective.count, 1);
    assert_string_equal(t->objective.terms[0].name, "gates");
    int checked = 0;
    for (int i = 0; i < t->learner.count; i++) {
        const char *name = t->learner.parameters[i]->name;
        const bool gate = strncmp(name, "gate", 4) == 0;
        if (gate || strcmp(name, "block1.beta") == 0 || strcmp(name, "block1.gamma") == 0) {
            check_slope(t, pictures, i, gate ? 1e-2 : 1e-1);
            checked++;
        }
    }
    assert_int_equal(checked, 6);
    zn_trainer_free(t);
    zn_model_free(m);
    zn_pool_free(pool);
    zn_free(pictures);
}

/* ---- runs ---- */

/* Share of the blocks that are shut in use after 40 steps, and in *changed how far the gates went. */
static double pruned_after(const char *gates, double *changed)
{
    char text[160];
    snprintf(text, sizeof text, "lr: 1e-2\nloss: {mse: 1, l1: 0, bands: 0}\ngates: {%s, lr: 10}\n", gates);
    const zn_recipe r = recipe_of(text);
    zn_model *m = small_model();
    zn_pool *pool;
    zn_yardstick *y;
    float *pictures = some_pictures();
    double loss;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    zn_trainer *t = trainer_of(m, &r, pool);
    const zn_yardstick_options o = { .model = m, .size = SIDE, .batch = BATCH, .pool = pool };
    assert_int_equal(zn_yardstick_new(&o, &y), ZN_OK);
    for (int step = 0; step < 40; step++)
        assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
    zn_measures measures;
    const zn_held_out held = { .pictures = pictures, .count = BATCH, .tasks = 1 };
    assert_int_equal(zn_yardstick_measure(y, &held, &measures), ZN_OK);
    const zn_model_parameter *v = zn_model_parameter_find(m, "gate2.v");
    *changed = 0;
    for (int64_t k = 0; k < zn_shape_count(v->shape); k++)
        *changed += fabs((double)v->data[k]);
    zn_yardstick_free(y);
    zn_trainer_free(t);
    zn_model_free(m);
    zn_pool_free(pool);
    zn_free(pictures);
    return measures.pruned;
}

static void a_penalty_prunes(void **state)
{
    (void)state;
    static const char *const forms[] = { "form: straight", "form: soft, temperature: 0.1" };
    char text[100];
    double changed, shares[2];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "%s, penalty: %g", forms[i], k ? 0.3 : 0.0);
            shares[k] = pruned_after(text, &changed);
            assert_true(changed > 0);
        }
        if (!(shares[1] > shares[0] + 0.2))
            fail_msg("%s: %g pruned without a penalty, %g with it", forms[i], shares[0], shares[1]);
    }
    assert_true(pruned_after("form: hard, penalty: 0.3", &changed) == 0 && changed == 0);
}

/* All weights after `steps` steps from the model's start, or from a checkpoint. */
static float *weights_after(const zn_recipe *r, int steps, const char *from, const char *to, int64_t *count)
{
    zn_model *m = small_model();
    zn_pool *pool;
    float *pictures = some_pictures();
    double loss;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    zn_trainer *t = trainer_of(m, r, pool);
    if (from)
        assert_int_equal(zn_checkpoint_read(from, t), ZN_OK);
    for (int step = 0; step < steps; step++)
        assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
    if (to)
        assert_int_equal(zn_checkpoint_write(to, t), ZN_OK);
    float *weights = zn_alloc(sizeof(float) * (size_t)m->info.parameters), *at = weights;
    *count = m->info.parameters;
    for (int i = 0; i < m->count; at += zn_shape_count(m->parameters[i++].shape))
        memcpy(at, m->parameters[i].data, sizeof(float) * (size_t)zn_shape_count(m->parameters[i].shape));
    zn_trainer_free(t);
    zn_model_free(m);
    zn_pool_free(pool);
    zn_free(pictures);
    return weights;
}

static void parts_of_a_batch_add_up(void **state)
{
    (void)state;
    int64_t count;
    zn_recipe r = recipe_of("optimizer: sgd\nlr: 0.01\nclip: 0\ngates: {form: soft, penalty: 1}\n");
    float *whole = weights_after(&r, 2, NULL, NULL, &count);
    r.accumulate = 4;
    float *parts = weights_after(&r, 2, NULL, NULL, &count);
    assert_true(zn_mean_square(whole, parts, count) < 1e-12);
    zn_free(whole);
    zn_free(parts);
}

static void a_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const forms[] = { "gates: {form: soft}\n", "gates: {penalty: 0.1}\n" };
    char path[] = "/tmp/zenith-pruning-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (int i = 0; i < 2; i++) {
        int64_t count;
        const zn_recipe r = recipe_of(forms[i]);
        float *whole = weights_after(&r, 5, NULL, NULL, &count);
        zn_free(weights_after(&r, 2, NULL, path, &count));
        float *parts = weights_after(&r, 3, path, NULL, &count);
        assert_memory_equal(whole, parts, sizeof(float) * (size_t)count);
        zn_free(whole);
        zn_free(parts);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_penalty_has_its_gradient),
                                        cmocka_unit_test(a_penalty_prunes), cmocka_unit_test(parts_of_a_batch_add_up),
                                        cmocka_unit_test(a_run_goes_on_with_the_same_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

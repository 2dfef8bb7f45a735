/* Training of a diffusion autoencoder: it learns, and what it learns depends on nothing but recipe, seed and pictures.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "models/diffae/diffae.h"
#include "train/run/trainer.h"
#include "train/score/yardstick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 16, BATCH = 4, STEPS = 60, FLOATS = BATCH * SIZE * SIZE * 3 };

/* Flat pictures: easy to tell from noise. */
static void draw(float *pictures)
{
    zn_rng rng = zn_rng_new(3);
    for (int n = 0; n < BATCH; n++) {
        const float level = zn_rng_uniform(&rng);
        for (int i = 0; i < SIZE * SIZE * 3; i++)
            *pictures++ = level;
    }
}

static zn_model *small(float dropout)
{
    const zn_config *preset;
    zn_model *m;
    const zn_arch *arch = zn_arch_find("celeba64", &preset);
    zn_config k = *preset;
    zn_diffae_form *form = zn_form_own(&k, sizeof *form);
    form->unet.levels = form->encoder.levels = 2;
    form->unet.attention[1] = form->encoder.attention[1] = true;
    zn_diffae_resize(form, 8, 16);
    k.latent = 16;
    k.dropout = dropout;
    k.downscale = 2;
    assert_int_equal(zn_model_new(arch, &k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    return m;
}

typedef struct lesson {
    zn_recipe recipe;
    zn_pool *pool;
    zn_model *model;
    zn_trainer *trainer;
} lesson;

static void begin_with(lesson *l, int threads, int accumulate, float dropout)
{
    char text[256];
    snprintf(text, sizeof text,
             "model: celeba64\ntask: diffuse\nsize: %d\nbatch: %d\naccumulate: %d\nsteps: %d\nwarmup: 0\nlr: 2e-3\n"
             "schedule: constant\noptimizer: adam\nweight_decay: 0\n",
             SIZE, BATCH, accumulate, STEPS);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &l->recipe), ZN_OK);
    assert_int_equal(zn_pool_new(threads, &l->pool), ZN_OK);
    l->model = small(dropout);
    const zn_trainer_options o = {
        .model = l->model, .recipe = &l->recipe, .pool = l->pool, .goal = ZN_GOAL_DIFFUSION, .batch = BATCH / accumulate
    };
    assert_int_equal(zn_trainer_new(&o, &l->trainer), ZN_OK);
}

static void begin(lesson *l, int threads, int accumulate) { begin_with(l, threads, accumulate, 0); }

static void end(lesson *l)
{
    zn_trainer_free(l->trainer);
    zn_model_free(l->model);
    zn_pool_free(l->pool);
}

static double psnr(lesson *l, float *pictures)
{
    zn_yardstick *y;
    zn_measures measures;
    const zn_yardstick_options o = {
        .model = l->model, .goal = ZN_GOAL_DIFFUSION, .size = SIZE, .batch = BATCH, .pool = l->pool
    };
    assert_int_equal(zn_yardstick_new(&o, &y), ZN_OK);
    const zn_held_out held = { .pictures = pictures, .count = BATCH, .tasks = 1 };
    assert_int_equal(zn_yardstick_measure(y, &held, &measures), ZN_OK);
    zn_yardstick_free(y);
    return measures.psnr;
}

static void it_learns(void **state)
{
    (void)state;
    static float pictures[FLOATS];
    lesson l;
    double loss = 0, first = 0, last = 0;
    draw(pictures);
    begin(&l, 2, 1);
    const double before = psnr(&l, pictures);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(zn_trainer_step(l.trainer, pictures, pictures, &loss), ZN_OK);
        first += i < 10 ? loss / 10 : 0;
        last += i >= STEPS - 10 ? loss / 10 : 0;
    }
    const double after = psnr(&l, pictures);
    printf("loss %.3f to %.3f, one step %.1f to %.1f dB\n", first, last, before, after);
    assert_true(first > 0.6 && last < 0.4 * first); /* a fresh one predicts nothing: loss 1 */
    assert_true(after > before + 3);
    end(&l);
}

/* Six steps of one run, or three and three through a checkpoint; with other threads. */
static void repeat_steps(float dropout)
{
    static float pictures[FLOATS];
    static const char path[] = "test-diffusion-checkpoint.safetensors";
    lesson a, b;
    double loss;
    draw(pictures);
    begin_with(&a, 1, 2, dropout);
    for (int i = 0; i < 6; i++)
        assert_int_equal(zn_trainer_step(a.trainer, pictures, pictures, &loss), ZN_OK);
    begin_with(&b, 3, 2, dropout);
    for (int i = 0; i < 3; i++)
        assert_int_equal(zn_trainer_step(b.trainer, pictures, pictures, &loss), ZN_OK);
    assert_int_equal(zn_checkpoint_write(path, b.trainer), ZN_OK);
    end(&b);
    begin_with(&b, 2, 2, dropout);
    assert_int_equal(zn_checkpoint_read(path, b.trainer), ZN_OK);
    remove(path);
    for (int i = 0; i < 3; i++)
        assert_int_equal(zn_trainer_step(b.trainer, pictures, pictures, &loss), ZN_OK);
    for (int i = 0; i < a.model->count; i++)
        assert_memory_equal(a.model->parameters[i].data, b.model->parameters[i].data,
                            sizeof(float) * (size_t)zn_shape_count(a.model->parameters[i].shape));
    end(&a);
    end(&b);
}

static void steps_depend_on_nothing_else(void **state)
{
    (void)state;
    repeat_steps(0);
    repeat_steps(0.3f);
}

/* Conditions, each at a step of its own: sqrt(kept) z + sqrt(1 - kept) noise. */
static void conditions_are_noised(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDTH = 16 };
    zn_model *m = small(0);
    zn_graph *g = zn_graph_new();
    zn_diffusion *d;
    zn_pool *pool;
    zn_exec *e;
    assert_int_equal(zn_model_random_part(m, ZN_LATENT_NET, 1), ZN_OK);
    assert_int_equal(zn_diffusion_new("const0.008", ZN_SPACING_ALL, 0, &d), ZN_OK);
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    zn_node *z = zn_graph_input(g, "z", ZN_SHAPE(1, 1, ROWS, WIDTH));
    const zn_noising n = zn_noising_of_conditions(m, z);
    zn_model_bind(m, g, "");
    zn_node *outputs[] = { n.noisy, n.predicted };
    assert_int_equal(zn_exec_new(g, outputs, 2, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    static const int steps[ROWS] = { 0, 400, 999 };
    for (int i = 0; i < ROWS * WIDTH; i++) {
        z->data[i] = 0.1f * (float)(i % 7);
        n.noise->data[i] = 0.2f * (float)(i % 5) - 0.3f;
    }
    for (int i = 0; i < ROWS; i++)
        zn_noising_set(&n, d, i, steps[i]);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        const double kept = pow(0.992, steps[i / WIDTH] + 1);
        const double wanted = sqrt(kept) * (double)z->data[i] + sqrt(1 - kept) * (double)n.noise->data[i];
        assert_true(fabs((double)n.noisy->data[i] - wanted) < 1e-6);
    }
    zn_exec_free(e);
    zn_graph_free(g);
    zn_diffusion_free(d);
    zn_pool_free(pool);
    zn_model_free(m);
}

/* It changes what is learned, but not what is measured. */
static void dropout_is_for_learning_alone(void **state)
{
    (void)state;
    static float pictures[FLOATS];
    lesson plain, dropped;
    double loss, other;
    draw(pictures);
    begin(&plain, 1, 1);
    begin_with(&dropped, 1, 1, 0.3f);
    for (int i = 0; i < 4; i++) { /* what ends the network is zero in the first step, what ends branches in two */
        assert_int_equal(zn_trainer_step(plain.trainer, pictures, pictures, &loss), ZN_OK);
        assert_int_equal(zn_trainer_step(dropped.trainer, pictures, pictures, &other), ZN_OK);
        assert_true(i < 2 ? loss == other : loss != other);
    }
    for (int i = 0; i < plain.model->count; i++)
        memcpy(dropped.model->parameters[i].data, plain.model->parameters[i].data,
               sizeof(float) * (size_t)zn_shape_count(plain.model->parameters[i].shape));
    assert_true(psnr(&plain, pictures) == psnr(&dropped, pictures));
    end(&plain);
    end(&dropped);
}

/* The share of a map that becomes 0, sample by sample and layer by layer on its own; the rest grows. */
static void dropout_drops_its_share(void **state)
{
    (void)state;
    enum { SAMPLES = 3, EACH = 20000 };
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(SAMPLES, 1, EACH / 4, 4));
    zn_node *seeds = zn_graph_input(g, "seeds", ZN_SHAPE(1, 1, SAMPLES, 1));
    zn_node *y[] = { zn_dropout(x, seeds, 0.1f, 5), zn_dropout(x, seeds, 0.1f, 6) };
    zn_pool *pool;
    zn_exec *e;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    assert_int_equal(zn_exec_new(g, y, 2, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    for (int i = 0; i < SAMPLES * EACH; i++)
        x->data[i] = 0.9f;
    memcpy(seeds->data, (float[SAMPLES]){ 7, 8, 7 }, sizeof(float) * SAMPLES);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    for (int s = 0; s < SAMPLES; s++) {
        const float *a = y[0]->data + s * EACH, *b = y[1]->data + s * EACH;
        int zeros = 0, both = 0;
        for (int i = 0; i < EACH; i++) {
            assert_true(a[i] == 0 || fabsf(a[i] - 1) < 1e-6f);
            zeros += a[i] == 0;
            both += a[i] == 0 && b[i] == 0;
        }
        assert_true(abs(zeros - EACH / 10) < 200 && abs(both - EACH / 100) < 70); /* five deviations */
    }
    assert_memory_equal(y[0]->data, y[0]->data + 2 * EACH, sizeof(float) * EACH);
    assert_memory_not_equal(y[0]->data, y[0]->data + EACH, sizeof(float) * EACH);
    zn_exec_free(e);
    zn_graph_free(g);
    zn_pool_free(pool);
}

/* Each allocation of making a trainer fails in turn: an error, no leak, no crash. */
static void memory_may_run_out(void **state)
{
    (void)state;
    lesson l;
    begin(&l, 1, 1);
    zn_status status = ZN_ENOMEM;
    int tried = 0;
    for (int64_t nth = 1; status != ZN_OK; nth += 1 + nth / 6, tried++) {
        zn_trainer *t = NULL;
        const zn_trainer_options o = {
            .model = l.model, .recipe = &l.recipe, .pool = l.pool, .goal = ZN_GOAL_DIFFUSION, .batch = 1
        };
        zn_alloc_fail_at(nth);
        status = zn_trainer_new(&o, &t);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
        zn_trainer_free(t);
    }
    assert_true(tried > 10);
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns),
        cmocka_unit_test(steps_depend_on_nothing_else),
        cmocka_unit_test(conditions_are_noised),
        cmocka_unit_test(dropout_is_for_learning_alone),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training of a diffusion autoencoder: it learns, and what it learns depends on nothing but recipe, seed and pictures.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "diffusion/sampler.h"
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

/* What a lesson has beyond the usual. */
typedef struct more {
    float dropout;
    bool velocity;
    double min_snr;
} more;

static zn_model *small(const more *with)
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
    k.dropout = with->dropout;
    form->velocity = with->velocity;
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

static void begin_with(lesson *l, int threads, int accumulate, const more *with)
{
    char text[256];
    snprintf(text, sizeof text,
             "model: celeba64\ntask: diffuse\nsize: %d\nbatch: %d\naccumulate: %d\nsteps: %d\nwarmup: 0\nlr: 2e-3\n"
             "schedule: constant\noptimizer: adam\nweight_decay: 0\n",
             SIZE, BATCH, accumulate, STEPS);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &l->recipe), ZN_OK);
    assert_int_equal(zn_pool_new(threads, &l->pool), ZN_OK);
    l->recipe.min_snr = with->min_snr;
    l->model = small(with);
    const zn_trainer_options o = {
        .model = l->model, .recipe = &l->recipe, .pool = l->pool, .goal = ZN_GOAL_DIFFUSION, .batch = BATCH / accumulate
    };
    assert_int_equal(zn_trainer_new(&o, &l->trainer), ZN_OK);
}

static void begin(lesson *l, int threads, int accumulate) { begin_with(l, threads, accumulate, &(more){ 0 }); }

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

/* Returns the PSNR of one step from noise. */
static double learn(const more *with)
{
    static float pictures[FLOATS];
    lesson l;
    double loss = 0, first = 0, last = 0;
    draw(pictures);
    begin_with(&l, 2, 1, with);
    const double before = psnr(&l, pictures);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(zn_trainer_step(l.trainer, pictures, pictures, &loss), ZN_OK);
        first += i < 10 ? loss / 10 : 0;
        last += i >= STEPS - 10 ? loss / 10 : 0;
    }
    const double after = psnr(&l, pictures);
    printf("loss %.3f to %.3f, one step %.1f to %.1f dB\n", first, last, before, after);
    if (!with->velocity) /* a fresh one predicts nothing: loss 1; of velocities, which include the image, less */
        assert_true(first > 0.6 && last < 0.4 * first);
    assert_true(last < 0.95 * first);
    assert_true(after > before + 3);
    end(&l);
    return after;
}

static void it_learns(void **state)
{
    (void)state;
    const double noise = learn(&(more){ 0 }), velocity = learn(&(more){ .velocity = true });
    learn(&(more){ .min_snr = 5 });
    learn(&(more){ .velocity = true, .min_snr = 5 });
    assert_true(velocity > noise + 0.5); /* what it is there for: more in as many steps */
}

/* Six steps of one run, or three and three through a checkpoint; with other threads. */
static void repeat_steps(const more *with)
{
    static float pictures[FLOATS];
    static const char path[] = "test-diffusion-checkpoint.safetensors";
    lesson a, b;
    double loss;
    draw(pictures);
    begin_with(&a, 1, 2, with);
    for (int i = 0; i < 6; i++)
        assert_int_equal(zn_trainer_step(a.trainer, pictures, pictures, &loss), ZN_OK);
    begin_with(&b, 3, 2, with);
    for (int i = 0; i < 3; i++)
        assert_int_equal(zn_trainer_step(b.trainer, pictures, pictures, &loss), ZN_OK);
    assert_int_equal(zn_checkpoint_write(path, b.trainer), ZN_OK);
    end(&b);
    begin_with(&b, 2, 2, with);
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
    repeat_steps(&(more){ 0 });
    repeat_steps(&(more){ .dropout = 0.3f });
    repeat_steps(&(more){ .velocity = true, .min_snr = 5 });
}

/* Conditions, each at a step of its own: sqrt(kept) z + sqrt(1 - kept) noise. */
static void conditions_are_noised(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDTH = 16 };
    zn_model *m = small(&(more){ 0 });
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

/* The weights of a step's square error (docs/training.md). */
static double weight_at(double kept, bool velocity, double min_snr)
{
    const double snr = kept / (1 - kept);
    const double most = velocity ? (min_snr + 1) / (snr + 1) : min_snr / snr;
    return most < 1 ? most : 1;
}

/* What is predicted, what it is compared with and how much each step counts, against the formulas. */
static void check_terms(bool velocity)
{
    enum { ROWS = 3, EACH = 8 * 8 * 3 };
    static const int steps[ROWS] = { 3, 250, 990 };
    zn_model *m = small(&(more){ .velocity = velocity });
    zn_graph *g = zn_graph_new();
    zn_diffusion *d;
    zn_pool *pool;
    zn_exec *e;
    zn_rng rng = zn_rng_new(5);
    for (int i = 0; i < m->count; i++) /* a fresh one predicts nothing */
        for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape); k++)
            m->parameters[i].data[k] += 0.05f * zn_rng_normal(&rng);
    assert_int_equal(zn_diffusion_new("linear", ZN_SPACING_ALL, 0, &d), ZN_OK);
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(ROWS, 8, 8, 3));
    zn_noising n = zn_noising_of(m, x, true);
    zn_noising_weigh(&n, 5);
    zn_node *error = zn_noising_error(&n);
    zn_model_bind(m, g, "");
    zn_node *outputs[] = { error, n.predicted, n.noisy, velocity ? n.velocity : n.predicted };
    assert_int_equal(zn_exec_new(g, outputs, 4, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    for (int i = 0; i < ROWS * EACH; i++) {
        x->data[i] = zn_rng_uniform(&rng);
        n.noise->data[i] = zn_rng_normal(&rng);
    }
    for (int i = 0; i < ROWS; i++)
        zn_noising_set(&n, d, i, steps[i]);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    double sum = 0, size = 0;
    for (int i = 0; i < ROWS * EACH; i++) {
        const double kept = d->kept[steps[i / EACH]], signal = sqrt(kept), rest = sqrt(1 - kept);
        const double image = 2 * (double)x->data[i] - 1, noise = (double)n.noise->data[i];
        const double told = (double)outputs[3]->data[i], wanted = velocity ? signal * noise - rest * image : noise;
        const double amounts = velocity ? rest * (double)n.noisy->data[i] + signal * told : told;
        assert_true(fabs((double)n.predicted->data[i] - amounts) < 1e-4);
        sum += weight_at(kept, velocity, 5) * (told - wanted) * (told - wanted);
        size += told * told;
    }
    assert_true(size > 1e-3); /* it does predict something */
    assert_true(fabs((double)error->data[0] - sum / (ROWS * EACH)) < 1e-4 * sum / (ROWS * EACH));
    zn_exec_free(e);
    zn_graph_free(g);
    zn_diffusion_free(d);
    zn_pool_free(pool);
    zn_model_free(m);
}

static void steps_count_as_they_should(void **state)
{
    (void)state;
    check_terms(false);
    check_terms(true);
}

/* A network that knows the image, all of 0.3: it tells the noise or the velocity. */
typedef struct oracle {
    const zn_diffusion *all;
    bool velocity;
    int count;
} oracle;

static zn_status tell(void *self, const float *x, int step, float *out)
{
    const oracle *o = self;
    const double signal = sqrt(o->all->kept[step]), rest = sqrt(1 - o->all->kept[step]);
    for (int i = 0; i < o->count; i++) {
        const double noise = ((double)x[i] - signal * 0.3) / rest;
        out[i] = (float)(o->velocity ? signal * noise - rest * 0.3 : noise);
    }
    return ZN_OK;
}

/* By noise or by velocity, there or back, a sampler goes the same way. */
static void velocities_lead_where_noise_does(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    static zn_status (*const samplers[])(const zn_sampling *, float *) = { zn_ddim, zn_ddim_invert };
    zn_diffusion *all, *few;
    assert_int_equal(zn_diffusion_new("linear", ZN_SPACING_ALL, 0, &all), ZN_OK);
    assert_int_equal(zn_diffusion_new("linear", ZN_SPACING_DDIM, 20, &few), ZN_OK);
    for (int way = 0; way < 2; way++) {
        float x[2][COUNT];
        for (int velocity = 0; velocity < 2; velocity++) {
            oracle o = { all, velocity, COUNT };
            zn_rng rng = zn_rng_new(9);
            for (int i = 0; i < COUNT; i++)
                x[velocity][i] = way ? 0.3f + 0.01f * zn_rng_normal(&rng) : zn_rng_normal(&rng);
            const zn_sampling s = {
                .schedule = few, .count = COUNT, .velocity = velocity, .predict = tell, .self = &o
            };
            assert_int_equal(samplers[way](&s, x[velocity]), ZN_OK);
        }
        for (int i = 0; i < COUNT; i++) {
            assert_true(fabsf(x[0][i] - x[1][i]) < 2e-3f);
            assert_true(way || fabsf(x[1][i] - 0.3f) < 1e-3f);
        }
    }
    zn_diffusion_free(all);
    zn_diffusion_free(few);
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
    begin_with(&dropped, 1, 1, &(more){ .dropout = 0.3f });
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
        cmocka_unit_test(steps_count_as_they_should),
        cmocka_unit_test(velocities_lead_where_noise_does),
        cmocka_unit_test(dropout_is_for_learning_alone),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

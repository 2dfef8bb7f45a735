/* An objective is the weighted sum of its terms; learners clip, average and treat parameters by their kind; a
 * discriminator learns to tell two kinds of pictures apart. */
#include "base/alloc.h"
#include "models/wan/wan.h"
#include "train/run/trainer.h"
#include "train/score/metrics.h"
#include "train/score/yardstick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 16, FLOATS = SIDE * SIDE * 3 };

static zn_recipe recipe_of(const char *text)
{
    zn_recipe r;
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &r), ZN_OK);
    return r;
}

static zn_model *small_model(const char *name, int width, int latent)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(name, &known);
    zn_config config = *known;
    config.width = width;
    config.latent = latent;
    zn_model *m;
    assert_int_equal(zn_model_new(arch, &config, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    return m;
}

static float *some_pictures(int count)
{
    float *p = zn_alloc(sizeof(float) * FLOATS * (size_t)count);
    for (int i = 0; i < FLOATS * count; i++)
        p[i] = 0.5f + 0.4f * sinf(0.11f * (float)(i % 997));
    return p;
}

static void an_objective_is_the_sum_of_its_terms(void **state)
{
    (void)state;
    const zn_recipe r =
        recipe_of("size: 16\nsteps: 5\nwarmup: 0\nlr: 1e-3\nema: 0\nloss: {mse: 2, l1: 1, huber: 0.5, "
                  "bands: 0.3, haar: 0.2, chroma: 0.2, texture: 0.5, contrast: 0.5, ssim: 0.1, kl: 0.01, "
                  "discriminator: 0.05, discriminator_start: 0.6}\n");
    zn_model *m = small_model("zenith-r", 8, 4);
    zn_pool *pool;
    zn_trainer *t;
    float *pictures = some_pictures(2);
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    assert_int_equal(zn_trainer_new(&(zn_trainer_options){ .model = m, .recipe = &r, .pool = pool, .batch = 2 }, &t),
                     ZN_OK);
    assert_int_equal(t->objective.count, 11);
    for (int step = 0; step < 5; step++) {
        double loss, sum = 0;
        assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
        for (int i = 0; i < t->objective.count; i++)
            sum += zn_ramp_at(&t->objective.terms[i].ramp, step) * t->values[i];
        if (!(fabs(sum - loss) < 1e-4 * fabs(loss)))
            fail_msg("step %d: the terms make %g, the loss is %g", step, sum, loss);
    }
    assert_int_equal(zn_trainer_judged(t), 2); /* of five steps */
    assert_int_equal(t->discriminator->learner.optim.step, 2);
    zn_trainer_free(t);
    zn_model_free(m);
    zn_pool_free(pool);
    zn_free(pictures);
}

/* The perceptual term gets smaller while its network stays as it is. */
static void a_perceptual_loss_is_learned(void **state)
{
    (void)state;
    enum { LARGE = 32 };
    setenv("ZENITH_MODELS", ZN_WEIGHTS, 1);
    zn_recipe r = recipe_of("size: 32\nsteps: 12\nwarmup: 0\nlr: 3e-3\nema: 0\nloss: {l1: 0, bands: 0, lpips: 1}\n");
    zn_model *m = small_model("zenith-r", 8, 4);
    zn_pool *pool;
    zn_trainer *t;
    float picture[LARGE * LARGE * 3];
    double first = 0, loss = 0;
    for (int i = 0; i < LARGE * LARGE * 3; i++)
        picture[i] = 0.5f + 0.4f * sinf(0.11f * (float)(i % 997));
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    const zn_trainer_options o = { .model = m, .recipe = &r, .pool = pool, .batch = 1 };
    assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
    assert_string_equal(t->objective.terms[0].name, "lpips");
    assert_int_equal(t->learner.count, m->count);
    const zn_model_parameter *p = zn_model_parameter_find(t->objective.lpips[0], "fire5.squeeze.weight");
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(p->shape);
    float *before = zn_alloc(bytes);
    memcpy(before, p->data, bytes);
    for (int step = 0; step < 12; step++) {
        assert_int_equal(zn_trainer_step(t, picture, picture, &loss), ZN_OK);
        first = step ? first : loss;
    }
    assert_true(first > 0 && loss < 0.8 * first);
    assert_memory_equal(before, p->data, bytes);
    zn_free(before);
    /* held-out images are measured by the same network: of the weights after these steps, about the last loss */
    zn_yardstick *y;
    zn_measures measures;
    const zn_yardstick_options held = {
        .model = m, .lpips = t->objective.lpips[0], .size = LARGE, .batch = 2, .pool = pool
    };
    assert_int_equal(zn_yardstick_new(&held, &y), ZN_OK);
    assert_int_equal(zn_yardstick_measure(y, &(zn_held_out){ .pictures = picture, .count = 1, .tasks = 1 }, &measures),
                     ZN_OK);
    if (!(measures.lpips > 0.5 * loss && measures.lpips < 1.2 * loss))
        fail_msg("the held-out distance is %g, the last loss %g", measures.lpips, loss);
    zn_yardstick_free(y);
    zn_trainer_free(t);
    r.size = 16;
    assert_int_equal(zn_trainer_new(&o, &t), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "crops of at least 32"));
    zn_model_free(m);
    zn_pool_free(pool);
}

/* Weights after two steps: all in one go, or in parts. */
static void parts_of_a_batch_add_up(void **state)
{
    (void)state;
    float *pictures = some_pictures(4), *weights[2];
    int64_t count = 0;
    for (int k = 0; k < 2; k++) {
        zn_recipe r = recipe_of("size: 16\nbatch: 4\nwarmup: 0\noptimizer: sgd\nlr: 0.01\nclip: 0\n");
        r.accumulate = k ? 4 : 1;
        zn_model *m = small_model("zenith-r", 8, 4);
        zn_pool *pool;
        zn_trainer *t;
        double loss;
        assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
        const zn_trainer_options o = { .model = m, .recipe = &r, .pool = pool, .batch = 4 / r.accumulate };
        assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
        for (int step = 0; step < 2; step++)
            assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
        const zn_model_parameter *p = &m->parameters[0];
        count = zn_shape_count(p->shape);
        weights[k] = zn_alloc(sizeof(float) * (size_t)count);
        memcpy(weights[k], p->data, sizeof(float) * (size_t)count);
        zn_trainer_free(t);
        zn_model_free(m);
        zn_pool_free(pool);
    }
    assert_true(zn_mean_square(weights[0], weights[1], count) < 1e-10);
    zn_free(weights[0]);
    zn_free(weights[1]);
    zn_free(pictures);
}

/* A Wan autoencoder of 8 channels; any other as it is. */
static zn_model *model_of(const char *name)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(name, &known);
    zn_config config = *known;
    zn_model *m;
    if (strcmp(name, "wan21-vae") == 0) {
        zn_wan_form *form = zn_form_own(&config, sizeof *form);
        form->width = form->back_width = 8;
    }
    assert_int_equal(zn_model_new(arch, &config, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    return m;
}

/* Of parameters that models really have. The names do not decide: gamma is a layer scale in zenith-r, but the gain of a
 * norm in zenith-hier and Wan. */
static void parameters_are_treated_by_role(void **state)
{
    (void)state;
    static const struct {
        const char *model, *name;
        float factor;
        bool no_decay, frozen;
    } cases[] = {
        { "zenith-r", "enc.level2.block0.gate_h", 2, true, false },
        { "zenith-r", "enc.level2.block0.th_v", 2, true, false },
        { "zenith-r", "dec.level2.block0.gamma", 2, true, false },
        { "zenith-r", "dec.level2.block0.norm", 0, true, false },
        { "zenith-r", "enc.level2.block0.dw", 0, false, false },
        { "taesd", "encoder.0.bias", 0, true, false },
        { "taesd", "encoder.0.weight", 0, false, false },
        { "zenith-hier", "gate1.w", 30, true, false },
        { "zenith-hier", "gate2.v", 30, true, false },
        { "zenith-hier", "block0.scale", 1.0f / 256, true, false },
        { "zenith-hier", "block0.gamma", 0, true, false },
        { "zenith-hier-r", "block0.g", 2, true, false },
        { "zenith-spectral", "enc.conv0.perm", 0, true, true },
        { "wan21-vae", "encoder.downsamples.0.residual.0.gamma", 0, true, false },
        { "wan21-vae", "encoder.middle.1.norm.gamma", 0, true, false },
    };
    const zn_learner_step step = { .gate_lr = 2, .gated = true, .block_gate_lr = 30 };
    zn_model *m = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!i || strcmp(cases[i].model, cases[i - 1].model)) {
            zn_model_free(m);
            m = model_of(cases[i].model);
        }
        const zn_model_parameter *p = zn_model_parameter_find(m, cases[i].name);
        if (!p)
            fail_msg("%s has no %s", cases[i].model, cases[i].name);
        const zn_optim_tensor rule = zn_parameter_rule(p, &step);
        if (rule.lr_factor != cases[i].factor || rule.no_decay != cases[i].no_decay || rule.frozen != cases[i].frozen)
            fail_msg("%s of %s: factor %g, no decay %d, frozen %d", p->name, cases[i].model, (double)rule.lr_factor,
                     rule.no_decay, rule.frozen);
    }
    zn_model_free(m);
}

/* Parameters that began with a teacher's values keep what their role says: constants stay as they are. */
static void inherited_parameters_keep_their_role(void **state)
{
    (void)state;
    const zn_learner_step step = { .gate_lr = 2, .inherited_lr = 0.25 }, still = { .inherited_lr = 0.25 };
    zn_model_parameter constant = { .name = "perm", .role = ZN_ROLE_CONSTANT, .inherited = true },
                       weight = { .name = "w", .role = ZN_ROLE_WEIGHT, .inherited = true },
                       gate = { .name = "gate", .role = ZN_ROLE_GATE, .inherited = true };
    assert_true(zn_parameter_rule(&constant, &step).frozen);
    assert_true(zn_parameter_rule(&weight, &step).lr_factor == 0.25f);
    assert_true(zn_parameter_rule(&gate, &step).lr_factor == 0.5f);
    assert_true(zn_parameter_rule(&gate, &still).frozen);
}

/* One weight w = 1 with gradient 4: clipped to 1, so w = 0.9, then 0.8; the average follows by its own rule. */
static void learners_clip_and_average(void **state)
{
    (void)state;
    float w = 1, g = 4;
    zn_node gradient = { .data = &g };
    const zn_model_parameter p = { .name = "w", .shape = ZN_SHAPE(1), .data = &w };
    const zn_model_parameter *list[] = { &p };
    zn_learner l;
    zn_pool *pool;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    const zn_learner_options options = {
        .optim = { .kind = ZN_SGD, .lr = 1 }, .average = true, .parts = 1, .pool = pool
    };
    assert_int_equal(zn_learner_new(&l, list, 1, &options), ZN_OK);
    l.gradients[0] = &gradient;
    const zn_learner_step s = { .lr = 0.1, .average = 0.999 };
    double average = 1;
    for (int step = 0; step < 2; step++) {
        zn_learner_gather(&l, 0, 1);
        assert_int_equal(zn_learner_clip(&l, 1), ZN_OK);
        assert_int_equal(zn_learner_update(&l, &s), ZN_OK);
        const double keep = (1.0 + step) / (10.0 + step);
        average = keep * average + (1 - keep) * (0.9 - 0.1 * step);
    }
    assert_true(fabs((double)w - 0.8) < 1e-5 && fabs((double)l.ema[0][0] - average) < 1e-5);
    const float before = w;
    assert_int_equal(zn_learner_swap(&l), ZN_OK);
    assert_true(fabs((double)w - average) < 1e-5);
    assert_int_equal(zn_learner_swap(&l), ZN_OK);
    assert_true(w == before);
    zn_learner_gather(&l, 0, 1);
    assert_int_equal(zn_learner_clip(&l, 1), ZN_OK);
    assert_int_equal(zn_learner_update(&l, &(zn_learner_step){ .lr = 0.1, .average = 0.75, .steady = true }),
                     ZN_OK); /* 0.25 otherwise */
    assert_true(fabs((double)l.ema[0][0] - (0.75 * average + 0.25 * 0.7)) < 1e-5);
    g = INFINITY;
    zn_learner_gather(&l, 0, 1);
    assert_int_equal(zn_learner_clip(&l, 1), ZN_ENUMERIC);
    zn_learner_free(&l);
    zn_pool_free(pool);
}

static void a_discriminator_learns(void **state)
{
    (void)state;
    const zn_recipe r = recipe_of("lr: 2e-3\n");
    float *real = some_pictures(2), *fake = some_pictures(2);
    for (int i = 0; i < 2 * FLOATS; i++)
        fake[i] = 0.5f;
    zn_pool *pool;
    zn_discriminator *d;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    assert_int_equal(
        zn_discriminator_new(ZN_SHAPE(2, SIDE, SIDE, 3), &r, &(zn_learner_options){ .parts = 1, .pool = pool }, &d),
        ZN_OK);
    double first = 0;
    for (int step = 0; step < 30; step++) {
        assert_int_equal(zn_discriminator_look(d, real, fake, 0, 1), ZN_OK);
        assert_int_equal(zn_learner_clip(&d->learner, r.clip), ZN_OK);
        assert_int_equal(zn_discriminator_learn(d), ZN_OK);
        first = step ? first : d->value;
    }
    if (!(first > 1 && d->value < 0.5))
        fail_msg("its loss went from %g to %g", first, d->value);
    zn_discriminator_free(d);
    zn_pool_free(pool);
    zn_free(real);
    zn_free(fake);
}

/* A gradient of the discriminator that is not finite leaves the model as it was, too. */
static void a_step_is_made_by_all_or_none(void **state)
{
    (void)state;
    const zn_recipe r = recipe_of("size: 16\nsteps: 1\nloss: {discriminator: 1}\n");
    zn_model *m = small_model("zenith-r", 8, 4);
    float *pictures = some_pictures(1), bad = NAN;
    zn_node poison = { .data = &bad };
    zn_pool *pool;
    zn_trainer *t;
    double loss;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    assert_int_equal(zn_trainer_new(&(zn_trainer_options){ .model = m, .recipe = &r, .pool = pool, .batch = 1 }, &t),
                     ZN_OK);
    zn_learner *judge = &t->discriminator->learner;
    const int last = judge->count - 1; /* one value, a bias */
    assert_int_equal(judge->counts[last], 1);
    judge->gradients[last] = &poison;
    const zn_model_parameter *p = &m->parameters[0];
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(p->shape);
    float *before = zn_alloc(bytes);
    memcpy(before, p->data, bytes);
    assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_ENUMERIC);
    assert_memory_equal(before, p->data, bytes);
    assert_int_equal(t->step, 0);
    bad = 0;
    assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
    assert_memory_not_equal(before, p->data, bytes);
    zn_trainer_free(t);
    zn_pool_free(pool);
    zn_model_free(m);
    zn_free(pictures);
    zn_free(before);
}

/* Steps that were left out, or another length of the run, make its updates others than the steps since its opening. */
static void a_checkpoint_counts_the_judgements(void **state)
{
    (void)state;
    const zn_recipe r = recipe_of("size: 16\nsteps: 4\nloss: {discriminator: 1, discriminator_start: 0.5}\n");
    zn_recipe longer = r;
    longer.steps = 400;
    const zn_recipe *recipes[] = { &r, &longer };
    float *pictures = some_pictures(1);
    char path[] = "/tmp/zenith-judged-XXXXXX";
    zn_pool *pool;
    double loss;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    for (int i = 0; i < 2; i++) {
        zn_model *m = small_model("zenith-r", 8, 4);
        const zn_trainer_options o = { .model = m, .recipe = recipes[i], .pool = pool, .batch = 1 };
        zn_trainer *t;
        assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
        for (int step = 0; i == 0 && step < 4; step++)
            assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
        if (i == 0)
            assert_int_equal(zn_checkpoint_write(path, t), ZN_OK);
        else
            assert_int_equal(zn_checkpoint_read(path, t), ZN_OK);
        assert_int_equal(t->discriminator->learner.optim.step, 2);
        zn_trainer_free(t);
        zn_model_free(m);
    }
    unlink(path);
    zn_pool_free(pool);
    zn_free(pictures);
}

/* Both families hand on something at each of the four resolutions. */
static void stages_are_found(void **state)
{
    (void)state;
    static const char *const names[] = { "taesd", "taef2", "zenith-r" };
    for (int k = 0; k < 3; k++) {
        const zn_config *config;
        const zn_arch *arch = zn_arch_find(names[k], &config);
        zn_graph *g = zn_graph_new();
        zn_node *z = zn_graph_input(g, "latent", ZN_SHAPE(1, 4, 4, config->latent)), *stages[ZN_MAX_STAGES];
        const int first = zn_graph_count(g);
        arch->decode((zn_scope){ g, "d" }, z, config);
        assert_int_equal(zn_graph_status(g), ZN_OK);
        assert_int_equal(zn_stage_outputs(g, first, stages), 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(stages[i]->shape.dim[1], 4 << i);
            assert_int_equal(stages[i]->shape.dim[3], k < 2 ? 64 : config->width << (3 - i));
            assert_ptr_equal(stages[i]->op, k < 2 ? &zn_op_relu : &zn_op_add);
        }
        zn_graph_free(g);
    }
}

/* Zenith-R begins as a Walsh codec: smooth pictures come back well before the first step. */
static void a_new_network_codes_pictures(void **state)
{
    (void)state;
    enum { BIG = 64 };
    float *picture = zn_alloc(sizeof(float) * BIG * BIG * 3);
    for (int i = 0; i < BIG * BIG * 3; i++)
        picture[i] =
            0.5f + 0.3f * sinf(0.05f * (float)(i / 3 % BIG) + (float)(i % 3)) * cosf(0.04f * (float)(i / 3 / BIG));
    zn_model *m = small_model("zenith-r", 32, 16);
    zn_pool *pool;
    zn_yardstick *y;
    zn_measures measures;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    const zn_yardstick_options o = { .model = m, .size = BIG, .batch = 1, .pool = pool };
    assert_int_equal(zn_yardstick_new(&o, &y), ZN_OK);
    assert_int_equal(zn_yardstick_measure(y, &(zn_held_out){ .pictures = picture, .count = 1, .tasks = 1 }, &measures),
                     ZN_OK);
    if (!(measures.psnr > 28))
        fail_msg("%g dB", measures.psnr);
    assert_true(isnan(measures.latent_error) && isnan(measures.teacher_psnr));
    zn_yardstick_free(y);
    zn_pool_free(pool);
    zn_model_free(m);
    zn_free(picture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_objective_is_the_sum_of_its_terms),
        cmocka_unit_test(a_perceptual_loss_is_learned),
        cmocka_unit_test(parts_of_a_batch_add_up),
        cmocka_unit_test(parameters_are_treated_by_role),
        cmocka_unit_test(inherited_parameters_keep_their_role),
        cmocka_unit_test(learners_clip_and_average),
        cmocka_unit_test(a_discriminator_learns),
        cmocka_unit_test(a_checkpoint_counts_the_judgements),
        cmocka_unit_test(stages_are_found),
        cmocka_unit_test(a_new_network_codes_pictures),
        cmocka_unit_test(a_step_is_made_by_all_or_none),
    };
    return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}

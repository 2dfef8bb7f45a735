/* Activations computed again instead of kept: the same weights after some steps, bit for bit, in less memory. */
#include "base/alloc.h"
#include "base/rng.h"
#include "train/run/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 32, LARGE = 128, BATCH = 2, STEPS = 3 };

static zn_trainer *trainer_new(const char *name, int size, const char *lines, zn_recipe *recipe, zn_pool *pool)
{
    char text[256];
    zn_model *model;
    zn_trainer *t;
    snprintf(text, sizeof text, "model: %s\nsize: %d\nbatch: %d\nwarmup: 0\n%s", name, size, BATCH, lines);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", recipe), ZN_OK);
    assert_int_equal(zn_model_random(name, 5, &model), ZN_OK);
    const zn_trainer_options o = { .model = model, .recipe = recipe, .pool = pool, .batch = BATCH };
    assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
    return t;
}

static void trainer_free(zn_trainer *t)
{
    zn_model *model = t->model;
    zn_trainer_free(t);
    zn_model_free(model);
}

static void take_steps(zn_trainer *t)
{
    static float pictures[BATCH * SIZE * SIZE * 3];
    zn_rng rng = zn_rng_new(3);
    double loss;
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        pictures[i] = zn_rng_uniform(&rng);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(zn_trainer_step(t, pictures, pictures, &loss), ZN_OK);
}

/* lines: of the recipe. */
static void check_bits(const char *name, const char *lines)
{
    char again_lines[256];
    zn_recipe recipes[2];
    zn_pool *pool;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    snprintf(again_lines, sizeof again_lines, "recompute: true\n%s", lines);
    zn_trainer *kept = trainer_new(name, SIZE, lines, &recipes[0], pool);
    zn_trainer *again = trainer_new(name, SIZE, again_lines, &recipes[1], pool);
    take_steps(kept);
    take_steps(again);
    for (int i = 0; i < kept->model->count; i++)
        assert_memory_equal(kept->model->parameters[i].data, again->model->parameters[i].data,
                            sizeof(float) * (size_t)zn_shape_count(kept->model->parameters[i].shape));
    trainer_free(kept);
    trainer_free(again);
    zn_pool_free(pool);
}

static void check_memory(const char *name, double at_most)
{
    size_t bytes[2];
    zn_pool *pool;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    for (int i = 0; i < 2; i++) {
        zn_recipe recipe;
        zn_trainer *t = trainer_new(name, LARGE, i ? "recompute: true\n" : "", &recipe, pool);
        bytes[i] = zn_exec_activation_bytes(t->exec);
        trainer_free(t);
    }
    zn_pool_free(pool);
    printf("%s: %zu bytes kept, %zu computed again\n", name, bytes[0], bytes[1]);
    assert_true((double)bytes[1] <= at_most * (double)bytes[0]);
}

static void convolutions(void **state)
{
    (void)state;
    check_bits("taesd", "");
    check_memory("taesd", 0.6);
}

static void norms_and_pools(void **state)
{
    (void)state;
    check_bits("taef2", "");
    check_memory("taef2", 0.6);
}

static void spectral_blocks(void **state)
{
    (void)state;
    check_bits("zenith-r", "");
    check_memory("zenith-r", 0.7);
}

/* Results that several terms read, and terms of the latents. */
static void many_terms(void **state)
{
    (void)state;
    check_bits("taesd", "loss:\n  mse: 1\n  ssim: 0.1\n  haar: 0.1\n  kl: 0.01\n");
}

static void memory_may_run_out(void **state)
{
    (void)state;
    const char *text = "model: taesd\nsize: 16\nrecompute: true\n";
    zn_recipe recipe;
    zn_pool *pool;
    zn_model *model;
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &recipe), ZN_OK);
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    assert_int_equal(zn_model_random("taesd", 5, &model), ZN_OK);
    const zn_trainer_options o = { .model = model, .recipe = &recipe, .pool = pool, .batch = 1 };
    zn_status status = ZN_ENOMEM;
    int tried = 0;
    for (int64_t nth = 1; status != ZN_OK; nth++, tried++) {
        zn_trainer *t;
        zn_alloc_fail_at(nth);
        status = zn_trainer_new(&o, &t);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
        zn_trainer_free(t);
    }
    assert_true(tried > 20);
    zn_model_free(model);
    zn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(norms_and_pools),    cmocka_unit_test(spectral_blocks),
        cmocka_unit_test(many_terms),   cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training with bf16 products: close to fp32 after a short run, by kernels that really are used. */
#include "base/cpu.h"
#include "base/rng.h"
#include "train/run/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pictures enough that packing for the 16-bit kernels pays; see kernels/dispatch.c. */
enum { SIZE = 64, BATCH = 8, STEPS = 6, FLOATS = BATCH * SIZE * SIZE * 3 };

/* Smooth pictures, which a network can learn. */
static void draw(float *pictures)
{
    zn_rng rng = zn_rng_new(11);
    for (int n = 0; n < BATCH; n++) {
        const double fx = 0.05 + 0.2 * (double)zn_rng_uniform(&rng), fy = 0.05 + 0.2 * (double)zn_rng_uniform(&rng);
        for (int i = 0; i < SIZE * SIZE; i++)
            for (int c = 0; c < 3; c++)
                *pictures++ = (float)(0.5 + 0.4 * sin(fx * (i % SIZE) + fy * (i / SIZE) + c));
    }
}

/* Residual branches that start small, or the first steps would be a matter of luck. */
static void calm(zn_model *m)
{
    for (int p = 0; p < m->count; p++)
        for (int64_t i = 0;
             strstr(m->parameters[p].name, ".conv.4.weight") && i < zn_shape_count(m->parameters[p].shape); i++)
            m->parameters[p].data[i] *= 0.2f;
}

/* Not fp32 by three products of bf16. */
static bool in_16_bits(const char *kernel)
{
    return (strstr(kernel, "bf16") && !strstr(kernel, "bf16x3")) || strstr(kernel, "i8");
}

/* Losses of the steps; returns how many nodes run in 16 bits. */
static int train(const char *name, const char *precision, double losses[STEPS])
{
    static float pictures[FLOATS];
    char text[256];
    zn_recipe recipe;
    zn_pool *pool;
    zn_model *model;
    zn_trainer *t;
    int narrow = 0;
    draw(pictures);
    snprintf(text, sizeof text, "model: %s\nprecision: %s\nsize: %d\nbatch: %d\nwarmup: 0\nlr: 3e-4\nloss:\n  mse: 1\n",
             name, precision, SIZE, BATCH);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &recipe), ZN_OK);
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    assert_int_equal(zn_model_random(name, 5, &model), ZN_OK);
    calm(model);
    const zn_trainer_options o = { .model = model, .recipe = &recipe, .pool = pool, .batch = BATCH, .profile = true };
    assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(zn_trainer_step(t, pictures, pictures, &losses[i]), ZN_OK);
    for (int i = 0; i < zn_exec_rows(t->exec); i++)
        narrow += in_16_bits(zn_exec_row_at(t->exec, i).kernel);
    zn_trainer_free(t);
    zn_model_free(model);
    zn_pool_free(pool);
    return narrow;
}

static void bf16_learns_like_f32(void **state)
{
    (void)state;
    double f32[STEPS], bf16[STEPS];
    const uint32_t narrow = ZN_CPU_I8MM | ZN_CPU_BF16 | ZN_CPU_AMX_BF16;
    assert_int_equal(train("taesd", "f32", f32), 0);
    assert_int_equal(train("taesd", "bf16", bf16) > 0, (zn_cpu_flags() & narrow) != 0);
    for (int i = 0; i < STEPS; i++)
        printf("step %d: %.5f %.5f\n", i + 1, f32[i], bf16[i]);
    assert_true(f32[STEPS - 1] < 0.7 * f32[0]);
    assert_true(fabs(bf16[0] - f32[0]) < 0.01 * f32[0]);
    assert_true(fabs(bf16[STEPS - 1] - f32[STEPS - 1]) < 0.03 * f32[STEPS - 1]);
}

/* Of 1x1 convolutions, for which ARM has a kernel of its own. */
static void bf16_learns_like_f32_with_1x1(void **state)
{
    (void)state;
    double f32[STEPS], bf16[STEPS];
    const uint32_t narrow = ZN_CPU_BF16 | ZN_CPU_AMX_BF16;
    assert_int_equal(train("zenith-r", "f32", f32), 0);
    assert_int_equal(train("zenith-r", "bf16", bf16) > 0, (zn_cpu_flags() & narrow) != 0);
    for (int i = 0; i < STEPS; i++)
        printf("step %d: %.5f %.5f\n", i + 1, f32[i], bf16[i]);
    assert_true(f32[STEPS - 1] < f32[0]);
    assert_true(fabs(bf16[0] - f32[0]) < 0.01 * f32[0]);
    assert_true(fabs(bf16[STEPS - 1] - f32[STEPS - 1]) < 0.03 * f32[STEPS - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bf16_learns_like_f32),
                                        cmocka_unit_test(bf16_learns_like_f32_with_1x1) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

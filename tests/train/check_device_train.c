/* check-device-train: training on a device gives the losses of training on the CPU, and a run that is continued from a
 * checkpoint the bits of one that was never stopped. Exit status 77 if there is no device. */
#include "../must.h"
#include "base/alloc.h"
#include "train/run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, FLOATS = SIDE * SIDE * 3, BATCH = 2, STEPS = 4, HALF = 2 };

static zn_pool *pool;
static zn_device *device;
static int failures;

static zn_model *small_model(const char *name)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(name, &known);
    zn_config config = *known;
    config.width = 8;
    config.latent = 4;
    zn_model *m;
    must(zn_model_new(arch, &config, &m));
    must(zn_model_random_part(m, ZN_ENCODER, 1));
    must(zn_model_random_part(m, ZN_DECODER, 1));
    return m;
}

static zn_trainer *trainer_of(zn_model *m, const zn_recipe *r, zn_device *on)
{
    zn_trainer *t;
    const zn_trainer_options o = { .model = m, .recipe = r, .pool = pool, .device = on, .batch = BATCH };
    must(zn_trainer_new(&o, &t));
    return t;
}

static void run_steps(zn_trainer *t, int steps, double *losses)
{
    float images[BATCH * FLOATS];
    for (int i = 0; i < BATCH * FLOATS; i++)
        images[i] = 0.5f + 0.4f * sinf(0.11f * (float)(i % 997));
    for (int i = 0; i < steps; i++)
        must(zn_trainer_step(t, images, images, &losses[i]));
}

static bool same_weights(const zn_model *a, const zn_model *b)
{
    for (int i = 0; i < a->count; i++)
        if (memcmp(a->parameters[i].data, b->parameters[i].data,
                   sizeof(float) * (size_t)zn_shape_count(a->parameters[i].shape)))
            return false;
    return true;
}

/* Losses of the CPU and of the device; the weights that come of it are the same if the run is cut in two. */
static void check(const char *name, const char *recipe_text)
{
    static const char path[] = "check-device-train.safetensors";
    zn_recipe r;
    double cpu[STEPS], gpu[STEPS], rest[STEPS], worst = 0;
    must(zn_recipe_parse(recipe_text, strlen(recipe_text), "test", &r));
    zn_model *m[3] = { small_model(name), small_model(name), small_model(name) };
    zn_trainer *t = trainer_of(m[0], &r, NULL);
    run_steps(t, STEPS, cpu);
    zn_trainer_free(t);
    t = trainer_of(m[1], &r, device);
    const zn_exec_places places = zn_exec_count_places(t->exec);
    run_steps(t, HALF, gpu);
    must(zn_checkpoint_write(path, t));
    run_steps(t, STEPS - HALF, gpu + HALF);
    must(zn_learner_fetch(&t->learner));
    zn_trainer_free(t);
    t = trainer_of(m[2], &r, device);
    must(zn_checkpoint_read(path, t));
    run_steps(t, STEPS - HALF, rest);
    must(zn_learner_fetch(&t->learner));
    zn_trainer_free(t);
    remove(path);
    for (int i = 0; i < STEPS; i++)
        worst = fmax(worst, fabs(gpu[i] - cpu[i]) / fabs(cpu[i]));
    const bool same = same_weights(m[1], m[2]), good = worst < 1e-4 && same;
    printf("%-16s losses differ by %.1e, %s after resuming, %d of %d steps on the CPU%s\n", name, worst,
           same ? "same bits" : "other bits", places.on_host, places.steps, good ? "" : "  FAIL");
    failures += !good;
    for (int i = 0; i < 3; i++)
        zn_model_free(m[i]);
}

int main(void)
{
    if (zn_device_open("cuda", &device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    must(zn_pool_new(2, &pool));
    check("taesd", "size: 16\nsteps: 9\nwarmup: 0\nlr: 1e-3\nema: 0.9\nloss: {mse: 1, l1: 1, bands: 0.3, ssim: 0.1}\n");
    check("zenith-r",
          "size: 16\nsteps: 5\nwarmup: 0\nlr: 1e-3\nloss: {l1: 1, bands: 0.3, chroma: 0.2, texture: 1, contrast: 1, "
          "discriminator: 0.05}\n");
    zn_device_close(device);
    zn_pool_free(pool);
    printf("%d failures\n", failures);
    return failures != 0;
}

/* Times whole training steps of a model: forward, loss, backward, optimiser. Our side of bench/training.
 *
 *     train-step MODEL SIZE BATCH THREADS RUNS PICTURES [profile] [cuda] ["KEY: VALUE"...]
 *
 * MODEL: a file, or random:ARCHITECTURE. PICTURES holds BATCH pictures of SIZE x SIZE as 32-bit floats,
 * [height][width][3]. Prints a JSON object: the loss and the norm of all gradients at the first step, the loss at the
 * last, and the time of each timed step. With `profile`, prints a table of what the last step spent where instead.
 * Further words are lines of a recipe. */
#include "profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "train/run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM_UPS = 3 };

typedef struct job {
    const char *model, *pictures;
    int size, batch, threads, runs;
    bool profile;
    const char *device; /* NULL: the CPU */
    char **lines;       /* of a recipe, up to NULL */
} job;

static zn_status gradient_norm(const zn_trainer *t, double *norm)
{
    double sum = 0;
    ZN_TRY(zn_learner_fetch_sums(&t->learner));
    for (int64_t i = 0; i < t->learner.total; i++)
        sum += (double)t->learner.tree[i] * (double)t->learner.tree[i];
    *norm = sqrt(sum);
    return ZN_OK;
}

static zn_status measure(const job *j, zn_trainer *t, const float *pictures)
{
    double loss, first = 0, norm = 0, *ms = zn_calloc((size_t)j->runs + 1, sizeof *ms);
    if (!ms)
        return ZN_ENOMEM;
    for (int i = -WARM_UPS; i < j->runs; i++) {
        const double start = zn_clock_ms();
        zn_status status = zn_trainer_step(t, pictures, pictures, &loss);
        if (i >= 0)
            ms[i] = zn_clock_ms() - start;
        if (status == ZN_OK && i == -WARM_UPS) {
            first = loss;
            status = gradient_norm(t, &norm);
        }
        if (status != ZN_OK) {
            zn_free(ms);
            return status;
        }
    }
    if (j->profile) {
        print_profile(t->exec);
    } else {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("{\"loss\": %.9g, \"gradient_norm\": %.9g, \"last_loss\": %.9g, \"plan_mb\": %.1f, \"rss_mb\": %.1f, "
               "\"ms\": [",
               first, norm, loss, (double)zn_exec_activation_bytes(t->exec) / 1048576.0,
               (double)usage.ru_maxrss / 1024.0);
        for (int i = 0; i < j->runs; i++)
            printf("%s%.3f", i ? ", " : "", ms[i]);
        printf("]}\n");
    }
    zn_free(ms);
    return ZN_OK;
}

static bool read_pictures(const char *path, float *to, size_t count)
{
    FILE *f = fopen(path, "rb");
    const bool whole = f && fread(to, sizeof *to, count, f) == count;
    if (f)
        fclose(f);
    return whole;
}

static zn_status run(const job *j)
{
    /* as bench/training_main.py sets PyTorch */
    static const char recipe_text[] = "model: taesd\nlr: 1e-4\nbeta2: 0.999\nwarmup: 0\nschedule: constant\nclip: 0\n"
                                      "ema: 0\nloss:\n  mse: 1\n  l1: 0\n  bands: 0\n";
    zn_recipe recipe;
    zn_pool *pool = NULL;
    zn_device *device = NULL;
    zn_model *model = NULL;
    zn_trainer *t = NULL;
    const size_t count = (size_t)j->batch * (size_t)j->size * (size_t)j->size * 3;
    float *pictures = zn_calloc(count, sizeof *pictures);
    zn_status status = zn_recipe_parse(recipe_text, strlen(recipe_text), "bench", &recipe);
    for (char **text = j->lines; status == ZN_OK && *text; text++)
        status = zn_recipe_apply(*text, strlen(*text), "command line", &recipe);
    recipe.size = j->size;
    recipe.batch = j->batch;
    if (status == ZN_OK && (!pictures || !read_pictures(j->pictures, pictures, count))) {
        fprintf(stderr, "train-step: %s does not hold the pictures\n", j->pictures);
        zn_free(pictures);
        return ZN_EIO;
    }
    if (status == ZN_OK)
        status = zn_pool_new(j->threads, &pool);
    if (status == ZN_OK)
        status = zn_device_open(j->device, &device);
    if (status == ZN_OK)
        status = strncmp(j->model, "random:", 7) ? zn_model_open(j->model, &model)
                                                 : zn_model_random(j->model + 7, 1, &model);
    if (status == ZN_OK)
        status = zn_trainer_new(&(zn_trainer_options){ .model = model,
                                                       .recipe = &recipe,
                                                       .pool = pool,
                                                       .device = device,
                                                       .batch = j->batch,
                                                       .profile = j->profile },
                                &t);
    if (status == ZN_OK)
        status = measure(j, t, pictures);
    if (status != ZN_OK)
        fprintf(stderr, "train-step: %s\n", zn_error_text());
    zn_trainer_free(t);
    zn_model_free(model);
    zn_device_close(device);
    zn_pool_free(pool);
    zn_free(pictures);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr, "usage: train-step MODEL SIZE BATCH THREADS RUNS PICTURES [profile] [cuda] "
                        "[\"KEY: VALUE\"...]\n");
        return 2;
    }
    const bool profile = argc > 7 && strcmp(argv[7], "profile") == 0;
    const bool cuda = argc > 7 + profile && strcmp(argv[7 + profile], "cuda") == 0;
    const job j = { .model = argv[1],
                    .size = atoi(argv[2]),
                    .batch = atoi(argv[3]),
                    .threads = atoi(argv[4]),
                    .runs = atoi(argv[5]),
                    .pictures = argv[6],
                    .profile = profile,
                    .device = cuda ? "cuda" : NULL,
                    .lines = argv + 7 + profile + cuda };
    if (j.size < 8 || j.size > 4096 || j.batch < 1 || j.batch > 4096 || j.runs < 1 || j.runs > 100000) {
        fprintf(stderr, "train-step: a size, batch or number of runs is out of range\n");
        return 2;
    }
    return run(&j) == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

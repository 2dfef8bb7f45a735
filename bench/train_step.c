/* Times whole training steps of a model: forward, loss, backward, optimiser. Our side of bench/training.
 *
 *     train-step MODEL SIZE BATCH THREADS RUNS PICTURES [profile|turns] [cuda] ["KEY: VALUE"...]
 *
 * MODEL: a file, random:ARCHITECTURE, or recipe:NAME, a preset of zenith train (or a .yaml file) with its network and
 * all else. PICTURES holds BATCH pictures of SIZE x SIZE as 32-bit floats, [height][width][3]. Prints a JSON object:
 * the loss and the norm of all gradients at the first step, the loss at the last, nodes and those of them that the CPU
 * ran for a GPU, and the time of each timed step. With `profile`, prints a table of what the last step spent where
 * instead. With `turns`, measures once for every line on standard input, so that others can run in between; {} says
 * that it is ready. Further words are lines of a recipe, and come last. */
#include "profile.h"
#include "turns.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM_UPS = 2 };

typedef struct job {
    const char *model, *pictures;
    int size, batch, threads, runs;
    bool profile, turns;
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

static void print(const job *j, const zn_trainer *t, const double sums[2], double last, const double *ms)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const zn_exec_places places = zn_exec_count_places(t->exec);
    printf("{\"loss\": %.9g, \"gradient_norm\": %.9g, \"last_loss\": %.9g, \"plan_mb\": %.1f, \"rss_mb\": %.1f, "
           "\"nodes\": %d, \"on_host\": %d, \"ms\": [",
           sums[0], sums[1], last, (double)zn_exec_activation_bytes(t->exec) / 1048576.0,
           (double)usage.ru_maxrss / 1024.0, places.steps, places.on_host);
    for (int i = 0; i < j->runs; i++)
        printf("%s%.3f", i ? ", " : "", ms[i]);
    printf("]}\n");
}

/* Steps, the first WARM_UPS of them without taking the time. */
static zn_status measure(const job *j, zn_trainer *t, const float *pictures, const double sums[2], double *ms)
{
    double loss;
    for (int i = -WARM_UPS; i < j->runs; i++) {
        const double start = zn_clock_ms();
        ZN_TRY(zn_trainer_step(t, pictures, pictures, &loss));
        if (i >= 0)
            ms[i] = zn_clock_ms() - start;
    }
    if (j->profile)
        print_profile(t->exec);
    else
        print(j, t, sums, loss, ms);
    return ZN_OK;
}

static zn_status measure_all(const job *j, zn_trainer *t, const float *pictures, double *ms)
{
    double sums[2]; /* the loss and the norm of the gradients at the first step */
    ZN_TRY(zn_trainer_step(t, pictures, pictures, &sums[0]));
    ZN_TRY(gradient_norm(t, &sums[1]));
    if (!j->turns)
        return measure(j, t, pictures, sums, ms);
    ZN_TRY(zn_trainer_step(t, pictures, pictures, &ms[0])); /* on a GPU, the step that is recorded */
    announce_turns();
    while (next_turn())
        ZN_TRY(measure(j, t, pictures, sums, ms));
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

/* What follows `prefix` in MODEL, or NULL. */
static const char *named_by(const job *j, const char *prefix)
{
    const size_t length = strlen(prefix);
    return strncmp(j->model, prefix, length) ? NULL : j->model + length;
}

static zn_status read_recipe(const job *j, zn_recipe *r)
{
    /* as bench/training_main.py sets PyTorch */
    static const char text[] = "model: taesd\nlr: 1e-4\nbeta2: 0.999\nwarmup: 0\nschedule: constant\nclip: 0\n"
                               "ema: 0\nloss:\n  mse: 1\n  l1: 0\n  bands: 0\n";
    const char *recipe = named_by(j, "recipe:"), *arch = named_by(j, "random:");
    ZN_TRY(recipe ? zn_recipe_read(recipe, r) : zn_recipe_parse(text, strlen(text), "bench", r));
    for (char **line = j->lines; *line; line++)
        ZN_TRY(zn_recipe_apply(*line, strlen(*line), "command line", r));
    if (arch)
        snprintf(r->model, sizeof r->model, "%s", arch);
    r->size = j->size;
    r->batch = j->batch;
    if (zn_train_task_of(r)->inputs == ZN_INPUTS_IMAGES)
        return ZN_OK;
    return ZN_FAIL(ZN_EUNSUPPORTED, "only steps on images are timed, not those of task: %s", zn_train_task_of(r)->name);
}

static zn_status make_trainer(const job *j, zn_run *r)
{
    int parts, batch;
    ZN_TRY(read_recipe(j, &r->recipe));
    ZN_TRY(zn_trainer_divide(&r->recipe, NULL, &parts, &batch));
    ZN_TRY(zn_context_borrow(NULL, j->threads, &r->context));
    ZN_TRY(zn_context_device(r->context, j->device, &r->device));
    const bool fresh = named_by(j, "recipe:") || named_by(j, "random:");
    ZN_TRY(fresh ? zn_run_fresh_model(r) : zn_model_open(j->model, &r->model));
    const zn_trainer_options options = { .model = r->model,
                                         .recipe = &r->recipe,
                                         .pool = zn_context_pool(r->context),
                                         .device = r->device,
                                         .goal = zn_train_task_of(&r->recipe)->goal,
                                         .batch = batch,
                                         .parts = parts,
                                         .profile = j->profile };
    return zn_trainer_new(&options, &r->trainer);
}

static zn_status run(const job *j)
{
    const size_t count = (size_t)j->batch * (size_t)j->size * (size_t)j->size * 3;
    float *pictures = zn_calloc(count, sizeof *pictures);
    double *ms = zn_calloc((size_t)j->runs + 1, sizeof *ms);
    zn_run r = { .options = { 0 } };
    zn_status status = pictures && ms ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for pictures");
    if (status == ZN_OK && !read_pictures(j->pictures, pictures, count))
        status = ZN_FAIL(ZN_EIO, "%s does not hold the pictures", j->pictures);
    if (status == ZN_OK)
        status = make_trainer(j, &r);
    if (status == ZN_OK)
        status = measure_all(j, r.trainer, pictures, ms);
    if (status != ZN_OK)
        fprintf(stderr, "train-step: %s\n", zn_error_text());
    zn_run_free(&r);
    zn_free(ms);
    zn_free(pictures);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr, "usage: train-step MODEL SIZE BATCH THREADS RUNS PICTURES [profile|turns] [cuda] "
                        "[\"KEY: VALUE\"...]\n");
        return 2;
    }
    const bool profile = argc > 7 && strcmp(argv[7], "profile") == 0;
    const bool turns = argc > 7 && strcmp(argv[7], "turns") == 0;
    const int next = 7 + (profile || turns);
    const bool cuda = argc > next && strcmp(argv[next], "cuda") == 0;
    const job j = { .model = argv[1],
                    .size = atoi(argv[2]),
                    .batch = atoi(argv[3]),
                    .threads = atoi(argv[4]),
                    .runs = atoi(argv[5]),
                    .pictures = argv[6],
                    .profile = profile,
                    .turns = turns,
                    .device = cuda ? "cuda" : NULL,
                    .lines = argv + next + cuda };
    if (j.size < 8 || j.size > 4096 || j.batch < 1 || j.batch > 4096 || j.runs < 1 || j.runs > 100000) {
        fprintf(stderr, "train-step: a size, batch or number of runs is out of range\n");
        return 2;
    }
    return run(&j) == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

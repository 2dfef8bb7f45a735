/* Restoration of wavelet pictures (specification B7): trains one network and measures it, or measures plain filters.
 *
 *     restoration-run filters
 *     restoration-run KIND STEPS RATE SEED THREADS [HOW]   kinds: see study.h
 *
 * 64x64 pictures, batches of 4, 50 batches that come again and again, damaged anew in every step: Gaussian noise of
 * 0.2, shot noise, box blur of 3x3 or 7x7. HOW: nothing, one damage for each batch, in turn; "only=K", damage K alone;
 * "weights=A,B,C,D", each picture of a batch has its own, and its square error counts so many times. Adam, 20 steps of
 * warm-up, cosine to 2 %, norm clipped to 1. A RATE below zero trains as the original did: Adam at -RATE, nothing else,
 * no blur of 7x7. The test has 64 pictures, the same for all. Prints a JSON object: "mse" for Gaussian noise of 0.3,
 * shot noise, blur 7x7, blur 3x3. Damages and weights have this order. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "study.h"
#include "train/data/corrupt.h"
#include "train/data/filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64, BATCH = 4, BATCHES = 50, TEST = 64, TASKS = 4, PICTURE = SIDE * SIDE * 3, WARM_UP = 20 };
enum { GAUSSIAN, SHOT, BLUR7, BLUR3 };

/* Pictures [count]: y = x damaged. */
static void damage(int task, float deviation, zn_rng *rng, const float *x, int count, float *y)
{
    for (int64_t i = 0; i < (int64_t)count * PICTURE; i++) {
        const float u = zn_rng_uniform(rng), v = zn_rng_uniform(rng), noise = zn_rng_normal(rng);
        if (task == GAUSSIAN)
            zn_add_gaussian(x + i, &noise, 1, deviation, y + i);
        else if (task == SHOT)
            zn_add_shot(x + i, &u, &v, 1, 0.05f, 2, y + i);
    }
    if (task == BLUR7 || task == BLUR3)
        zn_box_blur(x, ZN_SHAPE(count, SIDE, SIDE, 3), task == BLUR7 ? 7 : 3, y);
}

/* The test: clean pictures and each damage of them. */
typedef struct test_set {
    float *clean, *damaged[TASKS];
} test_set;

static zn_status test_new(test_set *t)
{
    zn_rng rng = zn_rng_new(20240);
    ZN_TRY(zn_alloc_for("pictures", sizeof(float) * TEST * PICTURE * (TASKS + 1), (void **)&t->clean));
    study_pictures(&rng, SIDE, TEST, t->clean);
    for (int k = 0; k < TASKS; k++) {
        t->damaged[k] = t->clean + (int64_t)TEST * PICTURE * (k + 1);
        damage(k, 0.3f, &rng, t->clean, TEST, t->damaged[k]);
    }
    return ZN_OK;
}

/* ---- filters ---- */

static double error_of(const float *a, const float *b)
{
    double sum = 0;
    for (int64_t i = 0; i < (int64_t)TEST * PICTURE; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum / TEST / PICTURE;
}

static zn_status filters(const test_set *t)
{
    static const char *const names[] = { "identity", "mean 3x3", "mean 5x5", "median 3x3" };
    const zn_shape map = ZN_SHAPE(TEST, SIDE, SIDE, 3);
    float *y;
    ZN_TRY(zn_alloc_for("pictures", sizeof(float) * TEST * PICTURE, (void **)&y));
    for (int f = 0; f < 4; f++) {
        printf("{\"filter\": \"%s\", \"mse\": [", names[f]);
        for (int k = 0; k < TASKS; k++) {
            if (f == 0)
                memcpy(y, t->damaged[k], sizeof(float) * TEST * PICTURE);
            else if (f == 3)
                zn_median(t->damaged[k], map, 3, y);
            else
                zn_box_blur(t->damaged[k], map, f == 1 ? 3 : 5, y);
            printf("%s%.6g", k ? ", " : "", error_of(y, t->clean));
        }
        printf("]}\n");
    }
    zn_free(y);
    return ZN_OK;
}

/* ---- networks ---- */

typedef struct job {
    const char *kind;
    int steps, threads;
    double rate; /* below 0: the original's way */
    int only;    /* the damage to train on; -1: all */
    bool together;
    double weights[TASKS]; /* together: of each damage's error */
    uint64_t seed;
} job;

static double rate_at(const job *j, int step)
{
    if (j->rate < 0)
        return -j->rate;
    const double t = (double)(step - WARM_UP) / (j->steps - WARM_UP);
    return j->rate * (step < WARM_UP ? (step + 1.0) / WARM_UP : 0.02 + 0.98 * 0.5 * (1 + cos(3.14159265358979 * t)));
}

/* The original's gates are noisy for 50 steps, and less and less so up to step 150. */
static float temperature_at(int step) { return step <= 50 ? 1 : step >= 150 ? 0 : (float)(150 - step) / 100; }

static int task_at(const job *j, int step, int picture)
{
    if (j->only >= 0)
        return j->only;
    if (j->together)
        return (step / BATCHES + picture) % TASKS;
    return step % 3 < 2 ? step % 3 : j->rate > 0 && step / 3 % 2 ? BLUR7 : BLUR3;
}

/* Pictures of a batch that have one damage in common are damaged in one go. */
static void fill_batch(study *s, const job *j, int step, const float *clean, zn_rng *rng)
{
    const int each = j->together ? 1 : BATCH;
    memcpy(s->train.target->data, clean, sizeof(float) * BATCH * PICTURE);
    for (int i = 0; i < BATCH; i += each) {
        const int task = task_at(j, step, i);
        damage(task, 0.2f, rng, clean + i * PICTURE, each, s->train.x->data + i * PICTURE);
        for (int k = 0; k < PICTURE && j->together; k++)
            s->train.weight->data[i * PICTURE + k] = (float)sqrt(j->weights[task]);
    }
}

static zn_status train(study *s, const job *j, const float *pictures, double *seconds)
{
    zn_rng rng = zn_rng_new(j->seed + 5000);
    const bool plain = j->rate < 0;
    for (int step = 0; step < j->steps; step++) {
        fill_batch(s, j, step, pictures + (int64_t)(step % BATCHES) * BATCH * PICTURE, &rng);
        s->temperature = temperature_at(step);
        const double start = zn_clock_ms();
        ZN_TRY(study_step(s, rate_at(j, step), plain ? 0 : 1));
        *seconds += (zn_clock_ms() - start) * 1e-3;
    }
    return ZN_OK;
}

static zn_status report(study *s, const job *j, const test_set *t, double seconds)
{
    study_work work;
    ZN_TRY(study_measure_work(s, &work));
    printf(
        "{\"kind\": \"%s\", \"steps\": %d, \"rate\": %g, \"seed\": %d, \"parameters\": %lld, \"mflop\": %.3f, "
        "\"mbyte\": %.3f, \"step_mflop\": %.3f, \"step_mbyte\": %.3f, \"peak_gflops\": %.1f, \"bandwidth_gbs\": %.1f, "
        "\"seconds\": %.2f, \"mse\": [",
        j->kind, j->steps, j->rate, (int)j->seed, (long long)s->model->info.parameters, s->flops * 1e-6,
        s->bytes * 1e-6, work.flops * 1e-6, work.bytes * 1e-6, work.peak_gflops, work.bandwidth_gbs, seconds);
    for (int k = 0; k < TASKS; k++) {
        double error;
        ZN_TRY(study_error(s, t->damaged[k], t->clean, TEST, &error));
        printf("%s%.6g", k ? ", " : "", error);
    }
    printf("]}\n");
    return ZN_OK;
}

static zn_status run(const job *j, const test_set *t)
{
    study s = { 0 };
    zn_pool *pool = NULL;
    float *pictures = NULL;
    double seconds = 0;
    zn_rng rng = zn_rng_new(j->seed);
    zn_status status;
    ZN_TRY_DONE(zn_pool_new(j->threads, &pool));
    ZN_TRY_DONE(zn_alloc_for("pictures", sizeof(float) * BATCHES * BATCH * PICTURE, (void **)&pictures));
    study_pictures(&rng, SIDE, BATCHES * BATCH, pictures);
    const study_options o = { .side = SIDE,
                              .batch = BATCH,
                              .seed = j->seed,
                              .pool = pool,
                              .adam_of_seed = j->rate < 0,
                              .weighted = j->together };
    ZN_TRY_DONE(study_new(j->kind, &o, &s));
    ZN_TRY_DONE(train(&s, j, pictures, &seconds));
    status = report(&s, j, t, seconds);
done:
    study_free(&s);
    zn_pool_free(pool);
    zn_free(pictures);
    return status;
}

static bool read_how(const char *how, job *j)
{
    double *w = j->weights;
    j->together = sscanf(how, "weights=%lf,%lf,%lf,%lf", w, w + 1, w + 2, w + 3) == TASKS;
    return j->together || (sscanf(how, "only=%d", &j->only) == 1 && j->only >= 0 && j->only < TASKS);
}

static int usage(void)
{
    fprintf(stderr, "usage: restoration-run filters | KIND STEPS RATE SEED THREADS [only=K | weights=A,B,C,D]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const bool plain = argc == 2 && !strcmp(argv[1], "filters");
    job j = { .only = -1 };
    if (!plain && argc != 6 && argc != 7)
        return usage();
    if (!plain) {
        j.kind = argv[1];
        j.steps = atoi(argv[2]);
        j.rate = atof(argv[3]);
        j.seed = (uint64_t)atoll(argv[4]);
        j.threads = atoi(argv[5]);
        if (argc == 7 && !read_how(argv[6], &j))
            return usage();
    }
    test_set t = { 0 };
    zn_status status = test_new(&t);
    if (status == ZN_OK)
        status = plain ? filters(&t) : run(&j, &t);
    if (status != ZN_OK)
        fprintf(stderr, "restoration-run: %s\n", zn_error_text());
    zn_free(t.clean);
    return status == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

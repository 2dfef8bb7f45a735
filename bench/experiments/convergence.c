/* Error against time (specification B8): trains one network of the Prune family as an autoencoder and measures it on
 * held-out pictures now and then.
 *
 *     convergence-run KIND RATE SECONDS SEED THREADS          kinds: see study.h
 *
 * 128x128 pictures of wavelets, batches of 2, new ones in every step, Adam at a constant RATE, until SECONDS of
 * training have gone by. Time is that of the steps alone: neither drawing pictures nor measuring counts. Prints a JSON
 * object: for each measurement steps, seconds, and the mean square error of 32 held-out pictures, the same for all. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 128, BATCH = 2, TEST = 32, PICTURE = SIDE * SIDE * 3 };

typedef struct job {
    const char *kind;
    double rate, seconds;
    uint64_t seed;
    int threads;
} job;

static zn_status measure(study *s, const float *held, int step, double seconds)
{
    double error;
    ZN_TRY(study_error(s, held, held, TEST, &error));
    printf("%s[%d, %.4f, %.6g]", step ? ", " : "", step, seconds, error);
    fflush(stdout);
    return ZN_OK;
}

/* The original's gates are less and less noisy up to step 400. */
static float temperature_at(int step) { return step < 400 ? 1 - (float)step / 400 : 0; }

static zn_status train(study *s, const job *j, const float *held)
{
    zn_rng rng = zn_rng_new(j->seed + 5000);
    double seconds = 0, next = j->seconds / 200;
    ZN_TRY(measure(s, held, 0, 0));
    for (int step = 0; seconds < j->seconds; step++) {
        study_pictures(&rng, SIDE, BATCH, s->train.x->data);
        memcpy(s->train.target->data, s->train.x->data, sizeof(float) * BATCH * PICTURE);
        s->temperature = temperature_at(step);
        const double start = zn_clock_ms();
        ZN_TRY(study_step(s, j->rate, 0));
        seconds += (zn_clock_ms() - start) * 1e-3;
        if (seconds < next && seconds < j->seconds)
            continue;
        ZN_TRY(measure(s, held, step + 1, seconds));
        next = 1.25 * seconds;
    }
    return ZN_OK;
}

static zn_status run(const job *j)
{
    study s = { 0 };
    zn_pool *pool = NULL;
    float *held = NULL;
    zn_rng rng = zn_rng_new(20241);
    zn_status status;
    ZN_TRY_DONE(zn_pool_new(j->threads, &pool));
    ZN_TRY_DONE(zn_alloc_for("pictures", sizeof(float) * TEST * PICTURE, (void **)&held));
    study_pictures(&rng, SIDE, TEST, held);
    const study_options o = { .side = SIDE, .batch = BATCH, .seed = j->seed, .pool = pool, .adam_of_seed = true };
    ZN_TRY_DONE(study_new(j->kind, &o, &s));
    study_work work;
    ZN_TRY_DONE(study_measure_work(&s, &work));
    printf("{\"kind\": \"%s\", \"rate\": %g, \"seed\": %d, \"parameters\": %lld, \"mflop\": %.3f, \"mbyte\": %.3f, "
           "\"step_mflop\": %.3f, \"step_mbyte\": %.3f, \"peak_gflops\": %.1f, \"bandwidth_gbs\": %.1f, \"curve\": [",
           j->kind, j->rate, (int)j->seed, (long long)s.model->info.parameters, s.flops * 1e-6, s.bytes * 1e-6,
           work.flops * 1e-6, work.bytes * 1e-6, work.peak_gflops, work.bandwidth_gbs);
    status = train(&s, j, held);
    printf("]}\n");
done:
    study_free(&s);
    zn_pool_free(pool);
    zn_free(held);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: convergence-run KIND RATE SECONDS SEED THREADS\n");
        return 2;
    }
    const job j = { argv[1], atof(argv[2]), atof(argv[3]), (uint64_t)atoll(argv[4]), atoi(argv[5]) };
    if (run(&j) == ZN_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "convergence-run: %s\n", zn_error_text());
    return EXIT_FAILURE;
}

/* zenith distill: trains a small model for the latent space of a large one. */
#include "commands.h"
#include "files/ranks.h"
#include "ui/facts.h"
#include "ui/monitor.h"
#include "ui/report.h"

#include <math.h>
#include <stdlib.h>

/* Text output leaves out values that were not measured; JSON has null for them. */
static void fact_measure(facts *f, const char *key, double value, const char *unit)
{
    if (f->json || isfinite(value))
        fact_real(f, key, value, 2, unit);
}

static void print_result(const options *o, const zn_distill_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_run(&f, o, r->steps, r->skipped, r->loss);
    fact_measure(&f, "latent_error", r->latent_error, " % of the variance of the teacher's latents");
    fact_measure(&f, "decoder_psnr", r->decoder_psnr, " dB to the teacher's images");
    fact_measure(&f, "psnr", r->psnr, " dB on held-out images");
    fact_measure(&f, "teacher_psnr", r->teacher_psnr, " dB for the teacher");
    fact_model(&f, o, r->seconds);
    facts_end(&f);
}

static int run_on(const options *given, zn_ranks *ranks)
{
    const options mine = monitor_options(given), *o = &mine;
    if (o->file_count)
        return usage_error("distill", "unexpected argument '%s': --data names the images or the data set", o->files[0]);
    if (!o->resume && (!o->teacher || !o->student))
        return usage_error("distill", "--teacher and --student are needed: weights to learn from, and a preset");
    const int wrong = monitor_check(o);
    if (wrong)
        return wrong;
    monitor m;
    const zn_distill_options d = {
        .teacher = o->teacher, .student = o->student, .run = monitor_begin(&m, o, ranks), .clips = o->on_clips
    };
    zn_distill_result r;
    const zn_status status = zn_distill(&d, &r);
    const int failed = monitor_end(&m, status, r.steps - r.first);
    if (failed)
        return failed;
    print_result(o, &r);
    return 0;
}

int distill_run(const options *o)
{
    char *yaml = NULL;
    if (!o->print)
        return on_ranks(o, run_on);
    if (!o->student || o->json)
        return usage_error("distill", o->json ? "--print writes YAML, not JSON" : "--print needs --student");
    const zn_status status = zn_distill_recipe(o->student, o->settings, &yaml);
    return print_recipe(o, status, yaml);
}

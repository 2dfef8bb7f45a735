/* zenith distill: a small model for the latent space of a large one. */
#include "commands.h"
#include "facts.h"
#include "monitor.h"
#include "ranks.h"
#include "report.h"

#include <math.h>

/* People are spared what there was nothing to measure of; JSON has null for it. */
static void fact_measure(facts *f, const char *key, double value, const char *unit)
{
    if (f->json || isfinite(value))
        fact_real(f, key, value, 2, unit);
}

static void print_result(const options *o, const zn_distill_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "run", o->output);
    fact_integer(&f, "steps", r->steps);
    if (f.json || r->skipped)
        fact_integer(&f, "skipped", r->skipped);
    fact_real(&f, "loss", r->loss, 5, "");
    fact_measure(&f, "latent_error", r->latent_error, " % of the variance of the teacher's latents");
    fact_measure(&f, "decoder_psnr", r->decoder_psnr, " dB to the teacher's pictures");
    fact_measure(&f, "psnr", r->psnr, " dB on held-out pictures");
    fact_measure(&f, "teacher_psnr", r->teacher_psnr, " dB, the teacher");
    fact_model(&f, o);
    fact_real(&f, "seconds", r->seconds, 1, " s");
    facts_end(&f);
}

static int run_on(const options *o, zn_ranks *ranks)
{
    if (!o->resume && (!o->teacher || !o->student))
        return usage_error("distill", "--teacher and --student are needed: weights to learn from, and a preset");
    if (!o->data)
        return usage_error("distill", "--data is needed: a folder of pictures or an .lmdb data set");
    if (!o->output)
        return usage_error("distill", "-o is needed: the folder of the run");
    interrupt_catch();
    monitor m = { .bar.quiet = o->quiet };
    const zn_distill_options d = { .teacher = o->teacher,
                                   .student = o->student,
                                   .from = o->from,
                                   .data = o->data,
                                   .run = o->output,
                                   .resume = o->resume,
                                   .steps = o->steps,
                                   .threads = o->threads,
                                   .ranks = ranks,
                                   .progress = monitor_tick,
                                   .stop = monitor_stop,
                                   .skipped = monitor_skipped,
                                   .user = &m };
    zn_distill_result r;
    const zn_status status = zn_distill(&d, &r);
    progress_erase();
    if (status != ZN_OK)
        return monitor_failed(o, "distill", status);
    if (r.first == r.steps)
        note(o, "%s is finished: nothing was left to do", o->output);
    print_result(o, &r);
    return 0;
}

int distill_run(const options *o) { return on_ranks(o, run_on); }

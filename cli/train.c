/* zenith train: a run from a recipe and a folder of pictures, with a bar that shows loss, speed and time left. */
#include "commands.h"
#include "facts.h"
#include "monitor.h"
#include "ranks.h"
#include "report.h"

#include <math.h>

static void print_result(const options *o, const zn_train_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "run", o->output);
    fact_integer(&f, "steps", r->steps);
    if (f.json || r->skipped)
        fact_integer(&f, "skipped", r->skipped);
    fact_real(&f, "loss", r->loss, 5, "");
    if (isfinite(r->eval_loss))
        fact_real(&f, "held_out_loss", r->eval_loss, 5, "");
    if (isfinite(r->eval_accuracy))
        fact_real(&f, "accuracy", r->eval_accuracy, 4, " of the answers for held-out pictures");
    if (isfinite(r->eval_auroc))
        fact_real(&f, "auroc", r->eval_auroc, 4, "");
    if (f.json || isfinite(r->eval_psnr))
        fact_real(&f, "psnr", r->eval_psnr, 2, " dB on held-out pictures");
    else if (!isfinite(r->eval_loss))
        fact_text(&f, "psnr", "no pictures are held out: see held_out in the recipe");
    fact_model(&f, o);
    fact_real(&f, "seconds", r->seconds, 1, " s");
    if (f.json)
        json_real(&f.out, "waited", r->waited);
    else
        fact_real(&f, "waited", 100 * r->waited, 2, " % of the time, for pictures");
    facts_end(&f);
}

static int run_on(const options *o, zn_ranks *ranks)
{
    if (!o->data)
        return usage_error("train", "--data is needed: a folder of pictures or an .lmdb data set");
    if (!o->output)
        return usage_error("train", "-o is needed: the folder of the run");
    if (!o->file_count && !o->resume)
        return usage_error("train", "a recipe is needed: a preset or a .yaml file");
    interrupt_catch();
    monitor m = { .bar.quiet = o->quiet };
    const zn_train_options t = { .recipe = o->file_count ? o->files[0] : NULL,
                                 .from = o->from,
                                 .labels = o->labels,
                                 .data = o->data,
                                 .run = o->output,
                                 .resume = o->resume,
                                 .steps = o->steps,
                                 .precision = o->learning,
                                 .threads = o->threads,
                                 .ranks = ranks,
                                 .progress = monitor_tick,
                                 .stop = monitor_stop,
                                 .skipped = monitor_skipped,
                                 .user = &m };
    zn_train_result r;
    const zn_status status = zn_train(&t, &r);
    progress_erase();
    if (status != ZN_OK)
        return monitor_failed(o, "train", status);
    if (r.first == r.steps)
        note(o, "%s is finished: nothing was left to do", o->output);
    print_result(o, &r);
    return 0;
}

int train_run(const options *o) { return on_ranks(o, run_on); }

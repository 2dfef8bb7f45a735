/* zenith train: runs a recipe on a folder of images, with a bar that shows loss, speed and time left. */
#include "commands.h"
#include "files/files.h"
#include "files/ranks.h"
#include "ui/facts.h"
#include "ui/monitor.h"
#include "ui/report.h"

#include <math.h>
#include <stdlib.h>

static void print_result(const options *o, const zn_train_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_run(&f, o, r->steps, r->skipped, r->loss);
    if (isfinite(r->eval_loss))
        fact_real(&f, "held_out_loss", r->eval_loss, 5, "");
    if (isfinite(r->eval_accuracy))
        fact_real(&f, "accuracy", r->eval_accuracy, 4, " on held-out images");
    if (isfinite(r->eval_auroc))
        fact_real(&f, "auroc", r->eval_auroc, 4, "");
    if (f.json || isfinite(r->eval_psnr))
        fact_real(&f, "psnr", r->eval_psnr, 2, " dB on held-out images");
    else if (!isfinite(r->eval_loss))
        fact_text(&f, "psnr", "no images are held out: see held_out in the recipe");
    if (isfinite(r->eval_pruned) && f.json)
        json_real(&f.out, "pruned", r->eval_pruned);
    else if (isfinite(r->eval_pruned))
        fact_real(&f, "pruned", 100 * r->eval_pruned, 1, " % of what the gates can prune, on held-out images");
    if (isfinite(r->bf16))
        fact_precision(&f, zn_precision_name((int)r->precision), r->bf16);
    fact_model(&f, o, r->seconds);
    if (f.json)
        json_real(&f.out, "waited", r->waited);
    else
        fact_real(&f, "waited", 100 * r->waited, 2, " % of the time, for images");
    facts_end(&f);
}

static int run_on(const options *given, zn_ranks *ranks)
{
    const options mine = monitor_options(given), *o = &mine;
    const int wrong = monitor_check(o);
    if (wrong)
        return wrong;
    if (!o->file_count && !o->resume)
        return usage_error("train", "a recipe is needed: a preset or a .yaml file");
    monitor m;
    const zn_train_options t = { .recipe = o->file_count ? o->files[0] : NULL,
                                 .labels = o->labels,
                                 .captions = o->captions,
                                 .run = monitor_begin(&m, o, ranks) };
    zn_train_result r;
    const zn_status status = zn_train(&t, &r);
    const int failed = monitor_end(&m, status, r.steps - r.first);
    if (failed)
        return failed;
    print_result(o, &r);
    return 0;
}

int train_run(const options *o)
{
    char *yaml = NULL;
    if (!o->print)
        return on_ranks(o, run_on);
    if (!o->file_count || o->json)
        return usage_error("train", o->json ? "--print writes YAML, not JSON" : "--print needs a recipe");
    const zn_status status = zn_train_recipe(o->files[0], o->settings, &yaml);
    return print_recipe(o, status, yaml);
}

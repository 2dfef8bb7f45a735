/* What a run leaves in its folder: measures and images, the model, the report, the checkpoint. */
#include "base/clock.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "train/data/corrupt.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>

enum { LOG_EVERY = 10, SAMPLES = 4 };

static void keep(double *old, double new)
{
    if (isfinite(new))
        *old = new;
}

/* The colours of image i of a node into the sheet; inputs may have planes beside them. */
static void write_picture(const zn_node *n, int i, int column, int row, zn_image *sheet)
{
    const int channels = zn_channels(n), size = (int)n->shape.dim[1];
    const float *from = n->data + (size_t)i * (size_t)size * (size_t)size * (size_t)channels;
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++, from += channels)
            zn_pixels_from_float(from, 3, sheet, (zn_region){ column * size + x, row * size + y, 1, 1 });
}

/* Rows: held-out images, or frames of the first video; what the teacher makes of them, what the network does. */
static zn_status write_sample(zn_run *r)
{
    const zn_yardstick *y = r->yardstick;
    const int size = r->recipe.size, frames = r->recipe.frames, images = frames ? frames : y->options.batch;
    const int shown = images < SAMPLES ? images : SAMPLES;
    zn_image *sheet;
    ZN_TRY(zn_image_new(size * shown, size * y->shown_count, 8, &sheet));
    for (int row = 0; row < y->shown_count; row++)
        for (int i = 0; i < shown; i++)
            write_picture(y->shown[row], frames ? i * frames / shown : i, i, row, sheet);
    const zn_status status = zn_journal_sample(r->journal, r->done, sheet);
    zn_image_free(sheet);
    return status;
}

/* With the averaged weights, which are the ones that will be used. */
static zn_status evaluate(zn_run *r, zn_measures *m)
{
    ZN_TRY(zn_learner_swap(&r->trainer->learner));
    const bool captioned = r->said_of.captions != NULL, conditioned = r->on.table && !captioned;
    zn_status status = captioned     ? zn_run_measure_latents(r, m)
                       : conditioned ? zn_run_score(r, m)
                                     : zn_yardstick_measure(r->yardstick, &r->held, m);
    if (status == ZN_OK && conditioned)
        status = zn_run_show_imagined(r);
    const zn_status back = zn_learner_swap(&r->trainer->learner);
    ZN_TRY(status);
    ZN_TRY(back);
    keep(&r->measures.psnr, m->psnr);
    keep(&r->measures.teacher_psnr, m->teacher_psnr);
    keep(&r->measures.decoder_psnr, m->decoder_psnr);
    keep(&r->measures.latent_error, m->latent_error);
    keep(&r->measures.pruned, m->pruned);
    keep(&r->measures.loss, m->loss);
    keep(&r->measures.accuracy, m->accuracy);
    keep(&r->measures.auroc, m->auroc);
    return r->held.count ? write_sample(r) : ZN_OK;
}

/* What cannot be used must not replace what can. */
static zn_status check_finite(const zn_run *r)
{
    char kept[64] = "nothing was saved before";
    const zn_status status = zn_trainer_check_finite(r->trainer);
    if (status == ZN_OK)
        return ZN_OK;
    if (r->saved >= 0)
        snprintf(kept, sizeof kept, "what is saved is from step %lld", (long long)r->saved);
    char text[900];
    snprintf(text, sizeof text, "%s", zn_error_text());
    return ZN_FAIL(status, "step %lld: %s; %s", (long long)r->done, text, kept);
}

/* The checkpoint comes last: a run cut off before it does this step again, one that has it has the rest too. */
zn_status zn_run_save(zn_run *r)
{
    char path[ZN_RUN_PATH];
    ZN_TRY(check_finite(r));
    zn_run_path(r, "model.safetensors", path);
    ZN_TRY(r->said_of.captions ? zn_run_write_generator(r) : zn_trainer_export(path, r->trainer));
    ZN_TRY(zn_journal_report(r->journal, &r->recipe));
    zn_run_path(r, "checkpoint.safetensors", path);
    ZN_TRY(zn_checkpoint_write(path, r->trainer));
    r->saved = r->done;
    return ZN_OK;
}

double zn_run_waited(const zn_run *r)
{
    const double seconds = (zn_clock_ms() - r->started) * 1e-3;
    return r->loader && seconds > 0 ? zn_loader_waited(r->loader) / seconds : 0;
}

zn_train_progress zn_run_progress(const zn_run *r)
{
    const double seconds = (zn_clock_ms() - r->started) * 1e-3;
    const int64_t done = r->done - r->first, all = zn_run_steps_before(r, r->stage_count);
    return (zn_train_progress){
        .step = r->done,
        .steps = all,
        .stage = r->stages[r->stage].name,
        .stage_number = r->stage + 1,
        .stage_count = r->stage_count,
        .loss = r->loss,
        .lr = zn_recipe_lr(r->trainer->recipe, r->trainer->step - 1),
        .images_per_second = (double)(done * r->recipe.batch * (r->recipe.frames ? r->recipe.frames : 1)) / seconds,
        .seconds_left = seconds / (double)done * (double)(all - r->done),
        .waited = zn_run_waited(r),
        .eval_psnr = r->measures.psnr,
        .eval_pruned = r->measures.pruned
    };
}

static zn_status log_step(zn_run *r, const zn_measures *m)
{
    const zn_trainer *t = r->trainer;
    const zn_train_progress p = zn_run_progress(r);
    zn_metric list[ZN_MAX_METRICS];
    char names[ZN_MAX_TERMS + ZN_TASKS][32];
    int n = 0;
    list[n++] = (zn_metric){ "loss", r->loss };
    for (int i = 0; i < t->objective.count; i++) {
        snprintf(names[i], sizeof names[i], "loss/%s", t->objective.terms[i].name);
        list[n++] = (zn_metric){ names[i], t->values[i] };
    }
    if (t->discriminator && zn_trainer_judged(t) > 0 && t->step > zn_trainer_opening(t->recipe))
        list[n++] = (zn_metric){ "loss/judgement", t->discriminator->value };
    list[n++] = (zn_metric){ "lr", p.lr };
    list[n++] = (zn_metric){ "images_per_second", p.images_per_second };
    list[n++] = (zn_metric){ "waited", p.waited };
    if (t->scaler.scale > 0)
        list[n++] = (zn_metric){ "loss_scale", (double)t->scaler.scale };
    if (r->stage_count > 1)
        list[n++] = (zn_metric){ "stage", r->stage + 1 };
    list[n++] = (zn_metric){ "psnr", m->psnr };
    list[n++] = (zn_metric){ "lpips", m->lpips };
    list[n++] = (zn_metric){ "teacher_psnr", m->teacher_psnr };
    list[n++] = (zn_metric){ "decoder_psnr", m->decoder_psnr };
    list[n++] = (zn_metric){ "latent_error", m->latent_error };
    list[n++] = (zn_metric){ "pruned", m->pruned };
    list[n++] = (zn_metric){ "held_out_loss", m->loss };
    list[n++] = (zn_metric){ "accuracy", m->accuracy };
    list[n++] = (zn_metric){ "auroc", m->auroc };
    for (int i = 0; i < ZN_TASKS; i++) {
        char *name = names[ZN_MAX_TERMS + i];
        snprintf(name, sizeof names[0], "psnr_%s", zn_task_name(ZN_TASK_DENOISE + i));
        list[n++] = (zn_metric){ name, m->task_psnr[i] };
    }
    return zn_journal_add(r->journal, r->done, list, n);
}

zn_status zn_run_record(zn_run *r)
{
    zn_measures m = zn_no_measures();
    const zn_recipe *k = r->trainer->recipe;
    const bool last = r->trainer->step == k->steps, eval = last || r->done % k->eval_every == 0;
    if (eval)
        ZN_TRY(evaluate(r, &m));
    if (eval || r->done % LOG_EVERY == 0)
        ZN_TRY(log_step(r, &m));
    return last || r->done % k->checkpoint_every == 0 ? zn_run_save(r) : ZN_OK;
}

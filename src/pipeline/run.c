/* The loop of a training run: steps, evaluations, checkpoints, and the way from one stage to the next. */
#define _DEFAULT_SOURCE
#include "pipeline/run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/pixels.h"
#include "train/corrupt.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LOG_EVERY = 10, SAMPLES = 4 };

void zn_run_path(const zn_run *r, const char *name, char path[ZN_RUN_PATH])
{
    snprintf(path, ZN_RUN_PATH, "%s/%s", r->folder, name);
}

/* ---- starting ---- */

static bool is_empty(const char *folder)
{
    DIR *d = opendir(folder);
    int entries = 0;
    for (const struct dirent *e; d && entries <= 2 && (e = readdir(d));)
        entries += !zn_is_temporary(e->d_name);
    if (d)
        closedir(d);
    return entries <= 2;
}

zn_status zn_run_read_recipe(zn_run *r)
{
    char path[ZN_RUN_PATH];
    struct stat s;
    zn_run_path(r, "checkpoint.safetensors", path);
    r->has_checkpoint = stat(path, &s) == 0;
    zn_run_path(r, "recipe.yaml", path);
    if (!r->has_checkpoint && stat(path, &s))
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no checkpoint to resume from", r->folder);
    return zn_recipe_read(path, &r->recipe);
}

/* The folder is made only when all else is in order, so a mistake leaves nothing behind. */
static zn_status make_folder(const zn_run *r)
{
    char path[ZN_RUN_PATH], text[4096];
    if (!r->resume) {
        if (mkdir(r->folder, 0777) && errno != EEXIST)
            return ZN_FAIL(ZN_EIO, "%s: %s", r->folder, strerror(errno));
        if (!is_empty(r->folder))
            return ZN_FAIL(ZN_EINVALID, "%s: not empty; resume the run there or choose another folder", r->folder);
    }
    zn_remove_temporaries(r->folder);
    zn_run_path(r, "recipe.yaml", path);
    const int length = zn_recipe_text(&r->recipe, text, sizeof text);
    return zn_file_write(path, text, (size_t)length);
}

static int64_t steps_before(const zn_run *r, int stage)
{
    int64_t steps = 0;
    for (int i = 0; i < stage; i++)
        steps += r->stages[i].recipe.steps;
    return steps;
}

static zn_status enter_stage(zn_run *r, int stage)
{
    const zn_run_stage *s = &r->stages[stage];
    const int batch = s->recipe.batch / s->recipe.accumulate;
    r->stage = stage;
    const zn_trainer_options t = { .model = r->model,
                                   .teacher = r->teacher,
                                   .recipe = &s->recipe,
                                   .pool = r->pool,
                                   .goal = s->goal,
                                   .batch = batch,
                                   .stage = stage };
    ZN_TRY(zn_trainer_new(&t, &r->trainer));
    const zn_yardstick_options y = { .model = r->model,
                                     .teacher = r->teacher,
                                     .goal = s->goal,
                                     .size = s->recipe.size,
                                     .batch = batch,
                                     .pool = r->pool };
    return zn_yardstick_new(&y, &r->yardstick);
}

/* The next stage goes on from the averaged weights. */
static void leave_stage(zn_run *r)
{
    if (r->trainer)
        zn_learner_swap(&r->trainer->learner);
    zn_trainer_free(r->trainer);
    zn_yardstick_free(r->yardstick);
    r->trainer = NULL;
    r->yardstick = NULL;
}

static zn_status check_task(const zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    if (r->model->info.restores != (k->task == ZN_RECIPE_RESTORE))
        return ZN_FAIL(ZN_EINVALID, "%s cannot be trained to %s", k->model,
                       k->task == ZN_RECIPE_RESTORE ? "restore"
                                                    : "give back its input: the recipe needs task: restore");
    if (k->batch % k->accumulate)
        return ZN_FAIL(ZN_EINVALID, "a batch of %d does not divide into %d parts", k->batch, k->accumulate);
    return ZN_OK;
}

static zn_status prepare_pictures(zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    const size_t pixels = (size_t)k->batch * (size_t)k->size * (size_t)k->size;
    const int inputs = zn_model_inputs(r->model, ZN_ENCODER);
    if (k->task == ZN_RECIPE_RESTORE)
        ZN_TRY(zn_alloc_for("a batch", sizeof(float) * pixels * (size_t)inputs, (void **)&r->inputs));
    ZN_TRY(zn_alloc_for("a batch", sizeof(float) * pixels * 3, (void **)&r->batch));
    ZN_TRY(zn_held_out_new(&r->held, r->set, k));
    const zn_loader_options lo = { .batch = k->batch,
                                   .size = k->size,
                                   .seed = (uint64_t)k->seed,
                                   .threads = 1 + zn_pool_threads(r->pool) / 8,
                                   .held_out = k->held_out,
                                   .halve = k->halve,
                                   .prepare = r->inputs ? zn_restore_input : NULL,
                                   .inputs = inputs };
    return zn_loader_new(r->set, &lo, &r->loader);
}

static zn_status prepare(zn_run *r)
{
    char path[ZN_RUN_PATH];
    int stage = 0;
    r->measures = zn_no_measures();
    ZN_TRY(check_task(r));
    ZN_TRY(zn_pool_new(r->threads, &r->pool));
    ZN_TRY(zn_dataset_open(r->data, &r->set));
    zn_run_path(r, "checkpoint.safetensors", path);
    if (r->has_checkpoint)
        ZN_TRY(zn_checkpoint_stage(path, &stage));
    if (stage < 0 || stage >= r->stage_count)
        return ZN_FAIL(ZN_EFORMAT, "%s: its stage %d is none of the recipe's", path, stage);
    ZN_TRY(enter_stage(r, stage));
    if (r->has_checkpoint)
        ZN_TRY(zn_checkpoint_read(path, r->trainer));
    r->first = steps_before(r, stage) + r->trainer->step;
    ZN_TRY(prepare_pictures(r));
    ZN_TRY(make_folder(r));
    return zn_journal_open(r->folder, r->first, &r->journal);
}

/* ---- going on ---- */

static void keep(double *old, double new)
{
    if (isfinite(new))
        *old = new;
}

/* The colours of picture i of a node into the sheet; inputs may have planes beside them. */
static void write_picture(const zn_node *n, int i, int size, int row, zn_image *sheet)
{
    const int channels = zn_channels(n);
    const float *from = n->data + (size_t)i * (size_t)size * (size_t)size * (size_t)channels;
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++, from += channels)
            zn_pixels_from_float(from, 3, sheet, (zn_region){ i * size + x, row * size + y, 1, 1 });
}

/* Rows: held-out pictures, what the teacher makes of them, what the network does. */
static zn_status write_sample(zn_run *r)
{
    const zn_yardstick *y = r->yardstick;
    const int size = r->recipe.size, batch = y->options.batch, shown = batch < SAMPLES ? batch : SAMPLES;
    zn_image *sheet;
    ZN_TRY(zn_image_new(size * shown, size * y->shown_count, 8, &sheet));
    for (int row = 0; row < y->shown_count; row++)
        for (int i = 0; i < shown; i++)
            write_picture(y->shown[row], i, size, row, sheet);
    const zn_status status = zn_journal_sample(r->journal, r->done, sheet);
    zn_image_free(sheet);
    return status;
}

/* With the averaged weights, which are the ones that will be used. */
static zn_status evaluate(zn_run *r, zn_measures *m)
{
    zn_learner_swap(&r->trainer->learner);
    const zn_status status = zn_yardstick_measure(r->yardstick, &r->held, m);
    zn_learner_swap(&r->trainer->learner);
    ZN_TRY(status);
    keep(&r->measures.psnr, m->psnr);
    keep(&r->measures.teacher_psnr, m->teacher_psnr);
    keep(&r->measures.decoder_psnr, m->decoder_psnr);
    keep(&r->measures.latent_error, m->latent_error);
    return r->held.count ? write_sample(r) : ZN_OK;
}

/* The checkpoint comes last: a run cut off before it does this step again, one that has it has the rest too. */
static zn_status save(zn_run *r)
{
    char path[ZN_RUN_PATH];
    zn_run_path(r, "model.safetensors", path);
    ZN_TRY(zn_trainer_export(path, r->trainer));
    ZN_TRY(zn_journal_report(r->journal, &r->recipe));
    zn_run_path(r, "checkpoint.safetensors", path);
    return zn_checkpoint_write(path, r->trainer);
}

double zn_run_waited(const zn_run *r)
{
    const double seconds = (zn_clock_ms() - r->started) * 1e-3;
    return r->loader && seconds > 0 ? zn_loader_waited(r->loader) / seconds : 0;
}

static zn_train_progress progress_of(const zn_run *r)
{
    const double seconds = (zn_clock_ms() - r->started) * 1e-3;
    const int64_t done = r->done - r->first, all = steps_before(r, r->stage_count);
    return (zn_train_progress){ .step = r->done,
                                .steps = all,
                                .stage = r->stages[r->stage].name,
                                .stage_number = r->stage + 1,
                                .stage_count = r->stage_count,
                                .loss = r->loss,
                                .lr = zn_recipe_lr(r->trainer->recipe, r->trainer->step),
                                .images_per_second = (double)(done * r->recipe.batch) / seconds,
                                .seconds_left = seconds / (double)done * (double)(all - r->done),
                                .waited = zn_run_waited(r),
                                .eval_psnr = isnan(r->measures.psnr) ? 0 : r->measures.psnr };
}

static zn_status log_step(zn_run *r, const zn_measures *m)
{
    const zn_trainer *t = r->trainer;
    const zn_train_progress p = progress_of(r);
    zn_metric list[ZN_MAX_METRICS];
    char names[ZN_MAX_TERMS + ZN_TASKS][32];
    int n = 0;
    list[n++] = (zn_metric){ "loss", r->loss };
    for (int i = 0; i < t->objective.count; i++) {
        snprintf(names[i], sizeof names[i], "loss/%s", t->objective.terms[i].name);
        list[n++] = (zn_metric){ names[i], t->values[i] };
    }
    if (t->discriminator && zn_trainer_judged(t) > 0)
        list[n++] = (zn_metric){ "loss/judgement", t->discriminator->value };
    list[n++] = (zn_metric){ "lr", p.lr };
    list[n++] = (zn_metric){ "images_per_second", p.images_per_second };
    list[n++] = (zn_metric){ "waited", p.waited };
    if (r->stage_count > 1)
        list[n++] = (zn_metric){ "stage", r->stage + 1 };
    list[n++] = (zn_metric){ "psnr", m->psnr };
    list[n++] = (zn_metric){ "teacher_psnr", m->teacher_psnr };
    list[n++] = (zn_metric){ "decoder_psnr", m->decoder_psnr };
    list[n++] = (zn_metric){ "latent_error", m->latent_error };
    for (int i = 0; i < ZN_TASKS; i++) {
        char *name = names[ZN_MAX_TERMS + i];
        snprintf(name, sizeof names[0], "psnr_%s", zn_task_name(ZN_TASK_DENOISE + i));
        list[n++] = (zn_metric){ name, m->task_psnr[i] };
    }
    return zn_journal_add(r->journal, r->done, list, n);
}

/* Not a number: the state before it is whole, and is saved. */
static zn_status save_before(zn_run *r)
{
    char text[900];
    snprintf(text, sizeof text, "%s", zn_error_text());
    ZN_TRY(save(r));
    return ZN_FAIL(ZN_ENUMERIC, "step %lld: %s; the state before it is saved", (long long)r->done + 1, text);
}

static zn_status one_step(zn_run *r)
{
    zn_measures m = zn_no_measures();
    ZN_TRY(zn_loader_next_pair(r->loader, r->done, r->inputs, r->batch));
    const zn_status status = zn_trainer_step(r->trainer, r->inputs ? r->inputs : r->batch, r->batch, &r->loss);
    if (status == ZN_ENUMERIC)
        return save_before(r);
    ZN_TRY(status);
    r->done++;
    const zn_recipe *k = r->trainer->recipe;
    const bool last = r->trainer->step == k->steps, eval = last || r->done % k->eval_every == 0;
    if (eval)
        ZN_TRY(evaluate(r, &m));
    if (eval || r->done % LOG_EVERY == 0)
        ZN_TRY(log_step(r, &m));
    if (last || r->done % k->checkpoint_every == 0)
        ZN_TRY(save(r));
    return ZN_OK;
}

static zn_status run_stage(zn_run *r)
{
    while (r->trainer->step < r->trainer->recipe->steps) {
        ZN_TRY(one_step(r));
        if (!r->progress)
            continue;
        const zn_train_progress p = progress_of(r);
        if (r->progress(r->user, &p)) {
            ZN_TRY(save(r));
            return ZN_FAIL(ZN_ECANCELLED, "stopped after step %lld; the state is saved", (long long)r->done);
        }
    }
    return ZN_OK;
}

zn_status zn_run_all(zn_run *r)
{
    ZN_TRY(prepare(r));
    r->started = zn_clock_ms();
    r->done = r->first;
    for (int stage = r->stage; stage < r->stage_count; stage++) {
        if (stage > r->stage) {
            leave_stage(r);
            ZN_TRY(enter_stage(r, stage));
        }
        ZN_TRY(run_stage(r));
    }
    return ZN_OK;
}

void zn_run_free(zn_run *r)
{
    zn_loader_free(r->loader);
    zn_journal_close(r->journal);
    zn_trainer_free(r->trainer);
    zn_yardstick_free(r->yardstick);
    zn_model_free(r->model);
    zn_model_free(r->teacher);
    zn_dataset_close(r->set);
    zn_pool_free(r->pool);
    zn_free(r->batch);
    zn_free(r->inputs);
    zn_held_out_free(&r->held);
}

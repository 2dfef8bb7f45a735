/* Training runs: data, trainer and journal put together, saved so that nothing is lost when a run is cut off. */
#define _DEFAULT_SOURCE
#include <zenith/train.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/pixels.h"
#include "models/zenith.h"
#include "train/corrupt.h"
#include "train/journal.h"
#include "train/loader.h"
#include "train/metrics.h"
#include "train/trainer.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096, EVAL_PICTURES = 16, LOG_EVERY = 10, SAMPLES = 4, TASKS = ZN_JOURNAL_TASKS };

typedef struct run {
    const zn_train_options *options;
    zn_recipe recipe;
    zn_pool *pool;
    zn_dataset *data;
    zn_loader *loader;
    zn_model *model;
    zn_trainer *trainer;
    zn_journal *journal;
    float *batch;  /* the step's pictures */
    float *inputs; /* restoring: what the network gets for them; NULL: the pictures */
    float *held;   /* held-out crops, [held_count][size][size][3]; restoring: each once for every task */
    float *held_inputs;
    double task_psnr[TASKS];
    int held_count;
    double psnr, started;
    int64_t first; /* step this call began with */
    double loss;
    bool has_checkpoint; /* to resume from; a run cut off before its first one starts over */
} run;

const char *zn_train_preset(int index, const char **description) { return zn_recipe_preset(index, description); }

static void path_in(const run *r, const char *name, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s", r->options->run, name);
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

/* The recipe of the call, or with resume the run's own. */
static zn_status read_recipe(run *r)
{
    const zn_train_options *o = r->options;
    char path[PATH_SIZE];
    struct stat s;
    path_in(r, "checkpoint.safetensors", path);
    r->has_checkpoint = o->resume && stat(path, &s) == 0;
    path_in(r, "recipe.yaml", path);
    if (o->resume && !r->has_checkpoint && stat(path, &s))
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no checkpoint to resume from", o->run);
    if (!o->recipe && !o->resume)
        return ZN_FAIL(ZN_EINVALID, "training needs a recipe");
    ZN_TRY(zn_recipe_read(o->resume ? path : o->recipe, &r->recipe));
    if (o->steps > 0)
        r->recipe.steps = o->steps;
    return ZN_OK;
}

/* The folder is made only when all else is in order, so a mistake leaves nothing behind. */
static zn_status make_folder(const run *r)
{
    const char *folder = r->options->run;
    char path[PATH_SIZE], text[4096];
    if (!r->options->resume) {
        if (mkdir(folder, 0777) && errno != EEXIST)
            return ZN_FAIL(ZN_EIO, "%s: %s", folder, strerror(errno));
        if (!is_empty(folder))
            return ZN_FAIL(ZN_EINVALID, "%s: not empty; resume the run there or choose another folder", folder);
    }
    zn_remove_temporaries(folder);
    path_in(r, "recipe.yaml", path);
    const int length = zn_recipe_text(&r->recipe, text, sizeof text);
    return zn_file_write(path, text, (size_t)length);
}

/* Repeats the last held-out picture for every task, with one damage of each. */
static zn_status damage_held_out(run *r)
{
    const size_t pixels = (size_t)r->recipe.size * (size_t)r->recipe.size;
    for (int task = 0; task < TASKS; task++) {
        const size_t at = (size_t)(r->held_count - 1 + task);
        zn_draw d = { .seed = at };
        zn_corruption_of_task((zn_task)(ZN_TASK_DENOISE + task), 1, &d.what);
        if (task > 0)
            memcpy(r->held + 3 * pixels * at, r->held + 3 * pixels * (at - 1), sizeof(float) * 3 * pixels);
        ZN_TRY(zn_restore_input_of(r->held + 3 * pixels * at, r->recipe.size, &d,
                                   r->held_inputs + ZN_RESTORE_INPUTS * pixels * at));
    }
    r->held_count += TASKS - 1;
    return ZN_OK;
}

/* The same centre crops of held-out pictures every time. */
static zn_status prepare_held_out(run *r)
{
    const int size = r->recipe.size;
    const size_t floats = (size_t)size * (size_t)size * 3;
    const int most = EVAL_PICTURES * (r->inputs ? TASKS : 1);
    ZN_TRY(zn_alloc_for("held-out pictures", sizeof(float) * floats * (size_t)most, (void **)&r->held));
    if (r->inputs)
        ZN_TRY(zn_alloc_for("held-out pictures", sizeof(float) * floats / 3 * ZN_RESTORE_INPUTS * (size_t)most,
                            (void **)&r->held_inputs));
    for (int64_t i = 0; i < zn_dataset_count(r->data) && r->held_count < most; i++) {
        if (!zn_dataset_held_out(r->data, i, r->recipe.held_out))
            continue;
        zn_image *image;
        ZN_TRY(zn_dataset_read(r->data, i, &image));
        const zn_region centre = { (image->width - size) / 2, (image->height - size) / 2, size, size };
        zn_pixels_to_float(image, centre, r->held + floats * (size_t)r->held_count++, (size_t)size * 3);
        zn_image_free(image);
        if (r->inputs)
            ZN_TRY(damage_held_out(r));
    }
    return ZN_OK;
}

static zn_status check_task(const run *r)
{
    const zn_recipe *k = &r->recipe;
    if (r->model->info.restores != (k->task == ZN_RECIPE_RESTORE))
        return ZN_FAIL(ZN_EINVALID, "%s cannot be trained to %s", k->model,
                       k->task == ZN_RECIPE_RESTORE ? "restore"
                                                    : "give back its input: the recipe needs task: restore");
    return ZN_OK;
}

static zn_status prepare(run *r)
{
    const zn_recipe *k = &r->recipe;
    if (k->batch % k->accumulate)
        return ZN_FAIL(ZN_EINVALID, "a batch of %d does not divide into %d parts", k->batch, k->accumulate);
    ZN_TRY(zn_pool_new(r->options->threads, &r->pool));
    ZN_TRY(zn_dataset_open(r->options->data, &r->data));
    ZN_TRY(zn_model_random(k->model, (uint64_t)k->seed, &r->model));
    ZN_TRY(check_task(r));
    ZN_TRY(zn_trainer_new(r->model, k, r->pool, k->batch / k->accumulate, &r->trainer));
    char path[PATH_SIZE];
    path_in(r, "checkpoint.safetensors", path);
    if (r->has_checkpoint)
        ZN_TRY(zn_checkpoint_read(path, r->trainer));
    r->first = r->trainer->step;
    const size_t pixels = (size_t)k->batch * (size_t)k->size * (size_t)k->size;
    const int inputs = zn_model_inputs(r->model, ZN_ENCODER);
    if (k->task == ZN_RECIPE_RESTORE)
        ZN_TRY(zn_alloc_for("a batch", sizeof(float) * pixels * (size_t)inputs, (void **)&r->inputs));
    ZN_TRY(zn_alloc_for("a batch", sizeof(float) * pixels * 3, (void **)&r->batch));
    ZN_TRY(prepare_held_out(r));
    const zn_loader_options lo = { .batch = k->batch,
                                   .size = k->size,
                                   .seed = (uint64_t)k->seed,
                                   .threads = 1 + zn_pool_threads(r->pool) / 8,
                                   .held_out = k->held_out,
                                   .prepare = r->inputs ? zn_restore_input : NULL,
                                   .inputs = inputs };
    ZN_TRY(zn_loader_new(r->data, &lo, &r->loader));
    ZN_TRY(make_folder(r));
    return zn_journal_open(r->options->run, r->first, &r->journal);
}

/* ---- going on ---- */

/* Runs the training graph forward on `count` held-out pictures from `first` on; the output stays in the trainer. */
static zn_status reconstruct(run *r, int first)
{
    zn_trainer *t = r->trainer;
    const size_t pixels = (size_t)r->recipe.size * (size_t)r->recipe.size, floats = pixels * 3;
    const size_t inputs = pixels * (size_t)zn_model_inputs(r->model, ZN_ENCODER);
    const float *from = r->inputs ? r->held_inputs : r->held;
    for (int i = 0; i < t->batch; i++) {
        const size_t at = (size_t)((first + i) % r->held_count);
        memcpy(t->input->data + inputs * (size_t)i, from + inputs * at, sizeof(float) * inputs);
        memcpy(t->target->data + floats * (size_t)i, r->held + floats * at, sizeof(float) * floats);
    }
    return zn_exec_run(t->exec);
}

/* The colours of input i into the sheet's upper row. */
static void write_input(const run *r, int i, zn_image *sheet)
{
    const int size = r->recipe.size, inputs = zn_model_inputs(r->model, ZN_ENCODER);
    const float *from = r->trainer->input->data + (size_t)i * (size_t)size * (size_t)size * (size_t)inputs;
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++, from += inputs)
            zn_pixels_from_float(from, 3, sheet, (zn_region){ i * size + x, y, 1, 1 });
}

/* Above: held-out pictures; below: what the network makes of them. */
static zn_status write_sample(run *r)
{
    const int size = r->recipe.size, shown = r->trainer->batch < SAMPLES ? r->trainer->batch : SAMPLES;
    const size_t floats = (size_t)size * (size_t)size * 3;
    zn_image *sheet;
    ZN_TRY(zn_image_new(size * shown, size * 2, 8, &sheet));
    for (int i = 0; i < shown; i++) {
        write_input(r, i, sheet);
        zn_pixels_from_float(r->trainer->output->data + floats * (size_t)i, (size_t)size * 3, sheet,
                             (zn_region){ i * size, size, size, size });
    }
    const zn_status status = zn_journal_sample(r->journal, r->trainer->step, sheet);
    zn_image_free(sheet);
    return status;
}

static zn_status evaluate(run *r)
{
    if (!r->held_count)
        return ZN_OK;
    const size_t floats = (size_t)r->recipe.size * (size_t)r->recipe.size * 3;
    double sum[TASKS] = { 0 };
    int seen = 0;
    for (int first = 0; first < r->held_count; first += r->trainer->batch) {
        ZN_TRY(reconstruct(r, first));
        for (int i = 0; i < r->trainer->batch && first + i < r->held_count; i++, seen++)
            sum[seen % TASKS] += zn_psnr(zn_mean_square(r->trainer->output->data + floats * (size_t)i,
                                                        r->held + floats * (size_t)(first + i), (int64_t)floats),
                                         1);
    }
    r->psnr = 0;
    for (int k = 0; k < TASKS; k++) {
        r->psnr += sum[k] / seen;
        r->task_psnr[k] = sum[k] * TASKS / seen;
    }
    ZN_TRY(reconstruct(r, 0));
    return write_sample(r);
}

/* The checkpoint comes last: a run cut off before it does this step again, one that has it has the rest too. */
static zn_status save(run *r)
{
    char path[PATH_SIZE];
    path_in(r, "model.safetensors", path);
    ZN_TRY(zn_trainer_export(path, r->trainer));
    ZN_TRY(zn_journal_report(r->journal, &r->recipe));
    path_in(r, "checkpoint.safetensors", path);
    return zn_checkpoint_write(path, r->trainer);
}

static double waited_share(const run *r)
{
    const double seconds = (zn_clock_ms() - r->started) * 1e-3;
    return seconds > 0 ? zn_loader_waited(r->loader) / seconds : 0;
}

static zn_train_progress progress_of(const run *r)
{
    const double seconds = (zn_clock_ms() - r->started) * 1e-3;
    const int64_t done = r->trainer->step - r->first;
    return (zn_train_progress){ .step = r->trainer->step,
                                .steps = r->recipe.steps,
                                .loss = r->loss,
                                .lr = zn_recipe_lr(&r->recipe, r->trainer->step),
                                .images_per_second = (double)(done * r->recipe.batch) / seconds,
                                .seconds_left = seconds / (double)done * (double)(r->recipe.steps - r->trainer->step),
                                .waited = waited_share(r),
                                .eval_psnr = r->psnr };
}

static zn_status one_step(run *r)
{
    ZN_TRY(zn_loader_next_pair(r->loader, r->trainer->step, r->inputs, r->batch));
    ZN_TRY(zn_trainer_step(r->trainer, r->inputs ? r->inputs : r->batch, r->batch, &r->loss));
    const int64_t step = r->trainer->step;
    const bool last = step == r->recipe.steps, eval = last || step % r->recipe.eval_every == 0;
    if (eval)
        ZN_TRY(evaluate(r));
    if (eval || step % LOG_EVERY == 0) {
        const zn_train_progress p = progress_of(r);
        zn_journal_entry e = { .step = step,
                               .loss = r->loss,
                               .lr = p.lr,
                               .images_per_second = p.images_per_second,
                               .waited = p.waited,
                               .psnr = eval && r->held_count ? r->psnr : NAN };
        for (int k = 0; k < TASKS; k++)
            e.task_psnr[k] = eval && r->inputs && r->held_count ? r->task_psnr[k] : NAN;
        ZN_TRY(zn_journal_add(r->journal, &e));
    }
    if (last || step % r->recipe.checkpoint_every == 0)
        ZN_TRY(save(r));
    return ZN_OK;
}

static zn_status train(run *r)
{
    r->started = zn_clock_ms();
    while (r->trainer->step < r->recipe.steps) {
        ZN_TRY(one_step(r));
        if (!r->options->progress)
            continue;
        const zn_train_progress p = progress_of(r);
        if (r->options->progress(r->options->user, &p)) {
            ZN_TRY(save(r));
            return ZN_FAIL(ZN_ECANCELLED, "stopped after step %lld; the state is saved", (long long)r->trainer->step);
        }
    }
    return ZN_OK;
}

zn_status zn_train(const zn_train_options *options, zn_train_result *out)
{
    run r = { .options = options };
    const double start = zn_clock_ms();
    *out = (zn_train_result){ 0 };
    zn_status status;
    ZN_TRY_DONE(read_recipe(&r));
    ZN_TRY_DONE(prepare(&r));
    status = train(&r);
    *out = (zn_train_result){ .steps = r.trainer->step,
                              .loss = r.loss,
                              .eval_psnr = r.psnr,
                              .seconds = (zn_clock_ms() - start) * 1e-3,
                              .waited = waited_share(&r) };
done:
    zn_loader_free(r.loader);
    zn_journal_close(r.journal);
    zn_trainer_free(r.trainer);
    zn_model_free(r.model);
    zn_dataset_close(r.data);
    zn_pool_free(r.pool);
    zn_free(r.batch);
    zn_free(r.inputs);
    zn_free(r.held_inputs);
    zn_free(r.held);
    return status;
}

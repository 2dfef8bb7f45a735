/* The loop of a training run: how it starts, its steps, and the way from one stage to the next. */
#include "train/run/run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "train/data/corrupt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void zn_run_path(const zn_run *r, const char *name, char path[ZN_RUN_PATH])
{
    snprintf(path, ZN_RUN_PATH, "%s/%s", r->options.folder, name);
}

bool zn_run_keeps(const zn_run *r) { return zn_ranks_rank(r->options.ranks) == 0; }

bool zn_run_stops(const zn_run *r, const zn_train_progress *p)
{
    const zn_run_options *o = &r->options;
    return (p && o->progress && o->progress(o->user, p)) || (o->stop && o->stop(o->user));
}

/* ---- starting ---- */

int64_t zn_run_steps_before(const zn_run *r, int stage)
{
    int64_t steps = 0;
    for (int i = 0; i < stage; i++)
        steps += r->stages[i].recipe.steps;
    return steps;
}

/* Steps may be long, and whoever sends a signal may not wait. What is not a step is finished, to leave all whole. */
static int stop_within_step(void *user, double fraction)
{
    const zn_run *r = user;
    (void)fraction;
    return r->in_step && zn_run_stops(r, NULL);
}

static zn_status enter_stage(zn_run *r, int stage)
{
    const zn_run_stage *s = &r->stages[stage];
    int parts, batch;
    ZN_TRY(zn_run_divide(r, &s->recipe, &parts, &batch));
    r->stage = stage;
    const zn_trainer_options t = { .model = r->model,
                                   .teacher = r->teacher,
                                   .recipe = &s->recipe,
                                   .pool = r->pool,
                                   .device = r->device,
                                   .goal = s->goal,
                                   .batch = batch,
                                   .parts = parts,
                                   .ranks = r->options.ranks,
                                   .group = r->group,
                                   .stage = stage,
                                   .stop = stop_within_step,
                                   .user = r };
    ZN_TRY(zn_trainer_new(&t, &r->trainer));
    r->coarse = s->recipe.precision > ZN_PRECISION_F32 ? zn_exec_coarse(r->trainer->exec) : NAN;
    if (zn_goal_on_table(s->goal))
        return ZN_OK;
    const zn_yardstick_options y = { .model = r->model,
                                     .teacher = r->teacher,
                                     .lpips = r->trainer->objective.lpips[0],
                                     .goal = s->goal,
                                     .size = s->recipe.size,
                                     .batch = batch,
                                     .frames = s->recipe.frames,
                                     .pool = r->pool,
                                     .device = r->device };
    return zn_yardstick_new(&y, &r->yardstick);
}

/* The next stage goes on from the averaged weights. */
static zn_status leave_stage(zn_run *r)
{
    if (r->trainer)
        ZN_TRY(zn_learner_swap(&r->trainer->learner));
    zn_trainer_free(r->trainer);
    zn_yardstick_free(r->yardstick);
    r->trainer = NULL;
    r->yardstick = NULL;
    return ZN_OK;
}

zn_status zn_run_check_task(const zn_recipe *k, const zn_arch *arch)
{
    const zn_train_task *task = zn_train_task_of(k);
    if ((arch->can & task->needs) == task->needs)
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "%s cannot be trained to %s: the recipe needs task: %s", k->model, task->name,
                   zn_train_task_for(arch->can)->name);
}

/* The CPU's threads prepare images while a device computes; otherwise they compute. */
static int loader_threads(const zn_run *r)
{
    const int threads = zn_pool_threads(r->pool);
    return r->device ? threads : 1 + threads / 8;
}

/* Videos are cut from records with enough frames. An image recipe would take a record's frames for one tall image. */
static zn_status check_clips(const zn_run *r)
{
    const int frames = r->recipe.frames;
    int most = 1;
    for (int64_t i = 0; i < zn_dataset_count(r->set); i++)
        most = zn_dataset_frames(r->set, i) > most ? zn_dataset_frames(r->set, i) : most;
    if (!frames && most > 1)
        return ZN_FAIL(ZN_EINVALID,
                       "%s holds clips, and the recipe learns from images: make a data set without --clips, "
                       "or train a video autoencoder with frames: %d in the recipe (distill: --clips)",
                       r->options.data, most);
    if (most >= frames)
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID,
                   "%s has no clips of %d frames, which the recipe needs: make some with zenith dataset "
                   "build --clips %d VIDEO... -o SET.lmdb",
                   r->options.data, frames, frames);
}

static zn_status prepare_pictures(zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    const int share = k->batch / zn_ranks_count(r->options.ranks);
    const size_t pixels = (size_t)share * (size_t)k->size * (size_t)k->size * (size_t)(k->frames ? k->frames : 1);
    const int inputs = zn_model_inputs(r->model, ZN_ENCODER);
    if (zn_train_task_of(k)->inputs == ZN_INPUTS_DEGRADED)
        ZN_TRY(zn_alloc_for("a batch", sizeof(float) * pixels * (size_t)inputs, (void **)&r->inputs));
    ZN_TRY(zn_alloc_for("a batch", sizeof(float) * pixels * 3, (void **)&r->batch));
    ZN_TRY(check_clips(r));
    ZN_TRY(zn_run_prepare_skips(r));
    const zn_skip skip = zn_run_skip(r);
    ZN_TRY(zn_held_out_new(&r->held, r->set, k, &skip));
    const zn_loader_options lo = { .batch = k->batch,
                                   .first = share * zn_ranks_rank(r->options.ranks),
                                   .count = share,
                                   .crop = { .size = k->size, .frames = k->frames, .halve = k->halve },
                                   .skip = skip,
                                   .seed = (uint64_t)k->seed,
                                   .threads = loader_threads(r),
                                   .held_out = k->held_out,
                                   .prepare = r->inputs ? zn_restore_input : NULL,
                                   .how = &k->damage,
                                   .inputs = inputs };
    return zn_loader_new(r->set, &lo, &r->loader);
}

/* The device of this rank: rank r takes GPU r, if no number is given. */
static const char *own_device(const zn_run *r, const char *asked, char *name, size_t size)
{
    const int gpus =
        asked && strcmp(asked, "cuda") == 0 && zn_ranks_count(r->options.ranks) > 1 ? zn_device_count() : 0;
    if (gpus < 1)
        return asked;
    snprintf(name, size, "cuda:%d", zn_ranks_rank(r->options.ranks) % gpus);
    return name;
}

static zn_status borrow_context(zn_run *r)
{
    zn_options o;
    ZN_TRY(zn_options_read(r->options.compute, &o));
    if (!o.context && !o.threads)
        o.threads = zn_ranks_threads(r->options.ranks);
    ZN_TRY(zn_context_borrow(o.context, o.threads, &r->context));
    r->pool = zn_context_pool(r->context);
    char name[24], text[512];
    const char *const asked = zn_run_device(r, o.device);
    snprintf(r->on_device, sizeof r->on_device, "%s", asked ? asked : "cpu");
    const zn_status status = zn_context_device(r->context, own_device(r, asked, name, sizeof name), &r->device);
    if (status == ZN_OK || o.device)
        return status;
    snprintf(text, sizeof text, "%s", zn_error_text());
    return ZN_FAIL(status, "%s had --device %s: %s (--device cpu goes on without it)", r->options.folder, asked, text);
}

static zn_status prepare(zn_run *r)
{
    char path[ZN_RUN_PATH];
    int stage = 0;
    ZN_TRY(zn_run_check_task(&r->recipe, r->model->arch));
    ZN_TRY(borrow_context(r));
    if (!r->options.data)
        return ZN_FAIL(ZN_EINVALID, "a run needs images to learn from: a folder or an .lmdb data set");
    ZN_TRY(zn_dataset_open(r->options.data, &r->set));
    zn_run_path(r, "checkpoint.safetensors", path);
    if (r->has_checkpoint)
        ZN_TRY(zn_checkpoint_stage(path, &stage));
    if (stage < 0 || stage >= r->stage_count)
        return ZN_FAIL(ZN_EFORMAT, "%s: the recipe has no stage %d", path, stage);
    ZN_TRY(enter_stage(r, stage));
    if (r->has_checkpoint)
        ZN_TRY(zn_checkpoint_read(path, r->trainer));
    r->first = zn_run_steps_before(r, stage) + r->trainer->step;
    if (r->trainer->step > r->trainer->recipe->steps)
        return ZN_FAIL(ZN_EINVALID, "%s: %lld steps are done already, more than the %lld it is to have",
                       r->options.folder, (long long)r->first, (long long)zn_run_steps_before(r, r->stage_count));
    r->saved = r->has_checkpoint ? r->first : -1;
    if (r->said_of.captions)
        return zn_run_prepare_captions(r);
    return zn_goal_on_conditions(r->stages[stage].goal) ? zn_run_prepare_conditions(r) : prepare_pictures(r);
}

/* Ranks that read different files would drift apart unnoticed. */
static zn_status check_alike(const zn_run *r)
{
    struct {
        int64_t step, pictures;
        char recipe[ZN_RECIPE_TEXT], digest[65];
    } mine = { .step = r->first, .pictures = zn_dataset_count(r->set) }, zero;
    strcpy(mine.digest, r->digest);
    zn_recipe_text(&r->recipe, mine.recipe, sizeof mine.recipe);
    zero = mine;
    ZN_TRY(zn_ranks_share(r->options.ranks, &zero, sizeof zero));
    if (zero.step == mine.step && zero.pictures == mine.pictures && !strcmp(zero.recipe, mine.recipe) &&
        !strcmp(zero.digest, mine.digest))
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "rank %d sees another recipe, checkpoint, data set, teacher or labels than rank 0",
                   zn_ranks_rank(r->options.ranks));
}

/* The results of a run with nothing left to do are those of its last steps. What was measured on other pictures says
 * nothing of these. */
static void recall(zn_run *r)
{
    if (r->other_data)
        return;
    r->loss = zn_journal_last(r->journal, "loss");
    r->measures.psnr = zn_journal_last(r->journal, "psnr");
    r->measures.teacher_psnr = zn_journal_last(r->journal, "teacher_psnr");
    r->measures.decoder_psnr = zn_journal_last(r->journal, "decoder_psnr");
    r->measures.latent_error = zn_journal_last(r->journal, "latent_error");
    r->measures.pruned = zn_journal_last(r->journal, "pruned");
    r->measures.loss = zn_journal_last(r->journal, "held_out_loss");
    r->measures.accuracy = zn_journal_last(r->journal, "accuracy");
    r->measures.auroc = zn_journal_last(r->journal, "auroc");
}

/* The folder is made only when all else is in order, so a mistake leaves no files. */
static zn_status open_folder(zn_run *r)
{
    ZN_TRY(zn_run_make_folder(r));
    ZN_TRY(zn_run_note_origin(r));
    ZN_TRY(zn_run_note_data(r));
    ZN_TRY(zn_journal_open(r->options.folder, r->first, &r->journal));
    recall(r);
    return ZN_OK;
}

/* Lets the devices of all ranks add up gradients by themselves, where each rank has its own and the library for it. Who
 * joins waits for all others, so all of them must be able to. */
static zn_status join_devices(zn_run *r)
{
    zn_ranks *ranks = r->options.ranks;
    zn_device_group_id id;
    if (zn_ranks_count(ranks) == 1)
        return ZN_OK;
    bool missing = !r->device || !zn_device_group_make(&id);
    ZN_TRY(zn_ranks_any(ranks, &missing));
    if (missing)
        return ZN_OK;
    ZN_TRY(zn_ranks_share(ranks, &id, sizeof id));
    bool failed = zn_device_group_join(r->device, &id, zn_ranks_rank(ranks), zn_ranks_count(ranks), &r->group) != ZN_OK;
    ZN_TRY(zn_ranks_any(ranks, &failed));
    if (failed) { /* such as two ranks on one GPU */
        zn_device_group_leave(r->group);
        r->group = NULL;
    }
    r->trainer->options.group = r->group;
    return ZN_OK;
}

static zn_status begin(zn_run *r, zn_status status)
{
    if (status == ZN_OK)
        status = prepare(r);
    ZN_TRY(zn_ranks_agree(r->options.ranks, status));
    ZN_TRY(zn_ranks_agree(r->options.ranks, check_alike(r)));
    ZN_TRY(join_devices(r));
    ZN_TRY(zn_ranks_agree(r->options.ranks, zn_run_keeps(r) ? open_folder(r) : ZN_OK));
    bool stop = zn_run_stops(r, NULL); /* now that it can be resumed, without a checkpoint of what it starts with */
    ZN_TRY(zn_ranks_any(r->options.ranks, &stop));
    if (stop)
        return ZN_FAIL(ZN_ECANCELLED, "stopped before the first step");
    if (r->said_of.captions)
        return zn_run_encode_latents(r);
    return r->on.table ? zn_run_encode(r) : zn_run_tell_skips(r);
}

/* ---- going on ---- */

/* Saves, and fails with the sentence there is and what was done. */
static zn_status save_and_stop(zn_run *r, zn_status status)
{
    char text[900];
    snprintf(text, sizeof text, "%s", zn_error_text());
    ZN_TRY(zn_ranks_agree(r->options.ranks, zn_run_keeps(r) ? zn_run_save(r) : ZN_OK));
    return status != ZN_ECANCELLED
               ? ZN_FAIL(status, "step %lld: %s; the state before it is saved", (long long)r->done + 1, text)
               : ZN_FAIL(status, "stopped after step %lld; the state is saved", (long long)r->done);
}

/* Pictures that are there no more (a disk that went away, say) do not cost the steps that were made with them. */
static zn_status take_pictures(zn_run *r)
{
    const zn_status status = zn_ranks_agree(r->options.ranks, zn_loader_next(r->loader, r->done, r->inputs, r->batch));
    if (status != ZN_OK && r->done > r->first)
        return save_and_stop(r, status);
    ZN_TRY(status);
    return zn_run_tell_skips(r);
}

static zn_status one_step(zn_run *r)
{
    if (r->said_of.captions)
        zn_run_take_latents(r);
    else if (r->on.table)
        zn_run_take_conditions(r);
    else
        ZN_TRY(take_pictures(r));
    r->in_step = true;
    const zn_status status = zn_trainer_step(r->trainer, r->inputs ? r->inputs : r->batch, r->batch, &r->loss);
    r->in_step = false;
    if (status == ZN_ENUMERIC || status == ZN_ECANCELLED)
        return save_and_stop(r, status);
    ZN_TRY(status);
    r->done++;
    return zn_ranks_agree(r->options.ranks, zn_run_keeps(r) ? zn_run_record(r) : ZN_OK);
}

static zn_status run_stage(zn_run *r)
{
    while (r->trainer->step < r->trainer->recipe->steps) {
        ZN_TRY(one_step(r));
        const zn_train_progress p = zn_run_progress(r);
        bool stop = zn_run_stops(r, &p);
        ZN_TRY(zn_ranks_any(r->options.ranks, &stop));
        if (stop)
            return save_and_stop(r, ZN_ECANCELLED);
    }
    return ZN_OK;
}

zn_status zn_run_all(zn_run *r, zn_status status)
{
    r->loss = NAN;
    r->measures = zn_no_measures();
    ZN_TRY(begin(r, status));
    r->started = zn_clock_ms();
    r->done = r->first;
    for (int stage = r->stage; stage < r->stage_count; stage++) {
        if (stage > r->stage) {
            ZN_TRY(leave_stage(r));
            ZN_TRY(zn_ranks_agree(r->options.ranks, enter_stage(r, stage)));
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
    zn_device_group_leave(r->group);
    zn_yardstick_free(r->yardstick);
    zn_model_free(r->model);
    zn_model_free(r->teacher);
    zn_dataset_close(r->set);
    zn_context_free(r->context);
    zn_free(r->batch);
    zn_free(r->inputs);
    zn_held_out_free(&r->held);
    zn_run_free_conditions(r);
    zn_run_free_captions(r);
    zn_run_free_skips(r);
    zn_run_unlock_folder(r);
}

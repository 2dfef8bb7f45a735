/* zn_train: a run of one stage, from a recipe. */
#include <zenith/train.h>

#include "base/clock.h"
#include "base/fail.h"
#include "graph/compute.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *zn_train_preset(int index, const char **description) { return zn_recipe_preset(index, description); }

static unsigned said_by(const zn_train_options *o)
{
    return zn_run_said_by(&o->run) | (o->labels ? ZN_SAID_LABELS : 0) | (o->captions ? ZN_SAID_CAPTIONS : 0);
}

static zn_status apply_options(zn_recipe *k, const zn_train_options *o)
{
    zn_options compute;
    ZN_TRY(zn_recipe_set_all(o->run.settings, k));
    if (o->run.steps > 0)
        k->steps = o->run.steps;
    ZN_TRY(zn_run_set_path(k->labels, sizeof k->labels, o->labels, "the labels' file"));
    ZN_TRY(zn_run_set_path(k->captions, sizeof k->captions, o->captions, "the captions' file"));
    ZN_TRY(zn_run_set_path(k->autoencoder, sizeof k->autoencoder, NULL, "the autoencoder"));
    ZN_TRY(zn_options_read(o->run.compute, &compute));
    if (compute.precision > ZN_PRECISION_F16)
        return ZN_FAIL(ZN_EUNSUPPORTED, "training computes in f32, bf16 or f16, not in %s",
                       zn_precision_name(compute.precision));
    if (compute.precision != ZN_PRECISION_DEFAULT)
        k->precision = compute.precision;
    return ZN_OK;
}

/* Labels that the recipe of a resumed run's call names. What is in them will be compared; of an old run, their name. */
static zn_status take_labels(zn_run *r, zn_recipe *asked)
{
    ZN_TRY(zn_run_set_path(asked->labels, sizeof asked->labels, NULL, "the labels' file"));
    if (!asked->labels[0] || zn_run_may_omit(r, ZN_SAID_LABELS, false)) /* or they were found beside the images */
        strcpy(asked->labels, r->recipe.labels);
    else if (r->origin.digest[0])
        strcpy(r->recipe.labels, asked->labels);
    ZN_TRY(zn_run_set_path(asked->captions, sizeof asked->captions, NULL, "the captions' file"));
    if (!asked->captions[0] || zn_run_may_omit(r, ZN_SAID_CAPTIONS, false))
        strcpy(asked->captions, r->recipe.captions);
    return ZN_OK;
}

/* Whoever repeats the command of the first time with resume may do so, and leave out of it what they like; what else is
 * asked for would be ignored. Steps may be others, and labels and data may have moved. */
static zn_status go_on(zn_run *r, const zn_train_options *o)
{
    zn_recipe asked;
    if (o->recipe) {
        ZN_TRY(zn_recipe_read(o->recipe, &asked));
        ZN_TRY(zn_run_set_again(r, &asked));
        ZN_TRY(take_labels(r, &asked));
        ZN_TRY(zn_run_check_asked(r, &asked, o->recipe));
    }
    asked = r->recipe;
    ZN_TRY(apply_options(&asked, o));
    ZN_TRY(zn_run_set_start(&asked, &o->run));
    r->recipe.steps = asked.steps;
    strcpy(r->recipe.labels, asked.labels);
    strcpy(r->recipe.captions, asked.captions);
    return zn_run_check_asked(r, &asked, NULL);
}

static zn_status start(zn_recipe *k, const zn_train_options *o)
{
    ZN_TRY(apply_options(k, o));
    return zn_run_set_start(k, &o->run);
}

/* The recipe of the call, or with resume the run's own. */
static zn_status read_recipe(zn_run *r, const zn_train_options *o)
{
    if (!o->recipe && !o->run.resume)
        return ZN_FAIL(ZN_EINVALID, "training needs a recipe");
    ZN_TRY(o->run.resume ? zn_run_read_recipe(r) : zn_recipe_read(o->recipe, &r->recipe));
    if (r->recipe.teacher[0])
        return ZN_FAIL(ZN_EINVALID, "%s has a teacher: it is one for distilling",
                       o->run.resume ? o->run.folder : o->recipe);
    if (r->recipe.features > 0 || r->recipe.latent_mse > 0)
        return ZN_FAIL(ZN_EINVALID, "%s weighs loss.%s, which needs a teacher: it is for distilling",
                       o->run.resume ? o->run.folder : o->recipe, r->recipe.features > 0 ? "features" : "latent");
    ZN_TRY(o->run.resume ? go_on(r, o) : start(&r->recipe, o));
    const unsigned takes = zn_train_task_of(&r->recipe)->takes;
    if (r->recipe.labels[0] && !(takes & ZN_TAKES_LABELS))
        return ZN_FAIL(ZN_EINVALID, "labels are for a classifier: a recipe with task: classify");
    if (r->recipe.captions[0] && !(takes & ZN_TAKES_CAPTIONS))
        return ZN_FAIL(ZN_EINVALID, "captions are for a generator: a recipe with task: generate");
    if (r->recipe.kl > 0 && !(takes & ZN_TAKES_KL))
        return ZN_FAIL(ZN_EINVALID, "loss.kl is for latents: for task: autoencode alone");
    if (r->recipe.sets_losses && !(takes & ZN_TAKES_LOSSES) && !o->run.resume)
        return ZN_FAIL(ZN_EINVALID,
                       "losses are for task: autoencode and restore; leave loss out of a recipe with task: %s",
                       zn_train_task_of(&r->recipe)->name);
    if (r->recipe.dropout > 0 && !(takes & ZN_TAKES_DROPOUT))
        return ZN_FAIL(ZN_EINVALID, "dropout is for task: diffuse alone");
    if ((r->recipe.prediction || r->recipe.min_snr > 0) && r->recipe.task != ZN_RECIPE_DIFFUSE)
        return ZN_FAIL(ZN_EINVALID, "prediction and min_snr are for task: diffuse alone");
    return ZN_OK;
}

/* The network of a recipe that starts with a fresh one. */
static zn_status find_network(const zn_recipe *k, const zn_arch **arch, zn_config *config)
{
    const zn_config *known;
    *arch = zn_arch_find(k->model, &known);
    if (!*arch)
        return ZN_FAIL(ZN_ENOTFOUND, "no architecture is called '%s'", k->model);
    *config = *known;
    const zn_wishes want = { .width = k->width,
                             .latent = k->latent,
                             .size = k->size,
                             .layers = k->layers,
                             .vocabulary = k->vocabulary,
                             .dropout = (float)k->dropout,
                             .velocity = k->prediction == ZN_RECIPE_VELOCITY };
    return zn_arch_resize(*arch, config, &want);
}

zn_status zn_run_fresh_model(zn_run *r)
{
    const zn_arch *arch;
    zn_config config;
    ZN_TRY(find_network(&r->recipe, &arch, &config));
    return zn_run_new_model(r, arch, &config, true, !(arch->can & ZN_RESTORES));
}

static zn_status make_model(zn_run *r)
{
    const zn_train_task *task = zn_train_task_of(&r->recipe);
    if (task->inputs == ZN_INPUTS_LABELLED)
        ZN_TRY(zn_run_read_labels(r));
    if (task->inputs == ZN_INPUTS_CAPTIONED)
        ZN_TRY(zn_run_read_captions(r));
    return zn_train_on_conditions(task) ? zn_run_open_model(r, task->part) : zn_run_fresh_model(r);
}

static zn_status check(zn_run *r, const zn_train_options *o)
{
    const zn_arch *arch;
    zn_config config;
    ZN_TRY(read_recipe(r, o));
    const zn_train_task *task = zn_train_task_of(&r->recipe);
    if (zn_train_on_conditions(task))
        return zn_run_check_from(r->recipe.from, task->part);
    ZN_TRY(find_network(&r->recipe, &arch, &config));
    ZN_TRY(zn_run_check_gates(&r->recipe, &config));
    return zn_run_check_task(&r->recipe, arch);
}

zn_status zn_train_check(const zn_train_options *o)
{
    zn_run r = { .options = o->run, .said = said_by(o) };
    const zn_status status = check(&r, o);
    zn_run_free(&r);
    return status;
}

static zn_status set_up(zn_run *r, const zn_train_options *o)
{
    ZN_TRY(read_recipe(r, o));
    ZN_TRY(make_model(r));
    r->stages[r->stage_count++] = (zn_run_stage){ "train", zn_train_task_of(&r->recipe)->goal, r->recipe };
    return ZN_OK;
}

zn_status zn_train(const zn_train_options *o, zn_train_result *out)
{
    const double start = zn_clock_ms();
    zn_run r = { .options = o->run, .said = said_by(o), .coarse = NAN };
    const zn_status status = zn_run_all(&r, set_up(&r, o));
    *out = (zn_train_result){ .first = r.first,
                              .steps = r.done,
                              .loss = r.loss,
                              .eval_psnr = r.measures.psnr,
                              .eval_pruned = r.measures.pruned,
                              .eval_loss = r.measures.loss,
                              .eval_accuracy = r.measures.accuracy,
                              .eval_auroc = r.measures.auroc,
                              .bf16 = r.coarse,
                              .skipped = r.skips.count,
                              .seconds = (zn_clock_ms() - start) * 1e-3,
                              .waited = zn_run_waited(&r),
                              .precision = r.recipe.precision };
    zn_run_free(&r);
    return status;
}

/* Runs that learn from conditions: the pictures are encoded once, by the part of the model that stays as it is, and
 * kept in the run's folder; steps take their batches from there. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "train/run/run.h"
#include "train/score/scores.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zenith/sample.h>

enum { MOST_HELD = 4096, SHOWN = 4, SAMPLE_STEPS = 20 };

/* ---- labels ---- */

/* Those that the recipe names, or the ones beside the pictures. */
static zn_status find_labels(zn_run *r)
{
    static const char *const names[] = { "labels.csv", "labels.txt", "list_attr_celeba.txt" };
    char path[ZN_RUN_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names && !r->recipe.labels[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", r->options.data, names[i]);
        if (zn_exists(path))
            ZN_TRY(zn_run_set_path(r->recipe.labels, sizeof r->recipe.labels, path, "the labels' file"));
    }
    if (!r->recipe.labels[0])
        return ZN_FAIL(ZN_EINVALID,
                       "a classifier needs labels: name their file (--labels, or labels in the recipe), or put a "
                       "labels.csv beside the images in %s",
                       r->options.data);
    return ZN_OK;
}

zn_status zn_run_read_labels(zn_run *r)
{
    ZN_TRY(find_labels(r));
    ZN_TRY(zn_labels_read(r->recipe.labels, &r->on.labels));
    return zn_run_check_labels(r);
}

/* Only pictures with labels are looked at. */
static zn_status mark_labelled(zn_run *r)
{
    const int64_t count = zn_dataset_count(r->set);
    int64_t found = 0;
    r->on.wanted = zn_calloc((size_t)count + 1, 1);
    if (!r->on.wanted)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of pictures");
    for (int64_t i = 0; i < count; i++)
        found += r->on.wanted[i] = zn_labels_of(r->on.labels, zn_dataset_name(r->set, i)) != NULL;
    if (found)
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "%s names none of the images in %s: it has '%.100s' for example, they '%.100s'",
                   r->recipe.labels, r->options.data, r->on.labels->list[0].file, zn_dataset_name(r->set, 0));
}

static void copy_labels(const zn_run *r, int64_t picture, float *to)
{
    const uint8_t *has = zn_labels_of(r->on.labels, zn_dataset_name(r->set, picture));
    for (int i = 0; i < r->on.labels->count; i++)
        to[i] = has[i] == ZN_LABEL_UNKNOWN ? 0.5f : has[i];
}

/* ---- conditions ---- */

static int width_of(const zn_run *r) { return r->model->config.latent; }
static int share_of(const zn_run *r) { return r->recipe.batch / zn_ranks_count(r->options.ranks); }

zn_status zn_run_prepare_conditions(zn_run *r)
{
    const size_t row = sizeof(float) * (size_t)width_of(r), share = (size_t)share_of(r);
    const bool labelled = r->on.labels != NULL;
    if (labelled) {
        ZN_TRY(mark_labelled(r));
        ZN_TRY(zn_alloc_for("a batch", sizeof(float) * share * (size_t)r->on.labels->count, (void **)&r->batch));
    }
    ZN_TRY(zn_alloc_for("a batch", row * share, (void **)(labelled ? &r->inputs : &r->batch)));
    ZN_TRY(zn_run_prepare_skips(r));
    return zn_conditions_new(r->set, width_of(r), labelled ? 2 : 1, &r->on.table);
}

/* Encoding takes a while: it reports progress and can be stopped. */
static int tell_encoded(void *user, int64_t done, int64_t of)
{
    const zn_run *r = user;
    const zn_train_progress p = { .step = r->first,
                                  .steps = r->recipe.steps,
                                  .stage = r->stages[r->stage].name,
                                  .stage_number = r->stage + 1,
                                  .stage_count = r->stage_count,
                                  .loss = NAN,
                                  .eval_psnr = NAN,
                                  .encoded = done,
                                  .to_encode = of };
    return zn_run_stops(r, &p);
}

static void normalise(const zn_run *r, const float *row, float *to)
{
    for (int i = 0; i < width_of(r); i++)
        to[i] = (row[i] - r->on.mean[i]) / r->on.deviation[i];
}

static zn_status keep_held_out(zn_run *r)
{
    const zn_conditions *c = r->on.table;
    const int64_t count = c->held_count < MOST_HELD ? c->held_count : MOST_HELD;
    const int classes = r->on.labels ? r->on.labels->count : 0;
    ZN_TRY(zn_alloc_for("held-out pictures", sizeof(float) * (size_t)(count * c->width), (void **)&r->on.rows));
    ZN_TRY(zn_alloc_for("held-out pictures", sizeof(float) * (size_t)(count * classes), (void **)&r->on.row_labels));
    for (int64_t i = 0; i < count; i++) {
        normalise(r, c->values + c->held[i] * c->views * c->width, r->on.rows + i * c->width);
        if (classes)
            copy_labels(r, c->held[i], r->on.row_labels + i * classes);
    }
    r->on.row_count = count;
    return ZN_OK;
}

/* What the folder has is good for a run that goes on with the same images: until its first checkpoint the weights may
 * yet be others. Files of other images are removed, so that a later call does not take them for those of the images of
 * this one. Only the rank that keeps the folder knows of other images; it then misses the file for all ranks. */
zn_status zn_run_fill_table(zn_run *r, const char *file, const zn_model *encoder, int side)
{
    char path[ZN_RUN_PATH];
    bool there = false;
    zn_run_path(r, file, path);
    zn_status status = ZN_OK;
    if (r->other_data)
        remove(path);
    else if (r->has_checkpoint)
        status = zn_conditions_read(path, r->on.table, r->set, r->on.wanted, &there);
    ZN_TRY(zn_ranks_agree(r->options.ranks, status));
    bool missing = !there;
    ZN_TRY(zn_ranks_any(r->options.ranks, &missing));
    if (!missing)
        return ZN_OK;
    const zn_encoding how = { .model = encoder,
                              .side = side,
                              .set = r->set,
                              .wanted = r->on.wanted,
                              .pool = r->pool,
                              .device = r->device,
                              .ranks = r->options.ranks,
                              .skip = zn_run_skip(r),
                              .progress = tell_encoded,
                              .user = r };
    if (there) /* but not on every rank */
        zn_conditions_forget(r->on.table);
    ZN_TRY(zn_conditions_encode(r->on.table, &how));
    return zn_ranks_agree(r->options.ranks,
                          zn_run_keeps(r) ? zn_conditions_write(path, r->on.table, r->set, r->on.wanted) : ZN_OK);
}

zn_status zn_run_encode(zn_run *r)
{
    ZN_TRY(zn_run_fill_table(r, "conditions.safetensors", r->model, r->model->config.size));
    ZN_TRY(zn_run_tell_skips(r));
    ZN_TRY(zn_conditions_split(r->on.table, r->set, r->recipe.held_out));
    r->on.mean = zn_model_parameter_find(r->model, "conds_mean")->data;
    r->on.deviation = zn_model_parameter_find(r->model, "conds_std")->data;
    if (r->on.needs_statistics)
        zn_conditions_statistics(r->on.table, r->on.mean, r->on.deviation);
    return zn_ranks_agree(r->options.ranks, keep_held_out(r));
}

void zn_run_take_conditions(zn_run *r)
{
    const int share = share_of(r), first = share * zn_ranks_rank(r->options.ranks), width = width_of(r);
    float *rows = r->on.labels ? r->inputs : r->batch;
    for (int i = 0; i < share; i++) {
        int64_t picture;
        const uint64_t n = (uint64_t)r->done * (uint64_t)r->recipe.batch + (uint64_t)(first + i);
        normalise(r, zn_conditions_at(r->on.table, (uint64_t)r->recipe.seed, n, &picture), rows + (int64_t)i * width);
        if (r->on.labels)
            copy_labels(r, picture, r->batch + (int64_t)i * r->on.labels->count);
    }
}

zn_status zn_run_score(const zn_run *r, zn_measures *out)
{
    const zn_scoring how = { .model = r->model,
                             .goal = r->stages[r->stage].goal,
                             .pool = r->pool,
                             .rows = r->on.rows,
                             .labels = r->on.row_labels,
                             .count = r->on.row_count };
    return zn_score_conditions(&how, out);
}

/* ---- samples ---- */

static int stop_drawing(void *user, double fraction)
{
    const zn_run *r = user;
    (void)fraction;
    return zn_run_stops(r, NULL);
}

static zn_status write_sheet(zn_run *r, zn_image *const pictures[SHOWN])
{
    const size_t side = (size_t)pictures[0]->width, row = side * 3;
    zn_image *sheet;
    ZN_TRY(zn_image_new((int)side * SHOWN, (int)side, 8, &sheet));
    for (size_t y = 0; y < side; y++)
        for (size_t i = 0; i < SHOWN; i++)
            memcpy((uint8_t *)sheet->pixels + (y * SHOWN + i) * row, (uint8_t *)pictures[i]->pixels + y * row, row);
    const zn_status status = zn_journal_sample(r->journal, r->done, sheet);
    zn_image_free(sheet);
    return status;
}

zn_status zn_run_show_imagined(zn_run *r)
{
    zn_image *images[SHOWN];
    if (r->stages[r->stage].goal != ZN_GOAL_LATENT_NET)
        return ZN_OK;
    const zn_options compute = { .context = r->context, .progress = stop_drawing, .user = r };
    const zn_sample_options o = { .seed = (uint64_t)r->recipe.seed, /* always from the same noise */
                                  .steps = SAMPLE_STEPS,
                                  .compute = &compute };
    zn_status status = zn_sample(r->model, &o, SHOWN, images);
    if (status == ZN_OK)
        status = write_sheet(r, images);
    for (int i = 0; i < SHOWN; i++)
        zn_image_free(images[i]);
    /* a net that knows too little for images has none to show; a run that is to stop will do so by itself */
    return status == ZN_ENUMERIC || status == ZN_ECANCELLED ? ZN_OK : status;
}

void zn_run_free_conditions(zn_run *r)
{
    zn_labels_free(r->on.labels);
    zn_conditions_free(r->on.table);
    zn_free(r->on.wanted);
    zn_free(r->on.rows);
    zn_free(r->on.row_labels);
}

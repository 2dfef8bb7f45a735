/* Judging a model picture by picture. Pictures are taken one after the other: the model itself uses all threads. */
#include <zenith/eval.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/rng.h"
#include "graph/compute.h"
#include "io/dataset/dataset.h"
#include "pipeline/eval/eval_clips.h"
#include "pipeline/eval/eval_score.h"
#include "pipeline/eval/features.h"
#include "train/ranks/parcel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct judge {
    const zn_eval_options *o;
    const zn_model_info *info;
    zn_codec *codec;
    zn_video *video; /* NULL: what is judged are images */
    zn_scorer *scorer;
    zn_features *features; /* NULL: no distance of sets is asked for */
    zn_spread truth, results[ZN_EVAL_GROUPS];
    int threads;
    zn_dataset *data;
    zn_corruption damages[ZN_EVAL_GROUPS];
    int damage_count; /* 1 for an autoencoder, whose pictures are not damaged */
    zn_eval_result *out;
    size_t capacity;    /* for rows */
    zn_parcel parcel;   /* for rank 0 */
    double *pixels;     /* zn_eval_count_pixels */
    double base, scale; /* where the running model's progress lies in the whole */
} judge;

static int on_progress(void *user, double fraction)
{
    const judge *j = user;
    return j->o->progress(j->o->user, j->base + j->scale * fraction);
}

/* ---- one picture ---- */

static zn_status round_trip(judge *j, const zn_image *picture, zn_eval_row *row)
{
    zn_latent *latent = NULL;
    zn_image *back = NULL;
    zn_status status;
    const double base = j->base, start = zn_clock_ms();
    j->scale /= 2;
    ZN_TRY_DONE(zn_encode(j->codec, picture, &latent));
    j->base += j->scale;
    ZN_TRY_DONE(zn_decode(j->codec, latent, &back));
    row->ms = zn_clock_ms() - start;
    ZN_TRY_DONE(zn_scorer_compare(j->scorer, picture, back, &row->model));
    status = j->features ? zn_features_add(j->features, back, &j->results[0]) : ZN_OK;
done:
    j->base = base;
    zn_latent_free(latent);
    zn_image_free(back);
    return status;
}

static zn_status repair(judge *j, const zn_image *picture, int damage, uint64_t seed, zn_eval_row *row)
{
    const zn_corruption c = j->damages[damage];
    zn_image *damaged = NULL, *restored = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_corrupt(picture, c, seed, &damaged));
    const double start = zn_clock_ms();
    ZN_TRY_DONE(zn_restore(j->codec, damaged, j->o->task, &restored));
    row->ms = zn_clock_ms() - start;
    ZN_TRY_DONE(zn_scorer_compare(j->scorer, picture, restored, &row->model));
    if (j->features)
        ZN_TRY_DONE(zn_features_add(j->features, restored, &j->results[damage]));
    status = zn_eval_score_plain(j->o, j->scorer, j->threads, picture, damaged, c, row);
done:
    zn_image_free(damaged);
    zn_image_free(restored);
    return status;
}

/* ---- all of them ---- */

static zn_status add_row(judge *j, const zn_eval_row *row)
{
    zn_eval_result *r = j->out;
    if (!ZN_GROW(r->rows, j->capacity, r->row_count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the scores of %lld pictures", (long long)r->row_count + 1);
    zn_eval_row *kept = &r->rows[r->row_count];
    *kept = *row;
    kept->name = zn_strdup(row->name);
    if (!kept->name)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the name of a picture");
    r->row_count++;
    return ZN_OK;
}

/* All damages of one picture; its rows are kept only together. */
static zn_status judge_picture(judge *j, int64_t index)
{
    char *name = (char *)(uintptr_t)zn_dataset_name(j->data, index);
    const double base = j->base, scale = j->scale;
    zn_image *picture;
    ZN_TRY(zn_dataset_read(j->data, index, &picture));
    zn_status status = ZN_OK;
    for (int d = 0; d < j->damage_count && status == ZN_OK; d++) {
        zn_eval_row row = { .name = name, .width = picture->width, .height = picture->height, .model = zn_no_scores() };
        for (int p = 0; p < ZN_PLAIN_COUNT; p++)
            row.plain[p] = zn_no_scores();
        memcpy(row.damage, j->out->groups[d].damage, sizeof row.damage);
        j->scale = scale / j->damage_count;
        j->base = base + d * j->scale;
        if (j->video)
            status = zn_eval_clip(j->video, j->scorer, j->info, picture, zn_dataset_frames(j->data, index), &row);
        else
            status = j->info->restores ? repair(j, picture, d, zn_seed_for(j->o->seed, name), &row)
                                       : round_trip(j, picture, &row);
        if (status == ZN_OK)
            status = add_row(j, &row);
    }
    if (j->features && status == ZN_OK)
        status = zn_features_add(j->features, picture, &j->truth);
    zn_image_free(picture);
    return status;
}

/* Clips of a set have one size as a rule: what does not fit into the memory budget for one does not for the others. */
static bool stops(const judge *j, zn_status status)
{
    return status == ZN_ECANCELLED || status == ZN_ENOMEM || (j->o->clips && status == ZN_ELIMIT);
}

static void tell_skipped(judge *j, const char *name, const char *why)
{
    j->out->failed++;
    if (j->o->skipped)
        j->o->skipped(j->o->user, name, why);
}

static void drop_rows(judge *j, int64_t from)
{
    while (j->out->row_count > from)
        zn_free(j->out->rows[--j->out->row_count].name);
}

/* Pictures [first,last) of those that are wanted, this rank's slice of them. */
static zn_status judge_slice(judge *j, int64_t first, int64_t last)
{
    for (int64_t i = 0, number = 0; i < zn_dataset_count(j->data) && number < last; i++) {
        if (!zn_eval_wants(j->o, j->data, i) || number++ < first)
            continue;
        const int64_t before = j->out->row_count;
        if (j->pixels) {
            const double all = j->pixels[last] - j->pixels[first];
            j->base = (j->pixels[number - 1] - j->pixels[first]) / all;
            j->scale = (j->pixels[number] - j->pixels[number - 1]) / all;
        }
        const zn_status status = judge_picture(j, i);
        if (status == ZN_OK)
            continue;
        drop_rows(j, before);
        if (stops(j, status))
            return status;
        const char *name = zn_dataset_name(j->data, i);
        if (zn_ranks_count(j->o->ranks) == 1) {
            tell_skipped(j, name, zn_error_text());
        } else {
            zn_parcel_put(&j->parcel, &(bool){ false }, sizeof(bool));
            zn_parcel_put_text(&j->parcel, name);
            zn_parcel_put_text(&j->parcel, zn_error_text());
        }
    }
    return ZN_OK;
}

/* Slices in the order of the ranks are all pictures in their order. A parcel has, after a flag, rows with their names,
 * or names and reasons. */
static zn_status collect(judge *j)
{
    zn_parcel *p = &j->parcel;
    zn_eval_row row;
    size_t size;
    for (int64_t i = 0; i < j->out->row_count; i++) {
        zn_parcel_put(p, &(bool){ true }, sizeof(bool));
        zn_parcel_put(p, &j->out->rows[i], sizeof row);
        zn_parcel_put_text(p, j->out->rows[i].name);
    }
    drop_rows(j, 0);
    ZN_TRY(zn_parcel_gather(p, j->o->ranks));
    for (bool is_row; zn_parcel_take(p, &is_row, sizeof is_row);) {
        const bool whole = !is_row || zn_parcel_take(p, &row, sizeof row);
        const void *name = zn_parcel_take_bytes(p, &size), *why = is_row ? "" : zn_parcel_take_bytes(p, &size);
        if (!whole || !name || !why)
            return ZN_FAIL(ZN_EFORMAT, "what the ranks sent is cut off");
        row.name = (char *)(uintptr_t)name;
        if (is_row)
            ZN_TRY(add_row(j, &row));
        else
            tell_skipped(j, name, why);
    }
    return ZN_OK;
}

static zn_status judge_all(judge *j)
{
    zn_ranks *ranks = j->o->ranks;
    const int64_t count = zn_dataset_count(j->data), all = zn_ranks_count(ranks), me = zn_ranks_rank(ranks);
    int64_t wanted = 0;
    for (int64_t i = 0; i < count; i++)
        wanted += zn_eval_wants(j->o, j->data, i);
    if (!wanted)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: none of %lld %s is held out; a larger percentage holds out some", j->o->data,
                       (long long)count, j->o->clips ? "clips" : "images");
    ZN_TRY(zn_ranks_agree(ranks, judge_slice(j, wanted * me / all, wanted * (me + 1) / all)));
    if (all > 1)
        ZN_TRY(zn_ranks_agree(ranks, collect(j)));
    return zn_ranks_agree(ranks, me || j->out->row_count
                                     ? ZN_OK
                                     : ZN_FAIL(ZN_ENOTFOUND, "%s: none of %lld %s could be evaluated", j->o->data,
                                               (long long)wanted, j->o->clips ? "clips" : "images"));
}

static zn_status prepare(judge *j, const zn_model *model)
{
    const zn_eval_options *o = j->o;
    zn_options compute;
    ZN_TRY(zn_options_read(o->compute, &compute));
    if (!compute.context && !compute.threads)
        compute.threads = zn_ranks_threads(o->ranks);
    j->threads = compute.context ? zn_context_threads(compute.context) : compute.threads;
    compute.progress = o->progress ? on_progress : NULL;
    compute.user = j;
    const bool damaged = o->damage.damage != ZN_DAMAGE_NONE;
    if (!j->info->restores && (damaged || o->task != ZN_TASK_AUTO || o->nlm))
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "%s: %s is an autoencoder; tasks, damages and filters are for models that restore",
                       j->info->path, j->info->architecture);
    if (j->info->diffuses)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s is a diffusion autoencoder; only codecs and restorers are judged here",
                       j->info->path, j->info->architecture);
    if (!j->info->restores && !(j->info->has_encoder && j->info->has_decoder))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a round trip needs encoder and decoder, and one is missing",
                       j->info->path);
    if (!j->info->restores)
        j->damage_count = 1;
    else if (damaged)
        j->damages[j->damage_count++] = o->damage;
    else
        while (j->damage_count < ZN_EVAL_GROUPS &&
               zn_corruption_of_task(o->task, j->damage_count, &j->damages[j->damage_count]))
            j->damage_count++;
    j->out->group_count = j->damage_count;
    for (int d = 0; d < j->damage_count && j->info->restores; d++)
        zn_corruption_text(j->damages[d], j->out->groups[d].damage);
    snprintf(j->out->varied, sizeof j->out->varied, "%s", j->info->restores ? "damage" : "");
    snprintf(j->out->architecture, sizeof j->out->architecture, "%s", j->info->architecture);
    snprintf(j->out->data, sizeof j->out->data, "%s", o->data);
    ZN_TRY(zn_dataset_open(o->data, &j->data));
    if (o->fid && zn_ranks_count(o->ranks) > 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "the distance of sets is measured in one process, and there are %d",
                       zn_ranks_count(o->ranks));
    if (o->clips && o->fid)
        return ZN_FAIL(ZN_EUNSUPPORTED, "the distance of sets is measured for images, not for clips");
    if (o->clips && !zn_eval_has_clips(j->data))
        return ZN_FAIL(ZN_EINVALID,
                       "%s: images, not clips: make a data set with zenith dataset build --clips 17 %s -o SET.lmdb",
                       o->data, o->data);
    if (!o->clips && zn_eval_has_clips(j->data)) /* else the frames of each would be one tall image */
        return ZN_FAIL(ZN_EINVALID, "%s: clips, not images%s", o->data, j->info->restores ? "" : ": add --clips");
    ZN_TRY(zn_eval_count_pixels(o, j->data, &j->pixels));
    ZN_TRY(o->clips ? zn_video_new(model, &compute, &j->video) : zn_codec_new(model, &compute, &j->codec));
    if (j->video)
        zn_video_use_both(j->video);
    compute.progress = NULL;
    if (o->fid)
        ZN_TRY(zn_features_open(&compute, &j->features));
    return zn_scorer_new(o->lpips, &compute, &j->scorer);
}

/* Of each group; NaN where it was not asked for. */
static zn_status measure_sets(judge *j)
{
    for (int g = 0; g < j->out->group_count; g++) {
        j->out->groups[g].fid = NAN;
        if (j->features)
            ZN_TRY(zn_frechet_distance(&j->truth, &j->results[g], &j->out->groups[g].fid));
    }
    return ZN_OK;
}

zn_status zn_eval(const zn_model *model, const zn_eval_options *options, zn_eval_result *out)
{
    judge j = { .o = options, .info = zn_model_info_of(model), .out = out, .truth.width = ZN_FEATURES };
    for (int g = 0; g < ZN_EVAL_GROUPS; g++)
        j.results[g].width = ZN_FEATURES;
    const double start = zn_clock_ms();
    *out = (zn_eval_result){ 0 };
    zn_status status = zn_ranks_agree(options->ranks, prepare(&j, model));
    if (status == ZN_OK)
        status = judge_all(&j);
    if (status == ZN_OK)
        zn_eval_average(out);
    if (status == ZN_OK)
        status = measure_sets(&j);
    out->seconds = (zn_clock_ms() - start) * 1e-3;
    zn_parcel_free(&j.parcel);
    zn_free(j.pixels);
    zn_codec_free(j.codec);
    zn_video_free(j.video);
    zn_scorer_free(j.scorer);
    zn_features_close(j.features);
    zn_spread_free(&j.truth);
    for (int g = 0; g < ZN_EVAL_GROUPS; g++)
        zn_spread_free(&j.results[g]);
    zn_dataset_close(j.data);
    if (status != ZN_OK)
        zn_eval_result_clear(out);
    return status;
}

void zn_eval_result_clear(zn_eval_result *r)
{
    for (int64_t i = 0; i < r->row_count; i++)
        zn_free(r->rows[i].name);
    zn_free(r->rows);
    r->rows = NULL;
    r->row_count = 0;
}

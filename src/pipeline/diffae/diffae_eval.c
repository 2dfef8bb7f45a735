/* Judging diffusion autoencoders: the images, round trips with the noise of the image and with any other, and the whole
 * run. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "pipeline/diffae/diffae.h"
#include "pipeline/diffae/evaluation.h"
#include "pipeline/eval/eval_score.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 20, ENCODE_STEPS = 100, LATENT_STEPS = 200 };

const char *zn_trip_name(int trip)
{
    static const char *const names[ZN_TRIP_COUNT] = { "inverted", "random" };
    return trip >= 0 && trip < ZN_TRIP_COUNT ? names[trip] : NULL;
}

zn_status zn_evaluation_tell(const zn_evaluation *v, double fraction)
{
    if (v->o->progress && v->o->progress(v->o->user, v->base + v->scale * fraction))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

static void stage(zn_evaluation *v, double from, double to)
{
    v->base = from;
    v->scale = to - from;
}

static int64_t round_trips(const zn_evaluation *v)
{
    return v->o->most && v->o->most < v->count ? v->o->most : v->count;
}

/* ---- the images ---- */

static zn_status skip(zn_evaluation *v, int64_t index, zn_status status)
{
    if (status == ZN_OK || status == ZN_ENOMEM || status == ZN_ECANCELLED)
        return status;
    v->out->trips.failed++;
    if (v->o->skipped)
        v->o->skipped(v->o->user, zn_dataset_name(v->data, index), zn_error_text());
    return ZN_OK;
}

/* The centre of an image, scaled to the model's size: what is compared. */
static zn_status read_fitting(const zn_evaluation *v, int64_t index, zn_image **out)
{
    zn_image *photo;
    *out = NULL;
    ZN_TRY(zn_dataset_read(v->data, index, &photo));
    const zn_status status = zn_diffae_fit(v->net, photo, out);
    zn_image_free(photo);
    return status;
}

/* Takes the picture over, also if it fails. */
static zn_status add_subject(zn_evaluation *v, int64_t index, zn_image *picture)
{
    zn_subject s = { .index = index, .picture = picture };
    zn_status status;
    ZN_TRY_DONE(zn_alloc_for("a condition", sizeof *s.cond * ((size_t)zn_diffae_width(v->net) + 1), (void **)&s.cond));
    ZN_TRY_DONE(zn_diffae_encode(v->net, picture, s.cond));
    v->subjects[v->count++] = s;
    return ZN_OK;
done:
    zn_image_free(s.picture);
    zn_free(s.cond);
    return status;
}

/* Every image gives its features; those that are judged are kept. */
static zn_status look_at(zn_evaluation *v, int64_t index)
{
    const bool wanted = !v->o->held_out || zn_dataset_held_out(v->data, index, v->o->held_out);
    zn_image *picture;
    if (!wanted && !v->features)
        return ZN_OK;
    ZN_TRY(read_fitting(v, index, &picture));
    zn_status status = ZN_OK;
    if (v->features) {
        float features[ZN_FEATURES];
        status = zn_features_of(v->features, picture, features);
        if (status == ZN_OK)
            status = zn_spread_add(&v->truth, features);
        if (status == ZN_OK)
            status = zn_neighbours_add(&v->all, index, features);
    }
    if (status == ZN_OK && wanted)
        return add_subject(v, index, picture);
    zn_image_free(picture);
    return status;
}

static zn_status take_images(zn_evaluation *v)
{
    const int64_t count = zn_dataset_count(v->data);
    ZN_TRY(zn_alloc_for("a list of images", sizeof *v->subjects * (size_t)count, (void **)&v->subjects));
    for (int64_t i = 0; i < count; i++) {
        ZN_TRY(skip(v, i, look_at(v, i)));
        ZN_TRY(zn_evaluation_tell(v, (double)(i + 1) / (double)count));
    }
    if (!v->count)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: none of %lld images could be evaluated", v->o->data, (long long)count);
    return ZN_OK;
}

/* ---- round trips ---- */

zn_status zn_evaluation_invert(const zn_evaluation *v, zn_subject *s)
{
    if (s->noise)
        return ZN_OK;
    ZN_TRY(zn_alloc_for("noise", sizeof *s->noise * zn_diffae_noise_size(v->net, 1), (void **)&s->noise));
    return zn_diffae_invert(v->net, s->picture, s->cond, v->encode_steps, s->noise);
}

static zn_status trip_once(const zn_evaluation *v, zn_trip kind, zn_subject *s, zn_spread *set, zn_eval_row *row)
{
    const double start = zn_clock_ms();
    float *noise = NULL;
    zn_image *back = NULL;
    zn_status status;
    if (kind == ZN_TRIP_INVERTED)
        ZN_TRY(zn_evaluation_invert(v, s));
    ZN_TRY(zn_alloc_for("noise", sizeof *noise * zn_diffae_noise_size(v->net, 1), (void **)&noise));
    if (kind == ZN_TRIP_RANDOM)
        zn_diffae_noise(v->net, 1, v->o->seed + (uint64_t)s->index, noise);
    ZN_TRY_DONE(zn_diffae_render(v->net, 1, s->cond, kind == ZN_TRIP_RANDOM ? noise : s->noise, v->steps, &back));
    row->ms = zn_clock_ms() - start;
    ZN_TRY_DONE(zn_scorer_compare(v->scorer, s->picture, back, &row->model));
    status = v->features ? zn_features_add(v->features, back, set) : ZN_OK;
done:
    zn_free(noise);
    zn_image_free(back);
    return status;
}

zn_status zn_evaluation_distance(const zn_evaluation *v, const zn_spread *set, double *out)
{
    *out = NAN;
    return v->features && set->count > 1 && v->truth.count > 1 ? zn_frechet_distance(&v->truth, set, out) : ZN_OK;
}

/* The next row of the result, for this image. */
static zn_status add_row(const zn_evaluation *v, zn_trip kind, const zn_subject *s, zn_eval_row **out)
{
    zn_eval_result *r = &v->out->trips;
    zn_eval_row *row = *out = &r->rows[r->row_count];
    *row = (zn_eval_row){ .name = zn_strdup(zn_dataset_name(v->data, s->index)),
                          .width = s->picture->width,
                          .height = s->picture->height };
    if (!row->name)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the name of an image");
    for (int p = 0; p < ZN_PLAIN_COUNT; p++)
        row->plain[p] = zn_no_scores();
    snprintf(row->damage, sizeof row->damage, "%s", zn_trip_name((int)kind));
    r->row_count++;
    return ZN_OK;
}

static zn_status trip_all(zn_evaluation *v, zn_trip kind)
{
    zn_eval_result *r = &v->out->trips;
    zn_eval_group *t = &r->groups[kind];
    zn_eval_row *row, *first = r->rows + r->row_count;
    zn_spread set = { .width = ZN_FEATURES };
    const int64_t count = round_trips(v);
    zn_status status;
    for (int64_t i = 0; i < count; i++) {
        ZN_TRY_DONE(add_row(v, kind, &v->subjects[i], &row));
        ZN_TRY_DONE(trip_once(v, kind, &v->subjects[i], &set, row));
        zn_add_share(&t->ms, row->ms, count);
        ZN_TRY_DONE(zn_evaluation_tell(v, (double)(i + 1) / (double)count));
    }
    t->pictures = count;
    t->model = zn_mean_scores(&first->model, sizeof *first, count);
    r->group_count = (int)kind + 1;
    status = zn_evaluation_distance(v, &set, &t->fid);
done:
    zn_spread_free(&set);
    return status;
}

/* ---- all ---- */

static zn_status check_steps(const zn_evaluation *v)
{
    ZN_TRY(zn_diffae_check_steps(v->steps));
    ZN_TRY(zn_diffae_check_steps(v->encode_steps));
    return zn_diffae_check_steps(v->latent_steps);
}

static zn_status prepare(zn_evaluation *v)
{
    const zn_diffae_eval_options *o = v->o;
    zn_options compute;
    ZN_TRY(zn_options_read(o->compute, &compute));
    compute.progress = NULL;
    ZN_TRY(zn_diffae_new(v->model, &compute, &v->net));
    ZN_TRY(check_steps(v));
    ZN_TRY(zn_dataset_open(o->data, &v->data));
    if (o->labels && !v->model->has[ZN_CLASSIFIER])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no classifier, so labels tell nothing about it", v->model->info.path);
    if (o->labels)
        ZN_TRY(zn_labels_read(o->labels, &v->labels));
    if (o->samples && zn_diffae_width(v->net) && !v->model->has[ZN_LATENT_NET])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no latent net, so it cannot draw samples", v->model->info.path);
    snprintf(v->out->trips.architecture, sizeof v->out->trips.architecture, "%s", v->model->info.architecture);
    snprintf(v->out->trips.data, sizeof v->out->trips.data, "%s", o->data);
    const zn_status status = zn_features_open(&compute, &v->features);
    if (status == ZN_ENOMEM)
        return status;
    return zn_scorer_new(o->lpips, &compute, &v->scorer);
}

static zn_status work(zn_evaluation *v)
{
    ZN_TRY(prepare(v));
    stage(v, 0, 0.1);
    ZN_TRY(take_images(v));
    const size_t rows = ZN_TRIP_COUNT * (size_t)round_trips(v);
    ZN_TRY(zn_alloc_for("scores", sizeof *v->out->trips.rows * rows, (void **)&v->out->trips.rows));
    stage(v, 0.1, 0.5);
    ZN_TRY(trip_all(v, ZN_TRIP_INVERTED));
    stage(v, 0.5, 0.6);
    if (zn_diffae_width(v->net) && !zn_diffae_is_direct(v->net)) /* else there is no other noise */
        ZN_TRY(trip_all(v, ZN_TRIP_RANDOM));
    stage(v, 0.6, 0.8);
    ZN_TRY(zn_evaluate_attributes(v));
    stage(v, 0.8, 1);
    return zn_evaluate_samples(v);
}

static void release(zn_evaluation *v)
{
    for (int64_t i = 0; i < v->count; i++) {
        zn_image_free(v->subjects[i].picture);
        zn_free(v->subjects[i].cond);
        zn_free(v->subjects[i].noise);
    }
    zn_free(v->subjects);
    zn_neighbours_free(&v->all);
    zn_spread_free(&v->truth);
    zn_labels_free(v->labels);
    zn_features_close(v->features);
    zn_scorer_free(v->scorer);
    zn_dataset_close(v->data);
    zn_diffae_free(v->net);
}

static void begin_group(zn_eval_group *g, int kind)
{
    *g = (zn_eval_group){ .model = zn_no_scores(), .fid = NAN };
    for (int p = 0; p < ZN_PLAIN_COUNT; p++)
        g->plain[p] = zn_no_scores();
    snprintf(g->damage, sizeof g->damage, "%s", zn_trip_name(kind));
}

zn_status zn_diffae_eval(const zn_model *model, const zn_diffae_eval_options *options, zn_diffae_eval_result *out)
{
    zn_evaluation v = { .o = options,
                        .model = model,
                        .out = out,
                        .truth.width = ZN_FEATURES,
                        .steps = options->steps ? options->steps : STEPS,
                        .encode_steps = options->encode_steps ? options->encode_steps : ENCODE_STEPS,
                        .latent_steps = options->latent_steps ? options->latent_steps : LATENT_STEPS,
                        .amount = options->amount != 0 ? options->amount : 0.3 };
    const double start = zn_clock_ms();
    *out = (zn_diffae_eval_result){ .edit_fid = NAN, .sample_fid = NAN, .held_distance = NAN, .trips.varied = "noise" };
    for (int i = 0; i < ZN_TRIP_COUNT; i++)
        begin_group(&out->trips.groups[i], i);
    const zn_status status = work(&v);
    release(&v);
    out->trips.seconds = (zn_clock_ms() - start) * 1e-3;
    if (status != ZN_OK)
        zn_diffae_eval_clear(out);
    return status;
}

void zn_diffae_eval_clear(zn_diffae_eval_result *r)
{
    zn_eval_result_clear(&r->trips);
    zn_free(r->attributes);
    zn_free(r->nearest);
    r->attributes = NULL;
    r->nearest = NULL;
    r->attribute_count = r->sample_count = 0;
}

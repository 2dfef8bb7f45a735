/* Judging diffusion autoencoders: round trips with the noise of the image and with any other, what the classifier knows
 * of held-out images, what edits change and what they keep, and new images. */
#include <zenith/diffae_eval.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "io/dataset/dataset.h"
#include "pipeline/diffae/diffae.h"
#include "pipeline/eval/eval_score.h"
#include "pipeline/eval/neighbours.h"
#include "train/data/labels.h"
#include "train/score/scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, ENCODE_STEPS = 100, LATENT_STEPS = 200, GROUP = 16 };

/* An image of the data that was read, scaled and encoded. */
typedef struct subject {
    int64_t index;
    zn_image *picture;
    float *cond;
    float *noise; /* NULL: not inverted */
} subject;

typedef struct judge {
    const zn_diffae_eval_options *o;
    const zn_model *model;
    zn_diffae *net;
    zn_scorer *scorer;
    zn_features *features; /* NULL: no weights */
    zn_dataset *data;
    zn_labels *labels;
    zn_neighbours all; /* features of every image of the data */
    zn_spread truth;
    subject *subjects;
    int64_t count;
    int steps, encode_steps, latent_steps;
    double amount;
    double base, scale; /* of the progress */
    zn_diffae_eval_result *out;
} judge;

const char *zn_trip_name(int trip)
{
    static const char *const names[ZN_TRIP_COUNT] = { "inverted", "random" };
    return trip >= 0 && trip < ZN_TRIP_COUNT ? names[trip] : NULL;
}

static zn_status tell(const judge *j, double fraction)
{
    if (j->o->progress && j->o->progress(j->o->user, j->base + j->scale * fraction))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

static void stage(judge *j, double from, double to)
{
    j->base = from;
    j->scale = to - from;
}

static int width_of(const judge *j) { return zn_diffae_width(j->net); }
static int64_t round_trips(const judge *j) { return j->o->most && j->o->most < j->count ? j->o->most : j->count; }

/* ---- the images ---- */

static zn_status skip(judge *j, int64_t index, zn_status status)
{
    if (status == ZN_OK || status == ZN_ENOMEM || status == ZN_ECANCELLED)
        return status;
    j->out->failed++;
    if (j->o->skipped)
        j->o->skipped(j->o->user, zn_dataset_name(j->data, index), zn_error_text());
    return ZN_OK;
}

/* The centre of an image, scaled to the model's size: what is compared. */
static zn_status read_fitting(const judge *j, int64_t index, zn_image **out)
{
    zn_image *photo;
    *out = NULL;
    ZN_TRY(zn_dataset_read(j->data, index, &photo));
    const zn_status status = zn_diffae_fit(j->net, photo, out);
    zn_image_free(photo);
    return status;
}

/* Takes the picture over, also if it fails. */
static zn_status add_subject(judge *j, int64_t index, zn_image *picture)
{
    subject s = { .index = index, .picture = picture };
    zn_status status;
    ZN_TRY_DONE(zn_alloc_for("a condition", sizeof *s.cond * ((size_t)width_of(j) + 1), (void **)&s.cond));
    ZN_TRY_DONE(zn_diffae_encode(j->net, picture, s.cond));
    j->subjects[j->count++] = s;
    return ZN_OK;
done:
    zn_image_free(s.picture);
    zn_free(s.cond);
    return status;
}

/* Every image gives its features; those that are judged are kept. */
static zn_status look_at(judge *j, int64_t index)
{
    const bool wanted = !j->o->held_out || zn_dataset_held_out(j->data, index, j->o->held_out);
    zn_image *picture;
    if (!wanted && !j->features)
        return ZN_OK;
    ZN_TRY(read_fitting(j, index, &picture));
    zn_status status = ZN_OK;
    if (j->features) {
        float features[ZN_FEATURES];
        status = zn_features_of(j->features, picture, features);
        if (status == ZN_OK)
            status = zn_spread_add(&j->truth, features);
        if (status == ZN_OK)
            status = zn_neighbours_add(&j->all, index, features);
    }
    if (status == ZN_OK && wanted)
        return add_subject(j, index, picture);
    zn_image_free(picture);
    return status;
}

static zn_status take_images(judge *j)
{
    const int64_t count = zn_dataset_count(j->data);
    ZN_TRY(zn_alloc_for("a list of images", sizeof *j->subjects * (size_t)count, (void **)&j->subjects));
    for (int64_t i = 0; i < count; i++) {
        ZN_TRY(skip(j, i, look_at(j, i)));
        ZN_TRY(tell(j, (double)(i + 1) / (double)count));
    }
    if (!j->count)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: none of %lld images could be evaluated", j->o->data, (long long)count);
    return ZN_OK;
}

/* ---- round trips ---- */

static zn_status invert(const judge *j, subject *s)
{
    if (s->noise)
        return ZN_OK;
    ZN_TRY(zn_alloc_for("noise", sizeof *s->noise * zn_diffae_noise_size(j->net, 1), (void **)&s->noise));
    return zn_diffae_invert(j->net, s->picture, s->cond, j->encode_steps, s->noise);
}

static void add_score(double *sum, double value, int64_t count) { *sum += value / (double)count; }

static zn_status trip_once(judge *j, zn_trip kind, subject *s, zn_spread *set, zn_scores *scores)
{
    zn_diffae_eval_trip *t = &j->out->trips[kind];
    const double start = zn_clock_ms();
    float *noise = NULL;
    zn_image *back = NULL;
    zn_status status;
    if (kind == ZN_TRIP_INVERTED)
        ZN_TRY(invert(j, s));
    ZN_TRY(zn_alloc_for("noise", sizeof *noise * zn_diffae_noise_size(j->net, 1), (void **)&noise));
    if (kind == ZN_TRIP_RANDOM)
        zn_diffae_noise(j->net, 1, j->o->seed + (uint64_t)s->index, noise);
    ZN_TRY_DONE(zn_diffae_render(j->net, 1, s->cond, kind == ZN_TRIP_RANDOM ? noise : s->noise, j->steps, &back));
    add_score(&t->ms, zn_clock_ms() - start, round_trips(j));
    ZN_TRY_DONE(zn_scorer_compare(j->scorer, s->picture, back, scores));
    t->pictures++;
    status = j->features ? zn_features_add(j->features, back, set) : ZN_OK;
done:
    zn_free(noise);
    zn_image_free(back);
    return status;
}

static zn_status distance(const judge *j, const zn_spread *set, double *out)
{
    *out = NAN;
    return j->features && set->count > 1 && j->truth.count > 1 ? zn_frechet_distance(&j->truth, set, out) : ZN_OK;
}

static zn_status trip_all(judge *j, zn_trip kind)
{
    zn_diffae_eval_trip *t = &j->out->trips[kind];
    zn_spread set = { .width = ZN_FEATURES };
    const int64_t count = round_trips(j);
    zn_scores *scores;
    zn_status status;
    ZN_TRY(zn_alloc_for("scores", sizeof *scores * (size_t)count, (void **)&scores));
    for (int64_t i = 0; i < count; i++) {
        ZN_TRY_DONE(trip_once(j, kind, &j->subjects[i], &set, &scores[i]));
        ZN_TRY_DONE(tell(j, (double)(i + 1) / (double)count));
    }
    t->scores = zn_mean_scores(scores, sizeof *scores, count);
    status = distance(j, &set, &t->fid);
done:
    zn_free(scores);
    zn_spread_free(&set);
    return status;
}

/* ---- attributes ---- */

/* 0, 1 or ZN_LABEL_UNKNOWN. */
static int label_of(const judge *j, const subject *s, int label)
{
    const uint8_t *has = zn_labels_of(j->labels, zn_dataset_name(j->data, s->index));
    return has ? has[label] : ZN_LABEL_UNKNOWN;
}

static int row_named(const judge *j, const char *name)
{
    const char *own;
    for (int i = 0; (own = zn_diffae_attribute(j->net, i)); i++)
        if (strcmp(own, name) == 0)
            return i;
    return -1;
}

/* Variance of an area under the curve, if it were the true one: Hanley and McNeil (1982) in Newcombe's form. */
static double variance_of(double area, double with, double without)
{
    const double n = (with + without) / 2 - 1;
    return area * (1 - area) * (1 + n * (1 - area) / (2 - area) + n * area / (1 + area)) / (with * without);
}

/* One end of the 95 % interval: the last true area, on the way to `end`, that the measured one is compatible with
 * (Newcombe 2006, method 5). It is also of use where the measured area is 0 or 1. */
static double bound_of(double area, double end, double with, double without)
{
    double inside = area, outside = end;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (inside + outside);
        if (fabs(area - middle) <= 1.96 * sqrt(variance_of(middle, with, without)))
            inside = middle;
        else
            outside = middle;
    }
    return inside;
}

static zn_status judge_attribute(judge *j, int label, int row, zn_diffae_eval_attribute *a)
{
    zn_opinion *list = NULL;
    float *scores = NULL;
    zn_status status;
    int64_t known = 0;
    ZN_TRY_DONE(zn_alloc_for("an evaluation", sizeof *list * (size_t)j->count, (void **)&list));
    ZN_TRY_DONE(
        zn_alloc_for("an evaluation", sizeof *scores * (size_t)zn_diffae_attribute_count(j->net), (void **)&scores));
    for (int64_t i = 0; i < j->count; i++) {
        const int has = label_of(j, &j->subjects[i], label);
        if (has == ZN_LABEL_UNKNOWN)
            continue;
        ZN_TRY_DONE(zn_diffae_judge(j->net, j->subjects[i].cond, scores));
        list[known++] = (zn_opinion){ scores[row], has == 1 };
        a->with += has == 1;
        a->without += has == 0;
    }
    a->auroc = zn_area_under_curve(list, known);
    const bool both = isfinite(a->auroc);
    a->low = both ? bound_of(a->auroc, 0, (double)a->with, (double)a->without) : NAN;
    a->high = both ? bound_of(a->auroc, 1, (double)a->with, (double)a->without) : NAN;
    status = ZN_OK;
done:
    zn_free(list);
    zn_free(scores);
    return status;
}

/* ---- edits ---- */

typedef struct editing {
    zn_diffae_eval_attribute *a;
    int row, images;
    zn_neighbours originals;
    zn_spread *set; /* of all attributes */
} editing;

/* Moves an image to the other side of the classifier, and looks at the result. */
static zn_status edit_once(judge *j, editing *e, int number)
{
    const subject *s = &j->subjects[number];
    const size_t width = (size_t)width_of(j), classes = (size_t)zn_diffae_attribute_count(j->net);
    float features[ZN_FEATURES], *scores;
    zn_image *result = NULL;
    zn_status status;
    ZN_TRY(zn_alloc_for("an edit", sizeof *scores * (classes + width), (void **)&scores));
    float *moved = scores + classes;
    ZN_TRY_DONE(zn_diffae_judge(j->net, s->cond, scores));
    const bool gains = scores[e->row] < 0.5f;
    const double before = gains ? (double)scores[e->row] : 1 - (double)scores[e->row];
    ZN_TRY_DONE(zn_diffae_move(j->net, s->cond, e->a->name, gains ? j->amount : -j->amount, moved));
    ZN_TRY_DONE(zn_diffae_render(j->net, 1, moved, s->noise, j->steps, &result));
    ZN_TRY_DONE(zn_diffae_encode(j->net, result, moved));
    ZN_TRY_DONE(zn_diffae_judge(j->net, moved, scores));
    const double after = gains ? (double)scores[e->row] : 1 - (double)scores[e->row];
    add_score(&e->a->before, before, e->images);
    add_score(&e->a->after, after, e->images);
    e->a->edited++;
    status = ZN_OK;
    if (j->features) {
        double away;
        ZN_TRY_DONE(zn_features_of(j->features, result, features));
        ZN_TRY_DONE(zn_spread_add(e->set, features));
        add_score(&e->a->likeness, zn_neighbours_cosine(&e->originals, number, features), e->images);
        add_score(&e->a->recognised, zn_neighbours_find(&e->originals, features, &away) == number, e->images);
    }
done:
    zn_free(scores);
    zn_image_free(result);
    return status;
}

static zn_status edit_attribute(judge *j, editing *e)
{
    zn_status status = ZN_OK;
    e->a->before = e->a->after = 0;
    e->a->likeness = e->a->recognised = j->features ? 0 : NAN;
    for (int i = 0; i < e->images && status == ZN_OK; i++)
        status = edit_once(j, e, i);
    return status;
}

/* The images that are edited, with their noise and features. */
static zn_status prepare_edits(judge *j, editing *e)
{
    float features[ZN_FEATURES];
    for (int i = 0; i < e->images; i++) {
        ZN_TRY(invert(j, &j->subjects[i]));
        if (!j->features)
            continue;
        ZN_TRY(zn_features_of(j->features, j->subjects[i].picture, features));
        ZN_TRY(zn_neighbours_add(&e->originals, i, features));
    }
    return ZN_OK;
}

static bool is_edited(const judge *j, const zn_diffae_eval_attribute *a)
{
    return !j->o->attribute || strcmp(j->o->attribute, a->name) == 0;
}

static zn_status edit_all(judge *j, const int *rows)
{
    zn_diffae_eval_result *r = j->out;
    zn_spread set = { .width = ZN_FEATURES };
    editing e = { .set = &set, .images = j->o->edits < j->count ? j->o->edits : (int)j->count };
    zn_status status = e.images ? prepare_edits(j, &e) : ZN_OK;
    for (int i = 0; i < r->attribute_count && e.images && status == ZN_OK; i++) {
        e.a = &r->attributes[i];
        e.row = rows[i];
        if (is_edited(j, e.a))
            status = edit_attribute(j, &e);
        r->edited += e.a->edited;
        if (status == ZN_OK)
            status = tell(j, (double)(i + 1) / r->attribute_count);
    }
    if (status == ZN_OK)
        status = distance(j, &set, &r->edit_fid);
    zn_neighbours_free(&e.originals);
    zn_spread_free(&set);
    return status;
}

/* Attributes that both the labels and the classifier know. */
static zn_status judge_attributes(judge *j)
{
    zn_diffae_eval_result *r = j->out;
    int rows[1024];
    if (!j->labels)
        return ZN_OK;
    r->attributes = zn_calloc((size_t)j->labels->count, sizeof *r->attributes);
    if (!r->attributes)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for attributes");
    for (int label = 0; label < j->labels->count; label++) {
        const int row = row_named(j, j->labels->names[label]);
        if (row < 0)
            continue;
        zn_diffae_eval_attribute *a = &r->attributes[r->attribute_count];
        *a = (zn_diffae_eval_attribute){ .before = NAN, .after = NAN, .likeness = NAN, .recognised = NAN };
        snprintf(a->name, sizeof a->name, "%s", j->labels->names[label]);
        rows[r->attribute_count++] = row;
        ZN_TRY(judge_attribute(j, label, row, a));
    }
    if (!r->attribute_count)
        return ZN_FAIL(ZN_EINVALID, "%s names no attribute that the classifier of %s knows", j->o->labels,
                       j->model->info.path);
    bool known = !j->o->attribute;
    for (int i = 0; i < r->attribute_count && !known; i++)
        known = is_edited(j, &r->attributes[i]);
    if (!known)
        return ZN_FAIL(ZN_ENOTFOUND, "there is no attribute '%s' in both labels and classifier", j->o->attribute);
    return edit_all(j, rows);
}

/* ---- samples ---- */

static zn_status look_at_sample(judge *j, const zn_image *image, int number, zn_spread *set)
{
    float features[ZN_FEATURES];
    zn_neighbour *n = &j->out->nearest[number];
    ZN_TRY(zn_features_of(j->features, image, features));
    ZN_TRY(zn_spread_add(set, features));
    const int64_t index = zn_neighbours_find(&j->all, features, &n->distance);
    snprintf(n->name, sizeof n->name, "%s", zn_dataset_name(j->data, index));
    return ZN_OK;
}

static zn_status draw_group(judge *j, int first, int count, zn_spread *set)
{
    const uint64_t seed = j->o->seed + (uint64_t)first;
    zn_image *images[GROUP] = { NULL };
    float *cond = zn_alloc(sizeof *cond * ((size_t)count * (size_t)width_of(j) + 1));
    float *noise = zn_alloc(sizeof *noise * zn_diffae_noise_size(j->net, count));
    zn_status status = cond && noise ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for samples");
    if (status == ZN_OK)
        status = zn_diffae_imagine(j->net, count, seed, j->latent_steps, cond);
    if (status == ZN_OK) {
        zn_diffae_noise(j->net, count, seed, noise);
        status = zn_diffae_render(j->net, count, cond, noise, j->steps, images);
    }
    for (int i = 0; i < count && status == ZN_OK && j->features; i++)
        status = look_at_sample(j, images[i], first + i, set);
    for (int i = 0; i < count; i++)
        zn_image_free(images[i]);
    zn_free(cond);
    zn_free(noise);
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How far a photo that was not trained on is from those that were: what the distances of samples compare with. */
static zn_status measure_held(judge *j)
{
    zn_neighbours trained = { 0 };
    double *list = zn_alloc(sizeof *list * (size_t)(j->all.count + 1));
    zn_status status = list ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for distances");
    int64_t count = 0;
    for (int64_t i = 0; i < j->all.count && status == ZN_OK; i++)
        if (!zn_dataset_held_out(j->data, j->all.number[i], j->o->held_out))
            status = zn_neighbours_add(&trained, j->all.number[i], j->all.values + i * ZN_FEATURES);
    for (int64_t i = 0; i < j->all.count && status == ZN_OK && trained.count; i++)
        if (zn_dataset_held_out(j->data, j->all.number[i], j->o->held_out))
            zn_neighbours_find(&trained, j->all.values + i * ZN_FEATURES, &list[count++]);
    if (status == ZN_OK && count) {
        qsort(list, (size_t)count, sizeof *list, by_value);
        j->out->held_distance = list[count / 2];
    }
    zn_neighbours_free(&trained);
    zn_free(list);
    return status;
}

static zn_status draw_samples(judge *j)
{
    zn_diffae_eval_result *r = j->out;
    zn_spread set = { .width = ZN_FEATURES };
    zn_status status = ZN_OK;
    if (!j->o->samples)
        return ZN_OK;
    if (j->features && !(r->nearest = zn_calloc((size_t)j->o->samples, sizeof *r->nearest)))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for samples");
    while (r->sample_count < j->o->samples && status == ZN_OK) {
        const int left = j->o->samples - r->sample_count, count = left < GROUP ? left : GROUP;
        status = draw_group(j, r->sample_count, count, &set);
        r->sample_count += count;
        if (status == ZN_OK)
            status = tell(j, (double)r->sample_count / j->o->samples);
    }
    if (status == ZN_OK)
        status = distance(j, &set, &r->sample_fid);
    if (status == ZN_OK && j->features && j->o->held_out)
        status = measure_held(j);
    zn_spread_free(&set);
    return status;
}

/* ---- all ---- */

static zn_status check_steps(const judge *j)
{
    ZN_TRY(zn_diffae_check_steps(j->steps));
    ZN_TRY(zn_diffae_check_steps(j->encode_steps));
    return zn_diffae_check_steps(j->latent_steps);
}

static zn_status prepare(judge *j)
{
    const zn_diffae_eval_options *o = j->o;
    zn_options compute;
    ZN_TRY(zn_options_read(o->compute, &compute));
    compute.progress = NULL;
    ZN_TRY(zn_diffae_new(j->model, &compute, &j->net));
    ZN_TRY(check_steps(j));
    ZN_TRY(zn_dataset_open(o->data, &j->data));
    if (o->labels && !j->model->has[ZN_CLASSIFIER])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no classifier, so labels tell nothing about it", j->model->info.path);
    if (o->labels)
        ZN_TRY(zn_labels_read(o->labels, &j->labels));
    if (o->samples && width_of(j) && !j->model->has[ZN_LATENT_NET])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no latent net, so it cannot draw samples", j->model->info.path);
    snprintf(j->out->architecture, sizeof j->out->architecture, "%s", j->model->info.architecture);
    const zn_status status = zn_features_open(&compute, &j->features);
    if (status == ZN_ENOMEM)
        return status;
    return zn_scorer_new(o->lpips, &compute, &j->scorer);
}

static zn_status work(judge *j)
{
    ZN_TRY(prepare(j));
    stage(j, 0, 0.1);
    ZN_TRY(take_images(j));
    stage(j, 0.1, 0.5);
    ZN_TRY(trip_all(j, ZN_TRIP_INVERTED));
    stage(j, 0.5, 0.6);
    if (width_of(j))
        ZN_TRY(trip_all(j, ZN_TRIP_RANDOM));
    stage(j, 0.6, 0.8);
    ZN_TRY(judge_attributes(j));
    stage(j, 0.8, 1);
    return draw_samples(j);
}

static void release(judge *j)
{
    for (int64_t i = 0; i < j->count; i++) {
        zn_image_free(j->subjects[i].picture);
        zn_free(j->subjects[i].cond);
        zn_free(j->subjects[i].noise);
    }
    zn_free(j->subjects);
    zn_neighbours_free(&j->all);
    zn_spread_free(&j->truth);
    zn_labels_free(j->labels);
    zn_features_close(j->features);
    zn_scorer_free(j->scorer);
    zn_dataset_close(j->data);
    zn_diffae_free(j->net);
}

zn_status zn_diffae_eval(const zn_model *model, const zn_diffae_eval_options *options, zn_diffae_eval_result *out)
{
    judge j = { .o = options,
                .model = model,
                .out = out,
                .truth.width = ZN_FEATURES,
                .steps = options->steps ? options->steps : STEPS,
                .encode_steps = options->encode_steps ? options->encode_steps : ENCODE_STEPS,
                .latent_steps = options->latent_steps ? options->latent_steps : LATENT_STEPS,
                .amount = options->amount != 0 ? options->amount : 0.3 };
    const double start = zn_clock_ms();
    *out = (zn_diffae_eval_result){ .edit_fid = NAN, .sample_fid = NAN, .held_distance = NAN };
    for (int i = 0; i < ZN_TRIP_COUNT; i++)
        out->trips[i] = (zn_diffae_eval_trip){ .scores = zn_no_scores(), .fid = NAN };
    const zn_status status = work(&j);
    release(&j);
    out->seconds = (zn_clock_ms() - start) * 1e-3;
    if (status != ZN_OK)
        zn_diffae_eval_clear(out);
    return status;
}

void zn_diffae_eval_clear(zn_diffae_eval_result *r)
{
    zn_free(r->attributes);
    zn_free(r->nearest);
    r->attributes = NULL;
    r->nearest = NULL;
    r->attribute_count = r->sample_count = 0;
}

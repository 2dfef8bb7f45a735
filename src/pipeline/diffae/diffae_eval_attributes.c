/* What the classifier of a diffusion autoencoder knows of held-out images, and what edits change and what they keep. */
#include "base/alloc.h"
#include "base/fail.h"
#include "pipeline/diffae/evaluation.h"
#include "train/score/scores.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- attributes ---- */

/* 0, 1 or ZN_LABEL_UNKNOWN. */
static int label_of(const zn_evaluation *v, const zn_subject *s, int label)
{
    const uint8_t *has = zn_labels_of(v->labels, zn_dataset_name(v->data, s->index));
    return has ? has[label] : ZN_LABEL_UNKNOWN;
}

static int row_named(const zn_evaluation *v, const char *name)
{
    const char *own;
    for (int i = 0; (own = zn_diffae_attribute(v->net, i)); i++)
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

static zn_status judge_attribute(zn_evaluation *v, int label, int row, zn_diffae_eval_attribute *a)
{
    zn_opinion *list = NULL;
    float *scores = NULL;
    zn_status status;
    int64_t known = 0;
    ZN_TRY_DONE(zn_alloc_for("an evaluation", sizeof *list * (size_t)v->count, (void **)&list));
    ZN_TRY_DONE(
        zn_alloc_for("an evaluation", sizeof *scores * (size_t)zn_diffae_attribute_count(v->net), (void **)&scores));
    for (int64_t i = 0; i < v->count; i++) {
        const int has = label_of(v, &v->subjects[i], label);
        if (has == ZN_LABEL_UNKNOWN)
            continue;
        ZN_TRY_DONE(zn_diffae_judge(v->net, v->subjects[i].cond, scores));
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
static zn_status edit_once(zn_evaluation *v, editing *e, int number)
{
    const zn_subject *s = &v->subjects[number];
    const size_t width = (size_t)zn_diffae_width(v->net), classes = (size_t)zn_diffae_attribute_count(v->net);
    float features[ZN_FEATURES], *scores;
    zn_image *result = NULL;
    zn_status status;
    ZN_TRY(zn_alloc_for("an edit", sizeof *scores * (classes + width), (void **)&scores));
    float *moved = scores + classes;
    ZN_TRY_DONE(zn_diffae_judge(v->net, s->cond, scores));
    const bool gains = scores[e->row] < 0.5f;
    const double before = gains ? (double)scores[e->row] : 1 - (double)scores[e->row];
    ZN_TRY_DONE(zn_diffae_move(v->net, s->cond, e->a->name, gains ? v->amount : -v->amount, moved));
    ZN_TRY_DONE(zn_diffae_render(v->net, 1, moved, s->noise, v->steps, &result));
    ZN_TRY_DONE(zn_diffae_encode(v->net, result, moved));
    ZN_TRY_DONE(zn_diffae_judge(v->net, moved, scores));
    const double after = gains ? (double)scores[e->row] : 1 - (double)scores[e->row];
    zn_add_share(&e->a->before, before, e->images);
    zn_add_share(&e->a->after, after, e->images);
    e->a->edited++;
    status = ZN_OK;
    if (v->features) {
        double away;
        ZN_TRY_DONE(zn_features_of(v->features, result, features));
        ZN_TRY_DONE(zn_spread_add(e->set, features));
        zn_add_share(&e->a->likeness, zn_neighbours_cosine(&e->originals, number, features), e->images);
        zn_add_share(&e->a->recognised, zn_neighbours_find(&e->originals, features, &away) == number, e->images);
    }
done:
    zn_free(scores);
    zn_image_free(result);
    return status;
}

static zn_status edit_attribute(zn_evaluation *v, editing *e)
{
    zn_status status = ZN_OK;
    e->a->before = e->a->after = 0;
    e->a->likeness = e->a->recognised = v->features ? 0 : NAN;
    for (int i = 0; i < e->images && status == ZN_OK; i++)
        status = edit_once(v, e, i);
    return status;
}

/* The images that are edited, with their noise and features. */
static zn_status prepare_edits(zn_evaluation *v, editing *e)
{
    float features[ZN_FEATURES];
    for (int i = 0; i < e->images; i++) {
        ZN_TRY(zn_evaluation_invert(v, &v->subjects[i]));
        if (!v->features)
            continue;
        ZN_TRY(zn_features_of(v->features, v->subjects[i].picture, features));
        ZN_TRY(zn_neighbours_add(&e->originals, i, features));
    }
    return ZN_OK;
}

static bool is_edited(const zn_evaluation *v, const zn_diffae_eval_attribute *a)
{
    return !v->o->attribute || strcmp(v->o->attribute, a->name) == 0;
}

static zn_status edit_all(zn_evaluation *v, const int *rows)
{
    zn_diffae_eval_result *r = v->out;
    zn_spread set = { .width = ZN_FEATURES };
    editing e = { .set = &set, .images = v->o->edits < v->count ? v->o->edits : (int)v->count };
    zn_status status = e.images ? prepare_edits(v, &e) : ZN_OK;
    for (int i = 0; i < r->attribute_count && e.images && status == ZN_OK; i++) {
        e.a = &r->attributes[i];
        e.row = rows[i];
        if (is_edited(v, e.a))
            status = edit_attribute(v, &e);
        r->edited += e.a->edited;
        if (status == ZN_OK)
            status = zn_evaluation_tell(v, (double)(i + 1) / r->attribute_count);
    }
    if (status == ZN_OK)
        status = zn_evaluation_distance(v, &set, &r->edit_fid);
    zn_neighbours_free(&e.originals);
    zn_spread_free(&set);
    return status;
}

/* Attributes that both the labels and the classifier know. */
zn_status zn_evaluate_attributes(zn_evaluation *v)
{
    zn_diffae_eval_result *r = v->out;
    int rows[1024];
    if (!v->labels)
        return ZN_OK;
    r->attributes = zn_calloc((size_t)v->labels->count, sizeof *r->attributes);
    if (!r->attributes)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for attributes");
    for (int label = 0; label < v->labels->count; label++) {
        const int row = row_named(v, v->labels->names[label]);
        if (row < 0)
            continue;
        zn_diffae_eval_attribute *a = &r->attributes[r->attribute_count];
        *a = (zn_diffae_eval_attribute){ .before = NAN, .after = NAN, .likeness = NAN, .recognised = NAN };
        snprintf(a->name, sizeof a->name, "%s", v->labels->names[label]);
        rows[r->attribute_count++] = row;
        ZN_TRY(judge_attribute(v, label, row, a));
    }
    if (!r->attribute_count)
        return ZN_FAIL(ZN_EINVALID, "%s names no attribute that the classifier of %s knows", v->o->labels,
                       v->model->info.path);
    bool known = !v->o->attribute;
    for (int i = 0; i < r->attribute_count && !known; i++)
        known = is_edited(v, &r->attributes[i]);
    if (!known)
        return ZN_FAIL(ZN_ENOTFOUND, "there is no attribute '%s' in both labels and classifier", v->o->attribute);
    return edit_all(v, rows);
}

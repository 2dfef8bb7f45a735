/* Diffusion autoencoders: conditions judged by attributes, moved along them, and mixed. */
#include "pipeline/diffae/diffae.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/edit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Classes of the original's classifiers, in the order of their rows. */
static const char *const attributes[] = {
    "5_o_Clock_Shadow",
    "Arched_Eyebrows",
    "Attractive",
    "Bags_Under_Eyes",
    "Bald",
    "Bangs",
    "Big_Lips",
    "Big_Nose",
    "Black_Hair",
    "Blond_Hair",
    "Blurry",
    "Brown_Hair",
    "Bushy_Eyebrows",
    "Chubby",
    "Double_Chin",
    "Eyeglasses",
    "Goatee",
    "Gray_Hair",
    "Heavy_Makeup",
    "High_Cheekbones",
    "Male",
    "Mouth_Slightly_Open",
    "Mustache",
    "Narrow_Eyes",
    "No_Beard",
    "Oval_Face",
    "Pale_Skin",
    "Pointy_Nose",
    "Receding_Hairline",
    "Rosy_Cheeks",
    "Sideburns",
    "Smiling",
    "Straight_Hair",
    "Wavy_Hair",
    "Wearing_Earrings",
    "Wearing_Hat",
    "Wearing_Lipstick",
    "Wearing_Necklace",
    "Wearing_Necktie",
    "Young",
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

const char *zn_diffae_attribute(const zn_diffae *d, int index)
{
    const int classes = zn_diffae_attribute_count(d);
    const char *const *names = d->model->attributes ? d->model->attributes : classes == ATTRIBUTES ? attributes : NULL;
    return names && index >= 0 && index < classes ? names[index] : NULL;
}

int zn_diffae_attribute_count(const zn_diffae *d)
{
    return d->model->has[ZN_CLASSIFIER] ? d->model->config.classes : 0;
}

static zn_status judge(zn_diffae *d, const float *cond, float *scores)
{
    const float *mean = zn_diffae_statistic(d, "conds_mean"), *deviation = zn_diffae_statistic(d, "conds_std");
    zn_diffae_kept *k;
    ZN_TRY(zn_diffae_network(d, ZN_CLASSIFIER, 1, &k));
    for (int i = 0; i < zn_diffae_width(d); i++)
        k->network.input[0]->data[i] = (cond[i] - mean[i]) / deviation[i];
    ZN_TRY(zn_exec_run(k->exec));
    ZN_TRY(zn_exec_check_finite(k->exec));
    for (int i = 0; i < d->model->config.classes; i++)
        scores[i] = 1 / (1 + expf(-k->network.output->data[i]));
    return ZN_OK;
}

zn_status zn_diffae_judge(zn_diffae *d, const float *cond, float *scores)
{
    pthread_mutex_lock(&d->lock);
    const zn_status status = judge(d, cond, scores);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* The classifier's row for an attribute, or -1. */
static int row_of(const zn_diffae *d, const char *attribute)
{
    char *end;
    const char *name;
    for (int i = 0; (name = zn_diffae_attribute(d, i)); i++)
        if (strcmp(name, attribute) == 0)
            return i;
    for (int i = 0; (name = zn_diffae_attribute(d, i)); i++)
        if (strcasecmp(name, attribute) == 0)
            return i;
    const long row = strtol(attribute, &end, 10);
    return end > attribute && !*end && row >= 0 && row < d->model->config.classes ? (int)row : -1;
}

/* Names the attributes that there are, as many as fit. */
static zn_status fail_unknown(const zn_diffae *d, const char *attribute)
{
    char names[160] = "";
    size_t used = 0;
    int shown = 0;
    const char *name;
    while ((name = zn_diffae_attribute(d, shown)) && used + strlen(name) + 3 < sizeof names)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", shown++ ? ", " : "", name);
    if (!shown)
        return ZN_FAIL(ZN_ENOTFOUND, "there is no attribute '%s': they are numbers below %d", attribute,
                       d->model->config.classes);
    return ZN_FAIL(ZN_ENOTFOUND, "there is no attribute '%s': the model has %s%s", attribute, names,
                   name ? ", ..." : "");
}

zn_status zn_diffae_find_attribute(const zn_diffae *d, const char *attribute, int *index)
{
    if (!d->model->has[ZN_CLASSIFIER])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no classifier, so no attribute is known", d->model->info.path);
    *index = row_of(d, attribute);
    return *index < 0 ? fail_unknown(d, attribute) : ZN_OK;
}

zn_status zn_diffae_move(const zn_diffae *d, const float *cond, const char *attribute, double strength, float *out)
{
    const int width = zn_diffae_width(d), classes = d->model->config.classes;
    int row;
    ZN_TRY(zn_diffae_find_attribute(d, attribute, &row));
    const zn_model_parameter *w = zn_model_parameter_find(d->model, "classifier.weight");
    float *direction;
    ZN_TRY(zn_alloc_for("a direction", sizeof *direction * (size_t)width, (void **)&direction));
    for (int i = 0; i < width; i++) /* ours is [in][out] */
        direction[i] = w->data[(int64_t)i * classes + row];
    zn_move_condition(cond, zn_diffae_statistic(d, "conds_mean"), zn_diffae_statistic(d, "conds_std"), direction,
                      strength, out, width);
    zn_free(direction);
    return ZN_OK;
}

/* ---- goals ---- */

/* How many conditions are imagined, how many of them that show the attribute most are looked at, and of how many of the
 * most similar ones the mean is taken: one alone may be a bad image, and the mean of all would not resemble the first.
 */
enum { IMAGINED = 1024, SHOWING = 64, SIMILAR = 12 };

/* The share of the way from the noise of an image to fresh noise: with less the shape of the image stays, with more its
 * pose is lost. */
static const double FRESH = 0.5;

typedef struct ranked {
    double rank; /* smaller comes first */
    const float *cond;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->rank, y = ((const ranked *)b)->rank;
    return (x > y) - (x < y);
}

/* Squared, in deviations. */
static double distance(const zn_diffae *d, const float *a, const float *b)
{
    const float *deviation = zn_diffae_statistic(d, "conds_std");
    double sum = 0;
    for (int i = 0; i < zn_diffae_width(d); i++) {
        const double by = ((double)a[i] - (double)b[i]) / (double)deviation[i];
        sum += by * by;
    }
    return sum;
}

/* The mean of the SIMILAR most similar ones of those that are listed. */
static void centre(const zn_diffae *d, const float *cond, ranked *list, int count, float *out)
{
    for (int i = 0; i < count; i++)
        list[i].rank = distance(d, list[i].cond, cond);
    qsort(list, (size_t)count, sizeof *list, by_rank);
    for (int i = 0; i < zn_diffae_width(d); i++) {
        double sum = 0;
        for (int k = 0; k < SIMILAR; k++)
            sum += (double)list[k].cond[i];
        out[i] = (float)(sum / SIMILAR);
    }
}

/* A list of count conditions that are stored consecutively. */
static zn_status list_of(const zn_diffae *d, const float *conds, int count, ranked **out)
{
    ZN_TRY(zn_alloc_for("a list of conditions", sizeof **out * (size_t)count, (void **)out));
    for (int i = 0; i < count; i++)
        (*out)[i] = (ranked){ .cond = conds + (size_t)i * (size_t)zn_diffae_width(d) };
    return ZN_OK;
}

/* Sorts conditions: those that show an attribute most (or least) come first. */
static zn_status sort_by_attribute(zn_diffae *d, ranked *list, int count, int row, int shown)
{
    float *scores;
    zn_status status = ZN_OK;
    ZN_TRY(zn_alloc_for("scores", sizeof *scores * (size_t)d->model->config.classes, (void **)&scores));
    for (int i = 0; i < count && status == ZN_OK; i++) {
        status = zn_diffae_judge(d, list[i].cond, scores);
        list[i].rank = (double)(shown ? -scores[row] : scores[row]);
    }
    zn_free(scores);
    qsort(list, (size_t)count, sizeof *list, by_rank);
    return status;
}

zn_status zn_diffae_goal(zn_diffae *d, const float *cond, const char *attribute, int shown, int steps, uint64_t seed,
                         float *out)
{
    int row;
    float *conds;
    ranked *list = NULL;
    ZN_TRY(zn_diffae_find_attribute(d, attribute, &row));
    if (!d->model->has[ZN_LATENT_NET])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no latent net, so nothing can be imagined", d->model->info.path);
    ZN_TRY(zn_alloc_for("conditions", sizeof *conds * IMAGINED * (size_t)zn_diffae_width(d), (void **)&conds));
    zn_status status = zn_diffae_imagine(d, IMAGINED, seed, steps, conds);
    if (status == ZN_OK)
        status = list_of(d, conds, IMAGINED, &list);
    if (status == ZN_OK)
        status = sort_by_attribute(d, list, IMAGINED, row, shown);
    if (status == ZN_OK)
        centre(d, cond, list, SHOWING, out);
    zn_free(list);
    zn_free(conds);
    return status;
}

void zn_diffae_approach(const zn_diffae *d, const float *cond, const float *goal, double share, float *out)
{
    zn_lerp(cond, goal, share, out, zn_diffae_width(d));
}

zn_status zn_diffae_loosen(const zn_diffae *d, const float *noise, double share, uint64_t seed, float *out)
{
    const size_t count = zn_diffae_noise_size(d, 1);
    float *fresh;
    ZN_TRY(zn_alloc_for("noise", sizeof *fresh * count, (void **)&fresh));
    zn_diffae_noise(d, 1, seed, fresh);
    zn_slerp(noise, fresh, FRESH * fmin(fmax(share, 0), 1), out, (int64_t)count);
    zn_free(fresh);
    return ZN_OK;
}

/* ---- edits ---- */

enum { GOAL_STEPS = 50 };

static zn_status find_goal(zn_diffae *d, zn_diffae_edit *e, const float *cond, int shown)
{
    float *goal;
    if (e->goal[shown])
        return ZN_OK;
    ZN_TRY(zn_alloc_for("a condition", sizeof *goal * (size_t)zn_diffae_width(d), (void **)&goal));
    const zn_status status = zn_diffae_goal(d, cond, e->attribute, shown, GOAL_STEPS, e->seed, goal);
    if (status == ZN_OK)
        e->goal[shown] = goal;
    else
        zn_free(goal);
    return status;
}

zn_status zn_diffae_edit_by(zn_diffae *d, zn_diffae_edit *e, const float *cond, const float *noise, double amount,
                            float *moved_cond, float *moved_noise)
{
    if (!e->imagine) {
        memcpy(moved_noise, noise, sizeof *noise * zn_diffae_noise_size(d, 1));
        return zn_diffae_move(d, cond, e->attribute, amount, moved_cond);
    }
    if (amount != 0)
        ZN_TRY(find_goal(d, e, cond, amount > 0));
    zn_diffae_approach(d, cond, amount == 0 ? cond : e->goal[amount > 0], fabs(amount), moved_cond);
    return zn_diffae_loosen(d, noise, fabs(amount), e->seed, moved_noise);
}

int zn_diffae_edit_steps(const zn_diffae_edit *e, const double *amounts, int count)
{
    int steps[2] = { 0 };
    for (int i = 0; e->imagine && i < count; i++)
        if (amounts[i] != 0 && !e->goal[amounts[i] > 0])
            steps[amounts[i] > 0] = GOAL_STEPS;
    return steps[0] + steps[1];
}

void zn_diffae_edit_clear(zn_diffae_edit *e)
{
    for (int i = 0; i < 2; i++) {
        zn_free(e->goal[i]);
        e->goal[i] = NULL;
    }
}

/* ---- between two images ---- */

void zn_diffae_between(const zn_diffae *d, const float *cond_a, const float *noise_a, const float *cond_b,
                       const float *noise_b, double at, float *cond, float *noise)
{
    zn_lerp(cond_a, cond_b, at, cond, zn_diffae_width(d));
    zn_slerp(noise_a, noise_b, at, noise, (int64_t)zn_diffae_noise_size(d, 1));
}

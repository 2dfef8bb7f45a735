/* New images of a model: how far they are from the data, as a set and each from its nearest image. */
#include "base/alloc.h"
#include "base/fail.h"
#include "pipeline/diffae/evaluation.h"

#include <stdio.h>
#include <stdlib.h>

enum { GROUP = 16 }; /* images drawn at once */

static zn_status look_at_sample(zn_evaluation *v, const zn_image *image, int number, zn_spread *set)
{
    float features[ZN_FEATURES];
    zn_neighbour *n = &v->out->nearest[number];
    ZN_TRY(zn_features_of(v->features, image, features));
    ZN_TRY(zn_spread_add(set, features));
    const int64_t index = zn_neighbours_find(&v->all, features, &n->distance);
    snprintf(n->name, sizeof n->name, "%s", zn_dataset_name(v->data, index));
    return ZN_OK;
}

static zn_status draw_group(zn_evaluation *v, int first, int count, zn_spread *set)
{
    const uint64_t seed = v->o->seed + (uint64_t)first;
    zn_image *images[GROUP] = { NULL };
    float *cond = zn_alloc(sizeof *cond * ((size_t)count * (size_t)zn_diffae_width(v->net) + 1));
    float *noise = zn_alloc(sizeof *noise * zn_diffae_noise_size(v->net, count));
    zn_status status = cond && noise ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for samples");
    if (status == ZN_OK)
        status = zn_diffae_imagine(v->net, count, seed, v->latent_steps, cond);
    if (status == ZN_OK) {
        zn_diffae_noise(v->net, count, seed, noise);
        status = zn_diffae_render(v->net, count, cond, noise, v->steps, images);
    }
    for (int i = 0; i < count && status == ZN_OK && v->features; i++)
        status = look_at_sample(v, images[i], first + i, set);
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
static zn_status measure_held(zn_evaluation *v)
{
    zn_neighbours trained = { 0 };
    double *list = zn_alloc(sizeof *list * (size_t)(v->all.count + 1));
    zn_status status = list ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for distances");
    int64_t count = 0;
    for (int64_t i = 0; i < v->all.count && status == ZN_OK; i++)
        if (!zn_dataset_held_out(v->data, v->all.number[i], v->o->held_out))
            status = zn_neighbours_add(&trained, v->all.number[i], v->all.values + i * ZN_FEATURES);
    for (int64_t i = 0; i < v->all.count && status == ZN_OK && trained.count; i++)
        if (zn_dataset_held_out(v->data, v->all.number[i], v->o->held_out))
            zn_neighbours_find(&trained, v->all.values + i * ZN_FEATURES, &list[count++]);
    if (status == ZN_OK && count) {
        qsort(list, (size_t)count, sizeof *list, by_value);
        v->out->held_distance = list[count / 2];
    }
    zn_neighbours_free(&trained);
    zn_free(list);
    return status;
}

zn_status zn_evaluate_samples(zn_evaluation *v)
{
    zn_diffae_eval_result *r = v->out;
    zn_spread set = { .width = ZN_FEATURES };
    zn_status status = ZN_OK;
    if (!v->o->samples)
        return ZN_OK;
    if (v->features && !(r->nearest = zn_calloc((size_t)v->o->samples, sizeof *r->nearest)))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for samples");
    while (r->sample_count < v->o->samples && status == ZN_OK) {
        const int left = v->o->samples - r->sample_count, count = left < GROUP ? left : GROUP;
        status = draw_group(v, r->sample_count, count, &set);
        r->sample_count += count;
        if (status == ZN_OK)
            status = zn_evaluation_tell(v, (double)r->sample_count / v->o->samples);
    }
    if (status == ZN_OK)
        status = zn_evaluation_distance(v, &set, &r->sample_fid);
    if (status == ZN_OK && v->features && v->o->held_out)
        status = measure_held(v);
    zn_spread_free(&set);
    return status;
}

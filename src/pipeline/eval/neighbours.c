/* Nearest images: a plain search, and a data set searched for the neighbours of some images. */
#include "pipeline/eval/neighbours.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/dataset/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zenith/eval.h>

zn_status zn_neighbours_add(zn_neighbours *n, int64_t number, const float features[ZN_FEATURES])
{
    if (!ZN_GROW(n->values, n->value_capacity, (n->count + 1) * ZN_FEATURES) ||
        !ZN_GROW(n->number, n->number_capacity, n->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the features of images");
    memcpy(n->values + n->count * ZN_FEATURES, features, sizeof *features * ZN_FEATURES);
    n->number[n->count++] = number;
    return ZN_OK;
}

void zn_neighbours_free(zn_neighbours *n)
{
    zn_free(n->values);
    zn_free(n->number);
    *n = (zn_neighbours){ 0 };
}

static double distance_of(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < ZN_FEATURES; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum);
}

int64_t zn_neighbours_find(const zn_neighbours *n, const float features[ZN_FEATURES], double *distance)
{
    int64_t best = -1;
    *distance = INFINITY;
    for (int64_t i = 0; i < n->count; i++) {
        const double d = distance_of(n->values + i * ZN_FEATURES, features);
        if (d < *distance) {
            *distance = d;
            best = n->number[i];
        }
    }
    return best;
}

double zn_neighbours_cosine(const zn_neighbours *n, int64_t at, const float features[ZN_FEATURES])
{
    const float *own = n->values + at * ZN_FEATURES;
    double product = 0, a = 0, b = 0;
    for (int i = 0; i < ZN_FEATURES; i++) {
        product += (double)own[i] * (double)features[i];
        a += (double)own[i] * (double)own[i];
        b += (double)features[i] * (double)features[i];
    }
    return product / sqrt(fmax(a * b, 1e-300));
}

/* ---- a data set ---- */

typedef struct search {
    const zn_nearest_options *o;
    zn_features *features;
    zn_dataset *data;
    zn_neighbours wanted; /* the images that neighbours are looked for */
    zn_neighbour *found;
    int64_t *index; /* of the nearest so far */
} search;

/* Images of other sizes would have other features: the data's are scaled to those of the images. */
static zn_status compare(const search *s, int64_t index, int side)
{
    zn_image *photo, *fitting = NULL;
    float features[ZN_FEATURES];
    ZN_TRY(zn_dataset_read(s->data, index, &photo));
    zn_status status = zn_image_fit(photo, side, side, &fitting);
    if (status == ZN_OK)
        status = zn_features_of(s->features, fitting, features);
    for (int64_t i = 0; i < s->wanted.count && status == ZN_OK; i++) {
        const double d = distance_of(s->wanted.values + i * ZN_FEATURES, features);
        if (d < s->found[i].distance) {
            s->found[i].distance = d;
            s->index[i] = index;
        }
    }
    zn_image_free(photo);
    zn_image_free(fitting);
    return status;
}

static zn_status compare_all(const search *s, int side)
{
    const int64_t count = zn_dataset_count(s->data);
    for (int64_t i = 0; i < count; i++) {
        const zn_status status = compare(s, i, side);
        if (status == ZN_ENOMEM)
            return status;
        if (status != ZN_OK && s->o->skipped)
            s->o->skipped(s->o->user, zn_dataset_name(s->data, i), zn_error_text());
        if (s->o->progress && s->o->progress(s->o->user, (double)(i + 1) / (double)count))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    return ZN_OK;
}

static zn_status name_found(const search *s, int side, zn_image **pictures)
{
    for (int64_t i = 0; i < s->wanted.count; i++) {
        if (s->index[i] < 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: no image can be read", s->o->data);
        snprintf(s->found[i].name, sizeof s->found[i].name, "%s", zn_dataset_name(s->data, s->index[i]));
        if (!pictures)
            continue;
        zn_image *photo;
        ZN_TRY(zn_dataset_read(s->data, s->index[i], &photo));
        const zn_status status = zn_image_fit(photo, side, side, &pictures[i]);
        zn_image_free(photo);
        ZN_TRY(status);
    }
    return ZN_OK;
}

zn_status zn_nearest(const zn_nearest_options *o, int count, zn_image *const *images, zn_neighbour *found,
                     zn_image **pictures)
{
    search s = { .o = o, .found = found };
    float features[ZN_FEATURES];
    zn_status status;
    for (int i = 0; i < count; i++) {
        found[i] = (zn_neighbour){ .distance = INFINITY };
        if (pictures)
            pictures[i] = NULL;
    }
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "there is no image to find neighbours of");
    ZN_TRY(zn_features_open(o->compute, &s.features));
    ZN_TRY_DONE(zn_dataset_open(o->data, &s.data));
    ZN_TRY_DONE(zn_alloc_for("neighbours", sizeof *s.index * (size_t)count, (void **)&s.index));
    for (int i = 0; i < count; i++) {
        s.index[i] = -1;
        ZN_TRY_DONE(zn_features_of(s.features, images[i], features));
        ZN_TRY_DONE(zn_neighbours_add(&s.wanted, i, features));
    }
    ZN_TRY_DONE(compare_all(&s, images[0]->width));
    status = name_found(&s, images[0]->width, pictures);
done:
    for (int i = 0; i < count && pictures && status != ZN_OK; i++) {
        zn_image_free(pictures[i]);
        pictures[i] = NULL;
    }
    zn_neighbours_free(&s.wanted);
    zn_free(s.index);
    zn_dataset_close(s.data);
    zn_features_close(s.features);
    return status;
}

/* What surrounds Zenith's training: optimiser steps, clipping, metrics, corruptions, wavelet pictures (specification
 * 0.8, B6, B7). */
#include "probe.h"

#include "../similarity.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "train/data/corrupt.h"
#include "train/data/filters.h"
#include "train/data/wavelet.h"
#include "train/optimiser/optim.h"
#include "train/score/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zn_status compare_scalar(golden *g, const char *name, double value)
{
    const float v = (float)value;
    return golden_compare(g, name, &v, ZN_SHAPE(1), GOLDEN_MAP, GOLDEN_FORWARD);
}

/* ---- optimisers ---- */

static double beta(const golden *g, int index, double fallback)
{
    const zn_json_node *betas = zn_json_get(g->config, "betas"), *b = zn_json_first(betas);
    for (int i = 0; i < index && b; i++)
        b = zn_json_next(betas, b);
    double value;
    return zn_json_double(b, &value) ? value : fallback;
}

/* Steps with the given gradients from w (changed), compared after each: out.<form>.step<k>. */
static zn_status steps(golden *g, const char *form, zn_optim_kind kind, float *w, zn_shape shape, const float *grads,
                       int64_t count)
{
    const zn_optim_options options = { .kind = kind,
                                       .lr = (float)golden_double(g, "lr", 1e-3),
                                       .beta1 = (float)beta(g, 0, 0.9),
                                       .beta2 = (float)beta(g, 1, 0.999),
                                       .eps = (float)golden_double(g, "eps", 1e-8),
                                       .weight_decay =
                                           kind == ZN_ADAMW ? (float)golden_double(g, "weight_decay", 0) : 0 };
    const int64_t size = zn_shape_count(shape);
    zn_optim o;
    zn_status status = ZN_OK;
    ZN_TRY(zn_optim_new(&o, size, &options));
    for (int64_t k = 0; k < count && status == ZN_OK; k++) {
        char name[64];
        zn_optim_begin(&o, -1);
        zn_optim_update(&o, g->pool, w, grads + k * size, size, NULL);
        snprintf(name, sizeof name, "%s.step%lld", form, (long long)k + 1);
        /* a step moves a weight by about lr, so that is what the error is measured by */
        float *tolerance;
        status = zn_alloc_for(name, sizeof(float) * (size_t)size, (void **)&tolerance);
        for (int64_t i = 0; i < size && status == ZN_OK; i++)
            tolerance[i] = 1e-3f * options.lr + 4e-7f * fabsf(w[i]);
        if (status == ZN_OK)
            status = golden_compare_each(g, name, w, shape, GOLDEN_MAP, tolerance);
        zn_free(tolerance);
    }
    zn_optim_free(&o);
    return status;
}

static zn_status adam_run(golden *g)
{
    static const struct {
        const char *form;
        zn_optim_kind kind;
    } forms[] = { { "seed", ZN_ADAM_SEED }, { "adam", ZN_ADAM }, { "adamw", ZN_ADAMW } };
    zn_shape shape, all;
    float *w = NULL, *grads = NULL;
    zn_status status = golden_load(g, "in.", "grads", &all, &grads);
    for (int i = 0; i < 3 && status == ZN_OK; i++) {
        status = golden_load(g, "in.", "p", &shape, &w);
        if (status == ZN_OK)
            status = steps(g, forms[i].form, forms[i].kind, w, shape, grads, all.dim[0]);
        zn_free(w);
        w = NULL;
    }
    const int64_t size = status == ZN_OK ? zn_shape_count(all) / all.dim[0] : 0;
    for (int64_t k = 0; k < all.dim[0] && status == ZN_OK; k++)
        zn_clip_norm((float *[]){ grads + k * size }, &size, 1, golden_double(g, "clip_norm", 1));
    if (status == ZN_OK)
        status = golden_compare(g, "clipped", grads, all, GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(grads);
    return status;
}

/* ---- metrics ---- */

typedef struct pair {
    float *a, *b;
    zn_shape shape;
} pair;

static zn_status pair_load(golden *g, const char *a, const char *b, pair *p)
{
    zn_shape other;
    ZN_TRY(golden_load(g, "in.", a, &p->shape, &p->a));
    ZN_TRY(golden_load(g, "in.", b, &other, &p->b));
    if (!zn_shape_equal(p->shape, other) || other.rank != 4)
        return ZN_FAIL(ZN_ESHAPE, "'%s' and '%s' are no pair of maps", a, b);
    const float scale = golden_find(g, "in.", a)->dtype == ZN_U8 ? 255 : 1;
    for (int64_t i = 0; i < zn_shape_count(other); i++) {
        p->a[i] /= scale;
        p->b[i] /= scale;
    }
    return ZN_OK;
}

enum { MSE, PSNR, SSIM, MS_SSIM, METRICS };

/* One metric of every image: out.<name> [N]. */
static zn_status metric(golden *g, const char *name, int which, const pair *p)
{
    const double range = golden_double(g, "data_range", 1);
    zn_shape one = p->shape;
    one.dim[0] = 1;
    const int64_t count = p->shape.dim[0], size = zn_shape_count(one);
    float *values;
    if (!golden_has(g, "out.", name))
        return ZN_OK;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (size_t)count, (void **)&values));
    zn_status status = ZN_OK;
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        const float *a = p->a + i * size, *b = p->b + i * size;
        double v = zn_mean_square(a, b, size);
        if (which == PSNR)
            v = zn_psnr(v, range);
        else if (which == SSIM)
            status = similarity(a, b, one, 0, range, &v);
        else if (which == MS_SSIM)
            status = zn_ms_ssim(a, b, one, range, &v);
        values[i] = (float)v;
    }
    if (status == ZN_OK)
        status = golden_compare(g, name, values, ZN_SHAPE(count), GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(values);
    return status;
}

static zn_status metrics_run(golden *g)
{
    pair p = { 0 }, ms = { 0 };
    zn_status status;
    ZN_TRY_DONE(pair_load(g, "a", "b", &p));
    ZN_TRY_DONE(metric(g, "mse", MSE, &p));
    ZN_TRY_DONE(metric(g, "psnr", PSNR, &p));
    ZN_TRY_DONE(metric(g, "ssim", SSIM, &p));
    if (golden_has(g, "in.", "ms_a")) {
        ZN_TRY_DONE(pair_load(g, "ms_a", "ms_b", &ms));
        ZN_TRY_DONE(metric(g, "ms_ssim", MS_SSIM, &ms));
    }
done:
    zn_free(p.a);
    zn_free(p.b);
    zn_free(ms.a);
    zn_free(ms.b);
    return status;
}

/* ---- corruptions and filters: the number in the name is the deviation or the side ---- */

typedef struct restoration {
    zn_shape shape;
    float *clean, *noise, *u, *v, *from, *y;
    float shot_p, shot_magnitude;
} restoration;

/* y = what the name says; false if it says nothing known. */
static bool corrupt(const restoration *r, const char *name)
{
    const int64_t count = zn_shape_count(r->shape);
    if (strncmp(name, "gauss", 5) == 0)
        zn_add_gaussian(r->clean, r->noise, count, strtof(name + 5, NULL), r->y);
    else if (strcmp(name, "shot") == 0)
        zn_add_shot(r->clean, r->u, r->v, count, r->shot_p, r->shot_magnitude, r->y);
    else if (strncmp(name, "box", 3) == 0)
        zn_box_blur(r->clean, r->shape, (int)strtol(name + 3, NULL, 10), r->y);
    else if (strncmp(name, "mean", 4) == 0) { /* of the noise at 0.3 */
        zn_add_gaussian(r->clean, r->noise, count, 0.3f, r->from);
        zn_box_blur(r->from, r->shape, (int)strtol(name + 4, NULL, 10), r->y);
    } else if (strcmp(name, "median3") == 0) { /* of the shot noise */
        zn_add_shot(r->clean, r->u, r->v, count, r->shot_p, r->shot_magnitude, r->from);
        zn_median(r->from, r->shape, 3, r->y);
    } else {
        return false;
    }
    return true;
}

static zn_status restoration_load(golden *g, restoration *r)
{
    zn_shape s;
    ZN_TRY(golden_load(g, "in.", "clean", &r->shape, &r->clean));
    ZN_TRY(golden_load(g, "in.", "noise", &s, &r->noise));
    ZN_TRY(golden_load(g, "in.", "u", &s, &r->u));
    ZN_TRY(golden_load(g, "in.", "v", &s, &r->v));
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(r->shape);
    ZN_TRY(zn_alloc_for("a map", bytes, (void **)&r->from));
    ZN_TRY(zn_alloc_for("a map", bytes, (void **)&r->y));
    r->shot_p = (float)golden_double(g, "shot_p", 0.05);
    r->shot_magnitude = (float)golden_double(g, "shot_magnitude", 2);
    return ZN_OK;
}

static zn_status restoration_run(golden *g)
{
    restoration r = { 0 };
    zn_status status = restoration_load(g, &r);
    for (int64_t i = 0; i < zn_weights_count(g->file) && status == ZN_OK; i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        if (strncmp(name, "out.", 4) || strncmp(name, "out.mse.", 8) == 0 || !corrupt(&r, name + 4))
            continue;
        char mse[128];
        snprintf(mse, sizeof mse, "mse.%s", name + 4);
        status = golden_compare(g, name + 4, r.y, r.shape, GOLDEN_MAP, GOLDEN_FORWARD);
        if (status == ZN_OK)
            status = compare_scalar(g, mse, zn_mean_square(r.y, r.clean, zn_shape_count(r.shape)));
    }
    float *all[] = { r.clean, r.noise, r.u, r.v, r.from, r.y };
    for (int i = 0; i < 6; i++)
        zn_free(all[i]);
    return status;
}

/* ---- wavelet pictures from given parameters [n][7] ---- */

static zn_status wavelet_one(golden *g, const char *index)
{
    enum { MAX = 64 };
    char name[64];
    zn_shape s;
    float *params = NULL, *image = NULL;
    zn_wavelet w[MAX];
    zn_status status;
    snprintf(name, sizeof name, "params.%s", index);
    ZN_TRY_DONE(golden_load(g, "in.", name, &s, &params));
    snprintf(name, sizeof name, "image.%s", index);
    const zn_weight *want = golden_find(g, "out.", name);
    if (!want || want->rank != 2 || s.rank != 2 || s.dim[1] != 7 || s.dim[0] > MAX) {
        status = ZN_FAIL(ZN_ESHAPE, "'%s' is not understood", name);
        goto done;
    }
    for (int64_t i = 0; i < s.dim[0]; i++) {
        const float *p = params + 7 * i;
        w[i] = (zn_wavelet){ (zn_wavelet_type)(int)p[0], p[1], p[2], p[3], p[4], p[5], p[6] };
    }
    const int height = (int)want->shape[0], width = (int)want->shape[1];
    ZN_TRY_DONE(zn_alloc_for(name, sizeof(float) * (size_t)(width * height), (void **)&image));
    zn_wavelet_image(w, (int)s.dim[0], width, height, 1, image);
    status = golden_compare(g, name, image, ZN_SHAPE(height, width), GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_free(params);
    zn_free(image);
    return status;
}

static zn_status wavelet_run(golden *g)
{
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        if (strncmp(name, "in.params.", 10) == 0)
            ZN_TRY(wavelet_one(g, name + 10));
    }
    return ZN_OK;
}

static const probe_case cases[] = {
    { "adam", "in.grads", adam_run },
    { "metrics", "in.ms_a", metrics_run },
    { "restoration", "in.clean", restoration_run },
    { "wavelet_gen", "in.params.", wavelet_run },
    { NULL, NULL, NULL },
};

static bool matches(const golden *g) { return probe_case_find(cases, g) != NULL; }
static zn_status run(golden *g) { return probe_case_find(cases, g)->run(g); }

const golden_kind golden_zenith_train = { "zenith training", matches, run };

/* Z-Image's sampling loops (specification 5), with the denoiser that generation uses: plain, several images, guidance
 * with its variations, from an image. */
#include "zimage_net.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/flow_sampler.h"
#include "pipeline/generate/denoise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 1000, MOST_IMAGES = 8, NAME = 96 };

typedef struct loop {
    golden *g;
    zimage_net net;
    zn_denoiser *denoiser;
    const char *name;
    zn_shape image;       /* [1,h,w,C] */
    float *noise, *clean; /* [images,h,w,C], [1,h,w,C] */
    zn_caption wanted, unwanted;
    float *latents, *answers; /* of this run, [steps][images][h,w,C]; answers as schedulers get them */
    int images, number, steps;
    int together; /* images from `number` on that take their steps now */
} loop;

static bool denoise_matches(const golden *g)
{
    return zn_json_get(g->config, "runs") && golden_has(g, "in.", "neg_cap") && golden_has(g, "in.", "noise");
}

static zn_status predict(void *self, const float *x, int step, bool unwanted, float *out)
{
    return zn_denoiser_predict(((loop *)self)->denoiser, x, step, unwanted, out);
}

static zn_status keep(void *self, int step, float *x, const float *out)
{
    loop *l = self;
    const int64_t count = zn_shape_count(l->image), at = ((int64_t)step * l->images + l->number) * count;
    for (int64_t i = 0; i < l->together * count; i++) {
        l->latents[at + i] = x[i];
        l->answers[at + i] = -out[i];
    }
    return ZN_OK;
}

/* Within 5e-4 of the largest value, which is what many steps may make of rounding. */
static zn_status compare(loop *l, const char *what, int step, const float *values)
{
    char name[NAME];
    const zn_shape shape = ZN_SHAPE(l->images, l->image.dim[1], l->image.dim[2], l->image.dim[3]);
    const int64_t count = zn_shape_count(shape);
    float *limit, largest = 1;
    if (step < 0)
        snprintf(name, sizeof name, "%s.%s", l->name, what);
    else
        snprintf(name, sizeof name, "%s.step%d.%s", l->name, step, what);
    ZN_TRY(zn_alloc_for(name, sizeof *limit * (size_t)count, (void **)&limit));
    for (int64_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    for (int64_t i = 0; i < count; i++)
        limit[i] = 5e-4f * largest;
    const zn_status status = golden_compare_each(l->g, name, values, shape, GOLDEN_MAP, limit);
    zn_free(limit);
    return status;
}

static double number_of(const zn_json_node *object, const char *key, double fallback)
{
    double value = fallback;
    zn_json_update_double(object, key, &value);
    return value;
}

/* The run's images at once, or one after the other if their answers are shortened, which depends on each; then all of
 * each step are compared. */
static zn_status walk(loop *l, const zn_json_node *run, const float *sigma)
{
    zn_caption wanted[MOST_IMAGES], unwanted[MOST_IMAGES];
    const bool from_image = zn_json_get(run, "strength") != NULL;
    const int64_t count = zn_shape_count(l->image);
    zn_flow_sampling s = { .sigma = sigma,
                           .steps = l->steps,
                           .first = from_image ? zn_flow_first(l->steps, number_of(run, "strength", 1)) : 0,
                           .count = count,
                           .guidance = (float)number_of(run, "guidance", 0),
                           .longest = (float)number_of(run, "cfg_normalization", 0),
                           .until = (float)number_of(run, "cfg_truncation", 1),
                           .predict = predict,
                           .done = keep,
                           .self = l };
    l->together = s.longest > 0 ? 1 : l->images;
    s.count = count * l->together;
    for (int i = 0; i < l->together; i++) {
        wanted[i] = l->wanted;
        unwanted[i] = l->unwanted;
    }
    const zn_stored from = { l->net.files, 1, zn_zimage_place, &l->net.naming };
    const zn_denoiser_setup setup = { .weights = &from, .form = &l->net.form, .exec = { .pool = l->g->pool } };
    const zn_denoiser_image image = { .samples = l->together,
                                      .height = l->image.dim[1],
                                      .width = l->image.dim[2],
                                      .wanted = wanted,
                                      .unwanted = s.guidance > 0 ? unwanted : NULL,
                                      .sigma = sigma,
                                      .steps = l->steps,
                                      .first = s.first };
    float *x;
    ZN_TRY(zn_alloc_for("latents", sizeof *x * (size_t)(count * l->images), (void **)&x));
    memcpy(x, l->noise, sizeof *x * (size_t)(count * l->images));
    for (int i = 0; i < l->images && from_image; i++)
        zn_flow_mix(l->clean, x + i * count, sigma[s.first], x + i * count, count);
    zn_status status = from_image ? compare(l, "start_latent", -1, x) : ZN_OK;
    if (status == ZN_OK)
        status = zn_denoiser_new(&setup, &l->denoiser);
    if (status == ZN_OK)
        status = zn_denoiser_begin(l->denoiser, &image);
    for (l->number = 0; l->number < l->images && status == ZN_OK; l->number += l->together)
        status = zn_flow_sample(&s, x + l->number * count);
    zn_free(x);
    zn_denoiser_free(l->denoiser);
    l->denoiser = NULL;
    for (int i = s.first; i < l->steps && status == ZN_OK; i++) {
        status = compare(l, "latent", i, l->latents + i * l->images * count);
        if (status == ZN_OK)
            status = compare(l, "velocity", i, l->answers + i * l->images * count);
    }
    return status == ZN_OK ? compare(l, "final", -1, l->latents + (l->steps - 1) * l->images * count) : status;
}

/* The schedule that the configuration lists is ours. */
static void check_sigmas(loop *l, const zn_json_node *run, const float *sigma)
{
    int i = 0;
    bool same = true;
    ZN_JSON_EACH(value, zn_json_get(run, "sigmas"))
    {
        double want;
        same &= i <= l->steps && zn_json_double(value, &want) && fabs(want - (double)sigma[i]) < 3e-7;
        i++;
    }
    same &= i == l->steps + 1;
    printf("%s: %d sigmas  %s\n", l->name, i, same ? "PASS" : "FAIL");
    same ? l->g->passed++ : l->g->failed++;
}

static zn_status one_run(loop *l, const zn_json_node *run, int64_t noises)
{
    float sigma[MOST_STEPS + 1];
    int64_t images = 1, steps = golden_int(l->g, "steps", 4);
    if (zn_json_get(run, "images"))
        zn_json_i64(zn_json_get(run, "images"), &images);
    if (zn_json_get(run, "steps"))
        zn_json_i64(zn_json_get(run, "steps"), &steps);
    if (images < 1 || images > noises || images > MOST_IMAGES || steps < 1 || steps > MOST_STEPS)
        return ZN_FAIL(ZN_EFORMAT, "%s: %lld images in %lld steps", l->name, (long long)images, (long long)steps);
    l->images = (int)images;
    l->steps = (int)steps;
    zn_flow_sigmas(l->steps, (float)golden_double(l->g, "shift", 3), sigma);
    check_sigmas(l, run, sigma);
    const size_t bytes = sizeof(float) * (size_t)(steps * images * zn_shape_count(l->image));
    ZN_TRY(zn_alloc_for("latents", bytes, (void **)&l->latents));
    zn_status status = zn_alloc_for("answers", bytes, (void **)&l->answers);
    if (status == ZN_OK)
        status = walk(l, run, sigma);
    zn_free(l->latents);
    zn_free(l->answers);
    l->answers = NULL;
    return status;
}

static zn_status run_all(loop *l)
{
    zn_shape noise, clean, cap, negative;
    float *features = NULL, *negatives = NULL;
    zn_status status;
    ZN_TRY_DONE(golden_load(l->g, "in.", "noise", &noise, &l->noise));
    ZN_TRY_DONE(golden_load(l->g, "in.", "clean_latent", &clean, &l->clean));
    ZN_TRY_DONE(golden_load(l->g, "in.", "cap", &cap, &features));
    ZN_TRY_DONE(golden_load(l->g, "in.", "neg_cap", &negative, &negatives));
    l->image = clean;
    noise.dim[0] = clean.rank == 4 && clean.dim[0] == 1 ? noise.dim[0] : 0;
    for (int i = 1; i < 4 && noise.dim[0]; i++)
        noise.dim[0] = noise.dim[i] == clean.dim[i] ? noise.dim[0] : 0;
    if (!noise.dim[0] || cap.rank != 2 || negative.rank != 2 || cap.dim[1] != l->net.form.caption ||
        negative.dim[1] != l->net.form.caption || clean.dim[3] != l->net.form.channels)
        status = ZN_FAIL(ZN_EFORMAT, "noise, clean_latent and captions do not fit each other");
    l->wanted = (zn_caption){ features, (int)cap.dim[0] };
    l->unwanted = (zn_caption){ negatives, (int)negative.dim[0] };
    ZN_JSON_EACH(key, zn_json_get(l->g->config, "runs"))
    {
        l->name = key->value.text;
        if (status == ZN_OK)
            status = one_run(l, key + 1, noise.dim[0]);
    }
done:
    zn_free(l->noise);
    zn_free(l->clean);
    zn_free(features);
    zn_free(negatives);
    return status;
}

static zn_status denoise_run(golden *g)
{
    loop l = { .g = g };
    ZN_TRY(zimage_net_open(&l.net, g));
    const zn_status status = run_all(&l);
    zimage_net_close(&l.net);
    return status;
}

const golden_kind golden_zimage_denoise = { "z-image sampling", denoise_matches, denoise_run };

/* The steps of images that are made at once: noise, or noised latents to start from, then the walk along the flow
 * (diffusion/flow_sampler.h) with previews and masks. Images whose captions fill up to the same number of tokens take
 * their steps together, fewer at a time where memory is short. */
#include "pipeline/generate/images.h"
#include "pipeline/generate/transformer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/flow_sampler.h"
#include "diffusion/noise.h"
#include "pipeline/generate/mask.h"

#include <string.h>

/* ---- where they begin ---- */

/* PyTorch draws planes, [channels][height][width]. */
static zn_status draw_noise(const zn_generator_images *r, const zn_generator_image *s, float *noise)
{
    const int64_t count = zn_images_latent_size(r), channels = r->x->channels, pixels = count / channels;
    zn_torch_noise n;
    float *planes;
    ZN_TRY(zn_alloc_for("noise", sizeof *planes * (size_t)count, (void **)&planes));
    zn_torch_noise_seed(&n, s->request->seed);
    zn_torch_noise_fill(&n, planes, count, r->g->compute.pool);
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < channels; c++)
            noise[i * channels + c] = planes[c * pixels + i];
    zn_free(planes);
    return ZN_OK;
}

static zn_status check_start(const zn_generator_images *r, const zn_latent *clean)
{
    const int height = r->x->height / r->count;
    if (clean->channels != r->x->channels)
        return ZN_FAIL(ZN_ESHAPE, "the autoencoder has %d channels, the transformer %d: they do not belong together",
                       clean->channels, r->x->channels);
    if (clean->width != r->x->width || clean->height != height)
        return ZN_FAIL(ZN_ESHAPE, "the autoencoder makes latents of %dx%d of an image that needs %dx%d", clean->width,
                       clean->height, r->x->width, height);
    return ZN_OK;
}

static zn_status place_one(zn_generator_images *r, int i)
{
    zn_generator_image *s = &r->samples[i];
    const int64_t at = zn_images_latent_place(r, i), count = zn_images_latent_size(r);
    ZN_TRY(draw_noise(r, s, r->noise + at));
    memcpy(r->x->data + at, r->noise + at, sizeof(float) * (size_t)count);
    if (s->clean) {
        ZN_TRY(check_start(r, s->clean));
        zn_flow_mix(s->clean->data, r->noise + at, r->sigma[r->first], r->x->data + at, count);
    }
    return s->request->mask ? zn_mask_shrink(s->request->mask, ZN_LATENT_SCALE, &s->mask) : ZN_OK;
}

static zn_status place_start(zn_generator_images *r, int channels)
{
    const zn_generation *q = r->request;
    ZN_TRY(zn_latent_new(q->width / ZN_LATENT_SCALE, q->height / ZN_LATENT_SCALE * r->count, channels, &r->x));
    r->x->downscale = ZN_LATENT_SCALE;
    ZN_TRY(zn_alloc_for("noise", sizeof(float) * (size_t)(zn_images_latent_size(r) * r->count), (void **)&r->noise));
    for (int i = 0; i < r->count; i++)
        ZN_TRY(place_one(r, i));
    return ZN_OK;
}

static int finish_layer(void *self, int layer)
{
    zn_generator_images *r = self;
    (void)layer;
    r->part++;
    return zn_images_tell(r, 0, NULL);
}

static zn_status predict(void *self, const float *x, int step, bool unwanted, float *out)
{
    zn_generator_images *r = self;
    if (r->calibration)
        return zn_fp8_measure(&r->errors, r->denoiser, x, step, zn_images_latent_size(r), out, finish_layer, r);
    const int steps = r->request->steps - r->first, answers = zn_answers_of_step(r->request);
    r->part = answers * (r->begun * steps + r->together * (step - r->first)) + r->together * unwanted;
    return zn_denoiser_predict(r->denoiser, x, step, unwanted, out);
}

/* The image after this step or, where a thread makes it during the next one, after the step before, NULL at first. No
 * thread begins one after the last step: there the image itself comes sooner. */
static zn_status look(zn_generator_images *r, bool last, zn_image **image)
{
    const bool later = zn_preview_has_thread(r->preview);
    if (!later)
        ZN_TRY(zn_preview_begin(r->preview, r->seen));
    ZN_TRY(zn_preview_end(r->preview, image));
    const zn_status status = later && !last ? zn_preview_begin(r->preview, r->seen) : ZN_OK;
    if (status != ZN_OK)
        zn_image_free(*image);
    return status;
}

/* x: of the images that take steps now. */
static zn_status finish_step(void *self, int step, float *x, const float *out)
{
    zn_generator_images *r = self;
    const int64_t size = zn_images_latent_size(r);
    zn_image *image = NULL;
    if (r->preview) {
        zn_flow_estimate(x, out, r->sigma[step + 1], r->seen->data, size);
        ZN_TRY(look(r, step + 1 == r->request->steps, &image));
    }
    for (int i = 0; i < r->together; i++) {
        const zn_generator_image *s = &r->samples[r->begun + i];
        if (s->mask)
            zn_mask_restore(s->mask, s->clean->data, r->noise + zn_images_latent_place(r, r->begun + i),
                            r->sigma[step + 1], x + i * size, size / r->x->channels, r->x->channels);
    }
    const int steps = r->request->steps - r->first, of_each = r->parts / r->count;
    r->part = r->begun * of_each + r->together * of_each / steps * (step + 1 - r->first);
    const int cancel = zn_images_tell(r, 0, image);
    zn_image_free(image);
    return cancel ? ZN_FAIL(ZN_ECANCELLED, "cancelled") : ZN_OK;
}

static zn_status start_preview(zn_generator_images *r)
{
    if (!r->request->preview || !r->request->progress)
        return ZN_OK;
    ZN_TRY(zn_latent_new(r->x->width, r->x->height / r->count, r->x->channels, &r->seen));
    if (!r->g->preview)
        ZN_TRY(zn_preview_new(r->g, r->x->channels, &r->g->preview));
    r->preview = r->g->preview;
    zn_image *left; /* by an image that was cancelled */
    if (zn_preview_end(r->preview, &left) == ZN_OK)
        zn_image_free(left);
    return ZN_OK;
}

static zn_status sample_flow(zn_generator_images *r)
{
    const zn_flow_sampling s = { .sigma = r->sigma,
                                 .steps = r->request->steps,
                                 .first = r->first,
                                 .count = zn_images_latent_size(r) * r->together,
                                 .guidance = (float)r->request->guidance,
                                 .until = 1,
                                 .predict = predict,
                                 .done = finish_step,
                                 .self = r };
    return zn_flow_sample(&s, r->x->data + zn_images_latent_place(r, r->begun));
}

static zn_status check_fit(const zn_generator_images *r, const zn_zimage_form *k)
{
    const int width = r->samples[0].wanted->width;
    if (width != k->caption)
        return ZN_FAIL(ZN_ESHAPE,
                       "the text encoder gives %d channels, the transformer takes %d: they do not belong together",
                       width, k->caption);
    return ZN_OK;
}

static zn_status write_calibration(const zn_generator_images *r)
{
    char path[4200];
    zn_fp8_path(r->g->paths.part[ZN_GENERATOR_TRANSFORMER], path, sizeof path);
    return zn_fp8_write(&r->errors, r->denoiser, r->calibration->file ? r->calibration->file : path, r->calibration);
}

/* How many images from `begun` on have captions of the same lengths, filled up. */
static int count_alike(const zn_generator_images *r)
{
    int count = 1;
    while (r->begun + count < r->count &&
           zn_generator_image_order(&r->samples[r->begun + count], &r->samples[r->begun]) == 0)
        count++;
    return count;
}

/* The captions of the images that take steps now. */
static zn_status begin_steps(zn_generator_images *r)
{
    const zn_generator_image *s = &r->samples[r->begun];
    zn_caption *captions;
    ZN_TRY(zn_alloc_for("captions", sizeof *captions * 2 * (size_t)r->together, (void **)&captions));
    for (int i = 0; i < r->together; i++) {
        captions[i] = (zn_caption){ s[i].wanted->data, s[i].wanted->tokens };
        if (s->unwanted)
            captions[r->together + i] = (zn_caption){ s[i].unwanted->data, s[i].unwanted->tokens };
    }
    const zn_denoiser_image image = { .samples = r->together,
                                      .height = r->x->height / r->count,
                                      .width = r->x->width,
                                      .wanted = captions,
                                      .unwanted = s->unwanted ? captions + r->together : NULL,
                                      .sigma = r->sigma,
                                      .steps = r->request->steps,
                                      .first = r->first,
                                      .progress = zn_images_tell_part,
                                      .user = r };
    r->preparing = true;
    const zn_status status = zn_denoiser_begin(r->denoiser, &image);
    r->preparing = false;
    zn_free(captions);
    return status;
}

/* Begins with the images that come next: with half of them, and so on, if memory is short. */
static zn_status begin_most(zn_generator_images *r, zn_transformer *t)
{
    for (r->together = count_alike(r);; r->together = (r->together + 1) / 2) {
        zn_status status =
            zn_generator_denoiser(r->g, t, r->request, r->together, r->samples[r->begun].wanted->tokens, &r->denoiser);
        if (status == ZN_OK)
            status = begin_steps(r);
        if (status != ZN_ENOMEM || r->together == 1)
            return status;
    }
}

static zn_status take_steps_together(zn_generator_images *r, zn_transformer *t)
{
    const double start = zn_clock_ms();
    ZN_TRY(begin_most(r, t));
    if (r->calibration)
        r->parts *= zn_denoiser_trials(r->denoiser) + 1;
    ZN_TRY(sample_flow(r));
    for (int i = 0; i < r->together; i++) {
        zn_generation_report *report = &r->samples[r->begun + i].report;
        report->peak_bytes = (double)t->plan.bytes;
        report->together = r->together;
        report->steps_s = (zn_clock_ms() - start) / 1000 / r->together;
    }
    return ZN_OK;
}

static zn_status take_steps(zn_generator_images *r)
{
    zn_transformer *t;
    ZN_TRY(zn_generator_transformer(r->g, &t));
    ZN_TRY(check_fit(r, &t->form));
    ZN_TRY(place_start(r, t->form.channels));
    ZN_TRY(start_preview(r));
    ZN_TRY(zn_generator_transformer(r->g, &t)); /* the decoder may have taken the place of the first */
    for (; r->begun < r->count; r->begun += r->together)
        ZN_TRY(take_steps_together(r, t));
    return r->calibration ? write_calibration(r) : ZN_OK;
}

zn_status zn_images_denoise(zn_generator_images *r)
{
    zn_images_enter(r, ZN_STAGE_STEPS, zn_answers_of_step(r->request) * (r->request->steps - r->first) * r->count);
    const zn_status status = take_steps(r);
    zn_generator_end_stage(r->g, ZN_GENERATOR_TRANSFORMER, status);
    return status;
}

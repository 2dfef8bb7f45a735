/* Images, stage by stage: prompts to features, images to latents, steps of the transformer, latents to images. Each
 * stage opens its network and releases it, unless it stays on a device for the next images. A request may be for
 * several images; those whose captions fill up to the same number of tokens take their steps together. */
#include "pipeline/generate/transformer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/flow_sampler.h"
#include "diffusion/noise.h"
#include "pipeline/generate/mask.h"
#include "pipeline/generate/preview.h"

#include <stdlib.h>
#include <string.h>

enum { SCALE = 8, STAGES = ZN_STAGE_DECODE + 1 };

/* One of the images. */
typedef struct sample {
    const zn_generation *request;
    int number;                           /* among those that were asked for */
    const zn_features *wanted, *unwanted; /* unwanted: for guidance, or NULL */
    zn_latent *clean;                     /* of the image to start from, or NULL */
    float *mask;
    zn_image *image; /* in the end */
    zn_generation_report report;
} sample;

typedef struct run {
    zn_generator *g;
    const zn_generation *request; /* of the first image; settings that all share count */
    sample *samples;              /* in the order in which they take their steps */
    int count;
    zn_features *features; /* of the prompts, each once */
    int feature_count;
    zn_latent *x; /* noise, then the images, one below the other */
    float *noise, *sigma;
    int begun, together;   /* the images [begun,begun+together) take steps now */
    zn_denoiser *denoiser; /* the generator's */
    zn_preview *preview;   /* the generator's; NULL: none are asked for */
    zn_latent *seen;       /* for it: the first of those as it is expected now */
    int first;             /* step to begin with */
    /* progress: the stage, where it begins and how much it takes of the whole; its equal parts, and those that are
     * finished; what was told last, since it never falls */
    zn_generation_stage stage;
    double begin, span, told;
    int part, parts;
    bool preparing;                    /* the graphs that run now are not counted */
    const zn_calibration *calibration; /* NULL: an image is made */
    zn_fp8_errors errors;              /* for it */
} run;

static int length_of(const zn_features *f) { return f ? zn_zimage_filled(f->tokens) : 0; }

/* Images whose captions fill up to the same lengths can take their steps together. */
static int order_of(const sample *a, const sample *b)
{
    const int wanted = length_of(a->wanted) - length_of(b->wanted);
    return wanted ? wanted : length_of(a->unwanted) - length_of(b->unwanted);
}

static int by_order(const void *a, const void *b)
{
    const int order = order_of(a, b);
    return order ? order : ((const sample *)a)->number - ((const sample *)b)->number;
}

/* ---- progress ---- */

/* A step of the sampler asks the network once or, with guidance, twice. */
static int asked(const zn_generation *q) { return q->guidance > 0 ? 2 : 1; }

/* Parts of the images before these are whole steps of theirs. */
static int step_of(const run *r)
{
    const int steps = r->request->steps - r->first, of_each = r->parts / r->count;
    return (r->part - r->begun * of_each) * steps / (r->together * of_each);
}

/* fraction: of the part that runs now. */
static int tell(run *r, double fraction, zn_image *preview)
{
    const int wide = r->stage == ZN_STAGE_STEPS ? r->together : 1;
    const double now = r->begin + r->span * (r->part + (r->preparing ? 0 : fraction * wide)) / r->parts;
    const int steps = r->request->steps - r->first;
    r->told = now > r->told ? now : r->told;
    const zn_generation_progress p = { .size = sizeof p,
                                       .stage = r->stage,
                                       .fraction = r->told,
                                       .step = r->stage < ZN_STAGE_STEPS   ? 0
                                               : r->stage > ZN_STAGE_STEPS ? steps
                                                                           : step_of(r),
                                       .steps = steps,
                                       .preview = preview };
    return r->request->progress ? r->request->progress(r->request->user, &p) : 0;
}

static int tell_part(void *self, double fraction) { return tell(self, fraction, NULL); }

static zn_stage_progress progress_of(run *r) { return (zn_stage_progress){ tell_part, r }; }

/* Shares of the whole, roughly: operations of the published networks for each token, pixel and step. */
static void enter(run *r, zn_generation_stage stage, int parts)
{
    const zn_generation *q = r->request;
    const zn_features *wanted = r->samples[0].wanted; /* not known at first */
    const double pixels = (double)q->width * q->height, tokens = pixels / 256 + (wanted ? wanted->tokens : 0);
    const double answers = (double)asked(q) * (q->steps - r->first);
    const double cost[STAGES] = { [ZN_STAGE_TEXT] = wanted && wanted->cached ? 0 : 0.2e12 * asked(q),
                                  [ZN_STAGE_ENCODE] = q->image ? 5e6 * pixels : 0,
                                  [ZN_STAGE_STEPS] = answers * (11e9 + 0.5e6 * tokens) * tokens,
                                  [ZN_STAGE_DECODE] = 10e6 * pixels };
    double all = 0, before = 0;
    for (int i = 0; i < STAGES; i++) {
        all += cost[i];
        before += i < (int)stage ? cost[i] : 0;
    }
    r->stage = stage;
    r->begin = before / all;
    r->span = cost[stage] / all;
    r->part = 0;
    r->parts = parts;
}

/* ---- stages ---- */

/* The place of a text among the first `count` of a list, to whose end it is added if it is not there. */
static int list_text(const char **texts, int *count, const char *text)
{
    int i = 0;
    while (i < *count && strcmp(texts[i], text))
        i++;
    if (i == *count)
        texts[(*count)++] = text;
    return i;
}

/* Features of all prompts and of what is unwanted in them. */
static zn_status encode_texts(run *r, const char **texts)
{
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        sample *s = &r->samples[i];
        s->wanted = r->features + list_text(texts, &count, s->request->prompt);
        s->unwanted = asked(s->request) == 1 ? NULL : r->features + list_text(texts, &count, s->request->negative);
    }
    r->feature_count = count;
    return zn_generator_features(r->g, texts, count, progress_of(r), r->features);
}

static zn_status read_prompts(run *r)
{
    const double start = zn_clock_ms();
    const size_t most = 2 * (size_t)r->count;
    const char **texts;
    enter(r, ZN_STAGE_TEXT, 1);
    ZN_TRY(zn_alloc_for("prompts", sizeof *r->features * most, (void **)&r->features));
    memset(r->features, 0, sizeof *r->features * most);
    ZN_TRY(zn_alloc_for("prompts", sizeof *texts * most, (void **)(void *)&texts));
    const zn_status status = encode_texts(r, texts);
    zn_free(texts);
    for (int i = 0; i < r->count && status == ZN_OK; i++) {
        sample *s = &r->samples[i];
        s->report.tokens = s->wanted->tokens;
        s->report.tokens_cut = s->wanted->cut;
        s->report.text_cached = s->wanted->cached;
        s->report.text_s = (zn_clock_ms() - start) / 1000 / r->count;
    }
    r->g->report = r->samples[0].report;
    return status;
}

static zn_status read_images(run *r)
{
    if (!r->request->image)
        return ZN_OK;
    enter(r, ZN_STAGE_ENCODE, r->count);
    for (int i = 0; i < r->count; i++, r->part = i) {
        sample *s = &r->samples[i];
        const double start = zn_clock_ms();
        ZN_TRY(zn_generator_encode(r->g, s->request->image, s->request->encoder_tile, progress_of(r), &s->clean));
        s->report.encode_s = r->g->report.encode_s = (zn_clock_ms() - start) / 1000;
        s->report.encoder_tiles = r->g->report.encoder_tiles;
        s->report.encoder_tile = r->g->report.encoder_tile;
    }
    return ZN_OK;
}

/* Numbers of the latent of an image, and where image i has its own. */
static int64_t size_of(const run *r) { return (int64_t)r->x->width * r->x->height / r->count * r->x->channels; }

static int64_t place_of(const run *r, int i) { return i * size_of(r); }

/* PyTorch draws planes, [channels][height][width]. */
static zn_status draw_noise(const run *r, const sample *s, float *noise)
{
    const int64_t count = size_of(r), channels = r->x->channels, pixels = count / channels;
    zn_torch_noise n;
    float *planes;
    ZN_TRY(zn_alloc_for("noise", sizeof *planes * (size_t)count, (void **)&planes));
    zn_torch_noise_seed(&n, s->request->seed);
    zn_torch_noise_fill(&n, planes, count);
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < channels; c++)
            noise[i * channels + c] = planes[c * pixels + i];
    zn_free(planes);
    return ZN_OK;
}

static zn_status check_start(const run *r, const zn_latent *clean)
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

static zn_status place_one(run *r, int i)
{
    sample *s = &r->samples[i];
    const int64_t at = place_of(r, i), count = size_of(r);
    ZN_TRY(draw_noise(r, s, r->noise + at));
    memcpy(r->x->data + at, r->noise + at, sizeof(float) * (size_t)count);
    if (s->clean) {
        ZN_TRY(check_start(r, s->clean));
        zn_flow_mix(s->clean->data, r->noise + at, r->sigma[r->first], r->x->data + at, count);
    }
    return s->request->mask ? zn_mask_shrink(s->request->mask, SCALE, &s->mask) : ZN_OK;
}

static zn_status place_start(run *r, int channels)
{
    const zn_generation *q = r->request;
    ZN_TRY(zn_latent_new(q->width / SCALE, q->height / SCALE * r->count, channels, &r->x));
    r->x->downscale = SCALE;
    ZN_TRY(zn_alloc_for("noise", sizeof(float) * (size_t)(size_of(r) * r->count), (void **)&r->noise));
    for (int i = 0; i < r->count; i++)
        ZN_TRY(place_one(r, i));
    return ZN_OK;
}

static int finish_layer(void *self, int layer)
{
    run *r = self;
    (void)layer;
    r->part++;
    return tell(r, 0, NULL);
}

static zn_status predict(void *self, const float *x, int step, bool unwanted, float *out)
{
    run *r = self;
    if (r->calibration)
        return zn_fp8_measure(&r->errors, r->denoiser, x, step, size_of(r), out, finish_layer, r);
    const int steps = r->request->steps - r->first, answers = asked(r->request);
    r->part = answers * (r->begun * steps + r->together * (step - r->first)) + r->together * unwanted;
    return zn_denoiser_predict(r->denoiser, x, step, unwanted, out);
}

/* The image after this step or, where a thread makes it during the next one, after the step before, NULL at first. */
static zn_status look(run *r, zn_image **image)
{
    const bool later = zn_preview_has_thread(r->preview);
    if (!later)
        ZN_TRY(zn_preview_begin(r->preview, r->seen));
    ZN_TRY(zn_preview_end(r->preview, image));
    const zn_status status = later ? zn_preview_begin(r->preview, r->seen) : ZN_OK;
    if (status != ZN_OK)
        zn_image_free(*image);
    return status;
}

/* x: of the images that take steps now. */
static zn_status finish_step(void *self, int step, float *x, const float *out)
{
    run *r = self;
    const int64_t size = size_of(r);
    zn_image *image = NULL;
    if (r->preview) {
        zn_flow_estimate(x, out, r->sigma[step + 1], r->seen->data, size);
        ZN_TRY(look(r, &image));
    }
    for (int i = 0; i < r->together; i++) {
        const sample *s = &r->samples[r->begun + i];
        if (s->mask)
            zn_mask_restore(s->mask, s->clean->data, r->noise + place_of(r, r->begun + i), r->sigma[step + 1],
                            x + i * size, size / r->x->channels, r->x->channels);
    }
    const int steps = r->request->steps - r->first, of_each = r->parts / r->count;
    r->part = r->begun * of_each + r->together * of_each / steps * (step + 1 - r->first);
    const int cancel = tell(r, 0, image);
    zn_image_free(image);
    return cancel ? ZN_FAIL(ZN_ECANCELLED, "cancelled") : ZN_OK;
}

static zn_status start_preview(run *r)
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

/* The last preview, which no step is computed after. */
static zn_status end_preview(run *r)
{
    zn_image *image;
    if (!r->preview)
        return ZN_OK;
    ZN_TRY(zn_preview_end(r->preview, &image));
    const int cancel = image && tell(r, 0, image);
    zn_image_free(image);
    return cancel ? ZN_FAIL(ZN_ECANCELLED, "cancelled") : ZN_OK;
}

static zn_status sample_flow(run *r)
{
    const zn_flow_sampling s = { .sigma = r->sigma,
                                 .steps = r->request->steps,
                                 .first = r->first,
                                 .count = size_of(r) * r->together,
                                 .guidance = (float)r->request->guidance,
                                 .until = 1,
                                 .predict = predict,
                                 .done = finish_step,
                                 .self = r };
    return zn_flow_sample(&s, r->x->data + place_of(r, r->begun));
}

static zn_status check_fit(const run *r, const zn_zimage_form *k)
{
    const int width = r->samples[0].wanted->width;
    if (width != k->caption)
        return ZN_FAIL(ZN_ESHAPE,
                       "the text encoder gives %d channels, the transformer takes %d: they do not belong together",
                       width, k->caption);
    return ZN_OK;
}

static zn_status write_calibration(const run *r)
{
    char path[4200];
    zn_fp8_path(r->g->paths.part[ZN_GENERATOR_TRANSFORMER], path, sizeof path);
    return zn_fp8_write(&r->errors, r->denoiser, r->calibration->file ? r->calibration->file : path, r->calibration);
}

/* How many images from `begun` on have captions of the same lengths, filled up. */
static int count_alike(const run *r)
{
    int count = 1;
    while (r->begun + count < r->count && order_of(&r->samples[r->begun + count], &r->samples[r->begun]) == 0)
        count++;
    return count;
}

/* The captions of the images that take steps now. */
static zn_status begin_steps(run *r)
{
    const sample *s = &r->samples[r->begun];
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
                                      .progress = tell_part,
                                      .user = r };
    r->preparing = true;
    const zn_status status = zn_denoiser_begin(r->denoiser, &image);
    r->preparing = false;
    zn_free(captions);
    return status;
}

/* The denoiser for the images that come next: for half of them, and so on, if memory is short. */
static zn_status find_denoiser(run *r, zn_transformer *t)
{
    for (r->together = count_alike(r);; r->together = (r->together + 1) / 2) {
        const zn_status status =
            zn_generator_denoiser(r->g, t, r->request, r->together, r->samples[r->begun].wanted->tokens, &r->denoiser);
        if (status != ZN_ENOMEM || r->together == 1)
            return status;
    }
}

static zn_status take_steps_together(run *r, zn_transformer *t)
{
    const double start = zn_clock_ms();
    ZN_TRY(find_denoiser(r, t));
    ZN_TRY(begin_steps(r));
    if (r->calibration)
        r->parts *= zn_denoiser_trials(r->denoiser) + 1;
    ZN_TRY(sample_flow(r));
    ZN_TRY(end_preview(r));
    for (int i = 0; i < r->together; i++) {
        zn_generation_report *report = &r->samples[r->begun + i].report;
        report->peak_bytes = (double)t->plan.bytes;
        report->together = r->together;
        report->steps_s = (zn_clock_ms() - start) / 1000 / r->together;
    }
    return ZN_OK;
}

static zn_status take_steps(run *r)
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

static zn_status denoise(run *r)
{
    enter(r, ZN_STAGE_STEPS, asked(r->request) * (r->request->steps - r->first) * r->count);
    const zn_status status = take_steps(r);
    zn_generator_end_stage(r->g, ZN_GENERATOR_TRANSFORMER, status);
    return status;
}

static zn_status show_one(run *r, int i)
{
    sample *s = &r->samples[i];
    const double start = zn_clock_ms();
    zn_latent own = *r->x;
    own.height /= r->count;
    own.data += place_of(r, i);
    r->g->report = s->report;
    ZN_TRY(zn_generator_decode(r->g, &own, s->request->decoder_tile, progress_of(r), &s->image));
    if (s->request->mask)
        zn_mask_blend(s->request->mask, s->request->image, s->image);
    s->report = r->g->report;
    s->report.decode_s = (zn_clock_ms() - start) / 1000;
    return ZN_OK;
}

static zn_status show(run *r)
{
    enter(r, ZN_STAGE_DECODE, r->count);
    for (int i = 0; i < r->count; i++, r->part = i)
        ZN_TRY(show_one(r, i));
    tell(r, 0, NULL);
    return ZN_OK;
}

/* Refuses an image for which the autoencoder has too little memory: better now than after the prompt or all steps. */
static zn_status check_memory(const run *r)
{
    const zn_generation *q = r->request;
    const int now[3] = { q->width, q->height, q->decoder_tile };
    char text[1024];
    if (!r->g->compute.options.memory && !q->decoder_tile)
        return ZN_OK;
    if (r->g->compute.device && memcmp(r->g->checked, now, sizeof now) == 0 && !q->image)
        return ZN_OK;
    if (q->image)
        ZN_TRY(zn_generator_plan_vae(r->g, q, ZN_ENCODER, text, sizeof text));
    ZN_TRY(zn_generator_plan_vae(r->g, q, ZN_DECODER, text, sizeof text));
    memcpy(r->g->checked, now, sizeof now);
    return ZN_OK;
}

static zn_status stages(run *r)
{
    const zn_generation *q = r->request;
    ZN_TRY(zn_alloc_for("a schedule", sizeof(float) * (size_t)(q->steps + 1), (void **)&r->sigma));
    zn_flow_sigmas(q->steps, (float)q->shift, r->sigma);
    ZN_TRY(check_memory(r));
    r->first = q->image ? zn_flow_first(q->steps, q->strength) : 0;
    ZN_TRY(read_prompts(r));
    qsort(r->samples, (size_t)r->count, sizeof *r->samples, by_order);
    ZN_TRY(read_images(r));
    ZN_TRY(denoise(r));
    return r->calibration ? ZN_OK : show(r);
}

/* What the caller gets, in the order of the requests. */
static void hand_over(run *r, zn_status status, zn_image **out)
{
    for (int i = 0; i < r->count; i++) {
        sample *s = &r->samples[i];
        r->g->reports[s->number] = s->report;
        if (status == ZN_OK && out)
            out[s->number] = s->image;
        else
            zn_image_free(s->image);
        zn_latent_free(s->clean);
        zn_free(s->mask);
    }
    r->g->report_count = r->count;
    r->g->report = r->g->reports[0];
}

static void clean_up(run *r)
{
    zn_generator *g = r->g;
    for (int i = 0; i < r->feature_count; i++)
        zn_free(r->features[i].data);
    zn_free(r->features);
    zn_latent_free(r->x);
    zn_latent_free(r->seen);
    if (!g->compute.device) { /* nothing stays */
        zn_preview_free(g->preview);
        g->preview = NULL;
    }
    zn_free(r->noise);
    zn_free(r->sigma);
    zn_free(r->samples);
    zn_fp8_errors_free(&r->errors);
}

static zn_status run_stages(zn_generator *g, const zn_generation *requests, int count,
                            const zn_calibration *calibration, zn_image **out)
{
    run r = { .g = g, .request = requests, .count = count, .calibration = calibration };
    g->report = (zn_generation_report){ .size = sizeof g->report };
    if (!ZN_GROW(g->reports, g->report_capacity, count))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the reports of %d images", count);
    ZN_TRY(zn_alloc_for("images", sizeof *r.samples * (size_t)count, (void **)&r.samples));
    for (int i = 0; i < count; i++)
        r.samples[i] = (sample){ .request = &requests[i], .number = i, .report = g->report };
    const size_t sent = g->compute.device ? zn_device_sent(g->compute.device) : 0;
    const zn_status status = stages(&r);
    hand_over(&r, status, out);
    if (g->compute.device)
        g->report.sent_bytes = g->reports[0].sent_bytes = (double)(zn_device_sent(g->compute.device) - sent);
    clean_up(&r);
    return status;
}

zn_status zn_generator_run(zn_generator *g, const zn_generation *requests, int count, zn_image **out)
{
    return run_stages(g, requests, count, NULL, out);
}

zn_status zn_generator_measure(zn_generator *g, const zn_generation *request, const zn_calibration *c)
{
    return run_stages(g, request, 1, c, NULL);
}

/* One image, stage by stage: prompt to features, image to latent, steps of the transformer, latent to image. Each stage
 * opens its network and releases it, unless it stays on a device for the next image. */
#include "pipeline/generate/transformer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/flow_sampler.h"
#include "diffusion/noise.h"
#include "pipeline/generate/mask.h"
#include "pipeline/generate/preview.h"

#include <string.h>

enum { SCALE = 8, STAGES = ZN_STAGE_DECODE + 1 };

typedef struct run {
    zn_generator *g;
    const zn_generation *request;
    zn_features wanted, unwanted;
    zn_latent *clean; /* of the image to start from, or NULL */
    zn_latent *x;     /* noise, then the image */
    float *noise, *sigma, *mask;
    zn_denoiser *denoiser; /* the generator's */
    zn_preview *preview;   /* the generator's; NULL: none are asked for */
    zn_latent *seen;       /* for it: the image as it is expected now */
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

/* ---- progress ---- */

/* A step of the sampler asks the network once or, with guidance, twice. */
static int asked(const zn_generation *q) { return q->guidance > 0 ? 2 : 1; }

/* fraction: of the part that runs now. */
static int tell(run *r, double fraction, zn_image *preview)
{
    const double now = r->begin + r->span * (r->part + (r->preparing ? 0 : fraction)) / r->parts;
    const int steps = r->request->steps - r->first;
    r->told = now > r->told ? now : r->told;
    const zn_generation_progress p = { .size = sizeof p,
                                       .stage = r->stage,
                                       .fraction = r->told,
                                       .step = r->stage < ZN_STAGE_STEPS   ? 0
                                               : r->stage > ZN_STAGE_STEPS ? steps
                                                                           : r->part * steps / r->parts,
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
    const double pixels = (double)q->width * q->height, tokens = pixels / 256 + r->wanted.tokens;
    const double answers = (double)asked(q) * (q->steps - r->first);
    const double cost[STAGES] = { [ZN_STAGE_TEXT] = r->wanted.cached ? 0 : 0.2e12 * asked(q),
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

static zn_status read_prompts(run *r)
{
    zn_generation_report *report = &r->g->report;
    const double start = zn_clock_ms();
    const char *const prompts[] = { r->request->prompt, r->request->negative };
    zn_features features[2] = { { 0 } };
    enter(r, ZN_STAGE_TEXT, 1);
    const zn_status status = zn_generator_features(r->g, prompts, asked(r->request), progress_of(r), features);
    r->wanted = features[0];
    r->unwanted = features[1];
    if (status != ZN_OK)
        return status;
    report->tokens = r->wanted.tokens;
    report->tokens_cut = r->wanted.cut;
    report->text_cached = r->wanted.cached;
    report->text_s = (zn_clock_ms() - start) / 1000;
    return ZN_OK;
}

static zn_status read_image(run *r)
{
    if (!r->request->image)
        return ZN_OK;
    const double start = zn_clock_ms();
    enter(r, ZN_STAGE_ENCODE, 1);
    ZN_TRY(zn_generator_encode(r->g, r->request->image, r->request->encoder_tile, progress_of(r), &r->clean));
    r->g->report.encode_s = (zn_clock_ms() - start) / 1000;
    return ZN_OK;
}

/* PyTorch draws planes, [channels][height][width]. */
static zn_status draw_noise(run *r)
{
    const zn_latent *x = r->x;
    const int64_t pixels = (int64_t)x->width * x->height, count = pixels * x->channels;
    zn_torch_noise n;
    float *planes;
    ZN_TRY(zn_alloc_for("noise", sizeof *planes * (size_t)count, (void **)&planes));
    zn_torch_noise_seed(&n, r->request->seed);
    zn_torch_noise_fill(&n, planes, count);
    for (int64_t i = 0; i < pixels; i++)
        for (int c = 0; c < x->channels; c++)
            r->noise[i * x->channels + c] = planes[c * pixels + i];
    zn_free(planes);
    return ZN_OK;
}

static zn_status place_start(run *r, int channels)
{
    const zn_generation *q = r->request;
    ZN_TRY(zn_latent_new(q->width / SCALE, q->height / SCALE, channels, &r->x));
    const int64_t count = (int64_t)r->x->width * r->x->height * channels;
    r->x->downscale = SCALE;
    ZN_TRY(zn_alloc_for("noise", sizeof(float) * (size_t)count, (void **)&r->noise));
    ZN_TRY(draw_noise(r));
    memcpy(r->x->data, r->noise, sizeof(float) * (size_t)count);
    if (r->clean && r->clean->channels != channels)
        return ZN_FAIL(ZN_ESHAPE, "the autoencoder has %d channels, the transformer %d: they do not belong together",
                       r->clean->channels, channels);
    if (r->clean && (r->clean->width != r->x->width || r->clean->height != r->x->height))
        return ZN_FAIL(ZN_ESHAPE, "the autoencoder makes latents of %dx%d of an image that needs %dx%d",
                       r->clean->width, r->clean->height, r->x->width, r->x->height);
    if (r->clean)
        zn_flow_mix(r->clean->data, r->noise, r->sigma[r->first], r->x->data, count);
    return q->mask ? zn_mask_shrink(q->mask, SCALE, &r->mask) : ZN_OK;
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
    const int64_t count = (int64_t)r->x->width * r->x->height * r->x->channels;
    if (r->calibration)
        return zn_fp8_measure(&r->errors, r->denoiser, x, step, count, out, finish_layer, r);
    r->part = asked(r->request) * (step - r->first) + unwanted;
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

static zn_status finish_step(void *self, int step, float *x, const float *out)
{
    run *r = self;
    const int64_t pixels = (int64_t)r->x->width * r->x->height;
    zn_image *image = NULL;
    if (r->preview) {
        zn_flow_estimate(x, out, r->sigma[step + 1], r->seen->data, pixels * r->x->channels);
        ZN_TRY(look(r, &image));
    }
    if (r->mask)
        zn_mask_restore(r->mask, r->clean->data, r->noise, r->sigma[step + 1], x, pixels, r->x->channels);
    r->part = r->parts / (r->request->steps - r->first) * (step + 1 - r->first);
    const int cancel = tell(r, 0, image);
    zn_image_free(image);
    return cancel ? ZN_FAIL(ZN_ECANCELLED, "cancelled") : ZN_OK;
}

static zn_status start_preview(run *r)
{
    if (!r->request->preview || !r->request->progress)
        return ZN_OK;
    ZN_TRY(zn_latent_new(r->x->width, r->x->height, r->x->channels, &r->seen));
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

static zn_status sample(run *r)
{
    const zn_flow_sampling s = { .sigma = r->sigma,
                                 .steps = r->request->steps,
                                 .first = r->first,
                                 .count = (int64_t)r->x->width * r->x->height * r->x->channels,
                                 .guidance = (float)r->request->guidance,
                                 .until = 1,
                                 .predict = predict,
                                 .done = finish_step,
                                 .self = r };
    return zn_flow_sample(&s, r->x->data);
}

static zn_status check_fit(const run *r, const zn_zimage_form *k)
{
    if (r->wanted.width != k->caption)
        return ZN_FAIL(ZN_ESHAPE,
                       "the text encoder gives %d channels, the transformer takes %d: they do not belong together",
                       r->wanted.width, k->caption);
    return ZN_OK;
}

static zn_status write_calibration(const run *r)
{
    char path[4200];
    zn_fp8_path(r->g->paths.part[ZN_GENERATOR_TRANSFORMER], path, sizeof path);
    return zn_fp8_write(&r->errors, r->denoiser, r->calibration->file ? r->calibration->file : path, r->calibration);
}

static zn_status take_steps(run *r)
{
    zn_transformer *t;
    ZN_TRY(zn_generator_transformer(r->g, &t));
    ZN_TRY(check_fit(r, &t->form));
    ZN_TRY(place_start(r, t->form.channels));
    ZN_TRY(start_preview(r));
    ZN_TRY(zn_generator_transformer(r->g, &t)); /* the decoder may have taken the place of the first */
    ZN_TRY(zn_generator_denoiser(r->g, t, r->request, r->wanted.tokens, &r->denoiser));
    const zn_denoiser_image image = { .height = r->x->height,
                                      .width = r->x->width,
                                      .wanted = { r->wanted.data, r->wanted.tokens },
                                      .unwanted = { r->unwanted.data, r->unwanted.tokens },
                                      .sigma = r->sigma,
                                      .steps = r->request->steps,
                                      .first = r->first,
                                      .progress = tell_part,
                                      .user = r };
    r->preparing = true;
    ZN_TRY(zn_denoiser_begin(r->denoiser, &image));
    r->preparing = false;
    r->g->report.peak_bytes = (double)t->plan.bytes;
    if (r->calibration)
        r->parts *= zn_denoiser_trials(r->denoiser) + 1;
    ZN_TRY(sample(r));
    ZN_TRY(end_preview(r));
    return r->calibration ? write_calibration(r) : ZN_OK;
}

static zn_status denoise(run *r)
{
    const double start = zn_clock_ms();
    enter(r, ZN_STAGE_STEPS, asked(r->request) * (r->request->steps - r->first));
    const zn_status status = take_steps(r);
    zn_generator_end_stage(r->g, ZN_GENERATOR_TRANSFORMER, status);
    r->g->report.steps_s = (zn_clock_ms() - start) / 1000;
    return status;
}

static zn_status show(run *r, zn_image **out)
{
    const double start = zn_clock_ms();
    enter(r, ZN_STAGE_DECODE, 1);
    ZN_TRY(zn_generator_decode(r->g, r->x, r->request->decoder_tile, progress_of(r), out));
    if (r->request->mask)
        zn_mask_blend(r->request->mask, r->request->image, *out);
    r->g->report.decode_s = (zn_clock_ms() - start) / 1000;
    tell(r, 1, NULL);
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

static zn_status stages(run *r, zn_image **out)
{
    const zn_generation *q = r->request;
    ZN_TRY(zn_alloc_for("a schedule", sizeof(float) * (size_t)(q->steps + 1), (void **)&r->sigma));
    zn_flow_sigmas(q->steps, (float)q->shift, r->sigma);
    ZN_TRY(check_memory(r));
    r->first = q->image ? zn_flow_first(q->steps, q->strength) : 0;
    ZN_TRY(read_prompts(r));
    ZN_TRY(read_image(r));
    ZN_TRY(denoise(r));
    return r->calibration ? ZN_OK : show(r, out);
}

static zn_status run_stages(zn_generator *g, const zn_generation *request, const zn_calibration *calibration,
                            zn_image **out)
{
    run r = { .g = g, .request = request, .calibration = calibration };
    g->report = (zn_generation_report){ .size = sizeof g->report };
    const size_t sent = g->compute.device ? zn_device_sent(g->compute.device) : 0;
    const zn_status status = stages(&r, out);
    if (g->compute.device)
        g->report.sent_bytes = (double)(zn_device_sent(g->compute.device) - sent);
    zn_free(r.wanted.data);
    zn_free(r.unwanted.data);
    zn_latent_free(r.clean);
    zn_latent_free(r.x);
    zn_latent_free(r.seen);
    if (!g->compute.device) { /* nothing stays */
        zn_preview_free(g->preview);
        g->preview = NULL;
    }
    zn_free(r.noise);
    zn_free(r.sigma);
    zn_free(r.mask);
    zn_fp8_errors_free(&r.errors);
    return status;
}

zn_status zn_generator_run(zn_generator *g, const zn_generation *request, zn_image **out)
{
    return run_stages(g, request, NULL, out);
}

zn_status zn_generator_measure(zn_generator *g, const zn_generation *request, const zn_calibration *c)
{
    return run_stages(g, request, c, NULL);
}

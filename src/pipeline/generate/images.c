/* Images, stage by stage: prompts to features, images to latents, steps of the transformer, latents to images. Each
 * stage opens its network and releases it, unless it stays on a device for the next images. A request may be for
 * several images; those whose captions fill up to the same number of tokens take their steps together. */
#include "pipeline/generate/images.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/flow_sampler.h"
#include "pipeline/generate/mask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = ZN_STAGE_DECODE + 1 };

static int length_of(const zn_features *f) { return f ? zn_zimage_filled(f->tokens) : 0; }

int zn_generator_image_order(const zn_generator_image *a, const zn_generator_image *b)
{
    const int wanted = length_of(a->wanted) - length_of(b->wanted);
    return wanted ? wanted : length_of(a->unwanted) - length_of(b->unwanted);
}

static int by_order(const void *a, const void *b)
{
    const int order = zn_generator_image_order(a, b);
    return order ? order : ((const zn_generator_image *)a)->number - ((const zn_generator_image *)b)->number;
}

/* ---- progress ---- */

/* Steps that the images which take them now have taken. */
static int step_of(const zn_generator_images *r)
{
    const int steps = r->request->steps - r->first, of_each = r->parts / r->count;
    return (r->part - r->begun * of_each) * steps / (r->together * of_each);
}

int zn_images_tell(zn_generator_images *r, double fraction, zn_image *preview)
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

int zn_images_tell_part(void *self, double fraction) { return zn_images_tell(self, fraction, NULL); }

static zn_stage_progress progress_of(zn_generator_images *r) { return (zn_stage_progress){ zn_images_tell_part, r }; }

/* Shares of the whole, roughly: operations of the published networks for each token, pixel and step. */
void zn_images_enter(zn_generator_images *r, zn_generation_stage stage, int parts)
{
    const zn_generation *q = r->request;
    const zn_features *wanted = r->samples[0].wanted; /* not known at first */
    const double pixels = (double)q->width * q->height, tokens = pixels / 256 + (wanted ? wanted->tokens : 0);
    const double answers = (double)zn_answers_of_step(q) * (q->steps - r->first);
    const double cost[STAGES] = { [ZN_STAGE_TEXT] = wanted && wanted->cached ? 0 : 0.2e12 * zn_answers_of_step(q),
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
static zn_status encode_texts(zn_generator_images *r, const char **texts)
{
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        zn_generator_image *s = &r->samples[i];
        s->wanted = r->features + list_text(texts, &count, s->request->prompt);
        s->unwanted =
            zn_answers_of_step(s->request) == 1 ? NULL : r->features + list_text(texts, &count, s->request->negative);
    }
    r->feature_count = count;
    return zn_generator_features(r->g, texts, count, progress_of(r), r->features);
}

static zn_status read_prompts(zn_generator_images *r)
{
    const double start = zn_clock_ms();
    const size_t most = 2 * (size_t)r->count;
    const char **texts;
    zn_images_enter(r, ZN_STAGE_TEXT, 1);
    ZN_TRY(zn_alloc_for("prompts", sizeof *r->features * most, (void **)&r->features));
    memset(r->features, 0, sizeof *r->features * most);
    ZN_TRY(zn_alloc_for("prompts", sizeof *texts * most, (void **)(void *)&texts));
    const zn_status status = encode_texts(r, texts);
    zn_free(texts);
    for (int i = 0; i < r->count && status == ZN_OK; i++) {
        zn_generator_image *s = &r->samples[i];
        s->report.tokens = s->wanted->tokens;
        s->report.tokens_cut = s->wanted->cut;
        s->report.text_cached = s->wanted->cached;
        s->report.text_s = (zn_clock_ms() - start) / 1000 / r->count;
    }
    r->g->report = r->samples[0].report;
    return status;
}

static zn_status read_images(zn_generator_images *r)
{
    if (!r->request->image)
        return ZN_OK;
    zn_images_enter(r, ZN_STAGE_ENCODE, r->count);
    for (int i = 0; i < r->count; i++, r->part = i) {
        zn_generator_image *s = &r->samples[i];
        const double start = zn_clock_ms();
        if (i > 0 && s->request->image == s[-1].request->image) {
            s->clean = s[-1].clean;
            s->report.encoder_tiles = s[-1].report.encoder_tiles;
            s->report.encoder_tile = s[-1].report.encoder_tile;
            continue;
        }
        ZN_TRY(zn_generator_encode(r->g, s->request->image, s->request->encoder_tile, progress_of(r), &s->clean));
        s->report.encode_s = r->g->report.encode_s = (zn_clock_ms() - start) / 1000;
        s->report.encoder_tiles = r->g->report.encoder_tiles;
        s->report.encoder_tile = r->g->report.encoder_tile;
    }
    return ZN_OK;
}

static zn_status show_one(zn_generator_images *r, int i)
{
    zn_generator_image *s = &r->samples[i];
    const double start = zn_clock_ms();
    zn_latent own = *r->x;
    own.height /= r->count;
    own.data += zn_images_latent_place(r, i);
    r->g->report = s->report;
    ZN_TRY(zn_generator_decode(r->g, &own, s->request->decoder_tile, progress_of(r), &s->image));
    if (s->request->mask)
        zn_mask_blend(s->request->mask, s->request->image, s->image);
    s->report = r->g->report;
    s->report.decode_s = (zn_clock_ms() - start) / 1000;
    return ZN_OK;
}

static zn_status show(zn_generator_images *r)
{
    zn_images_enter(r, ZN_STAGE_DECODE, r->count);
    for (int i = 0; i < r->count; i++, r->part = i)
        ZN_TRY(show_one(r, i));
    zn_images_tell(r, 0, NULL);
    return ZN_OK;
}

/* Bytes that the others have while one of several images is made: noise and latent, 16 floats each for 8x8 pixels, and
 * an image. */
static size_t kept_bytes(const zn_generator_images *r)
{
    const size_t pixels = (size_t)r->request->width * (size_t)r->request->height;
    return (size_t)(r->count - 1) * pixels * (2 * 16 * sizeof(float) / (ZN_LATENT_SCALE * ZN_LATENT_SCALE) + 3);
}

/* Refuses an image for which the autoencoder has too little memory: better now than after the prompt or all steps. */
static zn_status check_memory(const zn_generator_images *r)
{
    const zn_generation *q = r->request;
    const int now[3] = { q->width, q->height, q->decoder_tile };
    char text[1024];
    if (!r->g->compute.options.memory && !q->decoder_tile)
        return ZN_OK;
    if (r->g->compute.device && memcmp(r->g->checked, now, sizeof now) == 0 && !q->image)
        return ZN_OK;
    zn_status status = q->image ? zn_generator_plan_vae(r->g, q, ZN_ENCODER, text, sizeof text) : ZN_OK;
    if (status == ZN_OK)
        status = zn_generator_plan_vae(r->g, q, ZN_DECODER, text, sizeof text);
    if (status == ZN_ENOMEM && r->g->kept) {
        snprintf(text, sizeof text, "%s", zn_error_text());
        return ZN_FAIL(ZN_ENOMEM, "%s; %d images at once take %.1f MiB of the budget: make fewer at once", text,
                       r->count, (double)r->g->kept / 1048576);
    }
    ZN_TRY(status);
    memcpy(r->g->checked, now, sizeof now);
    return ZN_OK;
}

static zn_status stages(zn_generator_images *r)
{
    const zn_generation *q = r->request;
    ZN_TRY(zn_alloc_for("a schedule", sizeof(float) * (size_t)(q->steps + 1), (void **)&r->sigma));
    zn_flow_sigmas(q->steps, (float)q->shift, r->sigma);
    ZN_TRY(check_memory(r));
    r->first = q->image ? zn_flow_first(q->steps, q->strength) : 0;
    ZN_TRY(read_prompts(r));
    qsort(r->samples, (size_t)r->count, sizeof *r->samples, by_order);
    ZN_TRY(read_images(r));
    ZN_TRY(zn_images_denoise(r));
    return r->calibration ? ZN_OK : show(r);
}

/* What the caller gets, in the order of the requests: images that are finished, and reports. */
static void hand_over(zn_generator_images *r, zn_image **out)
{
    for (int i = 0; i < r->count; i++) {
        zn_generator_image *s = &r->samples[i];
        r->g->reports[s->number] = s->report;
        if (out)
            out[s->number] = s->image;
        if (i + 1 == r->count || s->clean != s[1].clean)
            zn_latent_free(s->clean);
        zn_free(s->mask);
    }
    r->g->report_count = r->count;
    r->g->report = r->g->reports[0];
}

static void clean_up(zn_generator_images *r)
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
    zn_generator_images r = { .g = g, .request = requests, .count = count, .calibration = calibration };
    g->report = (zn_generation_report){ .size = sizeof g->report };
    ZN_TRY(zn_alloc_for("images", sizeof *r.samples * (size_t)count, (void **)&r.samples));
    for (int i = 0; i < count; i++)
        r.samples[i] = (zn_generator_image){ .request = &requests[i], .number = i, .report = g->report };
    g->kept = kept_bytes(&r);
    const size_t sent = g->compute.device ? zn_device_sent(g->compute.device) : 0;
    const zn_status status = stages(&r);
    hand_over(&r, out);
    if (g->compute.device)
        g->report.sent_bytes = g->reports[0].sent_bytes = (double)(zn_device_sent(g->compute.device) - sent);
    g->kept = 0;
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

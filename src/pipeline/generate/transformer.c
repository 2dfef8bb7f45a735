/* The transformer between images; see transformer.h. */
#include "pipeline/generate/transformer.h"

#include "base/alloc.h"
#include "base/fail.h"

void zn_transformer_free(zn_transformer *t)
{
    if (!t)
        return;
    zn_denoiser_free(t->denoiser);
    zn_part_close(&t->files);
    zn_free(t);
}

static zn_status open_files(zn_generator *g, zn_transformer *t)
{
    ZN_TRY(zn_part_open(g->paths.part[ZN_GENERATOR_TRANSFORMER], ZN_GENERATOR_TRANSFORMER, &t->files));
    const zn_part_files *f = &t->files;
    ZN_TRY(zn_zimage_recognise(f->files, f->count, f->config.root, &t->form, &t->naming));
    t->form.adapters = g->adapters;
    t->form.adapter_count = g->adapter_count;
    /* in FP8 each layer must be one product: it has weights of its own */
    t->form.piece = g->compute.device || g->fp8 || g->calibrating ? ZN_ZIMAGE_WHOLE : 0;
    t->fp8 = g->calibrating ? (zn_fp8_choice){ zn_fp8_any_layer, NULL, true }
                            : (zn_fp8_choice){ zn_fp8_layers_use, &g->fp8_layers, false };
    t->weights = (zn_stored){ f->files, f->count, zn_zimage_place, &t->naming };
    return ZN_OK;
}

zn_status zn_generator_transformer(zn_generator *g, zn_transformer **out)
{
    *out = g->transformer;
    if (*out)
        return ZN_OK;
    zn_transformer *t = zn_calloc(1, sizeof *t);
    if (!t)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a transformer");
    const zn_status status = open_files(g, t);
    if (status != ZN_OK)
        zn_transformer_free(t);
    else
        *out = g->transformer = t;
    return status;
}

static bool is_planned(const zn_transformer *t, const zn_generation *q, int samples, int tokens)
{
    const zn_generation *p = &t->planned;
    return p->width == q->width && p->height == q->height && (p->guidance > 0) == (q->guidance > 0) &&
           t->planned_samples == samples && zn_zimage_filled(t->planned_tokens) == zn_zimage_filled(tokens);
}

/* Fewer images at once are faster than weights that take turns. */
static zn_status check_room(zn_generator *g, const zn_transformer *t, const zn_generation *q, int samples, int tokens,
                            const zn_step_plan *plan)
{
    zn_step_plan one;
    if (samples == 1 || !plan->release)
        return ZN_OK;
    ZN_TRY(zn_generator_plan_steps(g, &t->files, &t->weights, &t->form, q, 1, tokens, &one));
    return one.release ? ZN_OK
                       : ZN_FAIL(ZN_ENOMEM, "no memory for the weights beside %d images of %dx%d pixels", samples,
                                 q->width, q->height);
}

/* Plans for these images. A denoiser that was made for another use of the weights is freed. */
static zn_status plan(zn_generator *g, zn_transformer *t, const zn_generation *q, int samples, int tokens)
{
    zn_step_plan next;
    if (g->compute.device && is_planned(t, q, samples, tokens))
        return ZN_OK;
    ZN_TRY(zn_generator_plan_steps(g, &t->files, &t->weights, &t->form, q, samples, tokens, &next));
    ZN_TRY(check_room(g, t, q, samples, tokens, &next));
    if (next.release || t->plan.release) {
        zn_denoiser_free(t->denoiser);
        t->denoiser = NULL;
    }
    t->plan = next;
    t->planned = (zn_generation){ .width = q->width, .height = q->height, .guidance = q->guidance };
    t->planned_samples = samples;
    t->planned_tokens = tokens;
    return ZN_OK;
}

zn_status zn_generator_denoiser(zn_generator *g, zn_transformer *t, const zn_generation *q, int samples, int tokens,
                                zn_denoiser **out)
{
    const zn_compute *c = &g->compute;
    ZN_TRY(plan(g, t, q, samples, tokens));
    zn_generator_make_room(g, ZN_GENERATOR_TRANSFORMER, t->plan.device_bytes);
    const zn_denoiser_setup setup = { .weights = &t->weights,
                                      .form = &t->form,
                                      .fp8 = g->fp8 || g->calibrating ? &t->fp8 : NULL,
                                      .release = t->plan.release,
                                      .once_weights = t->plan.once_weights,
                                      .exec = { .pool = c->pool,
                                                .device = c->device,
                                                .math = c->math,
                                                .whole = true,
                                                .weights = t->plan.weights,
                                                .pins = true } };
    if (!t->denoiser)
        ZN_TRY(zn_denoiser_new(&setup, &t->denoiser));
    *out = t->denoiser;
    return ZN_OK;
}

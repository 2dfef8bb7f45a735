/* Z-Image's transformer at work on one image: tokens of the captions once, modulations of many steps at once, then an
 * answer for each step.
 *
 *     zn_denoiser *d;
 *     ZN_TRY(zn_denoiser_new(&setup, &d));
 *     ZN_TRY(zn_denoiser_predict(d, x, step, false, out));       // fits zn_flow_sampling.predict
 *     zn_denoiser_free(d); */
#ifndef ZN_GENERATE_DENOISE_H
#define ZN_GENERATE_DENOISE_H

#include "graph/exec.h"
#include "models/zimage/zimage.h"

typedef struct zn_denoiser zn_denoiser;

/* What the text encoder made of a prompt: [tokens][caption]. tokens 0: there is none. */
typedef struct zn_caption {
    const float *features;
    int tokens;
} zn_caption;

/* Everything is borrowed until the denoiser is freed. */
typedef struct zn_denoiser_setup {
    const zn_stored *weights;
    const zn_zimage_form *form;
    zn_exec_options exec;        /* without enter and owner */
    bool release;                /* memory is short: weights do not stay in it */
    int64_t height, width;       /* of the latent, even */
    zn_caption wanted, unwanted; /* unwanted: only for guidance */
    const float *sigma;          /* of each step (diffusion/flow.h) */
    int steps, first;            /* steps [first,steps) are asked for */
} zn_denoiser_setup;

ZN_MUST_USE zn_status zn_denoiser_new(const zn_denoiser_setup *setup, zn_denoiser **out);
void zn_denoiser_free(zn_denoiser *d);

/* x and out: [height][width][channels]. */
ZN_MUST_USE zn_status zn_denoiser_predict(void *denoiser, const float *x, int step, bool unwanted, float *out);

/* Bytes that a denoiser for latents of this size and a caption of so many tokens keeps, beside the weights in their
 * files. */
ZN_MUST_USE zn_status zn_denoiser_estimate(const zn_zimage_form *k, int64_t height, int64_t width, int tokens,
                                           const zn_prepare *p, size_t *bytes);

#endif

/* Z-Image's transformer at work on images, one after the other or some at once: tokens of the captions once,
 * modulations of many steps at once, then an answer for each step.
 *
 *     zn_denoiser *d;
 *     ZN_TRY(zn_denoiser_new(&setup, &d));
 *     ZN_TRY(zn_denoiser_begin(d, &image));
 *     ZN_TRY(zn_denoiser_predict(d, x, step, false, out));       // fits zn_flow_sampling.predict
 *     zn_denoiser_free(d);
 *
 * The next image uses what it can of the last one: all of it if size and caption have the same lengths. */
#ifndef ZN_GENERATE_DENOISE_H
#define ZN_GENERATE_DENOISE_H

#include "graph/exec.h"
#include "models/zimage/zimage.h"
#include "ops/ops.h"

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
    zn_exec_options exec;     /* without enter, owner, progress and user; weights: for the steps */
    const zn_fp8_choice *fp8; /* layers that multiply FP8 numbers; NULL: none */
    bool release;             /* memory is short: weights do not stay in it */
    size_t once_weights;      /* as exec.weights, for captions and modulations */
} zn_denoiser_setup;

/* Borrowed until the next image begins or the denoiser is freed; captions are read when it begins only. */
typedef struct zn_denoiser_image {
    int samples;                         /* images at once; 0: one */
    int64_t height, width;               /* of the latent of each, even */
    const zn_caption *wanted, *unwanted; /* of each, filled up to one length; unwanted: for guidance, or NULL */
    const float *sigma;                  /* of each step (diffusion/flow.h) */
    int steps, first;                    /* steps [first,steps) are asked for */
    zn_progress_fn progress;             /* of each graph that runs; may be NULL */
    void *user;
} zn_denoiser_image;

ZN_MUST_USE zn_status zn_denoiser_new(const zn_denoiser_setup *setup, zn_denoiser **out);
void zn_denoiser_free(zn_denoiser *d); /* NULL is fine */

ZN_MUST_USE zn_status zn_denoiser_begin(zn_denoiser *d, const zn_denoiser_image *image);
/* Of the steps of the image that was begun. */
zn_exec_weights zn_denoiser_weights(const zn_denoiser *d);

/* x and out: [samples][height][width][channels]. */
ZN_MUST_USE zn_status zn_denoiser_predict(void *denoiser, const float *x, int step, bool unwanted, float *out);

/* With trials (zn_fp8_choice): the layers of a step that can be FP8, their weights' names, and whether one is. All are
 * off at first. */
int zn_denoiser_trials(const zn_denoiser *d);
const char *zn_denoiser_trial_name(const zn_denoiser *d, int layer);
void zn_denoiser_try(zn_denoiser *d, int layer, bool on);

/* What a denoiser for so many latents of this size at once, with captions of so many tokens, needs. */
typedef struct zn_denoiser_needs {
    size_t bytes;         /* beside the weights in their files */
    size_t weights;       /* on a device: of the steps' weights */
    size_t least_weights; /* least value of exec.weights */
    size_t once_weights;  /* that of once_weights */
} zn_denoiser_needs;
/* weights: NULL if the values of a device do not matter. */
ZN_MUST_USE zn_status zn_denoiser_estimate(const zn_zimage_form *k, const zn_stored *weights, int samples,
                                           int64_t height, int64_t width, int tokens, const zn_prepare *p,
                                           zn_denoiser_needs *out);

#endif

/* The transformer of a generator: its open files, and a denoiser that stays on a device from image to image.
 *
 *     zn_transformer *t;
 *     ZN_TRY(zn_generator_transformer(g, &t));                            // opens it, or finds that of the last image
 *     ZN_TRY(zn_generator_denoiser(g, t, &plan, &denoiser));
 *     zn_generator_end_stage(g, ZN_GENERATOR_TRANSFORMER, status); */
#ifndef ZN_GENERATE_TRANSFORMER_H
#define ZN_GENERATE_TRANSFORMER_H

#include "pipeline/generate/generate.h"

struct zn_transformer {
    zn_part_files files;
    zn_zimage_form form;
    zn_zimage_naming naming;
    zn_stored weights;
    zn_fp8_choice fp8;     /* for generators with FP8 */
    zn_denoiser *denoiser; /* NULL until it is asked for */
    zn_step_plan plan;     /* of the denoiser */
    zn_generation planned; /* request that `plan` is for, with its images and their tokens; width 0: none */
    int planned_samples, planned_tokens;
};

/* They are the generator's. samples: images at once, with captions of so many tokens. */
ZN_MUST_USE zn_status zn_generator_transformer(zn_generator *g, zn_transformer **out);
ZN_MUST_USE zn_status zn_generator_denoiser(zn_generator *g, zn_transformer *t, const zn_generation *request,
                                            int samples, int tokens, zn_denoiser **out);

#endif

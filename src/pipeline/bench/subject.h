/* What a benchmark times: a part of an autoencoder or restorer, by a runner, or of a diffusion autoencoder, whose U-Net
 * has a time and a condition beside its map.
 *
 *     zn_subject *s;
 *     ZN_TRY(zn_subject_new(model, part, shape, &options, &s));
 *     zn_subject_fill(s, seed);
 *     ZN_TRY(zn_subject_run(s));
 *     zn_subject_free(s);
 */
#ifndef ZN_SUBJECT_H
#define ZN_SUBJECT_H

#include "pipeline/codec/runner.h"

typedef struct zn_subject zn_subject;

/* shape: of the input of a runner; networks have the size of their model. */
ZN_MUST_USE zn_status zn_subject_new(const zn_model *model, zn_part part, zn_shape shape,
                                     const zn_runner_options *options, zn_subject **out);
void zn_subject_free(zn_subject *s);

/* Random input: values of an image for encoders, else normal ones. */
void zn_subject_fill(zn_subject *s, uint64_t seed);
ZN_MUST_USE zn_status zn_subject_run(zn_subject *s);

/* The same as those of a runner (pipeline/codec/runner.h). */
double zn_subject_flops(const zn_subject *s);
double zn_subject_coarse(const zn_subject *s);
const char *zn_subject_plan(const zn_subject *s);
void zn_subject_clear_rows(zn_subject *s);
const zn_runner_rows *zn_subject_profile(const zn_subject *s);

#endif

/* New images from a model that generates them from noise (zn_model_info.diffuses, with a latent net if it is a
 * diffusion autoencoder).
 *
 *     zn_image *images[4];
 *     zn_sample(model, &(zn_sample_options){ .seed = 1 }, 4, images); */
#ifndef ZN_SAMPLE_API_H
#define ZN_SAMPLE_API_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_sample_options {
    uint64_t seed;             /* image i uses seed + i */
    int steps;                 /* of the sampler; 0: 20 */
    const zn_options *compute; /* NULL: defaults; progress is called after each step of a sampler */
} zn_sample_options;

/* Generates count images, at least 1, in images[0] ... images[count - 1], which the caller frees. options may be NULL.
 * On failure all are NULL. */
ZN_API ZN_MUST_USE zn_status zn_sample(const zn_model *model, const zn_sample_options *options, int count,
                                       zn_image **images);

#ifdef __cplusplus
}
#endif
#endif

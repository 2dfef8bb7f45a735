/* Diffusion autoencoders: a picture as a condition (what it shows, a few hundred numbers) and noise (how it shows it).
 *
 *     zn_diffae *d;
 *     zn_diffae_new(model, NULL, &d);
 *     float cond[512], *noise = malloc(zn_diffae_noise_size(d, 1) * sizeof *noise);
 *     zn_diffae_fit(d, photo, &picture);                       // cropped and scaled to what the model was made for
 *     zn_diffae_encode(d, picture, cond);
 *     zn_diffae_invert(d, picture, cond, 250, noise);
 *     zn_diffae_move(d, cond, "Smiling", 0.3, cond);
 *     zn_diffae_render(d, 1, cond, noise, 100, &picture2);
 *
 * It borrows its model. Calls on one handle take turns. Results do not depend on the number of threads. */
#ifndef ZN_DIFFAE_API_H
#define ZN_DIFFAE_API_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_diffae zn_diffae;

typedef struct zn_diffae_options {
    int threads; /* 0: one for each CPU this process may use */
    zn_precision precision;
    zn_progress_fn progress; /* after each step of a sampler; may be NULL */
    void *user;
} zn_diffae_options;

/* The model must be one (zn_model_info.diffuses). options may be NULL. */
ZN_API ZN_MUST_USE zn_status zn_diffae_new(const zn_model *model, const zn_diffae_options *options, zn_diffae **out);
ZN_API void zn_diffae_free(zn_diffae *d);

/* Numbers of a condition, and of the noise of `count` pictures. */
ZN_API int zn_diffae_width(const zn_diffae *d);
ZN_API size_t zn_diffae_noise_size(const zn_diffae *d, int count);

/* The middle of a photo, scaled to the size the model was made for. */
ZN_API ZN_MUST_USE zn_status zn_diffae_fit(const zn_diffae *d, const zn_image *photo, zn_image **out);

/* The condition of a picture. Pictures here and below have the model's size. */
ZN_API ZN_MUST_USE zn_status zn_diffae_encode(zn_diffae *d, const zn_image *picture, float *cond);
/* The noise that, with its condition, a picture is rendered from. steps: see zn_diffae_render. */
ZN_API ZN_MUST_USE zn_status zn_diffae_invert(zn_diffae *d, const zn_image *picture, const float *cond, int steps,
                                              float *noise);
/* count pictures from count conditions and as many noises, one behind the other. steps: 2 to 1000, those that the
 * thousand steps of the model divide into: 10, 20, 50, 100, 250 and others. */
ZN_API ZN_MUST_USE zn_status zn_diffae_render(zn_diffae *d, int count, const float *cond, const float *noise, int steps,
                                              zn_image **out);

/* Whether so many steps are possible; the sentence of a refusal names the nearest that are. */
ZN_API ZN_MUST_USE zn_status zn_diffae_check_steps(int steps);

/* Fresh noise for count pictures, and conditions of count pictures that there are none of yet (needs a latent net). The
 * first is that of this seed, the one behind it that of seed + 1, and so on, whatever their number. */
ZN_API void zn_diffae_noise(const zn_diffae *d, int count, uint64_t seed, float *noise);
ZN_API ZN_MUST_USE zn_status zn_diffae_imagine(zn_diffae *d, int count, uint64_t seed, int steps, float *cond);

/* A condition moved along an attribute: by name, or by its number as text (needs a classifier). out may be cond. */
ZN_API ZN_MUST_USE zn_status zn_diffae_move(const zn_diffae *d, const float *cond, const char *attribute,
                                            double strength, float *out);
/* Names of the attributes that its classifier knows: index 0, 1, ...; NULL behind the last. A file without names is
 * taken for one of the original's, which has those of CelebA. */
ZN_API const char *zn_diffae_attribute(const zn_diffae *d, int index);
/* How many attributes there are, named or not; 0 without a classifier. And how likely a condition shows each of them:
 * as many numbers from 0 to 1. */
ZN_API int zn_diffae_attribute_count(const zn_diffae *d);
ZN_API ZN_MUST_USE zn_status zn_diffae_judge(zn_diffae *d, const float *cond, float *scores);

/* Between two conditions (straight) and their noises (along the circle): at 0 the first, at 1 the second. */
ZN_API void zn_diffae_between(const zn_diffae *d, const float *cond_a, const float *noise_a, const float *cond_b,
                              const float *noise_b, double at, float *cond, float *noise);

#ifdef __cplusplus
}
#endif
#endif

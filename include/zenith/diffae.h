/* Diffusion autoencoders: an image as a condition (its content, a few hundred numbers) and noise (the remaining
 * detail).
 *
 *     zn_diffae *d;
 *     zn_diffae_new(model, NULL, &d);
 *     float cond[512], *noise = malloc(zn_diffae_noise_size(d, 1) * sizeof *noise);
 *     zn_diffae_fit(d, photo, &image);                         // cropped and scaled to the model's size
 *     zn_diffae_encode(d, image, cond);
 *     zn_diffae_invert(d, image, cond, 250, noise);
 *     zn_diffae_move(d, cond, "Smiling", 0.3, cond);
 *     zn_diffae_render(d, 1, cond, noise, 100, &image2);
 *
 * It borrows its model. Calls on one handle take turns. Results do not depend on the number of threads.
 *
 * Conditions are arrays of zn_diffae_width(d) floats, noises of zn_diffae_noise_size(d, 1); those of several images are
 * stored consecutively. Arrays are the caller's. Where a comment allows it, an output may be the same array as an
 * input.
 */
#ifndef ZN_DIFFAE_API_H
#define ZN_DIFFAE_API_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_diffae zn_diffae;

/* The model must be a diffusion autoencoder (zn_model_info.diffuses). Of the options context, threads, device,
 * precision and progress (after each step of a sampler) are used. */
ZN_API ZN_MUST_USE zn_status zn_diffae_new(const zn_model *model, const zn_options *options, zn_diffae **out);
ZN_API void zn_diffae_free(zn_diffae *d);

/* Number of floats of a condition (0 for a plain diffusion model, which has no encoder and whose conditions may be
 * NULL), and of the noise of `count` images. */
ZN_API int zn_diffae_width(const zn_diffae *d);
ZN_API size_t zn_diffae_noise_size(const zn_diffae *d, int count);

/* As zn_codec_precision_share, of the networks that were used last; NaN if none was. */
ZN_API double zn_diffae_precision_share(const zn_diffae *d);

/* The centre square of a photo, scaled to the model's size. */
ZN_API ZN_MUST_USE zn_status zn_diffae_fit(const zn_diffae *d, const zn_image *photo, zn_image **out);

/* The condition of an image. Images here and below have the model's size. */
ZN_API ZN_MUST_USE zn_status zn_diffae_encode(zn_diffae *d, const zn_image *image, float *cond);
/* The noise from which, with its condition, the image is rendered. steps: see zn_diffae_render. */
ZN_API ZN_MUST_USE zn_status zn_diffae_invert(zn_diffae *d, const zn_image *image, const float *cond, int steps,
                                              float *noise);
/* Renders count images from count conditions and noises into out[0] ... out[count - 1], which the caller frees; on
 * failure all are NULL. steps: 2 to 1000, with an integer stride through the model's thousand steps: 10, 20, 50, 100,
 * 250 and others; else ZN_EINVALID, and the message names the nearest ones. */
ZN_API ZN_MUST_USE zn_status zn_diffae_render(zn_diffae *d, int count, const float *cond, const float *noise, int steps,
                                              zn_image **out);

/* Makes the same check of a number of steps. */
ZN_API ZN_MUST_USE zn_status zn_diffae_check_steps(int steps);

/* How noise becomes an image. DDIM with eta 0, as zn_diffae_render uses it, adds no noise on the way; with eta 1 it
 * adds as much as DDPM, whose steps may be any number from 2 to 1000. Noise for image i comes from seed + i. */
typedef struct zn_diffae_sampling {
    int steps;
    int ddpm;   /* non-zero: DDPM instead of DDIM */
    double eta; /* of DDIM, from 0 to 1 */
    uint64_t seed;
} zn_diffae_sampling;
/* zn_diffae_render with another sampler. */
ZN_API ZN_MUST_USE zn_status zn_diffae_render_by(zn_diffae *d, const zn_diffae_sampling *how, int count,
                                                 const float *cond, const float *noise, zn_image **out);

/* Noise for count new images, and conditions of count new images (needs a latent net; steps as above). Image i uses
 * seed + i, whatever the count. */
ZN_API void zn_diffae_noise(const zn_diffae *d, int count, uint64_t seed, float *noise);
ZN_API ZN_MUST_USE zn_status zn_diffae_imagine(zn_diffae *d, int count, uint64_t seed, int steps, float *cond);

/* Moves a condition along an attribute (zn_diffae_find_attribute; needs a classifier). out may be cond. */
ZN_API ZN_MUST_USE zn_status zn_diffae_move(const zn_diffae *d, const float *cond, const char *attribute,
                                            double strength, float *out);
/* For changes that are too large for zn_diffae_move, such as a cat to a dog.
 *
 * zn_diffae_goal finds a condition to move to: the latent net imagines conditions (steps: 50 are enough), and the mean
 * is taken of those that resemble cond most, among those that show the attribute most (shown 0: least). Needs a latent
 * net and a classifier. zn_diffae_approach moves toward it: share 0 is cond, 1 the goal. out may be cond.
 * zn_diffae_loosen gives the noise for the moved condition: the noise of an image holds its shape, so part of it is
 * replaced by noise drawn by seed, none at share 0 and half at 1 or more. out may be noise. */
ZN_API ZN_MUST_USE zn_status zn_diffae_goal(zn_diffae *d, const float *cond, const char *attribute, int shown,
                                            int steps, uint64_t seed, float *out);
ZN_API void zn_diffae_approach(const zn_diffae *d, const float *cond, const float *goal, double share, float *out);
ZN_API ZN_MUST_USE zn_status zn_diffae_loosen(const zn_diffae *d, const float *noise, double share, uint64_t seed,
                                              float *out);
/* The edits of one image, as zenith edit makes them: along the classifier's attribute, or with `imagine` toward goals
 * (zn_diffae_goal), which are found when an amount first needs them. Set the first three fields and zero the rest;
 * zn_diffae_edit_clear frees the goals. */
typedef struct zn_diffae_edit {
    const char *attribute;
    int imagine;
    uint64_t seed;  /* of goals and of fresh noise */
    float *goal[2]; /* found so far, for negative and for positive amounts */
} zn_diffae_edit;
/* Condition and noise for an amount: 0 leaves the image as it is; with imagine 1 is the goal that shows the attribute,
 * and -1 the goal that lacks it. zn_diffae_edit_steps: the steps of the latent net that edits by these amounts still
 * need. */
ZN_API ZN_MUST_USE zn_status zn_diffae_edit_by(zn_diffae *d, zn_diffae_edit *e, const float *cond, const float *noise,
                                               double amount, float *moved_cond, float *moved_noise);
ZN_API int zn_diffae_edit_steps(const zn_diffae_edit *e, const double *amounts, int count);
ZN_API void zn_diffae_edit_clear(zn_diffae_edit *e);
/* Names of the classifier's attributes: index 0, 1, ...; NULL after the last, or if they have only numbers. A file
 * without names but with 40 attributes is assumed to be one of the original's, with the attributes of CelebA. */
ZN_API const char *zn_diffae_attribute(const zn_diffae *d, int index);
/* The index of an attribute, given by name or by number as text. If no name is spelled exactly so, upper and lower case
 * count as equal. ZN_ENOTFOUND: the message names those that exist. */
ZN_API ZN_MUST_USE zn_status zn_diffae_find_attribute(const zn_diffae *d, const char *attribute, int *index);
/* Number of attributes, named or not; 0 without a classifier. zn_diffae_judge stores the probability of each, from 0 to
 * 1, in scores[zn_diffae_attribute_count(d)]. */
ZN_API int zn_diffae_attribute_count(const zn_diffae *d);
ZN_API ZN_MUST_USE zn_status zn_diffae_judge(zn_diffae *d, const float *cond, float *scores);

/* Interpolates conditions linearly and noises spherically: at 0 the first, at 1 the second. */
ZN_API void zn_diffae_between(const zn_diffae *d, const float *cond_a, const float *noise_a, const float *cond_b,
                              const float *noise_b, double at, float *cond, float *noise);

#ifdef __cplusplus
}
#endif
#endif

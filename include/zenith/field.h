/* Fields: diffusion autoencoders over points of an image instead of its pixels (models mamba-field, mamba-field-direct,
 * mamba-coordinates). They encode any part of an image's pixels, and give the colours at any points.
 *
 *     zn_diffae *d;                                           // zenith/diffae.h; its functions work with fields too
 *     zn_field_encode_some(d, image, 0.1, 1, cond);           // from a tenth of the pixels
 *     zn_field_render(d, cond, 4, 1, 20, &large);             // at four times the model's size
 *     zn_field_colours_at(d, cond, points, count, 1, 20, colours); */
#ifndef ZN_FIELD_API_H
#define ZN_FIELD_API_H

#include <zenith/diffae.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Non-zero if the model is a field. With others the functions below fail, unless a comment says otherwise. */
ZN_API int zn_diffae_is_field(const zn_diffae *d);
/* Zero if noise holds nothing of an image, so that zn_diffae_invert has nothing to compute and stores any noise. */
ZN_API int zn_diffae_inverts(const zn_diffae *d);
/* Non-zero if the colours come in a single step from the condition alone: noise, seed and steps are ignored. */
ZN_API int zn_diffae_is_direct(const zn_diffae *d);

/* The condition of an image from a share of its pixels, above 0 and up to 1, drawn by the seed. A convolutional encoder
 * with a mask can do this too (diffae-masked64). */
ZN_API ZN_MUST_USE zn_status zn_field_encode_some(zn_diffae *d, const zn_image *image, double share, uint64_t seed,
                                                  float *cond);

/* An image of `scale` times the model's size, 1 to 16. Each pixel of the model's size becomes scale x scale points,
 * which share its noise. Any diffusion autoencoder can render at a scale of 1. steps as for zn_diffae_render; a model
 * without noise ignores them. */
ZN_API ZN_MUST_USE zn_status zn_field_render(zn_diffae *d, const float *cond, int scale, uint64_t seed, int steps,
                                             zn_image **out);
/* Colours [count][3] in [0,1] at points [count][2], x to the right and y down, in [-1,1]. */
ZN_API ZN_MUST_USE zn_status zn_field_colours_at(zn_diffae *d, const float *cond, const float *points, int count,
                                                 uint64_t seed, int steps, float *colours);

/* Points [count][2] drawn evenly by the seed; and a table of points and colours as a .csv file: x, y, r, g, b. */
ZN_API void zn_field_scatter(uint64_t seed, int count, float *points);
ZN_API ZN_MUST_USE zn_status zn_field_write(const char *path, int count, const float *points, const float *colours);

#ifdef __cplusplus
}
#endif
#endif

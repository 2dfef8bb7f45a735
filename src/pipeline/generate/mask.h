/* Masks: which part of an image may change. White changes, black stays; between them the result is mixed.
 *
 *     float *mask;
 *     ZN_TRY(zn_mask_shrink(image_of_mask, 8, &mask));           // for latents
 *     zn_mask_restore(mask, clean, noise, sigma, x, pixels, 16); // after each step
 *     zn_mask_blend(image_of_mask, original, result);            // at the end, for pixels */
#ifndef ZN_GENERATE_MASK_H
#define ZN_GENERATE_MASK_H

#include <stdint.h>
#include <zenith/image.h>

/* One value for each square of `scale` pixels: 1 if any pixel of it may change, else 0. zn_free the result. */
ZN_MUST_USE zn_status zn_mask_shrink(const zn_image *mask, int scale, float **out);

/* Where the mask is 0, x becomes what it would be on the way to the original: (1 - sigma) clean + sigma noise. */
void zn_mask_restore(const float *mask, const float *clean, const float *noise, float sigma, float *x, int64_t pixels,
                     int channels);

/* Mixes the original into the result: exactly the original's pixels where the mask is black. All have one size; the
 * result has 8 bits. */
void zn_mask_blend(const zn_image *mask, const zn_image *original, zn_image *result);

#endif

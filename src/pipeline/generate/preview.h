/* Images of unfinished latents, quickly and at full size: by the model's own decoder where it is small, else by TAEF1
 * or, without it, by a linear map from latents to colours, which is fitted to the model's decoder and gives an eighth
 * of the size, enlarged.
 *
 *     zn_preview *p;
 *     ZN_TRY(zn_preview_new(generator, channels, &p));
 *     ZN_TRY(zn_preview_begin(p, latent));
 *     ZN_TRY(zn_preview_end(p, &image));
 *     zn_preview_free(p);
 *
 * On a device, a thread of its own decodes on a stream of its own while the next step runs: end it after that step. */
#ifndef ZN_GENERATE_PREVIEW_H
#define ZN_GENERATE_PREVIEW_H

#include "pipeline/generate/generate.h"

typedef struct zn_preview zn_preview;

ZN_MUST_USE zn_status zn_preview_new(zn_generator *g, int channels, zn_preview **out);
void zn_preview_free(zn_preview *p);

/* latent: the image as the transformer expects it now (zn_flow_estimate). The one before must have been ended. */
ZN_MUST_USE zn_status zn_preview_begin(zn_preview *p, const zn_latent *latent);
/* Waits for its image; NULL if none was begun. */
ZN_MUST_USE zn_status zn_preview_end(zn_preview *p, zn_image **out);
/* Whether images are made while other work is done. */
bool zn_preview_has_thread(const zn_preview *p);

/* The linear map that comes nearest to what a decoder made of a latent: colours (in [0,1]) of each latent pixel, from
 * the mean of its square of the image. map: [channels + 1][3], the last row is added to all. Exposed for its test. */
ZN_MUST_USE zn_status zn_preview_fit(const zn_latent *latent, const zn_image *image, float (*map)[3]);

#endif

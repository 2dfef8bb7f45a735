/* Clips in overlapping tiles that are blended, as diffusers does (models/wan/wan_tiles.h): less memory for large
 * frames, other results, since a tile sees nothing outside of itself. Each tile runs through the whole clip before the
 * next, so all frames are in memory, as floats. */
#ifndef ZN_PIPELINE_BLEND_H
#define ZN_PIPELINE_BLEND_H

#include "pipeline/video/clip.h"

typedef struct zn_blend {
    int side;      /* of a tile, in pixels; 0: there are no tiles */
    float *frames; /* images of the clip to encode */
    int64_t count, capacity;
    zn_shape frame; /* of one of them, [1,H,W,3] */
} zn_blend;

/* Refuses sides that do not divide into overlaps of a quarter. */
ZN_MUST_USE zn_status zn_blend_check(int side, int downscale);
/* The buffer for the next image to encode. ZN_ELIMIT: with it, the images take more than the memory that is given. */
ZN_MUST_USE zn_status zn_blend_add(zn_blend *b, zn_shape frame, const zn_clip_options *o, float **out);
/* Forgets the images. */
void zn_blend_clear(zn_blend *b);
/* Runs the images that were added, at least one; a clip that ends within a latent frame continues with its last image.
 * *out is freed with zn_free. */
ZN_MUST_USE zn_status zn_blend_encode(zn_blend *b, const zn_model *model, const zn_clip_options *o, float **out,
                                      zn_shape *shape);
/* Latent frames [T,H,W,C] to images. */
ZN_MUST_USE zn_status zn_blend_decode(const zn_blend *b, const zn_model *model, const zn_clip_options *o,
                                      const float *latent, zn_shape in, float **out, zn_shape *shape);

#endif

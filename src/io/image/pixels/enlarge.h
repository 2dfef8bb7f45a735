/* Images enlarged by two with a bicubic filter: what `zenith upscale` starts from, and its network learned on.
 *
 *     zn_pixels_enlarged(image, (zn_region){ 0, 0, 2 * image->width, 2 * image->height }, rgb, stride);
 *
 * Catmull and Rom's cubic (a = -0.5), pixels aligned by their areas, as in other programs. */
#ifndef ZN_ENLARGE_H
#define ZN_ENLARGE_H

#include "io/image/pixels/pixels.h"

/* The cubic at a distance of 0.25, 0.75, 1.25 and 1.75 pixels: all that scaling by two needs. */
extern const float zn_cubic_weights[4];

/* The region of the enlarged image as rows of RGB floats in [0,1], like zn_pixels_to_float. */
void zn_pixels_enlarged(const zn_image *image, zn_region region, float *rgb, size_t stride);

#endif

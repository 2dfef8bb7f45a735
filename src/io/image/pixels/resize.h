/* Scaling images down by averaging areas.
 *
 *     const zn_region square = { 100, 0, 600, 600 };
 *     ZN_TRY(zn_image_shrink(photo, square, 256, 256, &small));       // 8 bits */
#ifndef ZN_RESIZE_H
#define ZN_RESIZE_H

#include "io/image/pixels/pixels.h"

/* The region (within the image) as a new 8-bit image of width x height: each sample is the mean of the area it covers,
 * rounded once. Larger than the region: samples are repeated. */
ZN_MUST_USE zn_status zn_image_shrink(const zn_image *image, zn_region region, int width, int height, zn_image **out);

#endif

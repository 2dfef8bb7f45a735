/* Scaling images up or down with a triangle filter that is as wide as the scale, in the arithmetic of Pillow's
 * Image.resize(..., BILINEAR): data sets and demos of the original networks are made with it. The same to the last bit
 * where both sides grow or both shrink.
 *
 *     ZN_TRY(zn_image_resample(photo, 256, 171, &small));                 // 8 bits
 *     ZN_TRY(zn_image_fit(photo, 256, 256, &square));                     // scaled to cover it, then the middle */
#ifndef ZN_RESAMPLE_H
#define ZN_RESAMPLE_H

#include <zenith/image.h>

ZN_MUST_USE zn_status zn_image_resample(const zn_image *image, int width, int height, zn_image **out);

#endif

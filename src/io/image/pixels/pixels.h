/* The only place that knows how [0,255] and [0,65535] become [0,1] and back.
 *
 *     const zn_region all = { 0, 0, padded_width, padded_height };
 *     zn_pixels_to_float(image, all, rgb, (size_t)padded_width * 3);
 *     ...
 *     if (!zn_pixels_from_float(rgb, (size_t)padded_width * 3, image, crop))
 *         ... NaN or infinity ... */
#ifndef ZN_PIXELS_H
#define ZN_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/image.h>

/* A rectangle of pixels; x and y are its top left corner. */
typedef struct zn_region {
    int x, y, width, height;
} zn_region;

/* The region of the image as rows of RGB floats in [0,1]; `stride` is the distance of two rows in floats. The region
 * may reach beyond the image on any side: the nearest pixel of the edge is repeated there. Values are sample / 255 (or
 * / 65535) rounded once. */
void zn_pixels_to_float(const zn_image *image, zn_region region, float *rgb, size_t stride);

/* Rows of RGB floats into the region of the image, which must lie within it; clamped to [0,1], rounded to the nearest
 * value of the image's bits. A grey image gets the mean of the three samples. False if a value was NaN (stored as black
 * or white) or infinite (clamped). */
bool zn_pixels_from_float(const float *rgb, size_t stride, zn_image *image, zn_region region);

/* Are the three samples of every pixel equal, or at most `tint` apart from green? */
bool zn_pixels_are_grey(const zn_image *image, int tint);
/* Replaces the three samples of each pixel of the region by their mean. */
void zn_pixels_make_grey(zn_image *image, zn_region region);

/* 16-bit samples to the nearest 8-bit ones. */
void zn_pixels_to_8(const uint16_t *from, uint8_t *to, size_t samples);

#endif

/* EXIF orientation: found in a file's EXIF block, and applied to an image. */
#ifndef ZN_EXIF_H
#define ZN_EXIF_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/image.h>

/* The orientation (1..8) an EXIF block asks for; 1 when it says nothing or makes no sense. The block may start with
 * "Exif\0\0" (JPEG) or with the TIFF header itself (PNG, WebP). */
int zn_exif_orientation(const uint8_t *block, size_t size);

/* Replaces *image by its upright version. */
ZN_MUST_USE zn_status zn_exif_apply(int orientation, zn_image **image);

#endif

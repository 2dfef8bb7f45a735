/* EXIF: the orientation that a file's EXIF block asks for, applied to an image; and the block changed to fit what is
 * written. */
#ifndef ZN_EXIF_H
#define ZN_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/image.h>

/* The orientation (1..8) an EXIF block asks for; 1 when it says nothing or makes no sense. The block may start with
 * "Exif\0\0" (JPEG) or with the TIFF header itself (PNG, WebP). */
int zn_exif_orientation(const uint8_t *block, size_t size);

/* Does the block start with a TIFF header whose first directory lies within it? */
bool zn_exif_is_valid(const uint8_t *block, size_t size);
/* Changes a valid block, which starts with the TIFF header, to be that of an upright sRGB image of this size. The
 * thumbnail, which shows the image as it was, is taken out of the list of directories. */
void zn_exif_describe(uint8_t *block, size_t size, int width, int height);

/* The UserComment of a valid block, with its character code, in place; NULL if there is none. */
const uint8_t *zn_exif_user_comment(const uint8_t *block, size_t size, size_t *length);
/* A new block with nothing but this UserComment; freed with zn_free. */
ZN_MUST_USE zn_status zn_exif_with_comment(const uint8_t *comment, size_t length, uint8_t **block, size_t *size);

/* Replaces *image by its upright version. */
ZN_MUST_USE zn_status zn_exif_apply(int orientation, zn_image **image);

#endif

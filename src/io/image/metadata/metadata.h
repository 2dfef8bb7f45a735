/* EXIF, XMP, density and the text of generated images beside the pixels. Each format finds them in a file's bytes and
 * puts them into a file that its writer has made; neither needs the format's library. What a file claims is checked
 * against its size, and a block that makes no sense is left out: it never costs the image.
 *
 *     zn_image_metadata m = { 0 };
 *     ZN_TRY(zn_metadata_find(&source, &m));
 *     ...
 *     ZN_TRY(zn_metadata_attach(format, image, &m, &file));
 *     zn_image_metadata_free(&m); */
#ifndef ZN_METADATA_H
#define ZN_METADATA_H

#include "io/image/format.h"

/* Larger blocks are left out. */
enum { ZN_METADATA_MAX = 16 << 20 };

/* Copies of the blocks in a file's bytes. A file that is not an image has none. */
ZN_MUST_USE zn_status zn_metadata_find(const zn_source *source, zn_image_metadata *out);

/* For the finders: keep a copy of a block unless there is one already. "Exif\0\0" before the TIFF header is dropped. */
ZN_MUST_USE zn_status zn_metadata_keep_exif(zn_image_metadata *m, const uint8_t *block, size_t size);
ZN_MUST_USE zn_status zn_metadata_keep_xmp(zn_image_metadata *m, const uint8_t *block, size_t size);
/* The same for a text in UTF-8 or Latin-1. EXIF is searched for one by zn_metadata_find. */
ZN_MUST_USE zn_status zn_metadata_keep_parameters(zn_image_metadata *m, const uint8_t *text, size_t size);

/* The same for pixels per unit of length, of which an inch has `units`. Densities that make no sense are left out. */
void zn_metadata_keep_density(zn_image_metadata *m, double x, double y, double units);

/* Puts the blocks into a file of this format and image, changed to say what is true of every image of ours: upright,
 * sRGB, of this size. Blocks that the format has no place for are left out. */
ZN_MUST_USE zn_status zn_metadata_attach(const zn_image_format *format, const zn_image *image,
                                         const zn_image_metadata *m, zn_bytes *file);

/* Sets every tiff:Orientation of an XMP packet to 1. */
void zn_xmp_make_upright(uint8_t *packet, size_t size);

/* Inserts bytes at an offset of the file. */
ZN_MUST_USE zn_status zn_metadata_insert(zn_bytes *file, size_t at, const zn_bytes *extra);

#endif

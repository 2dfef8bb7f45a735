/* What an image format is: a name, a way to recognise its bytes, a reader and a writer. formats.c has the list.
 *
 *     const zn_image_format *f = zn_format_of_bytes(bytes, size);
 *     if (f && f->read)
 *         ZN_TRY(f->read(&source, max_pixels, &raster));
 *
 * A format whose library this build lacks stays in the list, with read and write NULL. */
#ifndef ZN_FORMAT_H
#define ZN_FORMAT_H

#include "io/image/animation/frames.h"
#include "io/image/bytes.h"
#include "io/image/pixels/raster.h"

#include <zenith/image.h>

typedef struct zn_image_format {
    const char *name;          /* as zn_image_write_memory takes it: "jpeg" */
    const char *title;         /* as people write it: "JPEG" */
    const char *extensions[3]; /* lower case, without the dot; ends with NULL */
    const char *package;       /* what Debian calls the library, for who has a build without */
    bool (*probe)(const uint8_t *bytes, size_t size);
    /* Fills *raster, which the caller frees whatever the result. */
    zn_status (*read)(const zn_source *source, int64_t max_pixels, zn_raster *raster);
    /* Appends the encoded image, whose quality is already 1..100. */
    zn_status (*write)(const zn_image *image, const zn_image_write_options *options, zn_bytes *out);
    int (*count_frames)(const zn_source *source); /* 1 for a still image; NULL: always 1 */
    int (*few_bits)(const zn_source *source);     /* zn_image_kind.bits; NULL: always 0 */
    zn_frames_open *frames;                       /* all frames of an animated image; NULL: only the first is read */
    /* EXIF and XMP: copies of what the bytes hold, and into the file that write has made (metadata.h). NULL: none. */
    zn_status (*find_metadata)(const zn_source *source, zn_image_metadata *out);
    zn_status (*put_metadata)(const zn_image_metadata *metadata, const zn_image *image, zn_bytes *file);
    int side_most;    /* pixels a side that the format can hold; 0: more than an image has */
    int read_only;    /* Zenith has no writer for it in any build */
    int writes_16;    /* write takes 16-bit images; others get 8 bits */
    int writes_alpha; /* write takes options->alpha */
    int writes_text;  /* put_metadata takes metadata->parameters */
} zn_image_format;

enum { ZN_JPEG_SIDE = 65500, ZN_WEBP_SIDE = 16383 }; /* side_most of these */

/* All formats, ended by an entry whose name is NULL. */
extern const zn_image_format zn_image_formats[];

/* NULL if no format matches. */
const zn_image_format *zn_format_of_bytes(const uint8_t *bytes, size_t size);
const zn_image_format *zn_format_of_path(const char *path);
const zn_image_format *zn_format_of_name(const char *name);

/* The number of pixels by the header, without decoding; 0: not an image that this build reads. */
int64_t zn_count_pixels(const void *bytes, size_t size);

/* The readers and writers of the list. */
zn_status zn_bmp_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
zn_status zn_gif_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
zn_status zn_heif_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
int zn_tiff_count_pages(const zn_source *source);
int zn_tiff_few_bits(const zn_source *source);
zn_status zn_tiff_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
zn_status zn_png_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
zn_status zn_png_write(const zn_image *image, const zn_image_write_options *options, zn_bytes *out);
zn_status zn_jpeg_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
zn_status zn_jpeg_write(const zn_image *image, const zn_image_write_options *options, zn_bytes *out);
zn_status zn_webp_read(const zn_source *source, int64_t max_pixels, zn_raster *raster);
zn_status zn_webp_write(const zn_image *image, const zn_image_write_options *options, zn_bytes *out);

int zn_png_count_frames(const zn_source *source);
int zn_png_few_bits(const zn_source *source);
int zn_webp_count_frames(const zn_source *source);
int zn_gif_count_frames(const zn_source *source);

zn_status zn_png_find_metadata(const zn_source *source, zn_image_metadata *out);
zn_status zn_png_put_metadata(const zn_image_metadata *metadata, const zn_image *image, zn_bytes *file);
zn_status zn_heif_find_metadata(const zn_source *source, zn_image_metadata *out);
zn_status zn_tiff_find_metadata(const zn_source *source, zn_image_metadata *out);
zn_status zn_jpeg_find_metadata(const zn_source *source, zn_image_metadata *out);
zn_status zn_jpeg_put_metadata(const zn_image_metadata *metadata, const zn_image *image, zn_bytes *file);
zn_status zn_webp_find_metadata(const zn_source *source, zn_image_metadata *out);
zn_status zn_webp_put_metadata(const zn_image_metadata *metadata, const zn_image *image, zn_bytes *file);

#endif

/* PNG as stored: what the latent files need, which keep numbers, not colours, in their pixels.
 *
 *     zn_raster raster = { 0 };
 *     status = zn_png_read_stored(&source, max_pixels, on_text, user, &raster);
 *     zn_raster_free(&raster); */
#ifndef ZN_PNG_H
#define ZN_PNG_H

#include "io/image/bytes.h"
#include "io/image/pixels/raster.h"

/* One tEXt entry, both strings valid during the call only. */
typedef void (*zn_png_text_fn)(void *user, const char *key, const char *value);

/* Samples untouched but for bits below 8 and palettes, which are expanded; no profile, gamma or orientation is kept. */
ZN_MUST_USE zn_status zn_png_read_stored(const zn_source *source, int64_t max_pixels, zn_png_text_fn on_text,
                                         void *user, zn_raster *raster);

typedef struct zn_png_text {
    const char *key, *value;
} zn_png_text;

/* Appends a PNG with these samples and entries. With colours non-zero the file is marked as sRGB. threads: as in
 * zn_image_write_options. */
ZN_MUST_USE zn_status zn_png_write_stored(const zn_raster *raster, const zn_png_text *text, int count, int colours,
                                          int threads, zn_bytes *out);

#endif

/* An image as its file stores it: any of grey, RGB or CMYK, with or without alpha, in the colours of its own profile.
 * Format readers make one; zn_raster_finish turns it into the plain sRGB image that callers get.
 *
 *     zn_raster raster = { 0 };
 *     status = format->read(&source, max_pixels, &raster);
 *     if (status == ZN_OK)
 *         status = zn_raster_finish(&raster, background, &image);
 *     zn_raster_free(&raster); */
#ifndef ZN_RASTER_H
#define ZN_RASTER_H

#include "io/image/bytes.h"

#include <zenith/image.h>

typedef enum zn_ink {
    ZN_INK_NONE,    /* channels are 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha */
    ZN_INK_CMYK,    /* 4 channels, 0 is no ink */
    ZN_INK_INVERTED /* 4 channels, 0 is full ink: how Adobe writes CMYK JPEG */
} zn_ink;

typedef struct zn_raster {
    int width, height, bits; /* bits 8 or 16, samples as in zn_image */
    int channels;
    zn_ink ink;
    int orientation; /* EXIF 1..8; 0 counts as 1 */
    int tint;        /* of an RGB image: samples of a grey pixel may differ this much for the format's rounding */
    double gamma;    /* sample = light ^ gamma when there is no profile; 0 means sRGB */
    void *pixels;    /* height * width * channels samples */
    uint8_t *icc;    /* the profile as found in the file, NULL if none */
    size_t icc_size;
} zn_raster;

/* Refuses an empty image with ZN_EFORMAT and one of more than max_pixels with ZN_ELIMIT. Called before any memory is
 * taken for pixels. */
ZN_MUST_USE zn_status zn_raster_check_size(const zn_source *source, int64_t width, int64_t height, int64_t max_pixels);

/* Sets the sizes and takes memory for the pixels, uninitialised. */
ZN_MUST_USE zn_status zn_raster_alloc(zn_raster *raster, int64_t width, int64_t height, int bits, int channels);
/* Keeps a copy of a profile. Profiles of absurd size are left out. */
ZN_MUST_USE zn_status zn_raster_set_icc(zn_raster *raster, const void *icc, size_t size);
void zn_raster_free(zn_raster *raster);

/* Row y of the pixels. */
void *zn_raster_row(const zn_raster *raster, int64_t y);

/* As zn_image_new, the pixels uninitialised. */
ZN_MUST_USE zn_status zn_image_alloc(int64_t width, int64_t height, int bits, zn_image **out);

/* The alpha of a raster as an image of grey pixels, upright; NULL if it has none. */
ZN_MUST_USE zn_status zn_raster_alpha(const zn_raster *raster, zn_image **out);
/* An image and its alpha (of the same size and bits, or NULL) as a raster of one to four channels, which the caller
 * frees: the first of three equal samples of a grey image, else all three. */
ZN_MUST_USE zn_status zn_raster_join(const zn_image *image, const zn_image *alpha, zn_raster *out);

/* Profile to sRGB, alpha over the background (NULL: alpha is left out), grey and CMYK to RGB, orientation. May take
 * over raster->pixels. */
ZN_MUST_USE zn_status zn_raster_finish(zn_raster *raster, const uint8_t background[3], zn_image **out);

#endif

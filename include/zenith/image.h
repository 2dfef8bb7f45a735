/* Images: interleaved RGB, 8 or 16 bits a sample, sRGB.
 *
 *     zn_image *im;
 *     zn_image_read("photo.jpg", NULL, &im);
 *     zn_image_write("copy.webp", im, NULL);
 *     zn_image_free(im);
 *
 * Grey, palette and alpha inputs become RGB; alpha is composited over the background; EXIF orientation is applied;
 * an ICC profile is converted to sRGB. An image without colours is marked as grey, and results made from it stay grey.
 */
#ifndef ZN_IMAGE_H
#define ZN_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_image {
    int width, height; /* pixels, both at least 1 */
    int bits;          /* 8: pixels is uint8_t; 16: pixels is uint16_t in native byte order */
    void *pixels;      /* height * width * 3 samples, rows top to bottom, no padding */
    int grey;          /* non-zero: the three samples of each pixel are equal; PNG and JPEG then store one of them */
} zn_image;

/* Limit on the pixels of an image: the default when reading, fixed when enlarging. */
enum { ZN_IMAGE_MAX_PIXELS = 1 << 28 };

typedef struct zn_image_read_options {
    uint8_t background[3]; /* under transparent pixels; default black */
    int64_t max_pixels;    /* refuse larger images; 0 means ZN_IMAGE_MAX_PIXELS */
    int ignore_alpha;      /* non-zero: colours as stored, without compositing */
} zn_image_read_options;

/* Metadata of an image file. Zero: none. */
typedef struct zn_image_metadata {
    uint8_t *exif; /* from the TIFF header on */
    size_t exif_size;
    uint8_t *xmp; /* the XML packet */
    size_t xmp_size;
    /* How the image was generated, in UTF-8, as most programs write it: prompt, negative prompt, "Steps: 8, Seed: 1,
     * ...". In PNG the text chunk "parameters"; elsewhere EXIF's UserComment, unless the image has EXIF already. */
    char *parameters;
    double dpi_x, dpi_y; /* pixels per inch on paper; read from JPEG, PNG and TIFF, written to JPEG and PNG */
} zn_image_metadata;

typedef struct zn_image_write_options {
    int quality;           /* JPEG and lossy WebP, 1..100; 0 means 92 */
    int lossless;          /* WebP: non-zero for lossless */
    const zn_image *alpha; /* PNG and WebP: opacity of each pixel, as zn_image_read_alpha gives it; NULL: opaque */
    /* Written with the image, changed where it would no longer be true: the orientation is upright, the colour space
     * sRGB, the size the image's, and there is no thumbnail. NULL: none. */
    const zn_image_metadata *metadata;
    int subsampling; /* JPEG: chroma as 444, 422 or 420; 0: 444 from quality 90 on, else 420 */
    int threads;     /* PNG: that compress a large image, at most 16, into the same bytes; 0: one for each CPU */
} zn_image_write_options;

/* A new black image. bits: 8 or 16, else ZN_EINVALID. */
ZN_API ZN_MUST_USE zn_status zn_image_new(int width, int height, int bits, zn_image **out);
ZN_API void zn_image_free(zn_image *image);
/* Replaces the three samples of each pixel by their mean and marks the image as grey. */
ZN_API void zn_image_make_grey(zn_image *image);

/* A new 8-bit image of this size: the image scaled bilinearly to cover it, then cropped to the centre. ZN_ELIMIT if the
 * image is so narrow that it would be too large before cropping. */
ZN_API ZN_MUST_USE zn_status zn_image_fit(const zn_image *image, int width, int height, zn_image **out);
/* Replaces each sample by (1 - share) times it plus `share` times that of `with`, rounded once. Both images must have
 * the same size and bits. */
ZN_API ZN_MUST_USE zn_status zn_image_blend(zn_image *image, const zn_image *with, double share);
/* The image with twice the width and height, bicubic, with the bits of the input. */
ZN_API ZN_MUST_USE zn_status zn_image_enlarge(const zn_image *image, zn_image **out);

/* Reads an image. The format is recognised by content, not by name. options may be NULL. ZN_EFORMAT: not an image, or a
 * damaged one; ZN_EUNSUPPORTED: the library was built without this format; ZN_ELIMIT: more pixels than max_pixels. */
ZN_API ZN_MUST_USE zn_status zn_image_read(const char *path, const zn_image_read_options *options, zn_image **out);
ZN_API ZN_MUST_USE zn_status zn_image_read_memory(const void *bytes, size_t size, const zn_image_read_options *options,
                                                  zn_image **out);

/* What kind of image a file holds, found without decoding it. */
typedef struct zn_image_kind {
    const char *format; /* "png", "jpeg", "webp", "heic", "avif", "tiff", "gif" or "bmp"; NULL: not an image */
    int frames;         /* of an animated PNG, WebP or GIF, of which zn_image_read gives the first; else 1 */
    int bits;           /* of a stored sample of a grey PNG or TIFF if there are fewer than 8; else 0 */
} zn_image_kind;
/* Fails only where the file cannot be read. */
ZN_API ZN_MUST_USE zn_status zn_image_probe(const char *path, zn_image_kind *out);

/* The opacity of an image's pixels: three equal samples each, with the size and bits that zn_image_read gives. *out is
 * NULL for an image without alpha. */
ZN_API ZN_MUST_USE zn_status zn_image_read_alpha(const char *path, const zn_image_read_options *options,
                                                 zn_image **out);

/* The frames of an animated PNG, WebP or GIF, each as it is displayed; any other image is one frame.
 *
 *     zn_animation *a; zn_image *frame;
 *     zn_animation_open("moving.gif", NULL, &a);
 *     while (zn_animation_next(a, &frame) == ZN_OK && frame) {
 *         ...
 *         zn_image_free(frame);
 *     }
 *     zn_animation_close(a); */
typedef struct zn_animation zn_animation;
ZN_API ZN_MUST_USE zn_status zn_animation_open(const char *path, const zn_image_read_options *options,
                                               zn_animation **out);
/* *out is owned by the caller, and NULL after the last frame. */
ZN_API ZN_MUST_USE zn_status zn_animation_next(zn_animation *animation, zn_image **out);
ZN_API void zn_animation_close(zn_animation *animation);

/* Metadata as the file holds it, for zn_image_write_options; broken blocks are left out. An ICC profile is not
 * among them, because reading converts to sRGB. Free *out with zn_image_metadata_free whatever the result. */
ZN_API ZN_MUST_USE zn_status zn_image_read_metadata(const char *path, zn_image_metadata *out);
ZN_API void zn_image_metadata_free(zn_image_metadata *metadata);

/* The format follows the extension (.png .jpg .jpeg .webp). The file appears whole or not at all. */
ZN_API ZN_MUST_USE zn_status zn_image_write(const char *path, const zn_image *image,
                                            const zn_image_write_options *options);
/* As zn_image_write in a given format ("png", "jpeg" or "webp"), whatever the name, for instance to a pipe. */
ZN_API ZN_MUST_USE zn_status zn_image_write_as(const char *path, const char *format, const zn_image *image,
                                               const zn_image_write_options *options);
/* As zn_image_write, into memory; format is "png", "jpeg" or "webp"; free *bytes with zn_memory_free. */
ZN_API ZN_MUST_USE zn_status zn_image_write_memory(const char *format, const zn_image *image,
                                                   const zn_image_write_options *options, void **bytes, size_t *size);
ZN_API void zn_memory_free(void *bytes);

/* Fails with one sentence if the format of this name cannot hold an image of this size: for use before the image is
 * made. bits 16: also if it has 8 a sample, to which zn_image_write rounds. */
ZN_API ZN_MUST_USE zn_status zn_image_check(const char *path, int64_t width, int64_t height, int bits);
/* Non-zero if the extension of path is one this build can write. */
ZN_API int zn_image_can_write(const char *path);

typedef struct zn_image_difference {
    double psnr; /* dB over the 8-bit RGB values, range 255; infinity when equal */
    double ssim; /* mean SSIM of the three channels, 11x11 Gaussian window (sigma 1.5), valid windows only; along a
                  * side shorter than 11 the window is as long as that side */
    int max_difference; /* largest absolute difference of two 8-bit values */
} zn_image_difference;

/* Fails with ZN_ESHAPE if the sizes differ. 16-bit images are compared after rounding to 8 bits. */
ZN_API ZN_MUST_USE zn_status zn_image_compare(const zn_image *a, const zn_image *b, zn_image_difference *out);

enum { ZN_IMAGE_GAP = 8 }; /* white pixels between images side by side */
/* a | b | their amplified absolute difference, side by side, with the bits of the deeper one. ZN_ESHAPE if the
 * sizes differ. */
ZN_API ZN_MUST_USE zn_status zn_image_side_by_side(const zn_image *a, const zn_image *b, zn_image **out);

#ifdef __cplusplus
}
#endif
#endif

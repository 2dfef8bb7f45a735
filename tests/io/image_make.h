/* Images for the tests. They are made directly with the libraries, so that the input of the readers does not come from
 * the code under test. All functions stop the test on failure. */
#ifndef IMAGE_MAKE_H
#define IMAGE_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <zenith/image.h>

typedef struct blob {
    uint8_t *data;
    size_t size;
} blob;

void blob_add(blob *b, const void *data, size_t size);
void blob_free(blob *b);

/* A PNG with this colour type and depth. Rows are packed as in the file; 16-bit samples are big-endian. */
typedef struct png_spec {
    int width, height, type, depth, interlaced;
    const uint8_t *rows;
    size_t row_bytes;
    const uint8_t *palette; /* RGB triples */
    int palette_size;
    const uint8_t *alpha; /* alpha of palette entries */
    int alpha_size;
    int key; /* with has_key: the transparent sample value of grey and RGB, the same in each channel */
    int has_key;
    double gamma;
    blob icc, exif;
    int exif_last; /* EXIF comes after the pixels */
    int text;      /* adds tEXt and zTXt */
} png_spec;
blob make_png(const png_spec *spec);

typedef struct jpeg_spec {
    int width, height, channels;
    const uint8_t *samples;
    int quality, progressive, sampling; /* sampling 2: 4:2:0 */
    int ycck, no_adobe, restart, arithmetic;
    blob icc, exif;
    int icc_part; /* bytes per marker; 0: as many as fit */
} jpeg_spec;
blob make_jpeg(const jpeg_spec *spec);

/* RGB (3) or RGBA (4) samples. */
blob make_webp(int width, int height, int channels, const uint8_t *samples, int lossless);
/* The same image in an extended file with these chunks; frames > 0 makes it an animation. */
blob extend_webp(const blob *plain, int width, int height, int alpha, const blob *icc, const blob *exif, int frames);

/* An EXIF block (without "Exif\0\0") with this orientation. */
blob make_exif(int orientation, int big_endian);

/* ICC profiles. In the CMYK profile, full cyan halves the lightness and full black reduces it to zero; other inks have
 * no effect. */
blob make_srgb_profile(void);
blob make_display_p3(void);
blob make_grey_profile(double gamma);
blob make_ink_profile(void);

/* A smooth pattern, different in each channel; c is 0..2. */
uint8_t pattern(int x, int y, int c);
void fill_pattern(uint8_t *rgb, int width, int height);

/* Read an image: must_read must succeed, the other must fail with this code and this word in the error text. */
zn_image *must_read(const blob *b, const zn_image_read_options *options);
void must_fail(const blob *b, const zn_image_read_options *options, zn_status code, const char *word);

/* The 8-bit or 16-bit sample of channel c. */
int at(const zn_image *image, int x, int y, int c);

#endif

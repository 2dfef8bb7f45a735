/* From what a file holds to what a caller gets. One row at a time: to RGB (through the profile, a gamma table or
 * plainly), then over the background; at the end the orientation. Compositing is done on the encoded values, as
 * browsers and image editors do, not in linear light. */
#include "io/image/pixels/raster.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/metadata/exif.h"
#include "io/image/pixels/icc.h"
#include "io/image/pixels/pixels.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

zn_status zn_raster_check_size(const zn_source *source, int64_t width, int64_t height, int64_t max_pixels)
{
    if (width < 1 || height < 1)
        return ZN_FAIL(ZN_EFORMAT, "%s: an empty image of %lldx%lld pixels", source->name, (long long)width,
                       (long long)height);
    if (source->pixels && width <= INT_MAX && height <= INT_MAX)
        *source->pixels = width * height;
    if (width > INT_MAX || height > INT_MAX || width > max_pixels / height)
        return ZN_FAIL(ZN_ELIMIT, "%s: %lldx%lld pixels are more than the limit of %lld", source->name,
                       (long long)width, (long long)height, (long long)max_pixels);
    return ZN_OK;
}

zn_status zn_raster_alloc(zn_raster *raster, int64_t width, int64_t height, int bits, int channels)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)width, (size_t)channels * (size_t)(bits / 8), &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)height, &bytes))
        return ZN_FAIL(ZN_ELIMIT, "%lldx%lld pixels do not fit in memory", (long long)width, (long long)height);
    ZN_TRY(zn_alloc_for("the pixels of an image", bytes, &raster->pixels));
    raster->width = (int)width;
    raster->height = (int)height;
    raster->bits = bits;
    raster->channels = channels;
    return ZN_OK;
}

zn_status zn_raster_set_icc(zn_raster *raster, const void *icc, size_t size)
{
    enum { LARGEST = 16 << 20 };
    if (raster->icc || size == 0 || size > LARGEST)
        return ZN_OK;
    void *copy;
    ZN_TRY(zn_alloc_for("a colour profile", size, &copy));
    memcpy(copy, icc, size);
    raster->icc = copy;
    raster->icc_size = size;
    return ZN_OK;
}

void zn_raster_free(zn_raster *raster)
{
    zn_free(raster->pixels);
    zn_free(raster->icc);
    *raster = (zn_raster){ 0 };
}

void *zn_raster_row(const zn_raster *r, int64_t y)
{
    return (uint8_t *)r->pixels + (size_t)y * (size_t)r->width * (size_t)r->channels * (size_t)(r->bits / 8);
}

/* Grey, RGB and CMYK to RGB; without a profile CMYK is the product of what ink and black let through. SAMPLE is the
 * type, MAX its largest value; the products of two samples fit in 32 bits. */
#define ROW_FUNCTIONS(SAMPLE, MAX)                                                                                     \
    static void to_rgb_##SAMPLE(const SAMPLE *from, int channels, zn_ink ink, SAMPLE *rgb, int64_t pixels)             \
    {                                                                                                                  \
        const uint32_t flip = ink == ZN_INK_CMYK ? (MAX) : 0;                                                          \
        for (int64_t i = 0; i < pixels; i++, from += channels, rgb += 3)                                               \
            for (int c = 0; c < 3; c++)                                                                                \
                rgb[c] = ink != ZN_INK_NONE ? (SAMPLE)(((flip ^ from[c]) * (flip ^ from[3]) + (MAX) / 2) / (MAX))      \
                                            : from[channels < 3 ? 0 : c];                                              \
    }                                                                                                                  \
    static void over_##SAMPLE(const SAMPLE *from, int channels, const uint32_t *background, SAMPLE *rgb,               \
                              int64_t pixels)                                                                          \
    {                                                                                                                  \
        for (int64_t i = 0; i < pixels; i++, from += channels, rgb += 3) {                                             \
            const uint32_t alpha = from[channels - 1];                                                                 \
            for (int c = 0; c < 3; c++)                                                                                \
                rgb[c] = (SAMPLE)((rgb[c] * alpha + background[c] * ((MAX)-alpha) + (MAX) / 2) / (MAX));               \
        }                                                                                                              \
    }
ROW_FUNCTIONS(uint8_t, 255u)
ROW_FUNCTIONS(uint16_t, 65535u)

/* A table from samples of the given gamma to sRGB; NULL for lack of memory. */
static uint16_t *gamma_table(int bits, double gamma)
{
    const int count = 1 << bits;
    uint16_t *table = zn_alloc((size_t)count * sizeof *table);
    for (int i = 0; table && i < count; i++) {
        const double light = pow((double)i / (count - 1), 1 / gamma);
        const double value = light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055;
        table[i] = (uint16_t)lrint(value * (count - 1));
    }
    return table;
}

typedef struct finisher {
    const zn_raster *raster;
    zn_icc *icc;
    uint16_t *table;
    bool composite;
    uint32_t background[3];
} finisher;

static bool has_alpha(const zn_raster *r) { return r->ink == ZN_INK_NONE && r->channels % 2 == 0; }

/* One channel of colour and nothing coloured below it. The profile's conversion may still be off by a step. */
static bool is_grey(const finisher *f)
{
    const uint32_t *b = f->background;
    const bool plain = !f->composite || !has_alpha(f->raster) || (b[0] == b[1] && b[1] == b[2]);
    return f->raster->channels < 3 && plain;
}

static void finish_row(const finisher *f, const void *from, void *rgb)
{
    const zn_raster *r = f->raster;
    const int wide = r->bits == 16;
    const int64_t samples = (int64_t)r->width * 3;
    if (f->icc)
        zn_icc_row(f->icc, from, rgb, r->width);
    else if (wide)
        to_rgb_uint16_t(from, r->channels, r->ink, rgb, r->width);
    else
        to_rgb_uint8_t(from, r->channels, r->ink, rgb, r->width);
    if (f->table)
        for (int64_t i = 0; i < samples; i++) {
            if (wide)
                ((uint16_t *)rgb)[i] = f->table[((uint16_t *)rgb)[i]];
            else
                ((uint8_t *)rgb)[i] = (uint8_t)f->table[((uint8_t *)rgb)[i]];
        }
    if (!f->composite || !has_alpha(r))
        return;
    if (wide)
        over_uint16_t(from, r->channels, f->background, rgb, r->width);
    else
        over_uint8_t(from, r->channels, f->background, rgb, r->width);
}

zn_status zn_raster_finish(zn_raster *r, const uint8_t background[3], zn_image **out)
{
    finisher f = { .raster = r, .composite = background != NULL };
    zn_image *image = NULL;
    zn_status status;
    for (int c = 0; background && c < 3; c++)
        f.background[c] = background[c] * (r->bits == 16 ? 257u : 1u);
    ZN_TRY_DONE(zn_icc_open(r, &f.icc));
    if (!f.icc && r->gamma > 0 && !(f.table = gamma_table(r->bits, r->gamma))) {
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for a gamma table");
        goto done;
    }
    if (r->channels == 3) { /* the raster's own memory becomes the image's */
        if (!(image = zn_calloc(1, sizeof *image))) {
            status = ZN_FAIL(ZN_ENOMEM, "out of memory for an image");
            goto done;
        }
        *image = (zn_image){ .width = r->width, .height = r->height, .bits = r->bits, .pixels = r->pixels };
        r->pixels = NULL;
    } else {
        ZN_TRY_DONE(zn_image_alloc(r->width, r->height, r->bits, &image));
    }
    if (r->channels != 3 || f.icc || f.table) {
        const size_t row = (size_t)r->width * 3 * (size_t)(r->bits / 8);
        for (int64_t y = 0; y < r->height; y++) {
            uint8_t *rgb = (uint8_t *)image->pixels + (size_t)y * row;
            finish_row(&f, r->channels == 3 ? rgb : zn_raster_row(r, y), rgb);
        }
    }
    status = zn_exif_apply(r->orientation, &image);
    if (status == ZN_OK && (is_grey(&f) || zn_pixels_are_grey(image, r->tint)))
        zn_image_make_grey(image);
done:
    zn_icc_close(f.icc);
    zn_free(f.table);
    if (status == ZN_OK)
        *out = image;
    else
        zn_image_free(image);
    return status;
}

/* Sample i of either width, as it is stored. */
static void copy_sample(const void *from, size_t i, void *to, size_t k, int bits)
{
    if (bits == 16)
        ((uint16_t *)to)[k] = ((const uint16_t *)from)[i];
    else
        ((uint8_t *)to)[k] = ((const uint8_t *)from)[i];
}

zn_status zn_raster_alpha(const zn_raster *r, zn_image **out)
{
    *out = NULL;
    if (!has_alpha(r))
        return ZN_OK;
    zn_image *image;
    ZN_TRY(zn_image_alloc(r->width, r->height, r->bits, &image));
    const size_t samples = (size_t)r->width * (size_t)r->height * 3, channels = (size_t)r->channels;
    for (size_t i = 0; i < samples; i++)
        copy_sample(r->pixels, i / 3 * channels + channels - 1, image->pixels, i, r->bits);
    const zn_status status = zn_exif_apply(r->orientation, &image);
    if (status == ZN_OK)
        *out = image;
    else
        zn_image_free(image);
    return status;
}

zn_status zn_raster_join(const zn_image *image, const zn_image *alpha, zn_raster *out)
{
    *out = (zn_raster){ 0 };
    const size_t colours = image->grey ? 1 : 3, n = colours + (alpha != NULL);
    ZN_TRY(zn_raster_alloc(out, image->width, image->height, image->bits, (int)n));
    const size_t samples = (size_t)image->width * (size_t)image->height * n;
    for (size_t i = 0; i < samples; i++) {
        const bool is_alpha = i % n == colours;
        copy_sample(is_alpha ? alpha->pixels : image->pixels, i / n * 3 + (is_alpha ? 0 : i % n), out->pixels, i,
                    image->bits);
    }
    return ZN_OK;
}

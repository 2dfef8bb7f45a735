/* Samples and floats. Plain loops over rows that compilers turn into vector code. */
#include "io/image/pixels/pixels.h"

#include "base/fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Division, not multiplication by 1/255: the quotient is the correctly rounded one that other programs compute. */
static void row8_to_float(const uint8_t *restrict from, float *restrict to, size_t samples)
{
    for (size_t i = 0; i < samples; i++)
        to[i] = (float)from[i] / 255.0f;
}

static void row16_to_float(const uint16_t *restrict from, float *restrict to, size_t samples)
{
    for (size_t i = 0; i < samples; i++)
        to[i] = (float)from[i] / 65535.0f;
}

static int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

static void row_to_float(const zn_image *image, int y, int x, int width, float *to)
{
    const size_t at = ((size_t)y * (size_t)image->width + (size_t)x) * 3;
    if (image->bits == 8)
        row8_to_float((const uint8_t *)image->pixels + at, to, (size_t)width * 3);
    else
        row16_to_float((const uint16_t *)image->pixels + at, to, (size_t)width * 3);
}

static void repeat(float *to, const float *pixel, int count)
{
    const float r = pixel[0], g = pixel[1], b = pixel[2];
    for (int64_t i = 0; i < count; i++, to += 3)
        to[0] = r, to[1] = g, to[2] = b;
}

void zn_pixels_to_float(const zn_image *image, zn_region region, float *rgb, size_t stride)
{
    /* Columns [left,right) of the region lie in the image; at least one column is converted even if none does. */
    const int64_t end = (int64_t)region.x + region.width;
    const int first = clamp(region.x, 0, image->width - 1);
    const int last = end > image->width ? image->width - 1 : clamp((int)end - 1, 0, image->width - 1);
    const int left = clamp(first - region.x, 0, region.width - 1);
    const int middle = clamp(last - first + 1, 1, region.width - left);
    int converted = -1; /* the image row in the row above */
    for (int i = 0; i < region.height; i++) {
        float *row = rgb + (size_t)i * stride;
        const int64_t wanted = (int64_t)region.y + i;
        const int y = wanted < 0 ? 0 : wanted >= image->height ? image->height - 1 : (int)wanted;
        if (y == converted) {
            memcpy(row, row - stride, (size_t)region.width * 3 * sizeof *row);
            continue;
        }
        float *inside = row + (size_t)left * 3;
        row_to_float(image, y, first, middle, inside);
        repeat(row, inside, left);
        repeat(inside + (size_t)middle * 3, inside + (size_t)(middle - 1) * 3, region.width - left - middle);
        converted = y;
    }
}

/* Floats of one sign are ordered like their bits, so clamping and the search for NaN and infinity are done on integers,
 * which vectorise where comparisons of floats, that may trap, do not. Rounding is to nearest, halves upwards. */
#define ROW_FROM_FLOAT(SAMPLE, MAX)                                                                                    \
    static int row_to_##SAMPLE(const float *restrict from, SAMPLE *restrict to, size_t samples)                        \
    {                                                                                                                  \
        const int32_t one = 0x3f800000, exponent = 0x7f800000;                                                         \
        int32_t strange = 0;                                                                                           \
        for (size_t i = 0; i < samples; i++) {                                                                         \
            int32_t bits;                                                                                              \
            float value;                                                                                               \
            memcpy(&bits, from + i, sizeof bits);                                                                      \
            strange |= (bits & exponent) == exponent;                                                                  \
            bits = bits < 0 ? 0 : bits;                                                                                \
            bits = bits > one ? one : bits;                                                                            \
            memcpy(&value, &bits, sizeof value);                                                                       \
            to[i] = (SAMPLE)(int)(value * (MAX) + 0.5f);                                                               \
        }                                                                                                              \
        return strange;                                                                                                \
    }
ROW_FROM_FLOAT(uint8_t, 255.0f)
ROW_FROM_FLOAT(uint16_t, 65535.0f)

bool zn_pixels_from_float(const float *rgb, size_t stride, zn_image *image, zn_region region)
{
    int strange = 0;
    for (int i = 0; i < region.height; i++) {
        const size_t at = ((size_t)(region.y + i) * (size_t)image->width + (size_t)region.x) * 3;
        const float *row = rgb + (size_t)i * stride;
        if (image->bits == 8)
            strange |= row_to_uint8_t(row, (uint8_t *)image->pixels + at, (size_t)region.width * 3);
        else
            strange |= row_to_uint16_t(row, (uint16_t *)image->pixels + at, (size_t)region.width * 3);
    }
    if (image->grey)
        zn_pixels_make_grey(image, region);
    return !strange;
}

#define GREY_FUNCTIONS(SAMPLE)                                                                                         \
    static bool is_grey_##SAMPLE(const SAMPLE *rgb, size_t pixels, int tint)                                           \
    {                                                                                                                  \
        for (size_t i = 0; i < pixels; i++, rgb += 3)                                                                  \
            if (abs(rgb[0] - rgb[1]) > tint || abs(rgb[1] - rgb[2]) > tint)                                            \
                return false;                                                                                          \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void make_grey_##SAMPLE(SAMPLE *rgb, size_t pixels)                                                         \
    {                                                                                                                  \
        for (size_t i = 0; i < pixels; i++, rgb += 3)                                                                  \
            rgb[0] = rgb[1] = rgb[2] = (SAMPLE)(((uint32_t)rgb[0] + rgb[1] + rgb[2] + 1) / 3);                         \
    }
GREY_FUNCTIONS(uint8_t)
GREY_FUNCTIONS(uint16_t)

bool zn_pixels_are_grey(const zn_image *image, int tint)
{
    const size_t pixels = (size_t)image->width * (size_t)image->height;
    return image->bits == 8 ? is_grey_uint8_t(image->pixels, pixels, tint)
                            : is_grey_uint16_t(image->pixels, pixels, tint);
}

void zn_pixels_make_grey(zn_image *image, zn_region region)
{
    for (int i = 0; i < region.height; i++) {
        const size_t at = ((size_t)(region.y + i) * (size_t)image->width + (size_t)region.x) * 3;
        if (image->bits == 8)
            make_grey_uint8_t((uint8_t *)image->pixels + at, (size_t)region.width);
        else
            make_grey_uint16_t((uint16_t *)image->pixels + at, (size_t)region.width);
    }
}

void zn_pixels_to_8(const uint16_t *from, uint8_t *to, size_t samples)
{
    for (size_t i = 0; i < samples; i++)
        to[i] = (uint8_t)((from[i] + 128u) / 257u);
}

/* (1 - share) of a and share of b. */
static long blend(long a, long b, double share) { return lround((1 - share) * (double)a + share * (double)b); }

zn_status zn_image_blend(zn_image *image, const zn_image *with, double share)
{
    if (image->width != with->width || image->height != with->height || image->bits != with->bits)
        return ZN_FAIL(ZN_ESHAPE, "images of %dx%d with %d bits and %dx%d with %d bits cannot be blended", image->width,
                       image->height, image->bits, with->width, with->height, with->bits);
    const size_t samples = (size_t)image->width * (size_t)image->height * 3;
    uint8_t *to8 = image->pixels;
    const uint8_t *from8 = with->pixels;
    uint16_t *to16 = image->pixels;
    const uint16_t *from16 = with->pixels;
    for (size_t i = 0; i < samples; i++)
        if (image->bits == 8)
            to8[i] = (uint8_t)blend(to8[i], from8[i], share);
        else
            to16[i] = (uint16_t)blend(to16[i], from16[i], share);
    return ZN_OK;
}

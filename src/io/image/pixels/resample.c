/* Separable scaling: rows first, rounded to 8 bits, then columns. Weights are whole numbers of 22 bits, so that sums
 * are exact. */
#include "io/image/pixels/resample.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BITS = 22 };

/* What each output position is made of: `count` positions from `first` on. */
typedef struct taps {
    int most;        /* of all counts */
    int *first;      /* [out] */
    int *count;      /* [out] */
    int32_t *weight; /* [out][most] */
} taps;

static zn_status taps_new(int in, int out, taps *t)
{
    const double scale = (double)in / out, wide = scale > 1 ? scale : 1;
    t->most = (int)ceil(wide) * 2 + 1;
    ZN_TRY(zn_alloc_for("scaling", sizeof(int32_t) * ((size_t)out * (size_t)(t->most + 2) + (size_t)t->most * 2),
                        (void **)&t->first));
    t->count = t->first + out;
    t->weight = (int32_t *)(t->count + out);
    for (int i = 0; i < out; i++) {
        const double centre = (i + 0.5) * scale;
        int first = (int)(centre - wide + 0.5), last = (int)(centre + wide + 0.5);
        first = first < 0 ? 0 : first;
        last = last > in ? in : last;
        double sum = 0;
        for (int k = first; k < last; k++)
            sum += fmax(0, 1 - fabs((k - centre + 0.5) / wide));
        for (int k = first; k < last; k++) {
            const double w = fmax(0, 1 - fabs((k - centre + 0.5) / wide)) / sum;
            t->weight[(size_t)i * (size_t)t->most + (size_t)(k - first)] = (int32_t)(0.5 + w * (1 << BITS));
        }
        t->first[i] = first;
        t->count[i] = last - first;
    }
    return ZN_OK;
}

static uint8_t rounded(int64_t sum)
{
    const int64_t v = sum >> BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* to[lines][out][3] from[lines][in][3] along positions `step` samples apart; lines lie `line` apart. */
static void scale(const uint8_t *from, size_t from_line, size_t from_step, uint8_t *to, size_t to_line, size_t to_step,
                  int lines, int out, const taps *t)
{
    for (int l = 0; l < lines; l++)
        for (int i = 0; i < out; i++) {
            int64_t sum[3] = { 1 << (BITS - 1), 1 << (BITS - 1), 1 << (BITS - 1) };
            const int32_t *w = t->weight + (size_t)i * (size_t)t->most;
            const uint8_t *x = from + (size_t)l * from_line + (size_t)t->first[i] * from_step;
            for (int k = 0; k < t->count[i]; k++, x += from_step)
                for (int c = 0; c < 3; c++)
                    sum[c] += (int64_t)w[k] * x[c];
            for (int c = 0; c < 3; c++)
                to[(size_t)l * to_line + (size_t)i * to_step + (size_t)c] = rounded(sum[c]);
        }
}

static zn_status scaled(const uint8_t *pixels, int in_width, int in_height, zn_image *out)
{
    const size_t wide = (size_t)out->width * 3;
    uint8_t *rows = NULL;
    taps across = { 0 }, down = { 0 };
    zn_status status = taps_new(in_width, out->width, &across);
    if (status == ZN_OK)
        status = taps_new(in_height, out->height, &down);
    if (status == ZN_OK)
        status = zn_alloc_for("scaling", wide * (size_t)in_height, (void **)&rows);
    if (status == ZN_OK) {
        scale(pixels, (size_t)in_width * 3, 3, rows, wide, 3, in_height, out->width, &across);
        scale(rows, 3, wide, out->pixels, 3, wide, out->width, out->height, &down);
    }
    zn_free(rows);
    zn_free(across.first);
    zn_free(down.first);
    return status;
}

zn_status zn_image_resample(const zn_image *image, int width, int height, zn_image **out)
{
    const size_t samples = (size_t)image->width * (size_t)image->height * 3;
    uint8_t *narrow = NULL;
    *out = NULL;
    if (image->bits != 8) {
        ZN_TRY(zn_alloc_for("a picture", samples, (void **)&narrow));
        zn_pixels_to_8(image->pixels, narrow, samples);
    }
    zn_status status = zn_image_new(width, height, 8, out);
    if (status == ZN_OK)
        status = scaled(narrow ? narrow : image->pixels, image->width, image->height, *out);
    if (status == ZN_OK)
        (*out)->grey = image->grey;
    zn_free(narrow);
    if (status != ZN_OK) {
        zn_image_free(*out);
        *out = NULL;
    }
    return status;
}

zn_status zn_image_fit(const zn_image *image, int width, int height, zn_image **out)
{
    const int64_t w = image->width, h = image->height;
    const bool wide = w * height > h * width;
    const int64_t length = wide ? height * w / h : width * h / w;
    zn_image *whole;
    *out = NULL;
    if (length > ZN_IMAGE_MAX_PIXELS / (wide ? height : width))
        return ZN_FAIL(ZN_ELIMIT, "an image of %dx%d is too narrow", image->width, image->height);
    ZN_TRY(zn_image_resample(image, wide ? (int)length : width, wide ? height : (int)length, &whole));
    const int x = (int)rint((whole->width - width) / 2.0), y = (int)rint((whole->height - height) / 2.0);
    const size_t row = (size_t)width * 3;
    const zn_status status = zn_image_new(width, height, 8, out);
    for (int i = 0; status == ZN_OK && i < height; i++)
        memcpy((uint8_t *)(*out)->pixels + (size_t)i * row,
               (uint8_t *)whole->pixels + ((size_t)(y + i) * (size_t)whole->width + (size_t)x) * 3, row);
    if (status == ZN_OK)
        (*out)->grey = whole->grey;
    zn_image_free(whole);
    return status;
}

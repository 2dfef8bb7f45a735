/* The difference of two images: PSNR and SSIM, and an image of the difference. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "io/image/pixels/raster.h"
#include "io/image/pixels/similarity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Row y as 8-bit samples: the image's own, or rounded into buffer. */
static const uint8_t *row8(const zn_image *image, int y, uint8_t *buffer)
{
    const size_t n = (size_t)image->width * 3, at = (size_t)y * n;
    if (image->bits == 8)
        return (const uint8_t *)image->pixels + at;
    zn_pixels_to_8((const uint16_t *)image->pixels + at, buffer, n);
    return buffer;
}

static uint64_t squared_errors(const uint8_t *a, const uint8_t *b, size_t n, int *largest)
{
    uint64_t sum = 0;
    int most = *largest;
    for (size_t i = 0; i < n; i++) {
        const int d = abs(a[i] - b[i]);
        sum += (uint32_t)(d * d);
        most = d > most ? d : most;
    }
    *largest = most;
    return sum;
}

static zn_status check_pair(const zn_image *a, const zn_image *b)
{
    if (a->width != b->width || a->height != b->height)
        return ZN_FAIL(ZN_ESHAPE, "images of %dx%d and %dx%d pixels cannot be compared", a->width, a->height, b->width,
                       b->height);
    return ZN_OK;
}

typedef struct comparing {
    const zn_image *a, *b;
    uint8_t *rows; /* of both */
    uint64_t squares;
    int largest;
} comparing;

/* Sums are centred: smaller squares, smaller errors. */
static void compare_row(void *self, int y, float *restrict sum, float *restrict difference)
{
    comparing *c = self;
    const size_t n = (size_t)c->a->width * 3;
    const uint8_t *a = row8(c->a, y, c->rows), *b = row8(c->b, y, c->rows + n);
    c->squares += squared_errors(a, b, n, &c->largest);
    for (size_t i = 0; i < n; i++) {
        sum[i] = (float)(a[i] + b[i] - 255);
        difference[i] = (float)(a[i] - b[i]);
    }
}

zn_status zn_image_compare(const zn_image *a, const zn_image *b, zn_image_difference *out)
{
    ZN_TRY(check_pair(a, b));
    const size_t n = (size_t)a->width * 3;
    comparing c = { .a = a, .b = b };
    const zn_similarity_rows rows = {
        .height = a->height, .width = a->width, .channels = 3, .range = 255, .row = compare_row, .self = &c
    };
    double similarity;
    ZN_TRY(zn_alloc_for("two rows of pixels", 2 * n, (void **)&c.rows));
    const zn_status status = zn_similarity_of(&rows, &similarity, NULL);
    zn_free(c.rows);
    ZN_TRY(status);
    const double mse = (double)c.squares / ((double)n * a->height);
    out->psnr = c.squares ? 10 * log10(255.0 * 255.0 / mse) : INFINITY;
    out->ssim = similarity;
    out->max_difference = c.largest;
    return ZN_OK;
}

/* Sample i of the image, on the scale of images of so many bits. */
static int sample(const zn_image *image, size_t i, int bits)
{
    if (image->bits > 8)
        return ((const uint16_t *)image->pixels)[i];
    const int value = ((const uint8_t *)image->pixels)[i];
    return bits > 8 ? 257 * value : value;
}

static void put_sample(zn_image *image, size_t i, int value)
{
    if (image->bits > 8)
        ((uint16_t *)image->pixels)[i] = (uint16_t)value;
    else
        ((uint8_t *)image->pixels)[i] = (uint8_t)value;
}

zn_status zn_image_side_by_side(const zn_image *a, const zn_image *b, zn_image **out)
{
    enum { AMPLIFIED = 4 };
    *out = NULL;
    ZN_TRY(check_pair(a, b));
    const int64_t width = (int64_t)a->width * 3 + 2 * ZN_IMAGE_GAP;
    const int bits = a->bits > b->bits ? a->bits : b->bits, most = bits > 8 ? UINT16_MAX : UINT8_MAX;
    if (width > INT32_MAX)
        return ZN_FAIL(ZN_ELIMIT, "three images of width %d do not fit side by side", a->width);
    ZN_TRY(zn_image_alloc(width, a->height, bits, out));
    memset((*out)->pixels, UINT8_MAX, (size_t)width * (size_t)a->height * 3 * (size_t)bits / 8); /* white gaps */
    const size_t n = (size_t)a->width * 3, panel = n + ZN_IMAGE_GAP * 3;
    for (size_t y = 0; y < (size_t)a->height; y++) {
        const size_t to = y * (size_t)width * 3;
        for (size_t i = 0; i < n; i++) {
            const int p = sample(a, y * n + i, bits), q = sample(b, y * n + i, bits), d = AMPLIFIED * abs(p - q);
            put_sample(*out, to + i, p);
            put_sample(*out, to + panel + i, q);
            put_sample(*out, to + 2 * panel + i, d < most ? d : most);
        }
    }
    (*out)->grey = a->grey && b->grey;
    return ZN_OK;
}

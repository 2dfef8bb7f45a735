/* Bicubic enlarging by two, a strip of a row at a time. Every other pixel has the same four weights. */
#include "io/image/pixels/enlarge.h"

#include "base/alloc.h"
#include "base/fail.h"

enum { STRIP = 64, TAPS = 4, COLUMNS = STRIP / 2 + TAPS + 1 };

const float zn_cubic_weights[4] = { 0.8671875f, 0.2265625f, -0.0703125f, -0.0234375f };

/* Weights of the taps from left to right, or from top to bottom, of an even and of an odd pixel. */
static const int order[2][TAPS] = { { 3, 1, 0, 2 }, { 2, 0, 1, 3 } };

/* The first of the four source pixels of pixel i, which may be negative. */
static int first_tap(int i) { return (i - (i & 1)) / 2 - 2 + (i & 1); }

static float clamp(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

/* Pixels [x, x + width) of row y. */
static void strip(const zn_image *image, int x, int y, int width, float *to)
{
    float from[TAPS][COLUMNS * 3], column[COLUMNS * 3];
    const int left = first_tap(x), count = first_tap(x + width - 1) + TAPS - left;
    zn_pixels_to_float(image, (zn_region){ left, first_tap(y), count, TAPS }, from[0], (size_t)COLUMNS * 3);
    for (int i = 0; i < count * 3; i++) {
        column[i] = 0;
        for (int t = 0; t < TAPS; t++)
            column[i] += zn_cubic_weights[order[y & 1][t]] * from[t][i];
    }
    for (int i = 0; i < width * 3; i++) {
        const int at = x + i / 3;
        const float *tap = column + (first_tap(at) - left) * 3 + i % 3;
        float sum = 0;
        for (int t = 0; t < TAPS; t++)
            sum += zn_cubic_weights[order[at & 1][t]] * tap[3 * t];
        to[i] = clamp(sum);
    }
}

void zn_pixels_enlarged(const zn_image *image, zn_region region, float *rgb, size_t stride)
{
    for (int y = 0; y < region.height; y++)
        for (int x = 0; x < region.width; x += STRIP) {
            const int width = region.width - x < STRIP ? region.width - x : STRIP;
            strip(image, region.x + x, region.y + y, width, rgb + (size_t)y * stride + (size_t)x * 3);
        }
}

zn_status zn_image_enlarge(const zn_image *image, zn_image **out)
{
    const int width = 2 * image->width, height = 2 * image->height;
    float *row;
    *out = NULL;
    ZN_TRY(zn_image_new(width, height, image->bits, out));
    (*out)->grey = image->grey;
    const zn_status status = zn_alloc_for("an image", sizeof *row * 3 * (size_t)width, (void **)&row);
    for (int y = 0; y < height && status == ZN_OK; y++) {
        const zn_region line = { 0, y, width, 1 };
        zn_pixels_enlarged(image, line, row, (size_t)width * 3);
        zn_pixels_from_float(row, (size_t)width * 3, *out, line);
    }
    zn_free(row);
    if (status != ZN_OK) {
        zn_image_free(*out);
        *out = NULL;
    }
    return status;
}

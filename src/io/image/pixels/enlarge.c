/* Bicubic enlarging by two, a strip of a row at a time. Every other pixel has the same four weights. */
#include "io/image/pixels/enlarge.h"

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

/* Area averaging. Every source sample is touched about once, so the cost is that of reading the region. */
#include "io/image/pixels/resize.h"

#include <stdbool.h>

/* What output position `at` of `count` covers of `length` source positions: [first, last], with the weights of the two
 * ends; those between weigh 1. */
typedef struct cover {
    int first, last;
    double head, tail;
} cover;

static cover cover_of(int at, int count, int length)
{
    const double from = (double)length * at / count, to = (double)length * (at + 1) / count;
    cover c = { .first = (int)from, .last = (int)to };
    if (c.last > c.first && (double)c.last >= to)
        c.last--;
    if (c.last >= length)
        c.last = length - 1;
    c.head = (c.first == c.last ? to : c.first + 1) - from;
    c.tail = c.first == c.last ? c.head : to - c.last;
    return c;
}

static double weight(const cover *c, int i) { return i == c->first ? c->head : i == c->last ? c->tail : 1; }

static double sample(const zn_image *image, size_t at, bool narrow)
{
    return narrow ? ((const uint8_t *)image->pixels)[at] : ((const uint16_t *)image->pixels)[at] / 257.0;
}

static void mean(const zn_image *image, zn_region r, const cover *rows, const cover *columns, uint8_t *out)
{
    const bool narrow = image->bits == 8;
    double sum[3] = { 0 }, area = 0;
    for (int y = rows->first; y <= rows->last; y++) {
        const double wy = weight(rows, y);
        const size_t row = ((size_t)(r.y + y) * (size_t)image->width + (size_t)r.x) * 3;
        for (int x = columns->first; x <= columns->last; x++) {
            const double w = wy * weight(columns, x);
            area += w;
            for (size_t c = 0; c < 3; c++)
                sum[c] += w * sample(image, row + (size_t)x * 3 + c, narrow);
        }
    }
    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)(sum[c] / area + 0.5);
}

zn_status zn_image_shrink(const zn_image *image, zn_region region, int width, int height, zn_image **out)
{
    zn_status status = zn_image_new(width, height, 8, out);
    uint8_t *to = status == ZN_OK ? (*out)->pixels : NULL;
    for (int y = 0; to && y < height; y++) {
        const cover rows = cover_of(y, height, region.height);
        for (int x = 0; x < width; x++, to += 3) {
            const cover columns = cover_of(x, width, region.width);
            mean(image, region, &rows, &columns, to);
        }
    }
    return status;
}

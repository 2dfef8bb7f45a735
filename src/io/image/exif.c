/* EXIF orientation (TIFF tag 0x0112). Only the first directory is looked at, and it is bounded by the block: an EXIF
 * block is hostile like any other part of a file, and a bad one never costs the picture.
 *
 *     "II*\0" or "MM\0*" | offset of IFD0 (4) | ... | entries (2) | { tag (2) type (2) count (4) value (4) } ... */
#include "io/image/exif.h"

#include "base/fail.h"
#include "io/image/raster.h"

#include <string.h>

static uint32_t take(const uint8_t *p, int bytes, int big)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

int zn_exif_orientation(const uint8_t *block, size_t size)
{
    enum { TAG = 0x0112, SHORT = 3, LONG = 4, ENTRY = 12 };
    if (size >= 6 && !memcmp(block, "Exif\0\0", 6))
        block += 6, size -= 6;
    if (size < 8 || (memcmp(block, "II*\0", 4) && memcmp(block, "MM\0*", 4)))
        return 1;
    const int big = block[0] == 'M';
    const size_t directory = take(block + 4, 4, big);
    if (directory > size - 2)
        return 1;
    const size_t entries = take(block + directory, 2, big);
    for (size_t i = 0; i < entries; i++) {
        const size_t at = directory + 2 + i * ENTRY;
        if (at > size || size - at < ENTRY)
            return 1;
        if (take(block + at, 2, big) != TAG)
            continue;
        const uint32_t type = take(block + at + 2, 2, big);
        if ((type != SHORT && type != LONG) || take(block + at + 4, 4, big) != 1)
            return 1;
        const uint32_t value = take(block + at + 8, type == SHORT ? 2 : 4, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Walks the upright image in tiles, so that a quarter turn of a large picture stays within the caches. `right` and
 * `down` are the steps in the source, in pixels, for one step right or down in the target. */
static inline void walk(const uint8_t *from, ptrdiff_t right, ptrdiff_t down, uint8_t *to, int width, int height,
                        int bytes)
{
    enum { TILE = 32 };
    for (int y0 = 0; y0 < height; y0 += TILE)
        for (int x0 = 0; x0 < width; x0 += TILE)
            for (int y = y0; y < height && y < y0 + TILE; y++) {
                const int end = x0 + TILE < width ? x0 + TILE : width;
                uint8_t *t = to + ((size_t)y * width + x0) * bytes;
                const uint8_t *f = from + (y * down + x0 * right) * bytes;
                for (int x = x0; x < end; x++, t += bytes, f += right * bytes)
                    memcpy(t, f, bytes);
            }
}

zn_status zn_exif_apply(int orientation, zn_image **image)
{
    if (orientation <= 1 || orientation > 8)
        return ZN_OK;
    const zn_image *old = *image;
    const ptrdiff_t w = old->width, h = old->height;
    const int turned = orientation >= 5, bytes = old->bits / 8 * 3;
    /* Which corner of the stored picture is the upright one's top left: 2 mirrored, 3 turned by 180, 4 upside down,
     * 5 transposed, 6 to be turned right, 7 transposed across the other diagonal, 8 to be turned left. */
    const int from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const int from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const ptrdiff_t along_x = from_right ? -1 : 1, along_y = from_bottom ? -w : w;
    zn_image *upright;
    ZN_TRY(zn_image_alloc(turned ? h : w, turned ? w : h, old->bits, &upright));
    const uint8_t *corner =
        (const uint8_t *)old->pixels + ((from_bottom ? (h - 1) * w : 0) + (from_right ? w - 1 : 0)) * bytes;
    const ptrdiff_t right = turned ? along_y : along_x, down = turned ? along_x : along_y;
    if (bytes == 3) /* the constant lets the compiler copy a pixel without a call */
        walk(corner, right, down, upright->pixels, upright->width, upright->height, 3);
    else
        walk(corner, right, down, upright->pixels, upright->width, upright->height, 6);
    zn_image_free(*image);
    *image = upright;
    return ZN_OK;
}

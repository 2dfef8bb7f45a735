/* EXIF as far as it is needed: the orientation, and the few numbers that are no longer true of an image that was made
 * upright and converted to sRGB. Directories are bounded by the block: an EXIF block is hostile like any other part of
 * a file, and a bad one never costs the image.
 *
 *     "II*\0" or "MM\0*" | offset of IFD0 (4) | ...
 *     directory: entries (2) | { tag (2) type (2) count (4) value (4) }... | offset of the next directory (4) */
#include "io/image/metadata/exif.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/raster.h"

#include <string.h>

static uint32_t take(const uint8_t *p, int bytes, int big)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

enum { HEAD = 8, ENTRY = 12, SHORT = 3, LONG = 4, UNDEFINED = 7 };
enum {
    WIDTH = 0x0100,
    HEIGHT = 0x0101,
    ORIENTATION = 0x0112,
    EXIF_DIRECTORY = 0x8769,
    USER_COMMENT = 0x9286,
    COLOUR_SPACE = 0xa001,
    EXIF_WIDTH = 0xa002,
    EXIF_HEIGHT = 0xa003
};
enum { UPRIGHT = 1, SRGB = 1 }; /* values of ORIENTATION and COLOUR_SPACE */

static void put(uint8_t *p, int bytes, int big, uint32_t v)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * (big ? bytes - 1 - i : i));
}

/* Entries of the directory at this offset that lie within the block. */
static size_t entries_in(const uint8_t *block, size_t size, size_t directory)
{
    if (directory < HEAD || directory > size - 2)
        return 0;
    const size_t claimed = take(block + directory, 2, block[0] == 'M'), possible = (size - directory - 2) / ENTRY;
    return claimed < possible ? claimed : possible;
}

/* Offset of the first entry with this tag, at or after entry `from`; 0 if there is none. */
static size_t find_entry(const uint8_t *block, size_t size, size_t directory, uint32_t tag, size_t from)
{
    const size_t entries = entries_in(block, size, directory);
    for (size_t i = from; i < entries; i++)
        if (take(block + directory + 2 + i * ENTRY, 2, block[0] == 'M') == tag)
            return directory + 2 + i * ENTRY;
    return 0;
}

bool zn_exif_is_valid(const uint8_t *block, size_t size)
{
    if (size < HEAD + 2 || (memcmp(block, "II*\0", 4) && memcmp(block, "MM\0*", 4)))
        return false;
    const int big = block[0] == 'M';
    const size_t directory = take(block + 4, 4, big);
    return entries_in(block, size, directory) > 0 &&
           entries_in(block, size, directory) == take(block + directory, 2, big);
}

/* The one whole number of an entry; 0 if it holds something else. */
static uint32_t number_at(const uint8_t *block, size_t entry)
{
    const int big = block[0] == 'M';
    const uint32_t type = take(block + entry + 2, 2, big);
    if ((type != SHORT && type != LONG) || take(block + entry + 4, 4, big) != 1)
        return 0;
    return take(block + entry + 8, type == SHORT ? 2 : 4, big);
}

int zn_exif_orientation(const uint8_t *block, size_t size)
{
    if (size >= 6 && !memcmp(block, "Exif\0\0", 6))
        block += 6, size -= 6;
    if (size < HEAD + 2 || (memcmp(block, "II*\0", 4) && memcmp(block, "MM\0*", 4)))
        return 1;
    const size_t entry = find_entry(block, size, take(block + 4, 4, block[0] == 'M'), ORIENTATION, 0);
    const uint32_t value = entry ? number_at(block, entry) : 0;
    return value >= 1 && value <= 8 ? (int)value : 1;
}

/* Gives every entry of that tag this value. */
static void set_number(uint8_t *block, size_t size, size_t directory, uint32_t tag, int type, uint32_t value)
{
    const int big = block[0] == 'M';
    for (size_t from = 0, entry; (entry = find_entry(block, size, directory, tag, from));
         from = (entry - directory - 2) / ENTRY + 1) {
        put(block + entry + 2, 2, big, (uint32_t)type);
        put(block + entry + 4, 4, big, 1);
        put(block + entry + 8, 4, big, 0);
        put(block + entry + 8, type == SHORT ? 2 : 4, big, value);
    }
}

void zn_exif_describe(uint8_t *block, size_t size, int width, int height)
{
    const int big = block[0] == 'M';
    const size_t directory = take(block + 4, 4, big);
    const size_t link = find_entry(block, size, directory, EXIF_DIRECTORY, 0), more = link ? number_at(block, link) : 0;
    const size_t next = directory + 2 + entries_in(block, size, directory) * ENTRY;
    if (size - next >= 4)
        put(block + next, 4, big, 0);
    set_number(block, size, directory, ORIENTATION, SHORT, UPRIGHT);
    set_number(block, size, directory, WIDTH, LONG, (uint32_t)width);
    set_number(block, size, directory, HEIGHT, LONG, (uint32_t)height);
    set_number(block, size, more, COLOUR_SPACE, SHORT, SRGB);
    set_number(block, size, more, EXIF_WIDTH, LONG, (uint32_t)width);
    set_number(block, size, more, EXIF_HEIGHT, LONG, (uint32_t)height);
}

const uint8_t *zn_exif_user_comment(const uint8_t *block, size_t size, size_t *length)
{
    const int big = block[0] == 'M';
    const size_t link = find_entry(block, size, take(block + 4, 4, big), EXIF_DIRECTORY, 0);
    const size_t entry = link ? find_entry(block, size, number_at(block, link), USER_COMMENT, 0) : 0;
    if (!entry || take(block + entry + 2, 2, big) != UNDEFINED)
        return NULL;
    const size_t count = take(block + entry + 4, 4, big), at = take(block + entry + 8, 4, big);
    if (count <= 4 || at > size || count > size - at)
        return NULL;
    *length = count;
    return block + at;
}

/* One entry in IFD0, which is the link to the EXIF directory, and one in there. */
zn_status zn_exif_with_comment(const uint8_t *comment, size_t length, uint8_t **block, size_t *size)
{
    enum { DIRECTORY = 2 + ENTRY + 4, INNER = HEAD + DIRECTORY, DATA = INNER + DIRECTORY };
    void *memory;
    ZN_TRY(zn_alloc_for("the metadata of an image", DATA + length, &memory));
    uint8_t *b = *block = memset(memory, 0, DATA);
    *size = DATA + length;
    memcpy(b, "MM\0*", 4);
    put(b + 4, 4, 1, HEAD);
    put(b + HEAD, 2, 1, 1);
    put(b + HEAD + 2, 2, 1, EXIF_DIRECTORY);
    put(b + HEAD + 4, 2, 1, LONG);
    put(b + HEAD + 6, 4, 1, 1);
    put(b + HEAD + 10, 4, 1, INNER);
    put(b + INNER, 2, 1, 1);
    put(b + INNER + 2, 2, 1, USER_COMMENT);
    put(b + INNER + 4, 2, 1, UNDEFINED);
    put(b + INNER + 6, 4, 1, (uint32_t)length);
    put(b + INNER + 10, 4, 1, DATA);
    memcpy(b + DATA, comment, length);
    return ZN_OK;
}

/* Walks the upright image in tiles, so that a quarter turn of a large image stays within the caches. `right` and
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
    /* Which corner of the stored image is the upright one's top left: 2 mirrored, 3 turned by 180, 4 upside down,
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

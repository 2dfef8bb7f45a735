/* BMP reader: uncompressed files of 1, 4, 8, 16, 24 and 32 bits a pixel, with palettes, masks and alpha.
 *
 *     "BM" | file size (4) | 0 (4) | offset of the pixels (4) | header, whose first number is its own size | masks or
 *     palette | rows, the bottom one first unless the height is negative, each padded to four bytes */
#include "base/fail.h"
#include "base/span.h"
#include "io/image/format.h"

#include <stdlib.h>

enum { FILE_HEAD = 14, CORE = 12, INFO = 40, V3 = 56, LARGEST_HEAD = 124, RGB = 0, MASKS = 3, ALPHA_MASKS = 6 };

typedef struct bitmap {
    const zn_source *source;
    int64_t width, height;
    bool top_down;
    int bits, compression;
    size_t pixels, row;     /* offset of the rows, bytes of one */
    const uint8_t *palette; /* blue, green, red, and nothing in larger headers */
    int colours, colour_size;
    uint32_t mask[4]; /* red, green, blue, alpha; 0: none */
} bitmap;

#define DAMAGED(b, ...) ZN_FAIL(ZN_EFORMAT, "%s: damaged BMP: " __VA_ARGS__)

static zn_status read_sizes(bitmap *b, size_t head)
{
    const zn_source *s = b->source;
    const uint8_t *p = s->bytes + FILE_HEAD;
    if (head == CORE) {
        b->width = zn_load16(p + 4);
        b->height = zn_load16(p + 6);
        b->bits = zn_load16(p + 10);
        b->colour_size = 3;
        return ZN_OK;
    }
    const int32_t height = (int32_t)zn_load32(p + 8);
    b->width = (int32_t)zn_load32(p + 4);
    b->height = height < 0 ? -(int64_t)height : height;
    b->top_down = height < 0;
    b->bits = zn_load16(p + 14);
    b->compression = (int)zn_load32(p + 16);
    b->colours = (int)(zn_load32(p + 32) & 0x1ff);
    b->colour_size = 4;
    if (b->compression != RGB && b->compression != MASKS && b->compression != ALPHA_MASKS)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a compressed BMP (kind %d); save it uncompressed or as PNG", s->name,
                       b->compression);
    return ZN_OK;
}

/* Which bits of a pixel are which colour. Older headers are followed by the masks. */
static zn_status read_masks(bitmap *b, size_t head)
{
    const zn_source *s = b->source;
    const int count = b->compression == ALPHA_MASKS || head >= V3 ? 4 : 3;
    if (b->compression == RGB) {
        const uint32_t narrow[] = { 0x7c00, 0x3e0, 0x1f }, wide[] = { 0xff0000, 0xff00, 0xff };
        for (int c = 0; c < 3; c++)
            b->mask[c] = b->bits == 16 ? narrow[c] : wide[c];
        return ZN_OK;
    }
    if (!zn_span_fits(FILE_HEAD + INFO, (uint64_t)count * 4, s->size))
        return DAMAGED(b, "the file ends early, in the masks", s->name);
    for (int c = 0; c < count; c++) {
        b->mask[c] = zn_load32(s->bytes + FILE_HEAD + INFO + 4 * c);
        const uint32_t low = b->mask[c] & -b->mask[c], run = b->mask[c] + low;
        if (run & (run - 1) || (c < 3 && !b->mask[c])) /* one run of bits, also one that ends at the top */
            return DAMAGED(b, "a mask of %08x", s->name, b->mask[c]);
    }
    return ZN_OK;
}

static zn_status read_palette(bitmap *b, size_t head)
{
    const zn_source *s = b->source;
    const size_t at = FILE_HEAD + head;
    const int most = 1 << b->bits;
    if (!b->colours || b->colours > most)
        b->colours = most;
    if (at >= b->pixels)
        return DAMAGED(b, "no palette", s->name);
    const int present = (int)((b->pixels - at) / (size_t)b->colour_size);
    b->colours = b->colours < present ? b->colours : present;
    b->palette = s->bytes + at;
    return ZN_OK;
}

static zn_status read_head(bitmap *b, int64_t max_pixels)
{
    const zn_source *s = b->source;
    if (s->size < FILE_HEAD + CORE)
        return DAMAGED(b, "the file ends early, at byte %zu", s->name, s->size);
    const size_t head = zn_load32(s->bytes + FILE_HEAD);
    b->pixels = zn_load32(s->bytes + 10);
    if (head != CORE && (head < INFO || head > LARGEST_HEAD))
        return DAMAGED(b, "a header of %zu bytes", s->name, head);
    if (!zn_span_fits(FILE_HEAD, head, s->size))
        return DAMAGED(b, "the file ends early, at byte %zu", s->name, s->size);
    ZN_TRY(read_sizes(b, head));
    ZN_TRY(zn_raster_check_size(s, b->width, b->height, max_pixels));
    b->row = ((size_t)b->width * (size_t)b->bits + 31) / 32 * 4;
    switch (b->bits) {
    case 1:
    case 4:
    case 8:
        ZN_TRY(read_palette(b, head));
        break;
    case 16:
    case 32:
        ZN_TRY(read_masks(b, head));
        break;
    case 24:
        break;
    default:
        return DAMAGED(b, "%d bits a pixel", s->name, b->bits);
    }
    if (!zn_span_fits(b->pixels, (uint64_t)b->row * (uint64_t)b->height, s->size))
        return DAMAGED(b, "%zu bytes cannot hold %lldx%lld pixels", s->name, s->size, (long long)b->width,
                       (long long)b->height);
    return ZN_OK;
}

static void take_palette(const bitmap *b, const uint8_t *row, uint8_t *rgb)
{
    for (int64_t x = 0; x < b->width; x++, rgb += 3) {
        const int64_t bit = x * b->bits;
        const int index = row[bit / 8] >> (8 - b->bits - bit % 8) & ((1 << b->bits) - 1);
        const uint8_t *colour = b->palette + index * b->colour_size;
        for (int c = 0; c < 3; c++)
            rgb[c] = index < b->colours ? colour[2 - c] : 0; /* black, as other readers have it */
    }
}

/* The bits under a mask as a value of 0..255. */
static uint8_t under(uint32_t pixel, uint32_t mask)
{
    const int shift = __builtin_ctz(mask);
    const uint64_t most = mask >> shift;
    return (uint8_t)(((uint64_t)((pixel & mask) >> shift) * 255 + most / 2) / most);
}

static void take_masked(const bitmap *b, const uint8_t *row, uint8_t *out)
{
    const int channels = b->mask[3] ? 4 : 3;
    for (int64_t x = 0; x < b->width; x++, out += channels) {
        const uint32_t pixel = b->bits == 16 ? zn_load16(row + 2 * x) : zn_load32(row + 4 * x);
        for (int c = 0; c < channels; c++)
            out[c] = under(pixel, b->mask[c]);
    }
}

zn_status zn_bmp_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    bitmap b = { .source = source };
    ZN_TRY(read_head(&b, max_pixels));
    ZN_TRY(zn_raster_alloc(raster, b.width, b.height, 8, b.mask[3] ? 4 : 3));
    for (int64_t y = 0; y < b.height; y++) {
        const uint8_t *row = source->bytes + b.pixels + (size_t)(b.top_down ? y : b.height - 1 - y) * b.row;
        uint8_t *out = zn_raster_row(raster, y);
        if (b.bits <= 8)
            take_palette(&b, row, out);
        else if (b.bits != 24)
            take_masked(&b, row, out);
        else
            for (int64_t i = 0; i < b.width * 3; i++)
                out[i] = row[i / 3 * 3 + 2 - i % 3];
    }
    return ZN_OK;
}

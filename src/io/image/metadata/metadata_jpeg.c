/* EXIF and XMP in JPEG: markers APP1, distinguished by the words they begin with. The density is part of APP0:
 * "JFIF\0" | version (2) | unit (1): 1 inch, 2 cm | pixels per unit, horizontally (2) and vertically (2) | thumbnail.
 *
 *     FF D8 | { FF marker (1) | length (2), itself included | data }... | FF DA, pixels */
#include "base/fail.h"
#include "io/image/metadata/metadata.h"

#include <string.h>

enum { FILL = 0xff, APP0 = 0xe0, APP1 = 0xe1, SCAN = 0xda, MARKER = 4, LARGEST = 0xffff - 2 };
enum { DENSITY = 7, DENSITY_END = 12, INCH = 1, CM = 2 }; /* in the data of APP0 */
static const char JFIF[] = "JFIF";                        /* with its \0 */
static const char EXIF[] = "Exif\0";                      /* and the \0 of the literal */
static const char XMP[] = "http://ns.adobe.com/xap/1.0/"; /* with its \0 */

/* Data of the marker at *at, which moves past it; NULL when no more can come before the pixels. */
static const uint8_t *next_marker(const zn_source *s, size_t *at, int *marker, size_t *size)
{
    while (*at < s->size && s->bytes[*at] == FILL && *at + 1 < s->size && s->bytes[*at + 1] == FILL)
        ++*at; /* markers may be preceded by any number of fill bytes */
    if (*at > s->size || s->size - *at < MARKER || s->bytes[*at] != FILL || s->bytes[*at + 1] == SCAN)
        return NULL;
    const size_t length = (size_t)s->bytes[*at + 2] << 8 | s->bytes[*at + 3];
    if (length < 2 || length > s->size - *at - 2)
        return NULL;
    const uint8_t *data = s->bytes + *at + MARKER;
    *marker = s->bytes[*at + 1];
    *size = length - 2;
    *at += 2 + length;
    return data;
}

static bool is_jfif(const uint8_t *data, size_t size)
{
    return size >= DENSITY_END && !memcmp(data, JFIF, sizeof JFIF);
}

zn_status zn_jpeg_find_metadata(const zn_source *s, zn_image_metadata *out)
{
    size_t at = 2, size;
    int marker;
    for (const uint8_t *data; (data = next_marker(s, &at, &marker, &size));) {
        if (marker == APP0 && is_jfif(data, size) && (data[DENSITY] == INCH || data[DENSITY] == CM))
            zn_metadata_keep_density(out, data[8] << 8 | data[9], data[10] << 8 | data[11],
                                     data[DENSITY] == CM ? 2.54 : 1);
        if (marker != APP1)
            continue;
        if (size > sizeof EXIF && !memcmp(data, EXIF, sizeof EXIF))
            ZN_TRY(zn_metadata_keep_exif(out, data, size));
        else if (size > sizeof XMP && !memcmp(data, XMP, sizeof XMP))
            ZN_TRY(zn_metadata_keep_xmp(out, data + sizeof XMP, size - sizeof XMP));
    }
    return ZN_OK;
}

/* A marker holds less than 64 KiB: larger blocks are left out. False for lack of memory. */
static bool add_marker(zn_bytes *out, const char *word, size_t word_size, const uint8_t *block, size_t size)
{
    if (!block || size > LARGEST - word_size)
        return true;
    const size_t length = 2 + word_size + size;
    const uint8_t head[MARKER] = { FILL, APP1, (uint8_t)(length >> 8), (uint8_t)length };
    return zn_bytes_append(out, head, MARKER) && zn_bytes_append(out, word, word_size) &&
           zn_bytes_append(out, block, size);
}

/* data: of the marker APP0 that libjpeg has written. */
static void put_density(const zn_image_metadata *m, uint8_t *data)
{
    const unsigned x = (unsigned)(m->dpi_x + 0.5), y = (unsigned)(m->dpi_y + 0.5);
    const uint8_t density[] = { INCH, (uint8_t)(x >> 8), (uint8_t)x, (uint8_t)(y >> 8), (uint8_t)y };
    memcpy(data + DENSITY, density, sizeof density);
}

zn_status zn_jpeg_put_metadata(const zn_image_metadata *m, const zn_image *image, zn_bytes *file)
{
    (void)image;
    const zn_source written = { file->data, file->size, "JPEG", NULL };
    size_t at = 2, size, after = 2;
    int marker;
    const uint8_t *first = next_marker(&written, &after, &marker, &size);
    if (first && marker == APP0) {
        at = after; /* JFIF readers want theirs first */
        if (m->dpi_x > 0 && is_jfif(first, size))
            put_density(m, file->data + (first - written.bytes));
    }
    zn_bytes markers = { 0 };
    const bool good = add_marker(&markers, EXIF, sizeof EXIF, m->exif, m->exif_size) &&
                      add_marker(&markers, XMP, sizeof XMP, m->xmp, m->xmp_size);
    const zn_status status = good ? zn_metadata_insert(file, at, &markers)
                                  : ZN_FAIL(ZN_ENOMEM, "out of memory for the metadata of an image");
    zn_bytes_free(&markers);
    return status;
}

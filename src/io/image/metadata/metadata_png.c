/* EXIF, XMP, density and the text of generated images in PNG: the chunks eXIf and pHYs, and text with keywords of their
 * own.
 *
 *     signature (8) | { length (4) | name (4) | data | checksum (4) }...
 *     iTXt: keyword \0 | compressed (1) | method (1) | language \0 | translated keyword \0 | text in UTF-8
 *     tEXt: keyword \0 | text
 *     pHYs: pixels per unit, horizontally (4) and vertically (4) | unit (1): 1 metre */
#include "base/fail.h"
#include "io/image/formats/png_chunk.h"
#include "io/image/metadata/comment.h"
#include "io/image/metadata/metadata.h"

#include <string.h>

enum { AFTER_IHDR = ZN_PNG_SIGNATURE + ZN_PNG_CHUNK + ZN_PNG_IHDR };
enum { PHYS = 9, METRE = 1 };
static const double inch = 0.0254;                                           /* metres */
static const char XMP[] = "XML:com.adobe.xmp", PARAMETERS[] = ZN_PARAMETERS; /* with the \0 that ends them */

/* The text of a tEXt or uncompressed iTXt chunk with this keyword; NULL for any other chunk. */
static const uint8_t *text_of(const uint8_t *name, size_t size, const char *keyword, size_t *length)
{
    const uint8_t *data = name + 4, *end = data + size, *at;
    const size_t word = strlen(keyword) + 1;
    const bool plain = !memcmp(name, "tEXt", 4);
    if ((!plain && memcmp(name, "iTXt", 4)) || size < word || memcmp(data, keyword, word))
        return NULL;
    *length = size - word;
    if (plain)
        return data + word;
    if (*length < 2 || data[word])
        return NULL;
    at = data + word + 2;
    for (int i = 0; i < 2 && at; i++) { /* language, translated keyword */
        at = memchr(at, 0, (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    *length = at ? (size_t)(end - at) : 0;
    return at;
}

zn_status zn_png_find_metadata(const zn_source *s, zn_image_metadata *out)
{
    size_t at = ZN_PNG_SIGNATURE;
    while (at <= s->size && s->size - at >= ZN_PNG_CHUNK) {
        const size_t length = zn_big32(s->bytes + at);
        const uint8_t *name = s->bytes + at + 4, *data = name + 4;
        if (length > s->size - at - ZN_PNG_CHUNK)
            return ZN_OK;
        size_t size;
        const uint8_t *text;
        if ((text = text_of(name, length, XMP, &size)))
            ZN_TRY(zn_metadata_keep_xmp(out, text, size));
        if ((text = text_of(name, length, PARAMETERS, &size)))
            ZN_TRY(zn_metadata_keep_parameters(out, text, size));
        if (!memcmp(name, "eXIf", 4))
            ZN_TRY(zn_metadata_keep_exif(out, data, length));
        if (!memcmp(name, "pHYs", 4) && length == PHYS && data[8] == METRE)
            zn_metadata_keep_density(out, zn_big32(data), zn_big32(data + 4), inch);
        at += ZN_PNG_CHUNK + length;
    }
    return ZN_OK;
}

/* signature (8) | length (4) "IHDR" | width (4) height (4) depth (1) type (1): 0 for grey */
int zn_png_few_bits(const zn_source *s)
{
    const uint8_t *head = s->bytes + ZN_PNG_SIGNATURE + 8;
    const bool grey = s->size >= AFTER_IHDR && head[9] == 0;
    return grey && head[8] < 8 ? head[8] : 0;
}

static uint32_t checksum(const uint8_t *bytes, size_t size)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

bool zn_png_add_chunk(zn_bytes *out, const char *name, const void *head, size_t head_size, const void *body,
                      size_t size)
{
    const size_t start = out->size;
    uint8_t number[4];
    zn_put_big32(number, (uint32_t)(head_size + size));
    if (!zn_bytes_append(out, number, 4) || !zn_bytes_append(out, name, 4) || !zn_bytes_append(out, head, head_size) ||
        !zn_bytes_append(out, body, size))
        return false;
    zn_put_big32(number, checksum(out->data + start + 4, out->size - start - 4));
    return zn_bytes_append(out, number, 4);
}

/* Text beyond ASCII needs iTXt, which is UTF-8. */
static bool add_text(zn_bytes *out, const char *keyword, const void *text, size_t size)
{
    const size_t word = strlen(keyword) + 1;
    uint8_t head[32] = { 0 }; /* after the keyword: uncompressed, no language, no translation */
    bool ascii = strcmp(keyword, XMP) != 0;
    for (size_t i = 0; ascii && i < size; i++)
        ascii = ((const uint8_t *)text)[i] < 128;
    memcpy(head, keyword, word);
    return zn_png_add_chunk(out, ascii ? "tEXt" : "iTXt", head, ascii ? word : word + 4, text, size);
}

static bool add_density(zn_bytes *out, double x, double y)
{
    uint8_t data[PHYS] = { [8] = METRE };
    zn_put_big32(data, (uint32_t)(x / inch + 0.5));
    zn_put_big32(data + 4, (uint32_t)(y / inch + 0.5));
    return zn_png_add_chunk(out, "pHYs", NULL, 0, data, sizeof data);
}

zn_status zn_png_put_metadata(const zn_image_metadata *m, const zn_image *image, zn_bytes *file)
{
    (void)image;
    zn_bytes chunks = { 0 };
    const bool good = (m->dpi_x <= 0 || add_density(&chunks, m->dpi_x, m->dpi_y)) &&
                      (!m->exif || zn_png_add_chunk(&chunks, "eXIf", NULL, 0, m->exif, m->exif_size)) &&
                      (!m->xmp || add_text(&chunks, XMP, m->xmp, m->xmp_size)) &&
                      (!m->parameters || add_text(&chunks, PARAMETERS, m->parameters, strlen(m->parameters)));
    const zn_status status = good ? zn_metadata_insert(file, AFTER_IHDR, &chunks)
                                  : ZN_FAIL(ZN_ENOMEM, "out of memory for the metadata of an image");
    zn_bytes_free(&chunks);
    return status;
}

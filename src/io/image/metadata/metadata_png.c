/* EXIF and XMP in PNG: the chunk eXIf, and an iTXt with a keyword that Adobe has fixed.
 *
 *     signature (8) | { length (4) | name (4) | data | checksum (4) }...
 *     iTXt: keyword \0 | compressed (1) | method (1) | language \0 | translated keyword \0 | text */
#include "base/fail.h"
#include "io/image/formats/png_chunk.h"
#include "io/image/metadata/metadata.h"

#include <string.h>

enum { AFTER_IHDR = ZN_PNG_SIGNATURE + ZN_PNG_CHUNK + ZN_PNG_IHDR };
static const char KEYWORD[] = "XML:com.adobe.xmp"; /* with the \0 that ends it */

/* The text of an iTXt chunk that is uncompressed XMP; NULL for any other. */
static const uint8_t *xmp_text(const uint8_t *data, size_t size, size_t *length)
{
    const size_t head = sizeof KEYWORD + 2;
    if (size < head || memcmp(data, KEYWORD, sizeof KEYWORD) || data[sizeof KEYWORD])
        return NULL;
    const uint8_t *at = data + head, *end = data + size;
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
        size_t text_size;
        const uint8_t *text = memcmp(name, "iTXt", 4) ? NULL : xmp_text(data, length, &text_size);
        if (text)
            ZN_TRY(zn_metadata_keep_xmp(out, text, text_size));
        if (!memcmp(name, "eXIf", 4))
            ZN_TRY(zn_metadata_keep_exif(out, data, length));
        at += ZN_PNG_CHUNK + length;
    }
    return ZN_OK;
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

zn_status zn_png_put_metadata(const zn_image_metadata *m, const zn_image *image, zn_bytes *file)
{
    (void)image;
    uint8_t head[sizeof KEYWORD + 4] = { 0 }; /* uncompressed, no language, no translation */
    memcpy(head, KEYWORD, sizeof KEYWORD);
    zn_bytes chunks = { 0 };
    const bool good = (!m->exif || zn_png_add_chunk(&chunks, "eXIf", NULL, 0, m->exif, m->exif_size)) &&
                      (!m->xmp || zn_png_add_chunk(&chunks, "iTXt", head, sizeof head, m->xmp, m->xmp_size));
    const zn_status status = good ? zn_metadata_insert(file, AFTER_IHDR, &chunks)
                                  : ZN_FAIL(ZN_ENOMEM, "out of memory for the metadata of an image");
    zn_bytes_free(&chunks);
    return status;
}

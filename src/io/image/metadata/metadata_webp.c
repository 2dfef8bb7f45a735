/* EXIF and XMP in WebP: chunks of their own after the pixels, announced in a VP8X chunk before them.
 *
 *     VP8X: flags (1) | 0 (3) | width - 1 (3) | height - 1 (3) */
#include "base/fail.h"
#include "io/image/formats/riff.h"
#include "io/image/metadata/metadata.h"

enum { HAS_XMP = 1 << 2, HAS_EXIF = 1 << 3, HAS_ALPHA = 1 << 4, EXTENDED = ZN_RIFF_CHUNK + 10 };

zn_status zn_webp_find_metadata(const zn_source *s, zn_image_metadata *out)
{
    size_t size;
    const uint8_t *chunk = zn_riff_find(s, "EXIF", &size);
    if (chunk)
        ZN_TRY(zn_metadata_keep_exif(out, chunk, size));
    chunk = zn_riff_find(s, "XMP ", &size);
    return chunk ? zn_metadata_keep_xmp(out, chunk, size) : ZN_OK;
}

static void put_little(uint8_t *to, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(v >> 8 * i);
}

/* A lossless image says in its 29th bit whether it has alpha; a lossy one with alpha is extended already. */
static bool has_alpha(const zn_source *s)
{
    size_t size;
    const uint8_t *lossless = zn_riff_find(s, "VP8L", &size);
    return lossless && size >= 5 && (lossless[4] & 0x10);
}

/* Makes room for flags in a file that has none yet. */
static zn_status extend(const zn_image *image, zn_bytes *file)
{
    const zn_source s = { file->data, file->size, "WebP", NULL };
    size_t size;
    if (zn_riff_find(&s, "VP8X", &size))
        return ZN_OK;
    uint8_t chunk[EXTENDED] = "VP8X";
    put_little(chunk + 4, EXTENDED - ZN_RIFF_CHUNK, 4);
    chunk[ZN_RIFF_CHUNK] = has_alpha(&s) ? HAS_ALPHA : 0;
    put_little(chunk + ZN_RIFF_CHUNK + 4, (uint32_t)image->width - 1, 3);
    put_little(chunk + ZN_RIFF_CHUNK + 7, (uint32_t)image->height - 1, 3);
    return zn_metadata_insert(file, ZN_RIFF_HEAD, &(zn_bytes){ chunk, sizeof chunk, sizeof chunk });
}

static bool add_chunk(zn_bytes *file, const char *name, const uint8_t *block, size_t size)
{
    uint8_t head[ZN_RIFF_CHUNK];
    memcpy(head, name, 4);
    put_little(head + 4, (uint32_t)size, 4);
    return !block || (zn_bytes_append(file, head, sizeof head) && zn_bytes_append(file, block, size) &&
                      zn_bytes_append(file, "", size % 2));
}

zn_status zn_webp_put_metadata(const zn_image_metadata *m, const zn_image *image, zn_bytes *file)
{
    if (!m->exif && !m->xmp)
        return ZN_OK; /* WebP has no place for a density */
    ZN_TRY(extend(image, file));
    if (!add_chunk(file, "EXIF", m->exif, m->exif_size) || !add_chunk(file, "XMP ", m->xmp, m->xmp_size))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the metadata of an image");
    file->data[ZN_RIFF_HEAD + ZN_RIFF_CHUNK] |= (uint8_t)((m->exif ? HAS_EXIF : 0) | (m->xmp ? HAS_XMP : 0));
    put_little(file->data + 4, (uint32_t)(file->size - 8), 4);
    return ZN_OK;
}

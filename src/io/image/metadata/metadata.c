/* What the formats share: copies of blocks, and the changes that make them true of the image they are written with. */
#include "io/image/metadata/metadata.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/metadata/comment.h"
#include "io/image/metadata/exif.h"

#include <ctype.h>
#include <string.h>

static zn_status keep(uint8_t **to, size_t *to_size, const uint8_t *block, size_t size)
{
    if (*to || !size || size > ZN_METADATA_MAX)
        return ZN_OK;
    void *copy;
    ZN_TRY(zn_alloc_for("the metadata of an image", size, &copy));
    *to = memcpy(copy, block, size);
    *to_size = size;
    return ZN_OK;
}

zn_status zn_metadata_keep_exif(zn_image_metadata *m, const uint8_t *block, size_t size)
{
    if (size >= 6 && !memcmp(block, "Exif\0\0", 6))
        block += 6, size -= 6;
    return zn_exif_is_valid(block, size) ? keep(&m->exif, &m->exif_size, block, size) : ZN_OK;
}

zn_status zn_metadata_keep_xmp(zn_image_metadata *m, const uint8_t *block, size_t size)
{
    return keep(&m->xmp, &m->xmp_size, block, size);
}

zn_status zn_metadata_keep_parameters(zn_image_metadata *m, const uint8_t *text, size_t size)
{
    return m->parameters || size > ZN_METADATA_MAX ? ZN_OK : zn_comment_copy(text, size, &m->parameters);
}

void zn_metadata_keep_density(zn_image_metadata *m, double x, double y, double units)
{
    const double largest = 65535; /* that JPEG can store */
    x *= units, y *= units;
    if (m->dpi_x == 0 && x >= 1 && y >= 1 && x <= largest && y <= largest)
        m->dpi_x = x, m->dpi_y = y;
}

zn_status zn_metadata_find(const zn_source *source, zn_image_metadata *out)
{
    *out = (zn_image_metadata){ 0 };
    const zn_image_format *format = zn_format_of_bytes(source->bytes, source->size);
    zn_status status = format && format->find_metadata ? format->find_metadata(source, out) : ZN_OK;
    if (status == ZN_OK && out->exif && !out->parameters)
        status = zn_comment_find(out->exif, out->exif_size, &out->parameters);
    if (status != ZN_OK)
        zn_image_metadata_free(out);
    return status;
}

zn_status zn_image_read_metadata(const char *path, zn_image_metadata *out)
{
    *out = (zn_image_metadata){ 0 };
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_source source = { map.bytes, map.size, path, NULL };
    const zn_status status = zn_metadata_find(&source, out);
    zn_map_close(&map);
    return status;
}

void zn_image_metadata_free(zn_image_metadata *m)
{
    zn_free(m->exif);
    zn_free(m->xmp);
    zn_free(m->parameters);
    *m = (zn_image_metadata){ 0 };
}

/* The value is in an attribute (tiff:Orientation="6") or between tags (<tiff:Orientation>6</...). */
void zn_xmp_make_upright(uint8_t *packet, size_t size)
{
    static const char name[] = "tiff:Orientation";
    const size_t length = sizeof name - 1;
    for (size_t i = 0; size >= length && i <= size - length; i++) {
        if (memcmp(packet + i, name, length))
            continue;
        size_t at = i + length;
        while (at < size && (packet[at] == '>' || packet[at] == '=' || packet[at] == '"' || packet[at] == '\'' ||
                             isspace(packet[at])))
            at++;
        if (at > i + length && at < size && packet[at] >= '2' && packet[at] <= '8')
            packet[at] = '1';
    }
}

/* Adds the text about a generated image: as text where the format has a place for it, else as EXIF. */
static zn_status own_parameters(const zn_image_format *format, const char *text, zn_image_metadata *own)
{
    if (format->writes_text)
        return zn_metadata_keep_parameters(own, (const uint8_t *)text, strlen(text));
    return own->exif ? ZN_OK : zn_comment_exif(text, &own->exif, &own->exif_size);
}

zn_status zn_metadata_attach(const zn_image_format *format, const zn_image *image, const zn_image_metadata *m,
                             zn_bytes *file)
{
    zn_image_metadata own = { 0 };
    zn_metadata_keep_density(&own, m->dpi_x, m->dpi_y, 1);
    zn_status status = zn_metadata_keep_exif(&own, m->exif, m->exif ? m->exif_size : 0);
    if (status == ZN_OK)
        status = zn_metadata_keep_xmp(&own, m->xmp, m->xmp ? m->xmp_size : 0);
    if (status == ZN_OK && own.exif)
        zn_exif_describe(own.exif, own.exif_size, image->width, image->height);
    if (status == ZN_OK && own.xmp)
        zn_xmp_make_upright(own.xmp, own.xmp_size);
    if (status == ZN_OK && m->parameters)
        status = own_parameters(format, m->parameters, &own);
    if (status == ZN_OK && (own.exif || own.xmp || own.parameters || own.dpi_x > 0) && format->put_metadata)
        status = format->put_metadata(&own, image, file);
    zn_image_metadata_free(&own);
    return status;
}

zn_status zn_metadata_insert(zn_bytes *file, size_t at, const zn_bytes *extra)
{
    if (!zn_bytes_reserve(file, extra->size))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the metadata of an image");
    if (!extra->size)
        return ZN_OK;
    memmove(file->data + at + extra->size, file->data + at, file->size - at);
    memcpy(file->data + at, extra->data, extra->size);
    file->size += extra->size;
    return ZN_OK;
}

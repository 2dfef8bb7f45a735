/* HEIC and AVIF reader through libheif, which also turns and mirrors as the container asks: the orientation in the EXIF
 * block, which says the same again, is not applied. The size is checked before anything is decoded, and once more on
 * what was decoded. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/format.h"
#include "io/image/formats/library.h"
#include "io/image/metadata/metadata.h"

#include <libheif/heif.h>
#include <string.h>

#define CALLS(CALL)                                                                                                    \
    CALL(heif_context_alloc)                                                                                           \
    CALL(heif_context_free)                                                                                            \
    CALL(heif_context_get_primary_image_handle)                                                                        \
    CALL(heif_context_read_from_memory_without_copy)                                                                   \
    CALL(heif_decode_image)                                                                                            \
    CALL(heif_image_get_bits_per_pixel_range)                                                                          \
    CALL(heif_image_get_height)                                                                                        \
    CALL(heif_image_get_plane_readonly)                                                                                \
    CALL(heif_image_get_width)                                                                                         \
    CALL(heif_image_handle_get_height)                                                                                 \
    CALL(heif_image_handle_get_list_of_metadata_block_IDs)                                                             \
    CALL(heif_image_handle_get_luma_bits_per_pixel)                                                                    \
    CALL(heif_image_handle_get_metadata)                                                                               \
    CALL(heif_image_handle_get_metadata_content_type)                                                                  \
    CALL(heif_image_handle_get_metadata_size)                                                                          \
    CALL(heif_image_handle_get_metadata_type)                                                                          \
    CALL(heif_image_handle_get_raw_color_profile)                                                                      \
    CALL(heif_image_handle_get_raw_color_profile_size)                                                                 \
    CALL(heif_image_handle_get_width)                                                                                  \
    CALL(heif_image_handle_has_alpha_channel)                                                                          \
    CALL(heif_image_handle_release)                                                                                    \
    CALL(heif_image_release)
static struct {
    CALLS(ZN_LIBRARY_POINTER)
} heif;
#define ENTRY(function) { #function, &heif.function },
static const zn_library_call calls[] = { CALLS(ENTRY) };
static zn_library library = {
    .name = ZN_HEIF_LIBRARY, .calls = calls, .count = sizeof calls / sizeof *calls, .lock = PTHREAD_MUTEX_INITIALIZER
};

typedef struct reader {
    const zn_source *source;
    struct heif_context *context;
    struct heif_image_handle *handle;
    struct heif_image *image;
} reader;

static zn_status check(const reader *r, struct heif_error e)
{
    if (e.code == heif_error_Ok)
        return ZN_OK;
    const zn_status code = e.subcode == heif_suberror_Security_limit_exceeded ? ZN_ELIMIT
                           : e.code == heif_error_Memory_allocation_error     ? ZN_ENOMEM
                           : e.code == heif_error_Unsupported_filetype || e.code == heif_error_Unsupported_feature
                               ? ZN_EUNSUPPORTED
                               : ZN_EFORMAT;
    return ZN_FAIL(code, "%s: %s HEIC or AVIF: %s", r->source->name,
                   code == ZN_EFORMAT ? "damaged" : "cannot read this", e.message);
}

static zn_status open_file(reader *r)
{
    ZN_TRY(zn_library_open(&library, r->source->name, "HEIC and AVIF"));
    r->context = heif.heif_context_alloc();
    if (!r->context)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a HEIC", r->source->name);
    ZN_TRY(
        check(r, heif.heif_context_read_from_memory_without_copy(r->context, r->source->bytes, r->source->size, NULL)));
    return check(r, heif.heif_context_get_primary_image_handle(r->context, &r->handle));
}

static void close_file(reader *r)
{
    if (r->image)
        heif.heif_image_release(r->image);
    if (r->handle)
        heif.heif_image_handle_release(r->handle);
    if (r->context)
        heif.heif_context_free(r->context);
}

static zn_status keep_profile(const reader *r, zn_raster *raster)
{
    const size_t size = heif.heif_image_handle_get_raw_color_profile_size(r->handle);
    void *profile;
    if (!size || size > ZN_METADATA_MAX)
        return ZN_OK;
    ZN_TRY(zn_alloc_for("a colour profile", size, &profile));
    zn_status status = ZN_OK;
    if (heif.heif_image_handle_get_raw_color_profile(r->handle, profile).code == heif_error_Ok)
        status = zn_raster_set_icc(raster, profile, size);
    zn_free(profile);
    return status;
}

/* Samples of 9 to 16 bits to 16. */
static void widen(const uint16_t *from, uint16_t *to, size_t samples, int bits)
{
    const uint32_t most = (1u << bits) - 1;
    for (size_t i = 0; i < samples; i++)
        to[i] = (uint16_t)(((from[i] < most ? from[i] : most) * 65535u + most / 2) / most);
}

static zn_status take_pixels(const reader *r, int channels, int64_t max_pixels, zn_raster *raster)
{
    const enum heif_channel all = heif_channel_interleaved;
    const int width = heif.heif_image_get_width(r->image, all), height = heif.heif_image_get_height(r->image, all);
    const int bits = heif.heif_image_get_bits_per_pixel_range(r->image, all);
    int stride = 0;
    const uint8_t *plane = heif.heif_image_get_plane_readonly(r->image, all, &stride);
    if (!plane || bits < 8 || bits > 16)
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged HEIC or AVIF: no pixels", r->source->name);
    ZN_TRY(zn_raster_check_size(r->source, width, height, max_pixels));
    ZN_TRY(zn_raster_alloc(raster, width, height, bits > 8 ? 16 : 8, channels));
    const size_t samples = (size_t)width * (size_t)channels;
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *row = plane + y * stride;
        if (bits > 8)
            widen((const uint16_t *)(const void *)row, zn_raster_row(raster, y), samples, bits);
        else
            memcpy(zn_raster_row(raster, y), row, samples);
    }
    return ZN_OK;
}

static zn_status decode(reader *r, int64_t max_pixels, zn_raster *raster)
{
    const bool alpha = heif.heif_image_handle_has_alpha_channel(r->handle);
    const bool wide = heif.heif_image_handle_get_luma_bits_per_pixel(r->handle) > 8;
    const enum heif_chroma chroma =
        wide ? (alpha ? heif_chroma_interleaved_RRGGBBAA_LE : heif_chroma_interleaved_RRGGBB_LE)
             : (alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB);
    ZN_TRY(zn_raster_check_size(r->source, heif.heif_image_handle_get_width(r->handle),
                                heif.heif_image_handle_get_height(r->handle), max_pixels));
    ZN_TRY(check(r, heif.heif_decode_image(r->handle, &r->image, heif_colorspace_RGB, chroma, NULL)));
    ZN_TRY(take_pixels(r, alpha ? 4 : 3, max_pixels, raster));
    raster->tint = wide ? 257 : 1; /* grey of YUV may come out a step off */
    return keep_profile(r, raster);
}

zn_status zn_heif_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    reader r = { .source = source };
    zn_status status = open_file(&r);
    if (status == ZN_OK)
        status = decode(&r, max_pixels, raster);
    close_file(&r);
    return status;
}

/* ---- metadata ---- */

static zn_status keep_block(const reader *r, heif_item_id id, zn_image_metadata *out)
{
    const size_t size = heif.heif_image_handle_get_metadata_size(r->handle, id);
    const char *type = heif.heif_image_handle_get_metadata_type(r->handle, id);
    const char *content = heif.heif_image_handle_get_metadata_content_type(r->handle, id);
    const bool exif = type && !strcmp(type, "Exif"), xmp = content && !strcmp(content, "application/rdf+xml");
    void *memory;
    if (!size || size > ZN_METADATA_MAX || (!exif && !xmp))
        return ZN_OK;
    ZN_TRY(zn_alloc_for("the metadata of an image", size, &memory));
    const uint8_t *block = memory;
    zn_status status = ZN_OK;
    if (heif.heif_image_handle_get_metadata(r->handle, id, memory).code != heif_error_Ok) {
        /* left out */
    } else if (xmp) {
        status = zn_metadata_keep_xmp(out, block, size);
    } else if (size > 4) { /* offset of the TIFF header after this number, big-endian */
        const size_t at =
            4 + ((size_t)block[0] << 24 | (size_t)block[1] << 16 | (size_t)block[2] << 8 | (size_t)block[3]);
        if (at < size)
            status = zn_metadata_keep_exif(out, block + at, size - at);
    }
    zn_free(memory);
    return status;
}

zn_status zn_heif_find_metadata(const zn_source *source, zn_image_metadata *out)
{
    enum { MOST = 16 };
    reader r = { .source = source };
    heif_item_id ids[MOST];
    zn_status status = open_file(&r);
    const int count =
        status == ZN_OK ? heif.heif_image_handle_get_list_of_metadata_block_IDs(r.handle, NULL, ids, MOST) : 0;
    status = ZN_OK; /* a file that cannot be opened is reported by zn_heif_read */
    for (int i = 0; i < count && status == ZN_OK; i++)
        status = keep_block(&r, ids[i], out);
    close_file(&r);
    return status;
}

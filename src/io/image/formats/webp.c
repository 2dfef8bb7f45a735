/* WebP reader and writer. The extra chunks (profile, EXIF) are found by walking the container (riff.h). */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/animation/frames.h"
#include "io/image/format.h"
#include "io/image/formats/riff.h"
#include "io/image/metadata/exif.h"

#include <stdbool.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/encode.h>

static zn_status fail_read(const zn_source *s, VP8StatusCode code)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a WebP", s->name);
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a WebP with features this build does not know", s->name);
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged WebP: the file ends early, at byte %zu", s->name, s->size);
    default:
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged WebP: invalid bits", s->name);
    }
}

static zn_status read_first_frame(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
#ifdef ZN_WITH_WEBPDEMUX
    return zn_frames_first(zn_webp_frames, source, max_pixels, raster);
#else
    (void)max_pixels, (void)raster;
    return ZN_FAIL(ZN_EUNSUPPORTED,
                   "%s: animated WebP is not supported in this build; install libwebp-dev (libwebpdemux) and rebuild",
                   source->name);
#endif
}

zn_status zn_webp_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    enum { LOSSLESS = 2 }; /* of WebPBitstreamFeatures */
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: the WebP library is of another version", source->name);
    VP8StatusCode code = WebPGetFeatures(source->bytes, source->size, &config.input);
    if (code != VP8_STATUS_OK)
        return fail_read(source, code);
    if (config.input.has_animation)
        return read_first_frame(source, max_pixels, raster);
    ZN_TRY(zn_raster_check_size(source, config.input.width, config.input.height, max_pixels));
    const int channels = config.input.has_alpha ? 4 : 3;
    ZN_TRY(zn_raster_alloc(raster, config.input.width, config.input.height, 8, channels));
    config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = raster->pixels;
    config.output.u.RGBA.stride = raster->width * channels;
    config.output.u.RGBA.size = (size_t)raster->width * (size_t)channels * (size_t)raster->height;
    code = WebPDecode(source->bytes, source->size, &config);
    WebPFreeDecBuffer(&config.output);
    if (code != VP8_STATUS_OK)
        return fail_read(source, code);
    raster->tint = config.input.format != LOSSLESS; /* grey of YUV comes out as a green that is lower by one */
    size_t size;
    const uint8_t *chunk = zn_riff_find(source, "EXIF", &size);
    if (chunk)
        raster->orientation = zn_exif_orientation(chunk, size);
    chunk = zn_riff_find(source, "ICCP", &size);
    return chunk ? zn_raster_set_icc(raster, chunk, size) : ZN_OK;
}

static int on_bytes(const uint8_t *data, size_t size, const WebPPicture *picture)
{
    return zn_bytes_append(picture->custom_ptr, data, size);
}

/* The picture's samples into libwebp's own; false for lack of memory. */
static bool import_pixels(WebPPicture *picture, const zn_image *image, const zn_image *alpha)
{
    if (!alpha)
        return WebPPictureImportRGB(picture, image->pixels, image->width * 3);
    zn_raster joined;
    zn_image coloured = *image; /* WebP stores no grey */
    coloured.grey = 0;
    if (zn_raster_join(&coloured, alpha, &joined) != ZN_OK) {
        picture->error_code = VP8_ENC_ERROR_OUT_OF_MEMORY;
        return false;
    }
    const bool good = WebPPictureImportRGBA(picture, joined.pixels, image->width * 4);
    zn_raster_free(&joined);
    return good;
}

zn_status zn_webp_write(const zn_image *image, const zn_image_write_options *options, zn_bytes *out)
{
    _Static_assert(ZN_WEBP_SIDE == WEBP_MAX_DIMENSION, "what the format can hold");
    enum { EFFORT = 2, LOSSLESS_EFFORT = 0 }; /* more gains a few percent and takes several times as long */
    WebPConfig config;
    WebPPicture picture;
    if (!WebPConfigPreset(&config, WEBP_PRESET_DEFAULT, (float)options->quality) || !WebPPictureInit(&picture) ||
        (options->lossless && !WebPConfigLosslessPreset(&config, LOSSLESS_EFFORT)))
        return ZN_FAIL(ZN_EUNSUPPORTED, "the WebP library is of another version");
    config.method = options->lossless ? config.method : EFFORT;
    picture.use_argb = options->lossless != 0;
    picture.width = image->width;
    picture.height = image->height;
    picture.writer = on_bytes;
    picture.custom_ptr = out;
    zn_status status = ZN_OK;
    if (!import_pixels(&picture, image, options->alpha) || !WebPEncode(&config, &picture)) {
        const int memory = picture.error_code == VP8_ENC_ERROR_OUT_OF_MEMORY ||
                           picture.error_code == VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY ||
                           picture.error_code == VP8_ENC_ERROR_BAD_WRITE;
        status = memory ? ZN_FAIL(ZN_ENOMEM, "out of memory for writing a WebP")
                        : ZN_FAIL(ZN_EINVALID, "cannot write this as WebP (libwebp error %d)", picture.error_code);
    }
    WebPPictureFree(&picture);
    return status;
}

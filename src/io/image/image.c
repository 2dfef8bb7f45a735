/* The public functions of image.h: they choose a format and hand the bytes over. */
#include <zenith/image.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/format.h"
#include "io/image/metadata/metadata.h"
#include "io/image/pixels/pixels.h"

#include <stdbool.h>
#include <string.h>

zn_status zn_image_alloc(int64_t width, int64_t height, int bits, zn_image **out)
{
    *out = NULL;
    zn_raster pixels = { 0 };
    ZN_TRY(zn_raster_alloc(&pixels, width, height, bits, 3));
    zn_image *image = zn_alloc(sizeof *image);
    if (!image) {
        zn_raster_free(&pixels);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an image");
    }
    *image = (zn_image){ .width = pixels.width, .height = pixels.height, .bits = bits, .pixels = pixels.pixels };
    *out = image;
    return ZN_OK;
}

zn_status zn_image_new(int width, int height, int bits, zn_image **out)
{
    *out = NULL;
    if (width < 1 || height < 1)
        return ZN_FAIL(ZN_EINVALID, "an image cannot have %dx%d pixels", width, height);
    if (bits != 8 && bits != 16)
        return ZN_FAIL(ZN_EINVALID, "an image has 8 or 16 bits a sample, not %d", bits);
    ZN_TRY(zn_image_alloc(width, height, bits, out));
    memset((*out)->pixels, 0, (size_t)width * (size_t)height * 3 * (size_t)(bits / 8));
    return ZN_OK;
}

void zn_image_free(zn_image *image)
{
    if (image)
        zn_free(image->pixels);
    zn_free(image);
}

void zn_image_make_grey(zn_image *image)
{
    zn_pixels_make_grey(image, (zn_region){ 0, 0, image->width, image->height });
    image->grey = 1;
}

void zn_memory_free(void *bytes) { zn_free(bytes); }

/* Boxes of which the first, ftyp, names a kind of MP4, MOV or 3GP. Others are audio, or raw photos such as CR3. */
static bool is_mp4(const uint8_t *bytes)
{
    static const char brands[][5] = { "isom", "iso2", "iso3", "iso4", "iso5", "iso6", "mp41",
                                      "mp42", "avc1", "qt  ", "M4V ", "dash", "3gp",  "3g2" };
    bool is = false;
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
        is |= !memcmp(bytes + 8, brands[i], strlen(brands[i]));
    return is && !memcmp(bytes + 4, "ftyp", 4);
}

/* MP4 and MOV, Matroska and WebM (EBML), AVI. */
static bool is_video(const zn_source *source)
{
    const uint8_t *b = source->bytes;
    return source->size >= 12 &&
           (is_mp4(b) || !memcmp(b, "\x1a\x45\xdf\xa3", 4) || (!memcmp(b, "RIFF", 4) && !memcmp(b + 8, "AVI ", 4)));
}

/* The picture, or with `alpha` its alpha. */
static zn_status read_source(const zn_source *source, const zn_image_read_options *options, bool alpha, zn_image **out)
{
    static const zn_image_read_options defaults = { 0 };
    if (!options)
        options = &defaults;
    if (options->max_pixels < 0)
        return ZN_FAIL(ZN_EINVALID, "max_pixels is %lld", (long long)options->max_pixels);
    if (!source->size)
        return ZN_FAIL(ZN_EFORMAT, "%s: the file is empty", source->name);
    const zn_image_format *format = zn_format_of_bytes(source->bytes, source->size);
    if (!format && is_video(source))
        return ZN_FAIL(ZN_EFORMAT, "%s: a video, not an image", source->name);
    if (!format)
        return ZN_FAIL(ZN_EFORMAT, "%s: not an image of a known format (PNG, JPEG, WebP, HEIC, AVIF, TIFF, GIF, BMP)",
                       source->name);
    if (!format->read)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s is not supported in this build; install %s and rebuild", source->name,
                       format->title, format->package);
    zn_raster raster = { 0 };
    zn_status status = format->read(source, options->max_pixels ? options->max_pixels : ZN_IMAGE_MAX_PIXELS, &raster);
    if (status == ZN_OK)
        status = alpha ? zn_raster_alpha(&raster, out)
                       : zn_raster_finish(&raster, options->ignore_alpha ? NULL : options->background, out);
    zn_raster_free(&raster);
    return status;
}

zn_status zn_image_read_memory(const void *bytes, size_t size, const zn_image_read_options *options, zn_image **out)
{
    *out = NULL;
    const zn_source source = { bytes, size, "image in memory", NULL };
    return read_source(&source, options, false, out);
}

static zn_status read_file(const char *path, const zn_image_read_options *options, bool alpha, zn_image **out)
{
    *out = NULL;
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_source source = { map.bytes, map.size, path, NULL };
    const zn_status status = read_source(&source, options, alpha, out);
    zn_map_close(&map);
    return status;
}

zn_status zn_image_read(const char *path, const zn_image_read_options *options, zn_image **out)
{
    return read_file(path, options, false, out);
}

zn_status zn_image_read_alpha(const char *path, const zn_image_read_options *options, zn_image **out)
{
    return read_file(path, options, true, out);
}

/* Readers check the size of an image before they take memory for it, and refuse it here. */
int64_t zn_count_pixels(const void *bytes, size_t size)
{
    int64_t pixels = 0;
    const zn_source source = { bytes, size, "", &pixels };
    const zn_image_format *format = zn_format_of_bytes(bytes, size);
    zn_raster raster = { 0 };
    if (format && format->read)
        (void)!format->read(&source, 0, &raster);
    zn_raster_free(&raster);
    return pixels;
}

zn_status zn_image_probe(const char *path, zn_image_kind *out)
{
    *out = (zn_image_kind){ 0 };
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_source source = { map.bytes, map.size, path, NULL };
    const zn_image_format *format = zn_format_of_bytes(map.bytes, map.size);
    if (format)
        *out = (zn_image_kind){ .format = format->name,
                                .frames = format->count_frames ? format->count_frames(&source) : 1,
                                .bits = format->few_bits ? format->few_bits(&source) : 0 };
    zn_map_close(&map);
    return ZN_OK;
}

static zn_status check_image(const zn_image *image)
{
    if (!image || !image->pixels || image->width < 1 || image->height < 1 || (image->bits != 8 && image->bits != 16))
        return ZN_FAIL(ZN_EINVALID, "not a valid image to write");
    return ZN_OK;
}

static zn_status check_alpha(const zn_image_format *format, const zn_image *image, const zn_image *alpha)
{
    if (!alpha)
        return ZN_OK;
    ZN_TRY(check_image(alpha));
    if (!format->writes_alpha)
        return ZN_FAIL(ZN_EUNSUPPORTED, "a %s has no alpha", format->title);
    if (alpha->width != image->width || alpha->height != image->height || alpha->bits != image->bits)
        return ZN_FAIL(ZN_EINVALID, "the alpha is %dx%d of %d bits, the image %dx%d of %d", alpha->width, alpha->height,
                       alpha->bits, image->width, image->height, image->bits);
    return ZN_OK;
}

static zn_status check_size(const zn_image_format *format, int64_t width, int64_t height)
{
    if (format->side_most && (width > format->side_most || height > format->side_most))
        return ZN_FAIL(ZN_EINVALID, "%lldx%lld is too large for a %s, which has at most %d pixels a side; write a PNG",
                       (long long)width, (long long)height, format->title, format->side_most);
    return ZN_OK;
}

static zn_status to_8(const zn_image *image, zn_image **out)
{
    ZN_TRY(zn_image_alloc(image->width, image->height, 8, out));
    (*out)->grey = image->grey;
    zn_pixels_to_8(image->pixels, (*out)->pixels, (size_t)image->width * (size_t)image->height * 3);
    return ZN_OK;
}

/* A 16-bit image to a format of 8 bits. */
static zn_status write_8(const zn_image_format *format, const zn_image *image, const zn_image_write_options *options,
                         zn_bytes *out)
{
    zn_image_write_options chosen = *options;
    zn_image *narrow = NULL, *alpha = NULL;
    zn_status status = to_8(image, &narrow);
    if (status == ZN_OK && chosen.alpha)
        status = to_8(chosen.alpha, &alpha);
    chosen.alpha = alpha;
    if (status == ZN_OK)
        status = format->write(narrow, &chosen, out);
    zn_image_free(alpha);
    zn_image_free(narrow);
    return status;
}

static zn_status encode(const zn_image_format *format, const zn_image *image, const zn_image_write_options *options,
                        zn_bytes *out)
{
    enum { QUALITY = 92 };
    zn_image_write_options chosen = options ? *options : (zn_image_write_options){ 0 };
    if (chosen.quality < 0 || chosen.quality > 100)
        return ZN_FAIL(ZN_EINVALID, "a quality of %d is not in 1..100", chosen.quality);
    if (chosen.threads < 0)
        return ZN_FAIL(ZN_EINVALID, "%d threads: not a number from 0", chosen.threads);
    if (!chosen.quality)
        chosen.quality = QUALITY;
    ZN_TRY(check_image(image));
    ZN_TRY(check_size(format, image->width, image->height));
    ZN_TRY(check_alpha(format, image, chosen.alpha));
    zn_image honest = *image; /* colours are not lost where a caller drew them into a grey image */
    honest.grey = image->grey && zn_pixels_are_grey(image, 0);
    image = &honest;
    zn_status status;
    if (image->bits == 8 || format->writes_16)
        status = format->write(image, &chosen, out);
    else
        status = write_8(format, image, &chosen, out);
    return status == ZN_OK && chosen.metadata ? zn_metadata_attach(format, image, chosen.metadata, out) : status;
}

zn_status zn_image_write_memory(const char *name, const zn_image *image, const zn_image_write_options *options,
                                void **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    const zn_image_format *format = zn_format_of_name(name);
    if (!format || format->read_only)
        return ZN_FAIL(ZN_EINVALID, "'%s' is no image format; use png, jpeg or webp", name);
    if (!format->write)
        return ZN_FAIL(ZN_EUNSUPPORTED, "this build cannot write %s", format->title);
    zn_bytes out = { 0 };
    const zn_status status = encode(format, image, options, &out);
    if (status != ZN_OK) {
        zn_bytes_free(&out);
        return status;
    }
    *bytes = out.data;
    *size = out.size;
    return ZN_OK;
}

static zn_status write_file(const char *path, const zn_image_format *format, const zn_image *image,
                            const zn_image_write_options *options)
{
    zn_bytes out = { 0 };
    zn_status status = encode(format, image, options, &out);
    status = status == ZN_OK ? zn_file_write(path, out.data, out.size) : zn_fail_in_file(status, path);
    zn_bytes_free(&out);
    return status;
}

/* The format of a file to write. */
static zn_status find_format(const char *path, const zn_image_format **out)
{
    *out = zn_format_of_path(path);
    if (!*out || (*out)->read_only)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: the name of an image must end in .png, .jpg, .jpeg or .webp", path);
    if (!(*out)->write)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: this build cannot write %s", path, (*out)->title);
    return ZN_OK;
}

zn_status zn_image_check(const char *path, int64_t width, int64_t height, int bits)
{
    const zn_image_format *format;
    ZN_TRY(find_format(path, &format));
    if (bits == 16 && !format->writes_16)
        return ZN_FAIL(ZN_EUNSUPPORTED, "a %s has 8 bits a sample, not 16; write a PNG", format->title);
    return check_size(format, width, height);
}

zn_status zn_image_write(const char *path, const zn_image *image, const zn_image_write_options *options)
{
    const zn_image_format *format;
    ZN_TRY(find_format(path, &format));
    return write_file(path, format, image, options);
}

zn_status zn_image_write_as(const char *path, const char *name, const zn_image *image,
                            const zn_image_write_options *options)
{
    const zn_image_format *format = zn_format_of_name(name);
    if (!format || format->read_only)
        return ZN_FAIL(ZN_EINVALID, "%s: images are written as png, jpeg or webp, not '%s'", path, name);
    if (!format->write)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: this build cannot write %s", path, format->title);
    return write_file(path, format, image, options);
}

int zn_image_can_write(const char *path)
{
    const zn_image_format *format = zn_format_of_path(path);
    return format && format->write;
}

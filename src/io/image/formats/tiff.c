/* TIFF reader through libtiff: the first page. Grey and RGB of 8 and 16 bits in strips keep their samples; everything
 * else (palettes, tiles, planes, YCbCr, CMYK, 1 bit) goes through libtiff's own conversion to 8-bit RGBA. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/span.h"
#include "io/image/format.h"
#include "io/image/formats/library.h"
#include "io/image/metadata/metadata.h"

#include <string.h>
#include <tiffio.h>

#define CALLS(CALL)                                                                                                    \
    CALL(TIFFClientOpen)                                                                                               \
    CALL(TIFFClose)                                                                                                    \
    CALL(TIFFGetField)                                                                                                 \
    CALL(TIFFGetFieldDefaulted)                                                                                        \
    CALL(TIFFIsTiled)                                                                                                  \
    CALL(TIFFNumberOfDirectories)                                                                                      \
    CALL(TIFFRGBAImageOK)                                                                                              \
    CALL(TIFFReadRGBAImageOriented)                                                                                    \
    CALL(TIFFReadScanline)                                                                                             \
    CALL(TIFFScanlineSize64)                                                                                           \
    CALL(TIFFSetErrorHandler)                                                                                          \
    CALL(TIFFSetWarningHandler)
static struct {
    CALLS(ZN_LIBRARY_POINTER)
} tiff;
#define ENTRY(function) { #function, &tiff.function },
static const zn_library_call calls[] = { CALLS(ENTRY) };
static zn_library library = {
    .name = ZN_TIFF_LIBRARY, .calls = calls, .count = sizeof calls / sizeof *calls, .lock = PTHREAD_MUTEX_INITIALIZER
};

typedef struct reader {
    const zn_source *source;
    uint64_t at;
    TIFF *file;
    uint32_t width, height;
    uint16_t bits, channels, photometric, planes, orientation, format, extra; /* extra: the first one's kind */
    bool declares_alpha;
} reader;

static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t size)
{
    reader *r = handle;
    const uint64_t left = r->at < r->source->size ? r->source->size - r->at : 0;
    const tmsize_t n = (uint64_t)size < left ? size : (tmsize_t)left;
    memcpy(to, r->source->bytes + r->at, (size_t)n);
    r->at += (uint64_t)n;
    return n;
}

static tmsize_t write_bytes(thandle_t handle, void *from, tmsize_t size)
{
    (void)handle, (void)from, (void)size;
    return 0;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence)
{
    reader *r = handle;
    r->at = whence == SEEK_CUR ? r->at + offset : whence == SEEK_END ? r->source->size + offset : offset;
    r->at = r->at > r->source->size ? r->source->size : r->at;
    return r->at;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size_of(thandle_t handle) { return ((reader *)handle)->source->size; }

static int map(thandle_t handle, void **base, toff_t *size)
{
    const zn_source *s = ((reader *)handle)->source;
    *base = (void *)s->bytes; /* read only: the file is opened for reading */
    *size = s->size;
    return 1;
}

static void unmap(thandle_t handle, void *base, toff_t size) { (void)handle, (void)base, (void)size; }

static zn_status damaged(const reader *r, const char *what)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: damaged TIFF: %s", r->source->name, what);
}

static zn_status open_file(reader *r)
{
    ZN_TRY(zn_library_open(&library, r->source->name, "TIFF"));
    tiff.TIFFSetErrorHandler(NULL); /* it would print */
    tiff.TIFFSetWarningHandler(NULL);
    /* Uncompressed pixels are taken where they lie: without a map, libtiff 4.5.0 refuses uncompressed tiles. */
    r->file =
        tiff.TIFFClientOpen(r->source->name, "r", r, read_bytes, write_bytes, seek, close_nothing, size_of, map, unmap);
    if (!r->file)
        return damaged(r, "no directory");
    return ZN_OK;
}

static zn_status read_head(reader *r, int64_t max_pixels)
{
    if (!tiff.TIFFGetField(r->file, TIFFTAG_IMAGEWIDTH, &r->width) ||
        !tiff.TIFFGetField(r->file, TIFFTAG_IMAGELENGTH, &r->height) ||
        !tiff.TIFFGetField(r->file, TIFFTAG_PHOTOMETRIC, &r->photometric))
        return damaged(r, "no size or no colours");
    ZN_TRY(zn_raster_check_size(r->source, r->width, r->height, max_pixels));
    const uint16_t *extras;
    uint16_t extra_count;
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_BITSPERSAMPLE, &r->bits);
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_SAMPLESPERPIXEL, &r->channels);
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_PLANARCONFIG, &r->planes);
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_ORIENTATION, &r->orientation);
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_SAMPLEFORMAT, &r->format);
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_EXTRASAMPLES, &extra_count, &extras);
    r->extra = extra_count ? extras[0] : EXTRASAMPLE_UNSPECIFIED;
    for (int i = 0; i < extra_count; i++)
        r->declares_alpha |= extras[i] == EXTRASAMPLE_ASSOCALPHA || extras[i] == EXTRASAMPLE_UNASSALPHA;
    /* The best compression, fax coding of white, makes some 2500 bytes out of one. */
    const uint64_t bytes = (uint64_t)r->width * r->height / 8 * r->bits * r->channels;
    if (bytes / (1 << 14) > r->source->size)
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged TIFF: %zu bytes cannot hold %ux%u pixels", r->source->name,
                       r->source->size, r->width, r->height);
    return ZN_OK;
}

/* Can samples be taken as they are stored? */
static bool is_plain(const reader *r)
{
    const int colours = r->photometric == PHOTOMETRIC_RGB ? 3 : 1;
    const bool alpha = r->channels == colours + 1 && r->extra == EXTRASAMPLE_UNASSALPHA;
    const bool known = r->photometric == PHOTOMETRIC_RGB || r->photometric == PHOTOMETRIC_MINISBLACK ||
                       r->photometric == PHOTOMETRIC_MINISWHITE;
    return known && (r->channels == colours || alpha) && (r->bits == 8 || r->bits == 16) &&
           r->planes == PLANARCONFIG_CONTIG && r->format == SAMPLEFORMAT_UINT && !tiff.TIFFIsTiled(r->file) &&
           tiff.TIFFScanlineSize64(r->file) == (uint64_t)r->width * r->channels * r->bits / 8;
}

/* White is 0 in scans of paper. */
static void invert(void *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)row)[i] = (uint8_t) ~((uint8_t *)row)[i];
}

static zn_status read_plain(reader *r, zn_raster *raster)
{
    ZN_TRY(zn_raster_alloc(raster, r->width, r->height, r->bits, r->channels));
    for (uint32_t y = 0; y < r->height; y++) {
        void *row = zn_raster_row(raster, y);
        if (tiff.TIFFReadScanline(r->file, row, y, 0) != 1)
            return damaged(r, "pixels are missing or cannot be unpacked");
        if (r->photometric == PHOTOMETRIC_MINISWHITE && r->channels == 1)
            invert(row, (size_t)r->width * r->bits / 8);
    }
    return ZN_OK;
}

/* libtiff gives colours multiplied by alpha; in a raster they are not. */
static void divide_by_alpha(uint8_t *rgba, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, rgba += 4)
        for (int c = 0; c < 3 && rgba[3] && rgba[3] < 255; c++) {
            const unsigned v = (rgba[c] * 255u + rgba[3] / 2u) / rgba[3];
            rgba[c] = (uint8_t)(v < 255 ? v : 255);
        }
}

/* libtiff gives every pixel an alpha: 255 where the file has none. It takes some samples that are not declared as alpha
 * for it too, and those that make no pixel transparent are not. */
static bool has_alpha(const reader *r, const zn_raster *raster)
{
    const uint8_t *rgba = raster->pixels;
    const size_t bytes = 4 * (size_t)raster->width * (size_t)raster->height;
    for (size_t i = 3; i < bytes && !r->declares_alpha; i += 4)
        if (rgba[i] < 255)
            return true;
    return r->declares_alpha;
}

static void drop_alpha(zn_raster *raster)
{
    uint8_t *p = raster->pixels;
    const size_t pixels = (size_t)raster->width * (size_t)raster->height;
    for (size_t i = 1; i < pixels; i++)
        for (int c = 0; c < 3; c++)
            p[3 * i + c] = p[4 * i + c];
    raster->channels = 3;
}

static zn_status read_converted(reader *r, zn_raster *raster)
{
    char why[1024] = "";
    if (!tiff.TIFFRGBAImageOK(r->file, why))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: cannot read this TIFF: %.200s", r->source->name, why);
    ZN_TRY(zn_raster_alloc(raster, r->width, r->height, 8, 4));
    /* Asked for the orientation that it has, libtiff leaves rows and columns alone: zn_raster_finish turns them. */
    if (!tiff.TIFFReadRGBAImageOriented(r->file, r->width, r->height, raster->pixels, r->orientation, 1))
        return damaged(r, "pixels are missing or cannot be unpacked");
    if (has_alpha(r, raster))
        divide_by_alpha(raster->pixels, (size_t)r->width * r->height);
    else
        drop_alpha(raster);
    return ZN_OK;
}

zn_status zn_tiff_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    reader r = { .source = source };
    uint32_t icc_size = 0;
    const void *icc = NULL;
    zn_status status;
    ZN_TRY(open_file(&r));
    ZN_TRY_DONE(read_head(&r, max_pixels));
    ZN_TRY_DONE(is_plain(&r) ? read_plain(&r, raster) : read_converted(&r, raster));
    raster->orientation = r.orientation;
    /* libtiff's conversion of inks has left the colours of the profile */
    if (r.photometric != PHOTOMETRIC_SEPARATED && tiff.TIFFGetField(r.file, TIFFTAG_ICCPROFILE, &icc_size, &icc))
        status = zn_raster_set_icc(raster, icc, icc_size);
done:
    tiff.TIFFClose(r.file);
    return status;
}

int zn_tiff_count_pages(const zn_source *source)
{
    reader r = { .source = source };
    if (open_file(&r) != ZN_OK)
        return 1; /* zn_tiff_read reports it */
    const int pages = (int)tiff.TIFFNumberOfDirectories(r.file);
    tiff.TIFFClose(r.file);
    return pages > 1 ? pages : 1;
}

int zn_tiff_few_bits(const zn_source *source)
{
    reader r = { .source = source };
    if (open_file(&r) != ZN_OK)
        return 0;
    const bool grey = tiff.TIFFGetField(r.file, TIFFTAG_PHOTOMETRIC, &r.photometric) &&
                      (r.photometric == PHOTOMETRIC_MINISWHITE || r.photometric == PHOTOMETRIC_MINISBLACK);
    (void)tiff.TIFFGetFieldDefaulted(r.file, TIFFTAG_BITSPERSAMPLE, &r.bits);
    tiff.TIFFClose(r.file);
    return grey && r.bits < 8 ? r.bits : 0;
}

static void find_density(const reader *r, zn_image_metadata *out)
{
    float x = 0, y = 0;
    uint16_t unit = RESUNIT_INCH;
    (void)tiff.TIFFGetFieldDefaulted(r->file, TIFFTAG_RESOLUTIONUNIT, &unit);
    if (unit != RESUNIT_NONE && tiff.TIFFGetField(r->file, TIFFTAG_XRESOLUTION, &x) &&
        tiff.TIFFGetField(r->file, TIFFTAG_YRESOLUTION, &y))
        zn_metadata_keep_density(out, x, y, unit == RESUNIT_CENTIMETER ? 2.54 : 1);
}

/* The EXIF of a TIFF is not a block but spread over the file: only XMP and the density are taken. */
zn_status zn_tiff_find_metadata(const zn_source *source, zn_image_metadata *out)
{
    reader r = { .source = source };
    uint32_t size = 0;
    const void *xmp = NULL;
    zn_status status = ZN_OK;
    if (open_file(&r) != ZN_OK)
        return ZN_OK; /* zn_tiff_read reports it */
    if (tiff.TIFFGetField(r.file, TIFFTAG_XMLPACKET, &size, &xmp))
        status = zn_metadata_keep_xmp(out, xmp, size);
    find_density(&r, out);
    tiff.TIFFClose(r.file);
    return status;
}

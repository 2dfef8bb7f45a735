/* PNG reader. libpng reports errors by longjmp: everything it may leave behind is in a struct that the frame
 * below setjmp owns, so a jump loses nothing. The header and the lengths of all chunks are checked here before libpng
 * sees the file, because it takes memory for what they claim. Compressed text is skipped unread and profiles have a
 * size limit: no bombs. */
#include "base/fail.h"
#include "io/image/format.h"
#include "io/image/formats/png.h"
#include "io/image/formats/png_host.h"
#include "io/image/metadata/exif.h"

#include <math.h>
#include <string.h>

typedef struct reader {
    const zn_source *source;
    zn_raster *raster;
    zn_png_text_fn on_text; /* for stored samples; NULL in both cases if nobody asks */
    void *user;
    int stored;
    size_t at; /* bytes of source consumed */
    png_structp png;
    png_infop info;
    zn_png_host host;
} reader;

static void read_bytes(png_structp png, png_bytep to, size_t size)
{
    reader *r = png_get_io_ptr(png);
    if (size > r->source->size - r->at) {
        r->at = r->source->size;
        png_error(png, "the file ends early");
    }
    memcpy(to, r->source->bytes + r->at, size);
    r->at += size;
}

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* signature (8) | length 13 (4) "IHDR" | width (4) height (4) depth (1) type (1) ... */
static zn_status check_header(const zn_source *s, int64_t max_pixels)
{
    if (s->size < 33 || big32(s->bytes + 8) != 13 || memcmp(s->bytes + 12, "IHDR", 4))
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged PNG: no IHDR chunk at byte 8", s->name);
    const int64_t width = big32(s->bytes + 16), height = big32(s->bytes + 20);
    ZN_TRY(zn_raster_check_size(s, width, height, max_pixels));
    const int depth = s->bytes[24], type = s->bytes[25];
    const int samples = type == PNG_COLOR_TYPE_RGB          ? 3
                        : type == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
                        : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                                            : 1;
    if (depth < 1 || depth > 16)
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged PNG: %d bits a sample", s->name, depth);
    /* Deflate makes at most 1032 bytes out of one. */
    if ((uint64_t)(width * height) / 1032 > (uint64_t)s->size * 8 / (uint64_t)(depth * samples) + 1)
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged PNG: %zu bytes cannot hold %lldx%lld pixels", s->name, s->size,
                       (long long)width, (long long)height);
    return ZN_OK;
}

/* libpng takes memory for what a chunk claims before it looks whether the file is that long.
 * length (4) | name (4) | data | checksum (4) */
static zn_status check_chunks(const zn_source *s)
{
    size_t at = 8;
    while (s->size - at >= 12) {
        const size_t length = big32(s->bytes + at);
        if (length > s->size - at - 12)
            return ZN_FAIL(ZN_EFORMAT, "%s: damaged PNG: the file ends early, in the chunk '%.4s' at byte %zu", s->name,
                           (const char *)s->bytes + at + 4, at);
        if (!memcmp(s->bytes + at + 4, "IEND", 4))
            return ZN_OK;
        at += 12 + length;
    }
    return ZN_FAIL(ZN_EFORMAT, "%s: damaged PNG: the file ends early, at byte %zu without an IEND chunk", s->name,
                   s->size);
}

/* Chunks nobody here needs are not even unpacked. */
static void skip_chunks(const reader *r)
{
    static const png_byte needless[] = "bKGD\0hIST\0iTXt\0oFFs\0pCAL\0pHYs\0sCAL\0sPLT\0tIME\0zTXt\0";
    static const png_byte colours[] = "cHRM\0eXIf\0gAMA\0iCCP\0sRGB\0";
    static const png_byte text[] = "tEXt\0";
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, needless, (int)(sizeof needless - 1) / 5);
    if (r->stored)
        png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, colours, (int)(sizeof colours - 1) / 5);
    if (!r->on_text)
        png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, text, 1);
    png_set_chunk_cache_max(r->png, 64);
    png_set_chunk_malloc_max(r->png, 8 << 20);
    png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
}

/* Chunks before the pixels; sets the conversions that give 8 or 16 bits of grey, RGB and alpha. */
static zn_status start(reader *r)
{
    png_read_info(r->png, r->info);
    if (!r->stored) {
        png_charp name;
        png_bytep profile;
        png_uint_32 size;
        int compression;
        double gamma;
        if (png_get_iCCP(r->png, r->info, &name, &compression, &profile, &size))
            ZN_TRY(zn_raster_set_icc(r->raster, profile, size));
        else if (!png_get_valid(r->png, r->info, PNG_INFO_sRGB) && png_get_gAMA(r->png, r->info, &gamma) &&
                 fabs(gamma * 2.2 - 1) > 0.05 && gamma > 0.1 && gamma < 10)
            r->raster->gamma = gamma;
    }
    const int one = 1;
    png_set_expand(r->png);
    if (png_get_bit_depth(r->png, r->info) == 16 && *(const char *)&one)
        png_set_swap(r->png);
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    return zn_raster_alloc(r->raster, png_get_image_width(r->png, r->info), png_get_image_height(r->png, r->info),
                           png_get_bit_depth(r->png, r->info), png_get_channels(r->png, r->info));
}

static void finish(reader *r)
{
    png_read_end(r->png, r->info);
    png_uint_32 size;
    png_bytep exif;
    if (!r->stored && png_get_eXIf_1(r->png, r->info, &size, &exif))
        r->raster->orientation = zn_exif_orientation(exif, size);
    png_textp text;
    const int count = r->on_text ? png_get_text(r->png, r->info, &text, NULL) : 0;
    for (int i = 0; i < count; i++)
        if (text[i].compression == PNG_TEXT_COMPRESSION_NONE)
            r->on_text(r->user, text[i].key, text[i].text);
}

static zn_status decode(reader *r)
{
    if (setjmp(png_jmpbuf(r->png))) {
        if (r->host.no_memory)
            return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a PNG", r->source->name);
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged PNG near byte %zu: %s", r->source->name, r->at, r->host.message);
    }
    skip_chunks(r);
    png_set_read_fn(r->png, r, read_bytes);
    ZN_TRY(start(r));
    const int passes = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_ADAM7 ? PNG_INTERLACE_ADAM7_PASSES : 1;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < r->raster->height; y++)
            png_read_row(r->png, zn_raster_row(r->raster, y), NULL);
    finish(r);
    /* libpng goes on without what it had no memory for, a profile for instance; the caller asked for all of it. */
    return r->host.no_memory ? ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a PNG", r->source->name) : ZN_OK;
}

static zn_status read_png(reader *r, int64_t max_pixels)
{
    ZN_TRY(check_header(r->source, max_pixels));
    ZN_TRY(check_chunks(r->source));
    zn_status status;
    r->png = png_create_read_struct_2(ZN_PNG_HOST(&r->host));
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (r->info)
        status = decode(r);
    else
        status = ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a PNG", r->source->name);
    png_destroy_read_struct(&r->png, &r->info, NULL);
    return status;
}

zn_status zn_png_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    reader r = { .source = source, .raster = raster };
    return read_png(&r, max_pixels);
}

zn_status zn_png_read_stored(const zn_source *source, int64_t max_pixels, zn_png_text_fn on_text, void *user,
                             zn_raster *raster)
{
    reader r = { .source = source, .raster = raster, .on_text = on_text, .user = user, .stored = 1 };
    return read_png(&r, max_pixels);
}

/* The list of image formats. A new one needs its file, its CMake line and an entry here. */
#include "io/image/format.h"

#include <ctype.h>
#include <string.h>

#ifdef ZN_WITH_PNG
#define PNG(function) function
#else
#define PNG(function) NULL
#endif
#ifdef ZN_WITH_JPEG
#define JPEG(function) function
#else
#define JPEG(function) NULL
#endif
#ifdef ZN_WITH_WEBP
#define WEBP(function) function
#else
#define WEBP(function) NULL
#endif

#ifdef ZN_WITH_WEBPDEMUX
#define WEBPDEMUX(function) function
#else
#define WEBPDEMUX(function) NULL
#endif
#ifdef ZN_WITH_HEIF
#define HEIF(function) function
#else
#define HEIF(function) NULL
#endif
#ifdef ZN_WITH_TIFF
#define TIFF(function) function
#else
#define TIFF(function) NULL
#endif
#ifdef ZN_WITH_GIF
#define GIF(function) function
#else
#define GIF(function) NULL
#endif

static bool is_png(const uint8_t *bytes, size_t size) { return size >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8); }
static bool is_jpeg(const uint8_t *bytes, size_t size) { return size >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3); }

static bool is_webp(const uint8_t *bytes, size_t size)
{
    return size >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4);
}

static bool is_gif(const uint8_t *bytes, size_t size)
{
    return size >= 6 && (!memcmp(bytes, "GIF87a", 6) || !memcmp(bytes, "GIF89a", 6));
}

/* The first directory cannot be at 0, where a safetensors file with a header of such a length has zeros. */
static bool is_tiff(const uint8_t *bytes, size_t size)
{
    return size >= 8 && memcmp(bytes + 4, "\0\0\0\0", 4) &&
           (!memcmp(bytes, "II*\0", 4) || !memcmp(bytes, "MM\0*", 4) || !memcmp(bytes, "II+\0", 4) ||
            !memcmp(bytes, "MM\0+", 4));
}

/* "BM" begins many a text: the reserved bytes and a header of a known size must follow. */
static bool is_bmp(const uint8_t *bytes, size_t size)
{
    return size >= 18 && !memcmp(bytes, "BM", 2) && !memcmp(bytes + 6, "\0\0\0\0", 4) && bytes[14] >= 12 &&
           !memcmp(bytes + 15, "\0\0\0", 3);
}

/* size (4) | "ftyp" | major brand (4) | version (4) | compatible brands (4 each)... */
static bool has_brand(const uint8_t *bytes, size_t size, const char *brands)
{
    if (size < 16 || memcmp(bytes + 4, "ftyp", 4))
        return false;
    const size_t box = (size_t)bytes[2] << 8 | bytes[3], end = box < size ? box : size;
    for (size_t at = 8; at + 4 <= end; at += at == 8 ? 8 : 4)
        for (const char *b = brands; *b; b += 4)
            if (!memcmp(bytes + at, b, 4))
                return true;
    return false;
}

static bool is_avif(const uint8_t *bytes, size_t size) { return has_brand(bytes, size, "avifavis"); }
static bool is_heic(const uint8_t *bytes, size_t size)
{
    return has_brand(bytes, size, "heicheixhevchevxheimheishevmhevsmif1msf1");
}

const zn_image_format zn_image_formats[] = {
    { .name = "png",
      .title = "PNG",
      .extensions = { "png" },
      .package = "libpng-dev",
      .probe = is_png,
      .read = PNG(zn_png_read),
      .write = PNG(zn_png_write),
      .count_frames = zn_png_count_frames,
      .few_bits = zn_png_few_bits,
      .frames = PNG(zn_png_frames),
      .find_metadata = zn_png_find_metadata,
      .put_metadata = zn_png_put_metadata,
      .writes_16 = 1,
      .writes_alpha = 1,
      .writes_text = 1 },
    { .name = "jpeg",
      .title = "JPEG",
      .extensions = { "jpg", "jpeg" },
      .package = "libjpeg-dev",
      .probe = is_jpeg,
      .read = JPEG(zn_jpeg_read),
      .write = JPEG(zn_jpeg_write),
      .find_metadata = zn_jpeg_find_metadata,
      .put_metadata = zn_jpeg_put_metadata,
      .side_most = ZN_JPEG_SIDE },
    { .name = "webp",
      .title = "WebP",
      .extensions = { "webp" },
      .package = "libwebp-dev",
      .probe = is_webp,
      .read = WEBP(zn_webp_read),
      .write = WEBP(zn_webp_write),
      .count_frames = zn_webp_count_frames,
      .frames = WEBPDEMUX(zn_webp_frames),
      .find_metadata = zn_webp_find_metadata,
      .put_metadata = zn_webp_put_metadata,
      .side_most = ZN_WEBP_SIDE,
      .writes_alpha = 1 },
    { .name = "avif", /* before HEIC: their files share brands */
      .title = "AVIF",
      .extensions = { "avif" },
      .package = "libheif-dev",
      .probe = is_avif,
      .read = HEIF(zn_heif_read),
      .find_metadata = HEIF(zn_heif_find_metadata),
      .read_only = 1 },
    { .name = "heic",
      .title = "HEIC",
      .extensions = { "heic", "heif" },
      .package = "libheif-dev",
      .probe = is_heic,
      .read = HEIF(zn_heif_read),
      .find_metadata = HEIF(zn_heif_find_metadata),
      .read_only = 1 },
    { .name = "tiff",
      .title = "TIFF",
      .extensions = { "tif", "tiff" },
      .package = "libtiff-dev",
      .probe = is_tiff,
      .read = TIFF(zn_tiff_read),
      .count_frames = TIFF(zn_tiff_count_pages),
      .few_bits = TIFF(zn_tiff_few_bits),
      .find_metadata = TIFF(zn_tiff_find_metadata),
      .read_only = 1 },
    { .name = "gif",
      .title = "GIF",
      .extensions = { "gif" },
      .package = "libgif-dev",
      .probe = is_gif,
      .read = GIF(zn_gif_read),
      .count_frames = zn_gif_count_frames,
      .frames = GIF(zn_gif_frames),
      .read_only = 1 },
    { .name = "bmp", .title = "BMP", .extensions = { "bmp" }, .probe = is_bmp, .read = zn_bmp_read, .read_only = 1 },
    { .name = NULL },
};

const zn_image_format *zn_format_of_bytes(const uint8_t *bytes, size_t size)
{
    for (const zn_image_format *f = zn_image_formats; f->name; f++)
        if (f->probe(bytes, size))
            return f;
    return NULL;
}

static bool same_word(const char *word, const char *lower)
{
    while (*word && tolower((unsigned char)*word) == *lower)
        word++, lower++;
    return !*word && !*lower;
}

const zn_image_format *zn_format_of_path(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (!dot || strchr(dot, '/'))
        return NULL;
    for (const zn_image_format *f = zn_image_formats; f->name; f++)
        for (int i = 0; f->extensions[i]; i++)
            if (same_word(dot + 1, f->extensions[i]))
                return f;
    return NULL;
}

const zn_image_format *zn_format_of_name(const char *name)
{
    for (const zn_image_format *f = zn_image_formats; f->name; f++)
        if (!strcmp(name, f->name))
            return f;
    return NULL;
}

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

static bool is_png(const uint8_t *bytes, size_t size) { return size >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8); }
static bool is_jpeg(const uint8_t *bytes, size_t size) { return size >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3); }

static bool is_webp(const uint8_t *bytes, size_t size)
{
    return size >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4);
}

const zn_image_format zn_image_formats[] = {
    { .name = "png",
      .title = "PNG",
      .extensions = { "png" },
      .probe = is_png,
      .read = PNG(zn_png_read),
      .write = PNG(zn_png_write),
      .find_metadata = zn_png_find_metadata,
      .put_metadata = zn_png_put_metadata,
      .writes_16 = 1,
      .writes_alpha = 1 },
    { .name = "jpeg",
      .title = "JPEG",
      .extensions = { "jpg", "jpeg" },
      .probe = is_jpeg,
      .read = JPEG(zn_jpeg_read),
      .write = JPEG(zn_jpeg_write),
      .find_metadata = zn_jpeg_find_metadata,
      .put_metadata = zn_jpeg_put_metadata },
    { .name = "webp",
      .title = "WebP",
      .extensions = { "webp" },
      .probe = is_webp,
      .read = WEBP(zn_webp_read),
      .write = WEBP(zn_webp_write),
      .find_metadata = zn_webp_find_metadata,
      .put_metadata = zn_webp_put_metadata,
      .writes_alpha = 1 },
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

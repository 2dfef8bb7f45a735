/* Shared by the image targets: read the image, read every byte of the result, check the size limit. */
#ifndef FUZZ_IMAGE_H
#define FUZZ_IMAGE_H

#include "io/image/metadata/metadata.h"

#include <stdlib.h>
#include <string.h>
#include <zenith/image.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Metadata that was found can be written with any image, and is found again in every format that holds it. */
static inline void fuzz_metadata(const uint8_t *data, size_t size)
{
    const zn_source source = { data, size, "fuzz", NULL };
    zn_image_metadata found, again;
    zn_image *image;
    if (zn_metadata_find(&source, &found) != ZN_OK || zn_image_new(2, 1, 8, &image) != ZN_OK)
        abort();
    static const char *const formats[] = { "png", "jpeg", "webp" };
    for (int i = 0; i < 3 && (found.exif || found.xmp || found.parameters); i++) {
        const zn_image_write_options options = { .metadata = &found };
        zn_source file = { .name = "fuzz" };
        void *bytes;
        if (zn_image_write_memory(formats[i], image, &options, &bytes, &file.size) != ZN_OK)
            abort();
        file.bytes = bytes;
        if (zn_metadata_find(&file, &again) != ZN_OK || (i != 1 && found.exif && again.exif_size != found.exif_size))
            abort();
        zn_image_metadata_free(&again);
        zn_memory_free(bytes);
    }
    zn_image_metadata_free(&found);
    zn_image_free(image);
}

/* Converts the first frames of an animation to images. */
static inline void fuzz_frames(const zn_image_format *format, const uint8_t *data, size_t size, int64_t max_pixels)
{
    enum { MOST = 16 };
    const zn_source source = { data, size, "fuzz", NULL };
    zn_frames *frames;
    if (!format->frames || format->frames(&source, max_pixels, &frames) != ZN_OK)
        return;
    zn_raster *canvas;
    for (int i = 0; i < MOST && frames->next(frames, &canvas) == ZN_OK && canvas; i++) {
        zn_image *image = NULL;
        if (canvas->bits != 8 || canvas->channels != 4 || zn_raster_finish(canvas, NULL, &image) != ZN_OK)
            abort();
        zn_image_free(image);
    }
    frames->close(frames);
}

/* Returns -1 (leave out of the corpus) for bytes of another format. */
static inline int fuzz_image(const char *name, const uint8_t *data, size_t size)
{
    enum { MAX_PIXELS = 1 << 16 };
    const zn_image_format *format = zn_format_of_bytes(data, size);
    if (!format || strcmp(format->name, name))
        return -1;
    fuzz_metadata(data, size);
    fuzz_frames(format, data, size, MAX_PIXELS);
    const zn_image_read_options options = { .background = { 10, 20, 30 }, .max_pixels = MAX_PIXELS };
    zn_image *image = NULL;
    const zn_status status = zn_image_read_memory(data, size, &options, &image);
    if ((status == ZN_OK) != (image != NULL) || !zn_error_text()[0])
        abort();
    if (!image)
        return 0;
    if (image->width < 1 || image->height < 1 || (int64_t)image->width * image->height > MAX_PIXELS ||
        (image->bits != 8 && image->bits != 16))
        abort();
    zn_image_difference d; /* reads the whole image */
    if (zn_image_compare(image, image, &d) != ZN_OK || d.max_difference != 0)
        abort();
    zn_image_free(image);
    return 0;
}

#endif

/* The public functions for animated images: any image file is a sequence of one frame or more. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/animation/frames.h"
#include "io/image/format.h"

#include <string.h>

struct zn_animation {
    zn_map map;
    char *path;
    zn_source source;
    zn_image_read_options options;
    zn_frames *frames; /* NULL: a still image */
    bool ended;
};

/* Whether all frames can be had one by one; still images are read in the usual way. */
static bool is_animated(const zn_image_format *f, const zn_source *s)
{
    return f && f->frames && f->count_frames && f->count_frames(s) > 1;
}

zn_status zn_animation_open(const char *path, const zn_image_read_options *options, zn_animation **out)
{
    *out = NULL;
    zn_animation *a = zn_calloc(1, sizeof *a);
    if (!a || !(a->path = zn_strdup(path))) {
        zn_free(a);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an animation");
    }
    a->options = options ? *options : (zn_image_read_options){ 0 };
    zn_status status = zn_map_open(&a->map, path);
    a->source = (zn_source){ a->map.bytes, a->map.size, a->path, NULL };
    const zn_image_format *format = status == ZN_OK ? zn_format_of_bytes(a->map.bytes, a->map.size) : NULL;
    if (is_animated(format, &a->source))
        status =
            format->frames(&a->source, a->options.max_pixels ? a->options.max_pixels : ZN_IMAGE_MAX_PIXELS, &a->frames);
    if (status == ZN_OK)
        *out = a;
    else
        zn_animation_close(a);
    return status;
}

zn_status zn_animation_next(zn_animation *a, zn_image **out)
{
    *out = NULL;
    if (a->ended)
        return ZN_OK;
    if (!a->frames) {
        a->ended = true;
        return zn_image_read(a->path, &a->options, out);
    }
    zn_raster *canvas;
    ZN_TRY(a->frames->next(a->frames, &canvas));
    a->ended = !canvas;
    return canvas ? zn_raster_finish(canvas, a->options.ignore_alpha ? NULL : a->options.background, out) : ZN_OK;
}

void zn_animation_close(zn_animation *a)
{
    if (!a)
        return;
    if (a->frames)
        a->frames->close(a->frames);
    zn_map_close(&a->map);
    zn_free(a->path);
    zn_free(a);
}

/* Frames of animated images: what the formats share. */
#include "io/image/frames.h"

#include "base/fail.h"

#include <stdbool.h>
#include <string.h>

static bool is_opaque(const zn_raster *r)
{
    const size_t pixels = (size_t)r->width * (size_t)r->height;
    for (size_t i = 0; i < pixels; i++)
        if (((const uint8_t *)r->pixels)[i * 4 + 3] != 255)
            return false;
    return true;
}

/* RGB where nothing is transparent: then the result has no alpha either. */
static zn_status copy(const zn_raster *canvas, zn_raster *raster)
{
    const size_t channels = is_opaque(canvas) ? 3 : 4, pixels = (size_t)canvas->width * (size_t)canvas->height;
    ZN_TRY(zn_raster_alloc(raster, canvas->width, canvas->height, 8, (int)channels));
    for (size_t i = 0; i < pixels; i++)
        memcpy((uint8_t *)raster->pixels + i * channels, (const uint8_t *)canvas->pixels + i * 4, channels);
    return ZN_OK;
}

zn_status zn_frames_first(zn_frames_open *open, const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    zn_frames *frames;
    const zn_raster *canvas;
    ZN_TRY(open(source, max_pixels, &frames));
    zn_status status = frames->next(frames, &canvas);
    if (status == ZN_OK)
        status = canvas ? copy(canvas, raster) : ZN_FAIL(ZN_EFORMAT, "%s: there is no image in it", source->name);
    frames->close(frames);
    return status;
}

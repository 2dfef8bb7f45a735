/* Frames of animated images: what the formats share. */
#include "io/image/animation/frames.h"

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
    raster->tint = canvas->tint;
    return canvas->icc ? zn_raster_set_icc(raster, canvas->icc, canvas->icc_size) : ZN_OK;
}

zn_status zn_frames_first(zn_frames_open *open, const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    zn_frames *frames;
    zn_raster *canvas;
    ZN_TRY(open(source, max_pixels, &frames));
    zn_status status = frames->next(frames, &canvas);
    if (status == ZN_OK)
        status = canvas ? copy(canvas, raster) : ZN_FAIL(ZN_EFORMAT, "%s: there is no image in it", source->name);
    frames->close(frames);
    return status;
}

/* ---- the canvas ---- */

static size_t bytes_of(const zn_raster *r) { return (size_t)r->width * (size_t)r->height * 4; }

zn_status zn_canvas_alloc(zn_canvas *c, int width, int height)
{
    ZN_TRY(zn_raster_alloc(&c->pixels, width, height, 8, 4));
    memset(c->pixels.pixels, 0, bytes_of(&c->pixels));
    return ZN_OK;
}

void zn_canvas_free(zn_canvas *c)
{
    zn_raster_free(&c->pixels);
    zn_raster_free(&c->saved);
}

uint8_t *zn_canvas_at(const zn_canvas *c, int64_t x, int64_t y)
{
    if (c->left + x >= c->pixels.width || c->top + y >= c->pixels.height)
        return NULL;
    return (uint8_t *)zn_raster_row(&c->pixels, c->top + y) + (size_t)(c->left + x) * 4;
}

static void dispose(zn_canvas *c)
{
    if (c->disposal == ZN_DISPOSE_RESTORE)
        memcpy(c->pixels.pixels, c->saved.pixels, bytes_of(&c->pixels));
    const int64_t columns = c->pixels.width - c->left < c->width ? c->pixels.width - c->left : c->width;
    for (int64_t y = 0; c->disposal == ZN_DISPOSE_CLEAR && columns > 0 && y < c->height; y++) {
        uint8_t *row = zn_canvas_at(c, 0, y);
        if (!row)
            break;
        memset(row, 0, (size_t)columns * 4);
    }
}

zn_status zn_canvas_begin(zn_canvas *c, int64_t left, int64_t top, int64_t width, int64_t height, zn_disposal disposal)
{
    dispose(c);
    c->disposal = ZN_DISPOSE_KEEP;
    if (disposal == ZN_DISPOSE_RESTORE) {
        if (!c->saved.pixels)
            ZN_TRY(zn_raster_alloc(&c->saved, c->pixels.width, c->pixels.height, 8, 4));
        memcpy(c->saved.pixels, c->pixels.pixels, bytes_of(&c->pixels));
    }
    c->left = left;
    c->top = top;
    c->width = width;
    c->height = height;
    c->disposal = disposal;
    return ZN_OK;
}

/* The frames of an animated image (GIF, APNG, WebP), one after the other, each as it is seen: drawn over the ones
 * before. All have the size of the canvas, four channels and 8 bits.
 *
 *     zn_frames *frames;
 *     zn_raster *canvas;
 *     ZN_TRY(format->frames(&source, max_pixels, &frames));
 *     while ((status = frames->next(frames, &canvas)) == ZN_OK && canvas)
 *         ...
 *     frames->close(frames); */
#ifndef ZN_FRAMES_H
#define ZN_FRAMES_H

#include "io/image/pixels/raster.h"

typedef struct zn_frames zn_frames;
struct zn_frames {
    /* *out is the reader's, valid until the next call; NULL after the last frame. */
    zn_status (*next)(zn_frames *frames, zn_raster **out);
    void (*close)(zn_frames *frames);
};

/* The source's bytes and name must outlive the frames. */
typedef zn_status zn_frames_open(const zn_source *source, int64_t max_pixels, zn_frames **out);
zn_frames_open zn_gif_frames, zn_png_frames, zn_webp_frames;

/* The first frame, for formats that read a still image in the same way. */
ZN_MUST_USE zn_status zn_frames_first(zn_frames_open *open, const zn_source *source, int64_t max_pixels,
                                      zn_raster *raster);

/* What becomes of a frame before the next one is drawn. */
typedef enum zn_disposal { ZN_DISPOSE_KEEP, ZN_DISPOSE_CLEAR, ZN_DISPOSE_RESTORE } zn_disposal;

/* The canvas that frames are drawn on, transparent at first. */
typedef struct zn_canvas {
    zn_raster pixels, saved;          /* saved: what a frame that is to be undone was drawn on */
    int64_t left, top, width, height; /* of the last frame */
    zn_disposal disposal;             /* of the last frame */
} zn_canvas;

ZN_MUST_USE zn_status zn_canvas_alloc(zn_canvas *canvas, int width, int height);
void zn_canvas_free(zn_canvas *canvas);
/* Disposes of the last frame; the next one is drawn in this rectangle, which may reach beyond the canvas. */
ZN_MUST_USE zn_status zn_canvas_begin(zn_canvas *canvas, int64_t left, int64_t top, int64_t width, int64_t height,
                                      zn_disposal disposal);
/* The four samples of a pixel of the current frame; NULL outside of the canvas. */
uint8_t *zn_canvas_at(const zn_canvas *canvas, int64_t x, int64_t y);

#endif

/* The frames of an animated image (GIF, APNG, WebP), one after the other, each as it is seen: drawn over the ones
 * before. All have the size of the canvas.
 *
 *     zn_frames *frames;
 *     const zn_raster *canvas;
 *     ZN_TRY(format->frames(&source, max_pixels, &frames));
 *     while ((status = frames->next(frames, &canvas)) == ZN_OK && canvas)
 *         ...
 *     frames->close(frames); */
#ifndef ZN_FRAMES_H
#define ZN_FRAMES_H

#include "io/image/raster.h"

typedef struct zn_frames zn_frames;
struct zn_frames {
    /* *out is the reader's, valid until the next call; NULL after the last frame. */
    zn_status (*next)(zn_frames *frames, const zn_raster **out);
    void (*close)(zn_frames *frames);
};

typedef zn_status zn_frames_open(const zn_source *source, int64_t max_pixels, zn_frames **out);

/* The first frame, for formats that read a still image in the same way. The source must outlive the call only. */
ZN_MUST_USE zn_status zn_frames_first(zn_frames_open *open, const zn_source *source, int64_t max_pixels,
                                      zn_raster *raster);

#endif

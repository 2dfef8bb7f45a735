/* Frames of an animated WebP, through libwebpdemux, which draws them. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/animation/frames.h"
#include "io/image/format.h"
#include "io/image/formats/library.h"
#include "io/image/formats/riff.h"

#include <webp/decode.h>
#include <webp/demux.h>

#define CALLS(CALL)                                                                                                    \
    CALL(WebPAnimDecoderDelete)                                                                                        \
    CALL(WebPAnimDecoderGetInfo)                                                                                       \
    CALL(WebPAnimDecoderGetNext)                                                                                       \
    CALL(WebPAnimDecoderHasMoreFrames)                                                                                 \
    CALL(WebPAnimDecoderNewInternal)                                                                                   \
    CALL(WebPAnimDecoderOptionsInitInternal)
static struct {
    CALLS(ZN_LIBRARY_POINTER)
} demux;
#define ENTRY(function) { #function, &demux.function },
static const zn_library_call calls[] = { CALLS(ENTRY) };
static zn_library library = { .name = ZN_WEBPDEMUX_LIBRARY,
                              .calls = calls,
                              .count = sizeof calls / sizeof *calls,
                              .lock = PTHREAD_MUTEX_INITIALIZER };

typedef struct reader {
    zn_frames base;
    const char *name;
    WebPAnimDecoder *decoder;
    zn_raster canvas; /* its pixels are the decoder's */
} reader;

static zn_status next(zn_frames *base, zn_raster **out)
{
    reader *r = (reader *)base;
    uint8_t *pixels;
    int time;
    *out = NULL;
    if (!demux.WebPAnimDecoderHasMoreFrames(r->decoder))
        return ZN_OK;
    if (!demux.WebPAnimDecoderGetNext(r->decoder, &pixels, &time))
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged animated WebP", r->name);
    r->canvas.pixels = pixels;
    *out = &r->canvas;
    return ZN_OK;
}

static void close(zn_frames *base)
{
    reader *r = (reader *)base;
    if (r->decoder)
        demux.WebPAnimDecoderDelete(r->decoder);
    r->canvas.pixels = NULL;
    zn_raster_free(&r->canvas);
    zn_free(r);
}

static zn_status start(reader *r, const zn_source *s, int64_t max_pixels)
{
    WebPBitstreamFeatures features;
    WebPAnimDecoderOptions options;
    WebPAnimInfo info;
    if (WebPGetFeatures(s->bytes, s->size, &features) != VP8_STATUS_OK)
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged WebP: invalid bits", s->name);
    ZN_TRY(zn_raster_check_size(s, features.width, features.height, max_pixels));
    if (!demux.WebPAnimDecoderOptionsInitInternal(&options, WEBP_DEMUX_ABI_VERSION))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: the WebP library is of another version", s->name);
    options.color_mode = MODE_RGBA;
    const WebPData data = { s->bytes, s->size };
    r->decoder = demux.WebPAnimDecoderNewInternal(&data, &options, WEBP_DEMUX_ABI_VERSION);
    if (!r->decoder || !demux.WebPAnimDecoderGetInfo(r->decoder, &info))
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged animated WebP", s->name);
    ZN_TRY(zn_raster_check_size(s, info.canvas_width, info.canvas_height, max_pixels));
    r->canvas = (zn_raster){
        .width = (int)info.canvas_width, .height = (int)info.canvas_height, .bits = 8, .channels = 4, .tint = 1
    };
    size_t size;
    const uint8_t *icc = zn_riff_find(s, "ICCP", &size);
    return icc ? zn_raster_set_icc(&r->canvas, icc, size) : ZN_OK;
}

zn_status zn_webp_frames(const zn_source *source, int64_t max_pixels, zn_frames **out)
{
    *out = NULL;
    ZN_TRY(zn_library_open(&library, source->name, "animated WebP"));
    reader *r = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for an animated WebP", source->name);
    r->base = (zn_frames){ next, close };
    r->name = source->name;
    const zn_status status = start(r, source, max_pixels);
    if (status == ZN_OK)
        *out = &r->base;
    else
        close(&r->base);
    return status;
}

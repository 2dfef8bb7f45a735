/* GIF reader through giflib, frame by frame: each is drawn on the canvas that the ones before have left.
 *
 *     canvas (RGBA, transparent) <- frame 1 -> disposal of 1 -> frame 2 -> ... */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/animation/frames.h"
#include "io/image/format.h"
#include "io/image/formats/library.h"

#include <gif_lib.h>
#include <string.h>

#define CALLS(CALL)                                                                                                    \
    CALL(DGifCloseFile)                                                                                                \
    CALL(DGifExtensionToGCB)                                                                                           \
    CALL(DGifGetExtension)                                                                                             \
    CALL(DGifGetExtensionNext)                                                                                         \
    CALL(DGifGetImageDesc)                                                                                             \
    CALL(DGifGetLine)                                                                                                  \
    CALL(DGifGetRecordType)                                                                                            \
    CALL(DGifOpen)
static struct {
    CALLS(ZN_LIBRARY_POINTER)
} gif;
#define ENTRY(function) { #function, &gif.function },
static const zn_library_call calls[] = { CALLS(ENTRY) };
static zn_library library = {
    .name = ZN_GIF_LIBRARY, .calls = calls, .count = sizeof calls / sizeof *calls, .lock = PTHREAD_MUTEX_INITIALIZER
};

typedef struct reader {
    zn_frames base;
    zn_source source;
    int64_t max_pixels;
    size_t at; /* bytes consumed */
    GifFileType *file;
    zn_canvas canvas;
    uint8_t *line;
    bool drawn; /* at least one frame */
} reader;

static int read_bytes(GifFileType *file, GifByteType *to, int size)
{
    reader *r = file->UserData;
    const size_t left = r->source.size - r->at, n = (size_t)size < left ? (size_t)size : left;
    memcpy(to, r->source.bytes + r->at, n);
    r->at += n;
    return (int)n;
}

static zn_status damaged(const reader *r)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: damaged GIF near byte %zu", r->source.name, r->at);
}

/* Sets `control` where an extension has it; others are passed over. */
static zn_status read_extension(reader *r, GraphicsControlBlock *control)
{
    int code;
    GifByteType *block;
    if (gif.DGifGetExtension(r->file, &code, &block) != GIF_OK)
        return damaged(r);
    if (block && code == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4)
        (void)gif.DGifExtensionToGCB(block[0], block + 1, control);
    while (block)
        if (gif.DGifGetExtensionNext(r->file, &block) != GIF_OK)
            return damaged(r);
    return ZN_OK;
}

/* One line of palette indices on the canvas. */
static void draw_line(reader *r, int y, const ColorMapObject *colours, int transparent)
{
    for (int x = 0; x < r->file->Image.Width; x++) {
        const int index = r->line[x];
        uint8_t *to = index == transparent || index >= colours->ColorCount ? NULL : zn_canvas_at(&r->canvas, x, y);
        if (!to)
            continue;
        const GifColorType c = colours->Colors[index];
        to[0] = c.Red, to[1] = c.Green, to[2] = c.Blue, to[3] = 255;
    }
}

/* Row i of an interlaced frame: every 8th from 0, every 8th from 4, every 4th from 2, every 2nd from 1. */
static int interlaced_row(int i, int height)
{
    static const int start[] = { 0, 4, 2, 1 }, step[] = { 8, 8, 4, 2 };
    for (int pass = 0; pass < 4; pass++) {
        const int rows = (height - start[pass] + step[pass] - 1) / step[pass];
        if (i < rows)
            return start[pass] + i * step[pass];
        i -= rows > 0 ? rows : 0;
    }
    return height - 1;
}

static zn_status draw_frame(reader *r, const GraphicsControlBlock *control)
{
    if (gif.DGifGetImageDesc(r->file) != GIF_OK)
        return damaged(r);
    const GifImageDesc *d = &r->file->Image;
    const ColorMapObject *colours = d->ColorMap ? d->ColorMap : r->file->SColorMap;
    if (!colours)
        return damaged(r);
    ZN_TRY(zn_raster_check_size(&r->source, d->Width, d->Height, r->max_pixels));
    const zn_disposal disposal = control->DisposalMode == DISPOSE_BACKGROUND ? ZN_DISPOSE_CLEAR
                                 : control->DisposalMode == DISPOSE_PREVIOUS ? ZN_DISPOSE_RESTORE
                                                                             : ZN_DISPOSE_KEEP;
    ZN_TRY(zn_canvas_begin(&r->canvas, d->Left, d->Top, d->Width, d->Height, disposal));
    for (int i = 0; i < d->Height; i++) {
        if (gif.DGifGetLine(r->file, r->line, d->Width) != GIF_OK)
            return damaged(r);
        draw_line(r, d->Interlace ? interlaced_row(i, d->Height) : i, colours, control->TransparentColor);
    }
    return ZN_OK;
}

static zn_status next(zn_frames *base, zn_raster **out)
{
    reader *r = (reader *)base;
    GraphicsControlBlock control = { .TransparentColor = NO_TRANSPARENT_COLOR };
    *out = NULL;
    for (;;) {
        GifRecordType type;
        if (gif.DGifGetRecordType(r->file, &type) != GIF_OK) /* many writers leave out the last byte */
            return r->drawn && r->at == r->source.size ? ZN_OK : damaged(r);
        if (type == TERMINATE_RECORD_TYPE)
            return ZN_OK;
        if (type == EXTENSION_RECORD_TYPE)
            ZN_TRY(read_extension(r, &control));
        if (type == IMAGE_DESC_RECORD_TYPE) {
            ZN_TRY(draw_frame(r, &control));
            r->drawn = true;
            *out = &r->canvas.pixels;
            return ZN_OK;
        }
    }
}

static void close(zn_frames *base)
{
    reader *r = (reader *)base;
    if (r->file)
        gif.DGifCloseFile(r->file, NULL);
    zn_canvas_free(&r->canvas);
    zn_free(r->line);
    zn_free(r);
}

static zn_status start(reader *r)
{
    enum { LONGEST_LINE = 65536 };
    int why = 0;
    r->file = gif.DGifOpen(r, read_bytes, &why);
    if (!r->file)
        return damaged(r);
    ZN_TRY(zn_raster_check_size(&r->source, r->file->SWidth, r->file->SHeight, r->max_pixels));
    /* LZW makes at most 4096 pixels out of 12 bits, and a frame may cover a small part of the canvas. */
    if ((int64_t)r->file->SWidth * r->file->SHeight / (1 << 20) > (int64_t)r->source.size)
        return damaged(r);
    ZN_TRY(zn_alloc_for("a line of a GIF", LONGEST_LINE, (void **)&r->line));
    return zn_canvas_alloc(&r->canvas, r->file->SWidth, r->file->SHeight);
}

zn_status zn_gif_frames(const zn_source *source, int64_t max_pixels, zn_frames **out)
{
    *out = NULL;
    ZN_TRY(zn_library_open(&library, source->name, "GIF"));
    reader *r = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a GIF", source->name);
    r->base = (zn_frames){ next, close };
    r->source = *source;
    r->max_pixels = max_pixels;
    const zn_status status = start(r);
    if (status == ZN_OK)
        *out = &r->base;
    else
        close(&r->base);
    return status;
}

zn_status zn_gif_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    return zn_frames_first(zn_gif_frames, source, max_pixels, raster);
}

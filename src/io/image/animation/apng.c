/* Frames of an animated PNG. Each is put together as a PNG of its own, with the header and palette of the whole file
 * and its own size and pixels, and read as any other.
 *
 *     IHDR | acTL | { fcTL | IDAT... or fdAT... }... | IEND
 *     fcTL: number (4) width (4) height (4) left (4) top (4) delay (4) disposal (1) blending (1)
 *     fdAT: number (4), then what an IDAT holds */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/animation/frames.h"
#include "io/image/format.h"
#include "io/image/formats/png_chunk.h"

#include <string.h>

enum { CONTROL = 26, NUMBER = 4, OVER = 1, SAMPLES = 4 };

typedef struct reader {
    zn_frames base;
    zn_source source;
    int64_t max_pixels;
    size_t at;     /* of the chunk to come */
    zn_bytes head; /* signature and chunks before the pixels, but those of the animation */
    zn_canvas canvas;
} reader;

typedef struct chunk {
    const uint8_t *name, *data;
    size_t size;
} chunk;

static zn_status damaged(const reader *r, const char *what)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: damaged animated PNG: %s, near byte %zu", r->source.name, what, r->at);
}

static zn_status no_memory(const reader *r)
{
    return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for an animated PNG", r->source.name);
}

/* False at the end, and where the file ends early. */
static bool peek(const reader *r, chunk *c)
{
    if (r->at > r->source.size || r->source.size - r->at < ZN_PNG_CHUNK)
        return false;
    const uint8_t *p = r->source.bytes + r->at;
    *c = (chunk){ p + 4, p + 8, zn_big32(p) };
    return c->size <= r->source.size - r->at - ZN_PNG_CHUNK && memcmp(c->name, "IEND", 4);
}

static void step(reader *r, const chunk *c) { r->at += ZN_PNG_CHUNK + c->size; }
static bool is(const chunk *c, const char *name) { return !memcmp(c->name, name, 4); }

static zn_status read_head(reader *r)
{
    const uint8_t *bytes = r->source.bytes;
    chunk c;
    r->at = ZN_PNG_SIGNATURE;
    if (!peek(r, &c) || !is(&c, "IHDR") || c.size != ZN_PNG_IHDR)
        return damaged(r, "no IHDR chunk");
    const int64_t width = zn_big32(c.data), height = zn_big32(c.data + 4);
    ZN_TRY(zn_raster_check_size(&r->source, width, height, r->max_pixels));
    if (!zn_bytes_append(&r->head, bytes, ZN_PNG_SIGNATURE))
        return no_memory(r);
    for (; peek(r, &c) && !is(&c, "IDAT") && !is(&c, "fcTL"); step(r, &c))
        if (!is(&c, "acTL") && !zn_bytes_append(&r->head, bytes + r->at, ZN_PNG_CHUNK + c.size))
            return no_memory(r);
    return zn_canvas_alloc(&r->canvas, (int)width, (int)height);
}

/* The header with the size of this frame. */
static bool begin_file(const reader *r, const uint8_t *control, zn_bytes *file)
{
    uint8_t header[ZN_PNG_IHDR];
    const size_t first = ZN_PNG_SIGNATURE, after = first + ZN_PNG_CHUNK + ZN_PNG_IHDR;
    memcpy(header, r->head.data + first + 8, sizeof header);
    memcpy(header, control + 4, 8);
    return zn_bytes_append(file, r->head.data, first) &&
           zn_png_add_chunk(file, "IHDR", NULL, 0, header, sizeof header) &&
           zn_bytes_append(file, r->head.data + after, r->head.size - after);
}

/* The pixels up to the next frame, as a file of their own. */
static zn_status collect(reader *r, const uint8_t *control, zn_bytes *file)
{
    chunk c;
    bool good = begin_file(r, control, file);
    for (; good && peek(r, &c) && !is(&c, "fcTL"); step(r, &c)) {
        if (is(&c, "IDAT"))
            good = zn_png_add_chunk(file, "IDAT", NULL, 0, c.data, c.size);
        else if (is(&c, "fdAT") && c.size >= NUMBER)
            good = zn_png_add_chunk(file, "IDAT", NULL, 0, c.data + NUMBER, c.size - NUMBER);
    }
    return good && zn_png_add_chunk(file, "IEND", NULL, 0, NULL, 0) ? ZN_OK : no_memory(r);
}

/* Sample c (red, green, blue, alpha) of a pixel, 8 bits. */
static unsigned sample(const zn_raster *r, size_t pixel, int c)
{
    const int colours = r->channels < 3 ? 1 : 3, from = c == 3 ? colours : c < colours ? c : 0;
    if (c == 3 && r->channels == colours)
        return 255;
    const size_t i = pixel * (size_t)r->channels + (size_t)from;
    return r->bits == 16 ? (((const uint16_t *)r->pixels)[i] + 128u) / 257u : ((const uint8_t *)r->pixels)[i];
}

/* Both not multiplied by alpha. */
static void draw_pixel(const zn_raster *r, size_t pixel, bool over, uint8_t *to)
{
    const unsigned alpha = sample(r, pixel, 3), below = to[3] * (255 - alpha), sum = alpha * 255 + below;
    for (int c = 0; c < 3; c++) {
        const unsigned v = sample(r, pixel, c);
        to[c] = (uint8_t)(!over ? v : sum ? (v * alpha * 255 + to[c] * below + sum / 2) / sum : 0);
    }
    to[3] = (uint8_t)(over ? (sum + 127) / 255 : alpha);
}

static zn_status draw(reader *r, const uint8_t *control, const zn_raster *frame)
{
    static const zn_disposal disposals[] = { ZN_DISPOSE_KEEP, ZN_DISPOSE_CLEAR, ZN_DISPOSE_RESTORE };
    const unsigned disposal = control[24] < 3 ? control[24] : 0;
    ZN_TRY(zn_canvas_begin(&r->canvas, zn_big32(control + 12), zn_big32(control + 16), frame->width, frame->height,
                           disposals[disposal]));
    for (int64_t y = 0; y < frame->height; y++)
        for (int64_t x = 0; x < frame->width; x++) {
            uint8_t *to = zn_canvas_at(&r->canvas, x, y);
            if (to)
                draw_pixel(frame, (size_t)(y * frame->width + x), control[25] == OVER, to);
        }
    zn_raster *canvas = &r->canvas.pixels;
    canvas->gamma = frame->gamma;
    /* a profile of greys does not fit the canvas, which has colours */
    return frame->icc && frame->channels >= 3 ? zn_raster_set_icc(canvas, frame->icc, frame->icc_size) : ZN_OK;
}

static zn_status next(zn_frames *base, zn_raster **out)
{
    reader *r = (reader *)base;
    chunk c;
    *out = NULL;
    while (peek(r, &c) && !is(&c, "fcTL")) /* a default image that is not a frame is passed over */
        step(r, &c);
    if (!peek(r, &c))
        return r->at + ZN_PNG_CHUNK <= r->source.size ? ZN_OK : damaged(r, "the file ends early");
    if (c.size != CONTROL)
        return damaged(r, "a frame of no size");
    const uint8_t *control = c.data;
    step(r, &c);
    zn_bytes file = { 0 };
    zn_raster frame = { 0 };
    zn_status status = collect(r, control, &file);
    const zn_source source = { file.data, file.size, r->source.name, NULL };
    if (status == ZN_OK)
        status = zn_png_read(&source, r->max_pixels, &frame);
    if (status == ZN_OK)
        status = draw(r, control, &frame);
    zn_raster_free(&frame);
    zn_bytes_free(&file);
    if (status == ZN_OK)
        *out = &r->canvas.pixels;
    return status;
}

static void close(zn_frames *base)
{
    reader *r = (reader *)base;
    zn_canvas_free(&r->canvas);
    zn_bytes_free(&r->head);
    zn_free(r);
}

zn_status zn_png_frames(const zn_source *source, int64_t max_pixels, zn_frames **out)
{
    *out = NULL;
    reader *r = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for an animated PNG", source->name);
    r->base = (zn_frames){ next, close };
    r->source = *source;
    r->max_pixels = max_pixels;
    const zn_status status = read_head(r);
    if (status == ZN_OK)
        *out = &r->base;
    else
        close(&r->base);
    return status;
}

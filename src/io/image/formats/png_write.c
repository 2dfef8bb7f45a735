/* PNG writer: libpng puts down what comes before the rows, png_rows.c compresses them. */
#include "base/fail.h"
#include "io/image/format.h"
#include "io/image/formats/png.h"
#include "io/image/formats/png_chunk.h"
#include "io/image/formats/png_host.h"
#include "io/image/formats/png_rows.h"

#include <string.h>

typedef struct writer {
    const zn_raster *raster;
    const zn_png_text *text;
    int count, colours;
    zn_bytes *out;
    png_structp png;
    png_infop info;
    zn_png_host host;
} writer;

static void write_bytes(png_structp png, png_bytep data, size_t size)
{
    writer *w = png_get_io_ptr(png);
    if (!zn_bytes_append(w->out, data, size)) {
        w->host.no_memory = true;
        png_error(png, "out of memory");
    }
}

static void flush_bytes(png_structp png) { (void)png; }

static void put_text(writer *w)
{
    for (int i = 0; i < w->count; i++) {
        png_text entry = { .compression = PNG_TEXT_COMPRESSION_NONE,
                           .key = (char *)w->text[i].key,
                           .text = (char *)w->text[i].value,
                           .text_length = strlen(w->text[i].value) };
        png_set_text(w->png, w->info, &entry, 1);
    }
}

/* Signature, header, colours and text. */
static zn_status write_head(writer *w)
{
    if (setjmp(png_jmpbuf(w->png))) {
        if (w->host.no_memory)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for writing a PNG");
        return ZN_FAIL(ZN_EINVALID, "cannot write this as PNG: %s", w->host.message);
    }
    static const int types[] = { 0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };
    const zn_raster *r = w->raster;
    png_set_write_fn(w->png, w, write_bytes, flush_bytes);
    png_set_user_limits(w->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(w->png, w->info, (png_uint_32)r->width, (png_uint_32)r->height, r->bits, types[r->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (w->colours)
        png_set_sRGB(w->png, w->info, PNG_sRGB_INTENT_PERCEPTUAL);
    put_text(w);
    png_write_info(w->png, w->info);
    return w->host.no_memory ? ZN_FAIL(ZN_ENOMEM, "out of memory for writing a PNG") : ZN_OK;
}

zn_status zn_png_write_stored(const zn_raster *raster, const zn_png_text *text, int count, int colours, int threads,
                              zn_bytes *out)
{
    writer w = { .raster = raster, .text = text, .count = count, .colours = colours, .out = out };
    zn_status status;
    w.png = png_create_write_struct_2(ZN_PNG_HOST(&w.host));
    w.info = w.png ? png_create_info_struct(w.png) : NULL;
    if (w.info)
        status = write_head(&w);
    else
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for writing a PNG");
    png_destroy_write_struct(&w.png, &w.info);
    if (status == ZN_OK)
        status = zn_png_add_rows(raster, threads, out);
    if (status == ZN_OK && !zn_png_add_chunk(out, "IEND", NULL, 0, NULL, 0))
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for writing a PNG");
    return status;
}

zn_status zn_png_write(const zn_image *image, const zn_image_write_options *options, zn_bytes *out)
{
    if (options->alpha || image->grey) {
        zn_raster joined;
        ZN_TRY(zn_raster_join(image, options->alpha, &joined));
        const zn_status status = zn_png_write_stored(&joined, NULL, 0, 1, options->threads, out);
        zn_raster_free(&joined);
        return status;
    }
    const zn_raster raster = { image->width, image->height, image->bits, 3, .pixels = image->pixels };
    return zn_png_write_stored(&raster, NULL, 0, 1, options->threads, out);
}

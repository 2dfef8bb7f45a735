/* JPEG writer, into growing memory. From quality 90 on the colours keep their full resolution: who asks for that much
 * is comparing images, not saving space. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/format.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { FULL_COLOUR = 90, STEP = 1 << 16 };

typedef struct writer {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    zn_bytes *out;
    bool no_memory;
    char message[JMSG_LENGTH_MAX];
} writer;

static void escape(j_common_ptr c)
{
    writer *w = c->client_data;
    (*c->err->format_message)(c, w->message);
    w->no_memory |= c->err->msg_code == JERR_OUT_OF_MEMORY;
    longjmp(w->escape, 1);
}

static void on_message(j_common_ptr c, int level) { (void)c, (void)level; }
static void on_output(j_common_ptr c) { (void)c; }

/* libjpeg writes straight into the spare capacity after out->size. */
static void make_room(writer *w)
{
    if (!zn_bytes_reserve(w->out, STEP))
        ERREXIT1(&w->c, JERR_OUT_OF_MEMORY, STEP);
    w->destination.next_output_byte = w->out->data + w->out->size;
    w->destination.free_in_buffer = w->out->capacity - w->out->size;
}

static void start(j_compress_ptr c) { make_room(c->client_data); }

static boolean full(j_compress_ptr c)
{
    writer *w = c->client_data;
    w->out->size = w->out->capacity; /* by libjpeg's contract the whole buffer is to be taken */
    make_room(w);
    return TRUE;
}

static void end(j_compress_ptr c)
{
    writer *w = c->client_data;
    w->out->size = w->out->capacity - w->destination.free_in_buffer;
}

static zn_status encode(writer *w, const zn_raster *raster, int quality, int subsampling)
{
    struct jpeg_compress_struct *c = &w->c;
    if (setjmp(w->escape)) {
        if (w->no_memory)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for writing a JPEG");
        return ZN_FAIL(ZN_EINVALID, "cannot write this as JPEG: %s", w->message);
    }
    jpeg_create_compress(c);
    w->destination.init_destination = start;
    w->destination.empty_output_buffer = full;
    w->destination.term_destination = end;
    c->dest = &w->destination;
    c->image_width = (JDIMENSION)raster->width;
    c->image_height = (JDIMENSION)raster->height;
    c->input_components = raster->channels;
    c->in_color_space = raster->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, quality, TRUE);
    if (raster->channels == 3) {
        c->comp_info[0].h_samp_factor = subsampling == 444 ? 1 : 2;
        c->comp_info[0].v_samp_factor = subsampling == 420 ? 2 : 1;
    }
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = zn_raster_row(raster, c->next_scanline);
        (void)jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
    return ZN_OK;
}

zn_status zn_jpeg_write(const zn_image *image, const zn_image_write_options *options, zn_bytes *out)
{
    _Static_assert(ZN_JPEG_SIDE == JPEG_MAX_DIMENSION, "what the library can write");
    const int subsampling = options->subsampling ? options->subsampling : options->quality >= FULL_COLOUR ? 444 : 420;
    if (subsampling != 444 && subsampling != 422 && subsampling != 420)
        return ZN_FAIL(ZN_EINVALID, "a JPEG cannot have a subsampling of %d; use 444, 422 or 420", subsampling);
    zn_raster raster = { image->width, image->height, 8, 3, .pixels = image->pixels }, grey = { 0 };
    if (image->grey) {
        ZN_TRY(zn_raster_join(image, NULL, &grey));
        raster = grey;
    }
    writer *w = zn_calloc(1, sizeof *w);
    if (!w) {
        zn_raster_free(&grey);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for writing a JPEG");
    }
    w->out = out;
    w->c.err = jpeg_std_error(&w->errors);
    w->c.client_data = w;
    w->errors.error_exit = escape;
    w->errors.emit_message = on_message;
    w->errors.output_message = on_output;
    const zn_status status = encode(w, &raster, options->quality, subsampling);
    jpeg_destroy_compress(&w->c);
    zn_raster_free(&grey);
    zn_free(w);
    return status;
}

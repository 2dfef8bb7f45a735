/* JPEG reader. libjpeg calls error_exit and expects it not to return: it jumps back here, where the struct holds all
 * there is to free. Damage that libjpeg would only warn about and paint over in grey is an error: an image with its
 * lower half missing must not pass for an image. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/format.h"
#include "io/image/metadata/exif.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { MAX_SCANS = 200, APP1 = JPEG_APP0 + 1, APP2 = JPEG_APP0 + 2 };

typedef struct reader {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const zn_source *source;
    zn_raster *raster;
    int64_t max_pixels;
    zn_status code;
    char message[JMSG_LENGTH_MAX];
} reader;

static void escape(j_common_ptr c)
{
    reader *r = c->client_data;
    (*c->err->format_message)(c, r->message);
    switch (c->err->msg_code) {
    case JERR_OUT_OF_MEMORY:
        r->code = ZN_ENOMEM;
        break;
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
#if JPEG_LIB_VERSION < 70 /* later versions decode arithmetic coding */
    case JERR_ARITH_NOTIMPL:
#endif
        r->code = ZN_EUNSUPPORTED;
        break;
    default:
        r->code = ZN_EFORMAT;
    }
    longjmp(r->escape, 1);
}

/* Warnings that mean lost pixels are errors; the rest (odd padding, unusual headers) are let through. */
static void on_message(j_common_ptr c, int level)
{
    const int code = c->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                      code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC))
        escape(c);
}

static void on_output(j_common_ptr c) { (void)c; }

/* A progressive file may ask for the whole image to be walked again and again. */
static void on_progress(j_common_ptr c)
{
    reader *r = c->client_data;
    if (c->is_decompressor && ((j_decompress_ptr)c)->input_scan_number > MAX_SCANS) {
        snprintf(r->message, sizeof r->message, "more than %d scans", MAX_SCANS);
        r->code = ZN_ELIMIT;
        longjmp(r->escape, 1);
    }
}

/* APP2 markers "ICC_PROFILE\0" sequence (1) count (1) data..., in any order. An incomplete set is no profile. */
static zn_status keep_profile(reader *r)
{
    enum { HEAD = 14 };
    const JOCTET *part[256] = { NULL };
    size_t length[256] = { 0 }, total = 0;
    int count = 0;
    for (jpeg_saved_marker_ptr m = r->c.marker_list; m; m = m->next) {
        if (m->marker != APP2 || m->data_length < HEAD || memcmp(m->data, "ICC_PROFILE", 12))
            continue;
        const int number = m->data[12];
        if ((count && m->data[13] != count) || number < 1 || number > m->data[13] || part[number])
            return ZN_OK;
        count = m->data[13];
        part[number] = m->data + HEAD;
        length[number] = m->data_length - HEAD;
        total += length[number];
    }
    if (!total)
        return ZN_OK;
    for (int i = 1; i <= count; i++)
        if (!part[i])
            return ZN_OK;
    void *whole;
    ZN_TRY(zn_alloc_for("a colour profile", total, &whole));
    size_t at = 0;
    for (int i = 1; i <= count; at += length[i], i++)
        memcpy((uint8_t *)whole + at, part[i], length[i]);
    const zn_status status = zn_raster_set_icc(r->raster, whole, total);
    zn_free(whole);
    return status;
}

static void keep_orientation(reader *r)
{
    for (jpeg_saved_marker_ptr m = r->c.marker_list; m; m = m->next)
        if (m->marker == APP1 && m->data_length >= 6 && !memcmp(m->data, "Exif\0", 6)) {
            r->raster->orientation = zn_exif_orientation(m->data, m->data_length);
            return;
        }
}

static zn_status choose_colours(reader *r)
{
    switch (r->c.jpeg_color_space) {
    case JCS_GRAYSCALE:
        r->c.out_color_space = JCS_GRAYSCALE;
        return ZN_OK;
    case JCS_RGB:
    case JCS_YCbCr:
        r->c.out_color_space = JCS_RGB;
        return ZN_OK;
    case JCS_CMYK:
    case JCS_YCCK:
        r->c.out_color_space = JCS_CMYK;
        r->raster->ink = r->c.saw_Adobe_marker ? ZN_INK_INVERTED : ZN_INK_CMYK;
        return ZN_OK;
    default:
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a JPEG with %d channels of unknown meaning", r->source->name,
                       r->c.num_components);
    }
}

/* Every 8x8 block costs a Huffman-coded file at least one bit. */
static zn_status check_length(const reader *r)
{
    const int64_t blocks = (int64_t)r->c.image_width * r->c.image_height / 64;
    if (!r->c.arith_code && blocks / 8 / (r->c.max_h_samp_factor * r->c.max_v_samp_factor) > (int64_t)r->source->size)
        return ZN_FAIL(ZN_EFORMAT, "%s: damaged JPEG: %zu bytes cannot hold %ux%u pixels", r->source->name,
                       r->source->size, r->c.image_width, r->c.image_height);
    return ZN_OK;
}

static zn_status decode(reader *r)
{
    struct jpeg_decompress_struct *c = &r->c;
    if (setjmp(r->escape)) {
        const size_t at = c->src ? r->source->size - c->src->bytes_in_buffer : 0;
        return ZN_FAIL(r->code, "%s: %s JPEG near byte %zu: %s", r->source->name,
                       r->code == ZN_EFORMAT ? "damaged" : "cannot read this", at, r->message);
    }
    jpeg_create_decompress(c);
    c->progress = &r->progress;
    jpeg_mem_src(c, r->source->bytes, r->source->size);
    jpeg_save_markers(c, APP1, 0xffff);
    jpeg_save_markers(c, APP2, 0xffff);
    (void)jpeg_read_header(c, TRUE);
    ZN_TRY(zn_raster_check_size(r->source, c->image_width, c->image_height, r->max_pixels));
    ZN_TRY(check_length(r));
    ZN_TRY(choose_colours(r));
    keep_orientation(r);
    ZN_TRY(keep_profile(r));
    (void)jpeg_start_decompress(c);
    ZN_TRY(zn_raster_alloc(r->raster, c->output_width, c->output_height, 8, c->output_components));
    while (c->output_scanline < c->output_height) {
        JSAMPROW row = zn_raster_row(r->raster, c->output_scanline);
        (void)jpeg_read_scanlines(c, &row, 1);
    }
    (void)jpeg_finish_decompress(c);
    return ZN_OK;
}

zn_status zn_jpeg_read(const zn_source *source, int64_t max_pixels, zn_raster *raster)
{
    reader *r = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a JPEG", source->name);
    r->source = source;
    r->raster = raster;
    r->max_pixels = max_pixels;
    r->c.err = jpeg_std_error(&r->errors);
    r->c.client_data = r;
    r->errors.error_exit = escape;
    r->errors.emit_message = on_message;
    r->errors.output_message = on_output;
    r->progress.progress_monitor = on_progress;
    const zn_status status = decode(r);
    jpeg_destroy_decompress(&r->c);
    zn_free(r);
    return status;
}

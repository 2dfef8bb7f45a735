/* Pictures from libpng, libjpeg and libwebp. */
#include "image_make.h"

#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

void blob_add(blob *b, const void *data, size_t size)
{
    b->data = realloc(b->data, b->size + size + 1);
    assert_non_null(b->data);
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

void blob_free(blob *b)
{
    free(b->data);
    *b = (blob){ 0 };
}

static void put_png(png_structp png, png_bytep data, size_t size) { blob_add(png_get_io_ptr(png), data, size); }
static void flush_png(png_structp png) { (void)png; }

static void png_colours(png_structp png, png_infop info, const png_spec *s)
{
    png_color palette[256];
    for (int i = 0; i < s->palette_size; i++)
        palette[i] = (png_color){ s->palette[i * 3], s->palette[i * 3 + 1], s->palette[i * 3 + 2] };
    if (s->palette_size)
        png_set_PLTE(png, info, palette, s->palette_size);
    const png_uint_16 k = (png_uint_16)s->key;
    const png_color_16 key = { .gray = k, .red = k, .green = k, .blue = k };
    if (s->alpha_size || s->has_key)
        png_set_tRNS(png, info, s->alpha, s->alpha_size, &key);
    if (s->gamma > 0)
        png_set_gAMA(png, info, s->gamma);
    if (s->icc.size)
        png_set_iCCP(png, info, "test", PNG_COMPRESSION_TYPE_BASE, s->icc.data, (png_uint_32)s->icc.size);
}

blob make_png(const png_spec *s)
{
    blob out = { 0 };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png), last = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png)))
        fail_msg("libpng refused to write");
    png_set_write_fn(png, &out, put_png, flush_png);
    png_set_benign_errors(png, 1);
    png_set_IHDR(png, info, (png_uint_32)s->width, (png_uint_32)s->height, s->depth, s->type,
                 s->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
    png_colours(png, info, s);
    png_text text[2] = {
        { .compression = PNG_TEXT_COMPRESSION_NONE, .key = "Title", .text = "a test", .text_length = 6 },
        { .compression = PNG_TEXT_COMPRESSION_zTXt, .key = "Comment", .text = "zzz", .text_length = 3 }
    };
    if (s->text)
        png_set_text(png, info, text, 2);
    if (s->exif.size)
        png_set_eXIf_1(png, s->exif_last ? last : info, (png_uint_32)s->exif.size, s->exif.data);
    png_write_info(png, info);
    const int passes = s->interlaced ? png_set_interlace_handling(png) : 1;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < s->height; y++)
            png_write_row(png, s->rows + (size_t)y * s->row_bytes);
    png_write_end(png, s->exif_last ? last : info);
    png_destroy_info_struct(png, &last);
    png_destroy_write_struct(&png, &info);
    return out;
}

static void jpeg_markers(j_compress_ptr c, const jpeg_spec *s)
{
    if (s->exif.size) {
        blob marker = { 0 };
        blob_add(&marker, "Exif\0", 6);
        blob_add(&marker, s->exif.data, s->exif.size);
        jpeg_write_marker(c, JPEG_APP0 + 1, marker.data, (unsigned)marker.size);
        blob_free(&marker);
    }
    const size_t part = s->icc_part ? (size_t)s->icc_part : 65000, parts = (s->icc.size + part - 1) / part;
    for (size_t i = 0; i < parts; i++) {
        blob marker = { 0 };
        const uint8_t numbers[2] = { (uint8_t)(i + 1), (uint8_t)parts };
        blob_add(&marker, "ICC_PROFILE", 12);
        blob_add(&marker, numbers, 2);
        blob_add(&marker, s->icc.data + i * part, i + 1 < parts ? part : s->icc.size - i * part);
        jpeg_write_marker(c, JPEG_APP0 + 2, marker.data, (unsigned)marker.size);
        blob_free(&marker);
    }
}

blob make_jpeg(const jpeg_spec *s)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &memory, &size);
    c.image_width = (JDIMENSION)s->width;
    c.image_height = (JDIMENSION)s->height;
    c.input_components = s->channels;
    c.in_color_space = s->channels == 1 ? JCS_GRAYSCALE : s->channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    if (s->channels == 4)
        jpeg_set_colorspace(&c, s->ycck ? JCS_YCCK : JCS_CMYK);
    c.write_Adobe_marker = s->channels == 4 && !s->no_adobe;
    jpeg_set_quality(&c, s->quality ? s->quality : 95, TRUE);
    c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = s->sampling ? s->sampling : 1;
    c.restart_interval = (unsigned)s->restart;
    c.arith_code = s->arithmetic ? TRUE : FALSE;
    if (s->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    jpeg_markers(&c, s);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)(s->samples + (size_t)c.next_scanline * (size_t)s->width * (size_t)s->channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    blob out = { 0 };
    blob_add(&out, memory, size);
    free(memory);
    return out;
}

blob make_webp(int width, int height, int channels, const uint8_t *samples, int lossless)
{
    uint8_t *memory = NULL;
    const int stride = width * channels;
    const size_t size = lossless ? channels == 4 ? WebPEncodeLosslessRGBA(samples, width, height, stride, &memory)
                                                 : WebPEncodeLosslessRGB(samples, width, height, stride, &memory)
                        : channels == 4 ? WebPEncodeRGBA(samples, width, height, stride, 95, &memory)
                                        : WebPEncodeRGB(samples, width, height, stride, 95, &memory);
    assert_true(size > 0);
    blob out = { 0 };
    blob_add(&out, memory, size);
    WebPFree(memory);
    return out;
}

static void little(uint8_t *p, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static void add_chunk(blob *b, const char *name, const void *data, size_t size)
{
    uint8_t length[4];
    little(length, size, 4);
    blob_add(b, name, 4);
    blob_add(b, length, 4);
    blob_add(b, data, size);
    if (size % 2)
        blob_add(b, "", 1);
}

blob extend_webp(const blob *plain, int width, int height, int alpha, const blob *icc, const blob *exif, int frames)
{
    uint8_t head[10] = { 0 };
    head[0] = (uint8_t)((icc ? 0x20 : 0) | (alpha ? 0x10 : 0) | (exif ? 0x08 : 0) | (frames ? 0x02 : 0));
    little(head + 4, (size_t)width - 1, 3);
    little(head + 7, (size_t)height - 1, 3);
    blob out = { 0 };
    blob_add(&out, "RIFF\0\0\0\0WEBP", 12);
    add_chunk(&out, "VP8X", head, sizeof head);
    if (icc)
        add_chunk(&out, "ICCP", icc->data, icc->size);
    if (frames)
        add_chunk(&out, "ANIM", "\0\0\0\0\0\0", 6);
    for (int i = 0; i < frames; i++) {
        blob frame = { 0 };
        uint8_t place[16] = { 0 };
        memcpy(place + 6, head + 4, 6);
        place[12] = 100; /* milliseconds */
        blob_add(&frame, place, sizeof place);
        blob_add(&frame, plain->data + 12, plain->size - 12);
        add_chunk(&out, "ANMF", frame.data, frame.size);
        blob_free(&frame);
    }
    if (!frames) { /* skip an own VP8X of the plain file: its other chunks follow it */
        const size_t skip = memcmp(plain->data + 12, "VP8X", 4) ? 12 : 30;
        blob_add(&out, plain->data + skip, plain->size - skip);
    }
    if (exif)
        add_chunk(&out, "EXIF", exif->data, exif->size);
    little(out.data + 4, out.size - 8, 4);
    return out;
}

blob make_exif(int orientation, int big)
{
    /* header, two entries: Make (ASCII, offset) before the orientation, so that finding it means walking */
    static const uint8_t small_end[] = { 'I', 'I', 42, 0,    8, 0, 0, 0, 2, 0, 0x0f, 0x01, 2, 0, 4, 0, 0, 0, 'a',
                                         'b', 'c', 0,  0x12, 1, 3, 0, 1, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0 };
    static const uint8_t big_end[] = { 'M', 'M', 0, 42,   0,    0, 0, 8, 0, 2, 0x01, 0x0f, 0, 2, 0, 0, 0, 4, 'a',
                                       'b', 'c', 0, 0x01, 0x12, 0, 3, 0, 0, 0, 1,    0,    0, 0, 0, 0, 0, 0, 0 };
    blob out = { 0 };
    blob_add(&out, big ? big_end : small_end, sizeof small_end);
    out.data[big ? 31 : 30] = (uint8_t)orientation;
    return out;
}

uint8_t pattern(int x, int y, int c) { return (uint8_t)(40 + (x * (5 - c) + y * (2 + 3 * c)) % 170); }

void fill_pattern(uint8_t *rgb, int width, int height)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                rgb[(y * width + x) * 3 + c] = pattern(x, y, c);
}

zn_image *must_read(const blob *b, const zn_image_read_options *options)
{
    zn_image *image = NULL;
    if (zn_image_read_memory(b->data, b->size, options, &image) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_non_null(image);
    return image;
}

void must_fail(const blob *b, const zn_image_read_options *options, zn_status code, const char *word)
{
    zn_image *image = (zn_image *)1;
    const zn_status status = zn_image_read_memory(b->data, b->size, options, &image);
    assert_null(image);
    if (status != code || !strstr(zn_error_text(), word))
        fail_msg("status %d, wanted %d; text '%s', wanted '%s'", status, code, zn_error_text(), word);
}

int at(const zn_image *image, int x, int y, int c)
{
    const size_t i = ((size_t)y * (size_t)image->width + (size_t)x) * 3 + (size_t)c;
    return image->bits == 8 ? ((const uint8_t *)image->pixels)[i] : ((const uint16_t *)image->pixels)[i];
}

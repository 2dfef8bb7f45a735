/* EXIF and XMP: found in each format, written into each, true of the image they are written with; and blocks that lie.
 */
#include "image_make.h"

#include "io/image/metadata/exif.h"
#include "io/image/metadata/metadata.h"

#include <unistd.h>

enum { W = 6, H = 4 };

static const char *const formats[] = { "png", "jpeg", "webp" };
enum { FORMATS = sizeof formats / sizeof *formats };
static const char packet[] = "<x:xmpmeta><rdf:Description tiff:Orientation=\"6\" dc:rights='mine'>"
                             "<tiff:Orientation>8</tiff:Orientation></rdf:Description></x:xmpmeta>";

/* ---- a block of EXIF with all that is to be changed ---- */

static void number(blob *b, uint32_t v, int bytes, int big)
{
    uint8_t out[4];
    for (int i = 0; i < bytes; i++)
        out[i] = (uint8_t)(v >> 8 * (big ? bytes - 1 - i : i));
    blob_add(b, out, (size_t)bytes);
}

static void entry(blob *b, int tag, int type, uint32_t value, int big)
{
    number(b, (uint32_t)tag, 2, big);
    number(b, (uint32_t)type, 2, big);
    number(b, 1, 4, big);
    number(b, value, type == 3 ? 2 : 4, big);
    number(b, 0, type == 3 ? 2 : 0, big);
}

/* IFD0 at 8: width, orientation, the EXIF directory at 50; thumbnail at 80. */
static blob full_exif(int big)
{
    blob b = { 0 };
    blob_add(&b, big ? "MM\0*" : "II*\0", 4);
    number(&b, 8, 4, big);
    number(&b, 3, 2, big);
    entry(&b, 0x0100, 3, 4000, big);
    entry(&b, 0x0112, 3, 6, big);
    entry(&b, 0x8769, 4, 50, big);
    number(&b, 80, 4, big);
    number(&b, 2, 2, big);
    entry(&b, 0xa001, 3, 0xffff, big);
    entry(&b, 0xa002, 4, 4000, big);
    number(&b, 0, 4, big);
    number(&b, 0, 2, big);
    return b;
}

static uint32_t get(const uint8_t *p, int bytes, int big)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

static zn_image *image(void)
{
    zn_image *im;
    assert_int_equal(zn_image_new(W, H, 8, &im), ZN_OK);
    fill_pattern(im->pixels, W, H);
    return im;
}

static zn_source written(const char *format, const zn_image *im, const zn_image_write_options *options)
{
    void *bytes;
    zn_source s = { .name = format };
    assert_int_equal(zn_image_write_memory(format, im, options, &bytes, &s.size), ZN_OK);
    s.bytes = bytes;
    return s;
}

/* All that an image may carry; the packet stays the caller's. */
static zn_image_metadata everything(const blob *exif)
{
    return (zn_image_metadata){ .exif = exif->data,
                                .exif_size = exif->size,
                                .xmp = (uint8_t *)packet,
                                .xmp_size = sizeof packet - 1,
                                .dpi_x = 300,
                                .dpi_y = 150 };
}

static zn_image_metadata found_in(const void *bytes, size_t size)
{
    zn_image_metadata m;
    assert_int_equal(zn_metadata_find(&(zn_source){ bytes, size, "file", NULL }, &m), ZN_OK);
    return m;
}

/* In whole dpi; 0: none. */
static void check_density(const zn_source *s, int x, int y)
{
    zn_image_metadata m = found_in(s->bytes, s->size);
    assert_int_equal((int)(m.dpi_x + 0.5), x);
    assert_int_equal((int)(m.dpi_y + 0.5), y);
    zn_image_metadata_free(&m);
}

static void check_exif(const zn_image_metadata *m, int big)
{
    assert_int_equal(m->exif_size, 82);
    assert_int_equal(get(m->exif + 18, 4, big), W);  /* width */
    assert_int_equal(get(m->exif + 30, 2, big), 1);  /* orientation */
    assert_int_equal(get(m->exif + 42, 4, big), 50); /* the directory is where it was */
    assert_int_equal(get(m->exif + 46, 4, big), 0);  /* no thumbnail */
    assert_int_equal(get(m->exif + 60, 2, big), 1);  /* sRGB */
    assert_int_equal(get(m->exif + 72, 4, big), W);  /* width again */
    assert_int_equal(zn_exif_orientation(m->exif, m->exif_size), 1);
}

static void check_xmp(const zn_image_metadata *m)
{
    char expected[sizeof packet];
    memcpy(expected, packet, sizeof packet);
    strstr(expected, "\"6\"")[1] = '1';
    strstr(expected, ">8<")[1] = '1';
    assert_int_equal(m->xmp_size, sizeof packet - 1);
    assert_memory_equal(m->xmp, expected, sizeof packet - 1);
}

/* Also with alpha, in 16 bits, and in WebP's other kinds, whose containers differ. */
static void every_format_keeps_it(void **state)
{
    (void)state;
    zn_image *im = image();
    for (int i = 0; i < FORMATS * 2 * 2 * 2; i++) {
        const int format = i % FORMATS, big = i / FORMATS % 2, lossless = i / FORMATS / 2 % 2, alpha = i / FORMATS / 4;
        blob exif = full_exif(big);
        const zn_image_metadata m = everything(&exif);
        const zn_image_write_options plain = { .lossless = lossless, .alpha = alpha && format != 1 ? im : NULL };
        zn_image_write_options with = plain;
        with.metadata = &m;
        const zn_source s = written(formats[format], im, &with), bare = written(formats[format], im, &plain);
        zn_image_metadata back = found_in(s.bytes, s.size);
        check_exif(&back, big);
        check_xmp(&back);
        zn_image_metadata_free(&back);
        back = found_in(bare.bytes, bare.size);
        assert_true(!back.exif && !back.xmp);
        zn_image *a = must_read(&(blob){ (uint8_t *)s.bytes, s.size }, NULL),
                 *b = must_read(&(blob){ (uint8_t *)bare.bytes, bare.size }, NULL);
        assert_memory_equal(a->pixels, b->pixels, W * H * 3);
        zn_image_free(a);
        zn_image_free(b);
        zn_memory_free((void *)s.bytes);
        zn_memory_free((void *)bare.bytes);
        blob_free(&exif);
    }
    zn_image_free(im);
}

/* Files of other programs, as the libraries write them; "Exif\0\0" is not part of the block. */
static void found_in_files_of_others(void **state)
{
    (void)state;
    uint8_t rgb[W * H * 3];
    fill_pattern(rgb, W, H);
    blob exif = full_exif(1), plain = make_webp(W, H, 3, rgb, 0);
    blob files[FORMATS] = {
        make_png(&(png_spec){ .width = W,
                              .height = H,
                              .type = 2,
                              .depth = 8,
                              .rows = rgb,
                              .row_bytes = W * 3,
                              .exif = exif,
                              .exif_last = 1 }),
        make_jpeg(&(jpeg_spec){ .width = W, .height = H, .channels = 3, .samples = rgb, .quality = 90, .exif = exif }),
        extend_webp(&plain, W, H, 0, NULL, &exif, 0),
    };
    for (int i = 0; i < FORMATS; i++) {
        zn_image_metadata m = found_in(files[i].data, files[i].size);
        assert_int_equal(m.exif_size, exif.size);
        assert_memory_equal(m.exif, exif.data, exif.size);
        zn_image_metadata_free(&m);
        blob_free(&files[i]);
    }
    blob_free(&plain);
    blob_free(&exif);
}

/* In whole dpi; a WebP has no place for it, and one of nothing else stays as it is. */
static void density_is_kept(void **state)
{
    (void)state;
    zn_image *im = image();
    for (int f = 0; f < FORMATS; f++) {
        const zn_image_metadata m = { .dpi_x = 299.9994, .dpi_y = 150 };
        const zn_source s = written(formats[f], im, &(zn_image_write_options){ .metadata = &m }),
                        bare = written(formats[f], im, &(zn_image_write_options){ 0 });
        check_density(&s, f == 2 ? 0 : 300, f == 2 ? 0 : 150);
        check_density(&bare, 0, 0);
        assert_true(f != 2 || s.size == bare.size);
        zn_memory_free((void *)s.bytes);
        zn_memory_free((void *)bare.bytes);
    }
    zn_image_free(im);
}

/* JFIF counts pixels per cm too; without a unit, or with a zero, it says nothing about paper. */
static void density_of_jfif(void **state)
{
    (void)state;
    zn_image *im = image();
    zn_source s = written("jpeg", im, &(zn_image_write_options){ 0 });
    const uint8_t cases[][5] = { { 2, 0, 118, 0, 59 }, { 0, 1, 44, 1, 44 }, { 1, 0, 0, 0, 72 }, { 3, 0, 72, 0, 72 } };
    for (int i = 0; i < 4; i++) {
        memcpy((uint8_t *)s.bytes + 13, cases[i], 5);
        check_density(&s, i ? 0 : 300, i ? 0 : 150);
    }
    zn_memory_free((void *)s.bytes);
    zn_image_free(im);
}

/* ---- what lies ---- */

/* Cut anywhere, and with any byte changed: nothing is read beyond the end, and what is found can be written. */
static void damaged_files_are_survived(void **state)
{
    (void)state;
    zn_image *im = image();
    blob exif = full_exif(0);
    const zn_image_metadata m = everything(&exif);
    for (int f = 0; f < FORMATS; f++) {
        const zn_source s = written(formats[f], im, &(zn_image_write_options){ .metadata = &m });
        for (size_t i = 0; i < 2 * s.size; i++) {
            const size_t size = i < s.size ? i : s.size;
            uint8_t *copy = malloc(size ? size : 1); /* of exactly this size, for the address sanitizer */
            memcpy(copy, s.bytes, size);
            if (i >= s.size)
                copy[i - s.size] ^= 0xff;
            zn_image_metadata found = found_in(copy, size);
            const zn_source again = written(formats[f], im, &(zn_image_write_options){ .metadata = &found });
            zn_memory_free((void *)again.bytes);
            zn_image_metadata_free(&found);
            free(copy);
        }
        zn_memory_free((void *)s.bytes);
    }
    blob_free(&exif);
    zn_image_free(im);
}

/* Every byte of the block itself, among them offsets and counts, at its worst. */
static void hostile_blocks_stay_within(void **state)
{
    (void)state;
    blob exif = full_exif(1);
    for (size_t i = 0; i < exif.size * 256; i++) {
        uint8_t *copy = malloc(exif.size);
        memcpy(copy, exif.data, exif.size);
        copy[i / 256] = (uint8_t)i;
        if (zn_exif_is_valid(copy, exif.size))
            zn_exif_describe(copy, exif.size, W, H);
        free(copy);
    }
    blob_free(&exif);
    assert_false(zn_exif_is_valid((const uint8_t *)"not EXIF at all", 15));
    assert_false(zn_exif_is_valid((const uint8_t *)"II*\0\xff\xff\xff\xff", 8));
}

/* A JPEG has no place for 64 KiB in one piece; the image is written without. */
static void too_large_is_left_out(void **state)
{
    (void)state;
    enum { SIZE = 70000 };
    zn_image *im = image();
    blob exif = full_exif(0);
    uint8_t *zeros = calloc(1, SIZE);
    blob_add(&exif, zeros, SIZE);
    const zn_image_metadata m = everything(&exif);
    for (int f = 0; f < FORMATS; f++) {
        const zn_source s = written(formats[f], im, &(zn_image_write_options){ .metadata = &m });
        zn_image_metadata back = found_in(s.bytes, s.size);
        assert_int_equal(back.exif_size, f == 1 ? 0 : exif.size);
        check_xmp(&back);
        zn_image_free(must_read(&(blob){ (uint8_t *)s.bytes, s.size }, NULL));
        zn_image_metadata_free(&back);
        zn_memory_free((void *)s.bytes);
    }
    free(zeros);
    blob_free(&exif);
    zn_image_free(im);
}

static void read_from_a_file(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/zenith_metadata_%ld.jpg", (long)getpid());
    zn_image *im = image();
    const zn_image_metadata m = { .xmp = (uint8_t *)packet, .xmp_size = sizeof packet - 1 };
    zn_image_metadata back;
    assert_int_equal(zn_image_write(path, im, &(zn_image_write_options){ .metadata = &m }), ZN_OK);
    assert_int_equal(zn_image_read_metadata(path, &back), ZN_OK);
    check_xmp(&back);
    zn_image_metadata_free(&back);
    unlink(path);
    assert_int_equal(zn_image_read_metadata(path, &back), ZN_ENOTFOUND);
    zn_image_free(im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_keeps_it),
        cmocka_unit_test(found_in_files_of_others),
        cmocka_unit_test(damaged_files_are_survived),
        cmocka_unit_test(hostile_blocks_stay_within),
        cmocka_unit_test(too_large_is_left_out),
        cmocka_unit_test(read_from_a_file),
        cmocka_unit_test(density_is_kept),
        cmocka_unit_test(density_of_jfif),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

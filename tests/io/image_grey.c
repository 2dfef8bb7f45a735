/* Images without colours: recognised in every kind of file, written with one channel, never tinted. */
#include "image_make.h"

#include <jpeglib.h>
#include <png.h>

#include "io/image/pixels/pixels.h"

enum { W = 16, H = 4 };

static uint8_t rows[W * H * 8];

static blob png_of(int type, int depth, size_t row_bytes)
{
    for (size_t i = 0; i < sizeof rows; i++)
        rows[i] = (uint8_t)(i * 37 + 11);
    return make_png(
        &(png_spec){ .width = W, .height = H, .type = type, .depth = depth, .rows = rows, .row_bytes = row_bytes });
}

static void check_grey(blob b, const zn_image_read_options *options, int expected)
{
    zn_image *im = must_read(&b, options);
    assert_int_equal(im->grey, expected);
    for (int i = 0; expected && i < W * H; i++)
        assert_true(at(im, i % W, i / W, 0) == at(im, i % W, i / W, 1) &&
                    at(im, i % W, i / W, 1) == at(im, i % W, i / W, 2));
    zn_image_free(im);
    blob_free(&b);
}

static void grey_files_are_grey(void **state)
{
    (void)state;
    for (int depth = 1; depth <= 16; depth *= 2)
        check_grey(png_of(PNG_COLOR_TYPE_GRAY, depth, (size_t)(W * depth + 7) / 8), NULL, 1);
    check_grey(png_of(PNG_COLOR_TYPE_GRAY_ALPHA, 8, W * 2), NULL, 1);
    check_grey(png_of(PNG_COLOR_TYPE_GRAY_ALPHA, 16, W * 4), NULL, 1);
    check_grey(make_jpeg(&(jpeg_spec){ .width = W, .height = H, .channels = 1, .samples = rows, .quality = 90 }), NULL,
               1);
    check_grey(png_of(PNG_COLOR_TYPE_RGB, 8, W * 3), NULL, 0);
}

/* A profile of a display on one channel of grey: the conversion may be off by a step in one colour. */
static void profiles_do_not_tint(void **state)
{
    (void)state;
    png_spec spec = { .width = W, .height = H, .type = PNG_COLOR_TYPE_GRAY, .depth = 8, .rows = rows, .row_bytes = W };
    spec.icc = make_grey_profile(1.8);
    check_grey(make_png(&spec), NULL, 1);
    blob_free(&spec.icc);
}

/* Grey over a coloured background shows the colour; as stored it is grey. */
static void backgrounds_count(void **state)
{
    (void)state;
    check_grey(png_of(PNG_COLOR_TYPE_GRAY_ALPHA, 8, W * 2), &(zn_image_read_options){ .background = { 255, 0, 0 } }, 0);
    check_grey(png_of(PNG_COLOR_TYPE_GRAY_ALPHA, 8, W * 2), &(zn_image_read_options){ .background = { 9, 9, 9 } }, 1);
    check_grey(png_of(PNG_COLOR_TYPE_GRAY_ALPHA, 8, W * 2),
               &(zn_image_read_options){ .background = { 255, 0, 0 }, .ignore_alpha = 1 }, 1);
}

/* A file without colours that stores three samples or a palette of greys is grey as well. */
static void content_decides(void **state)
{
    (void)state;
    uint8_t palette[4 * 3], indices[W * H];
    for (int i = 0; i < 12; i++)
        palette[i] = (uint8_t)(i / 3 * 60);
    for (int i = 0; i < W * H; i++)
        indices[i] = (uint8_t)(i % 3);
    png_spec spec = { .width = W,
                      .height = H,
                      .type = PNG_COLOR_TYPE_PALETTE,
                      .depth = 8,
                      .rows = indices,
                      .row_bytes = W,
                      .palette = palette,
                      .palette_size = 4 };
    check_grey(make_png(&spec), NULL, 1);
    palette[3]++; /* used by some pixels */
    check_grey(make_png(&spec), NULL, 0);
    uint8_t rgb[W * H * 3];
    for (int i = 0; i < W * H * 3; i++)
        rgb[i] = (uint8_t)(i / 3);
    check_grey(make_webp(W, H, 3, rgb, 1), NULL, 1);
}

static zn_image *grey_image(int bits)
{
    zn_image *im;
    assert_int_equal(zn_image_new(W, H, bits, &im), ZN_OK);
    for (int i = 0; i < W * H * 3; i++)
        if (bits == 16)
            ((uint16_t *)im->pixels)[i] = (uint16_t)(i * 300);
        else
            ((uint8_t *)im->pixels)[i] = (uint8_t)i;
    zn_image_make_grey(im);
    return im;
}

static void mean_of_three(void **state)
{
    (void)state;
    zn_image *narrow = grey_image(8), *wide = grey_image(16);
    assert_true(narrow->grey && wide->grey);
    for (int i = 0; i < W * H; i++)
        for (int c = 0; c < 3; c++) {
            assert_int_equal(at(narrow, i % W, i / W, c), i * 3 + 1);
            assert_int_equal(at(wide, i % W, i / W, c), (i * 3 + 1) * 300);
        }
    zn_image_free(narrow);
    zn_image_free(wide);
}

static void *written(const char *format, const zn_image *im, const zn_image *alpha, size_t *size)
{
    void *bytes;
    assert_int_equal(zn_image_write_memory(format, im, &(zn_image_write_options){ .alpha = alpha }, &bytes, size),
                     ZN_OK);
    return bytes;
}

/* The colour type is byte 25 of a PNG. */
static void png_has_one_channel(void **state)
{
    (void)state;
    enum { COLOUR_TYPE = 25 };
    for (int bits = 8; bits <= 16; bits += 8) {
        zn_image *im = grey_image(bits), *alpha = grey_image(bits);
        size_t size;
        uint8_t *bytes = written("png", im, NULL, &size);
        assert_int_equal(bytes[COLOUR_TYPE], PNG_COLOR_TYPE_GRAY);
        zn_image *back = must_read(&(blob){ bytes, size }, NULL);
        assert_memory_equal(back->pixels, im->pixels, (size_t)(W * H * 3 * bits / 8));
        zn_image_free(back);
        zn_memory_free(bytes);
        bytes = written("png", im, alpha, &size);
        assert_int_equal(bytes[COLOUR_TYPE], PNG_COLOR_TYPE_GRAY_ALPHA);
        back = must_read(&(blob){ bytes, size }, &(zn_image_read_options){ .ignore_alpha = 1 });
        assert_memory_equal(back->pixels, im->pixels, (size_t)(W * H * 3 * bits / 8));
        zn_image_free(back);
        zn_memory_free(bytes);
        zn_image_free(im);
        zn_image_free(alpha);
    }
}

static int jpeg_components(const uint8_t *bytes, size_t size)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, bytes, size);
    jpeg_read_header(&c, TRUE);
    const int components = c.num_components;
    jpeg_destroy_decompress(&c);
    return components;
}

static void jpeg_has_one_channel(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8) {
        zn_image *im = grey_image(bits);
        size_t size;
        uint8_t *bytes = written("jpeg", im, NULL, &size);
        assert_int_equal(jpeg_components(bytes, size), 1);
        zn_memory_free(bytes);
        zn_image_free(im);
    }
}

static void webp_stays_grey(void **state)
{
    (void)state;
    zn_image *im = grey_image(8);
    size_t size;
    uint8_t *bytes = written("webp", im, im, &size);
    zn_image *back = must_read(&(blob){ bytes, size }, &(zn_image_read_options){ .ignore_alpha = 1 });
    assert_true(back->grey);
    zn_image_free(back);
    zn_memory_free(bytes);
    zn_image_free(im);
}

/* Whoever paints into an image that was grey does not lose the colour. */
static void colours_are_not_lost(void **state)
{
    (void)state;
    zn_image *im = grey_image(8);
    ((uint8_t *)im->pixels)[W * H * 3 - 1] ^= 255;
    size_t size;
    uint8_t *bytes = written("png", im, NULL, &size);
    zn_image *back = must_read(&(blob){ bytes, size }, NULL);
    assert_memory_equal(back->pixels, im->pixels, W * H * 3);
    zn_image_free(back);
    zn_memory_free(bytes);
    zn_image_free(im);
}

/* What networks make of a grey image: the mean, only in the region that is written. */
static void floats_become_grey(void **state)
{
    (void)state;
    const float rgb[] = { 0.1f, 0.2f, 0.3f, 1, 0.5f, 0 };
    zn_image *im;
    assert_int_equal(zn_image_new(3, 1, 8, &im), ZN_OK);
    im->grey = 1;
    ((uint8_t *)im->pixels)[0] = 7;
    assert_true(zn_pixels_from_float(rgb, 6, im, (zn_region){ 1, 0, 2, 1 }));
    const uint8_t expected[] = { 7, 0, 0, 51, 51, 51, 128, 128, 128 };
    assert_memory_equal(im->pixels, expected, sizeof expected);
    zn_image_free(im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grey_files_are_grey),  cmocka_unit_test(profiles_do_not_tint),
        cmocka_unit_test(backgrounds_count),    cmocka_unit_test(content_decides),
        cmocka_unit_test(mean_of_three),        cmocka_unit_test(png_has_one_channel),
        cmocka_unit_test(jpeg_has_one_channel), cmocka_unit_test(webp_stays_grey),
        cmocka_unit_test(colours_are_not_lost), cmocka_unit_test(floats_become_grey),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Alpha kept: read beside the colours, written with them, in both widths and both formats that have it. */
#include "image_make.h"

#include <png.h>
#include <unistd.h>

enum { W = 5, H = 3 };

static char path[64];

static void write_file(const blob *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->size, f), b->size);
    fclose(f);
}

static int sample(const zn_image *im, int i)
{
    return im->bits == 16 ? ((uint16_t *)im->pixels)[i] : ((uint8_t *)im->pixels)[i];
}

/* Colours, then alpha, of value(pixel, channel), in a PNG of our making. */
static int value(int pixel, int channel, int bits) { return (pixel * 4 + channel) * (bits == 16 ? 1021 : 3); }

static void make(int bits)
{
    uint8_t rows[H * W * 8];
    for (int i = 0; i < W * H * 4; i++)
        if (bits == 16)
            rows[2 * i] = (uint8_t)(value(i / 4, i % 4, bits) >> 8),
                     rows[2 * i + 1] = (uint8_t)value(i / 4, i % 4, bits);
        else
            rows[i] = (uint8_t)value(i / 4, i % 4, bits);
    blob b = make_png(&(png_spec){ .width = W,
                                   .height = H,
                                   .type = PNG_COLOR_TYPE_RGB_ALPHA,
                                   .depth = bits,
                                   .rows = rows,
                                   .row_bytes = (size_t)(W * 4 * bits / 8) });
    write_file(&b);
    blob_free(&b);
}

static void check_file(int bits)
{
    zn_image *colours, *alpha;
    const zn_image_read_options as_stored = { .ignore_alpha = 1 };
    assert_int_equal(zn_image_read(path, &as_stored, &colours), ZN_OK);
    assert_int_equal(zn_image_read_alpha(path, NULL, &alpha), ZN_OK);
    assert_non_null(alpha);
    assert_true(alpha->width == W && alpha->height == H && alpha->bits == bits && colours->bits == bits);
    for (int i = 0; i < W * H * 3; i++) {
        assert_int_equal(sample(colours, i), value(i / 3, i % 3, bits));
        assert_int_equal(sample(alpha, i), value(i / 3, 3, bits));
    }
    zn_image_free(colours);
    zn_image_free(alpha);
}

static void png_keeps_it(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8) {
        zn_image *colours, *alpha;
        make(bits);
        check_file(bits);
        assert_int_equal(zn_image_read(path, &(zn_image_read_options){ .ignore_alpha = 1 }, &colours), ZN_OK);
        assert_int_equal(zn_image_read_alpha(path, NULL, &alpha), ZN_OK);
        assert_int_equal(zn_image_write(path, colours, &(zn_image_write_options){ .alpha = alpha }), ZN_OK);
        check_file(bits);
        zn_image_free(colours);
        zn_image_free(alpha);
    }
}

/* WebP has 8 bits: 16-bit samples are rounded. */
static void webp_keeps_it(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8) {
        zn_image *alpha, *image, *back, *over;
        assert_int_equal(zn_image_new(W, H, bits, &alpha), ZN_OK);
        assert_int_equal(zn_image_new(W, H, bits, &image), ZN_OK);
        for (int i = 0; i < W * H * 3; i++)
            if (bits == 16)
                ((uint16_t *)alpha->pixels)[i] = (uint16_t)((128 + i / 3) * 257);
            else
                ((uint8_t *)alpha->pixels)[i] = (uint8_t)(128 + i / 3);
        char name[80];
        snprintf(name, sizeof name, "%s.webp", path);
        const zn_image_write_options writing = { .lossless = 1, .alpha = alpha };
        assert_int_equal(zn_image_write(name, image, &writing), ZN_OK);
        assert_int_equal(zn_image_read_alpha(name, NULL, &back), ZN_OK);
        assert_int_equal(zn_image_read(name, &(zn_image_read_options){ .background = { 255, 255, 255 } }, &over),
                         ZN_OK);
        for (int i = 0; i < W * H * 3; i++) {
            assert_int_equal(sample(back, i), 128 + i / 3);
            assert_int_equal(sample(over, i), 127 - i / 3); /* black over white */
        }
        zn_image_free(alpha);
        zn_image_free(image);
        zn_image_free(back);
        zn_image_free(over);
        unlink(name);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    zn_image *image, *small, *alpha;
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_new(W, H, 8, &image), ZN_OK);
    assert_int_equal(zn_image_new(W - 1, H, 8, &small), ZN_OK);
    const zn_image_write_options wrong = { .alpha = small }, right = { .alpha = image };
    assert_int_equal(zn_image_write_memory("png", image, &wrong, &bytes, &size), ZN_EINVALID);
    assert_int_equal(zn_image_write_memory("jpeg", image, &right, &bytes, &size), ZN_EUNSUPPORTED);
    assert_int_equal(zn_image_write(path, image, NULL), ZN_OK);
    assert_int_equal(zn_image_read_alpha(path, NULL, &alpha), ZN_OK);
    assert_null(alpha); /* it has none */
    zn_image_free(image);
    zn_image_free(small);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/zenith-alpha-%ld.png", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_keeps_it),
        cmocka_unit_test(webp_keeps_it),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

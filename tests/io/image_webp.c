/* WebP: lossless exactly, lossy closely, alpha over the background, animations refused. */
#include "image_make.h"

enum { W = 33, H = 21 };

static void lossless_is_exact(void **state)
{
    (void)state;
    uint8_t rgb[W * H * 3];
    fill_pattern(rgb, W, H);
    blob b = make_webp(W, H, 3, rgb, 1);
    blob_add(&b, "garbage behind the end", 22);
    zn_image *im = must_read(&b, NULL);
    assert_int_equal(im->width, W);
    assert_int_equal(im->height, H);
    assert_memory_equal(im->pixels, rgb, sizeof rgb);
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_write_memory("webp", im, &(zn_image_write_options){ .lossless = 1 }, &bytes, &size),
                     ZN_OK);
    const blob own = { bytes, size };
    zn_image *back = must_read(&own, NULL);
    assert_memory_equal(back->pixels, rgb, sizeof rgb);
    zn_memory_free(bytes);
    zn_image_free(back);
    zn_image_free(im);
    blob_free(&b);
}

static void lossy_is_close(void **state)
{
    (void)state;
    zn_image *im;
    assert_int_equal(zn_image_new(W, H, 8, &im), ZN_OK);
    for (int i = 0; i < W * H * 3; i++)
        ((uint8_t *)im->pixels)[i] = (uint8_t)(50 + i / 3 % W * 3 + i / 3 / W * 2);
    blob b = make_webp(W, H, 3, im->pixels, 0);
    void *bytes[2];
    size_t size[2];
    assert_int_equal(zn_image_write_memory("webp", im, &(zn_image_write_options){ .quality = 30 }, &bytes[0], &size[0]),
                     ZN_OK);
    assert_int_equal(zn_image_write_memory("webp", im, &(zn_image_write_options){ .quality = 99 }, &bytes[1], &size[1]),
                     ZN_OK);
    assert_true(size[0] < size[1]);
    const blob good = { bytes[1], size[1] };
    zn_image *a = must_read(&b, NULL), *c = must_read(&good, NULL);
    zn_image_difference d;
    assert_int_equal(zn_image_compare(im, a, &d), ZN_OK);
    assert_true(d.psnr > 35);
    assert_int_equal(zn_image_compare(im, c, &d), ZN_OK);
    assert_true(d.psnr > 35);
    zn_memory_free(bytes[0]);
    zn_memory_free(bytes[1]);
    zn_image_free(a);
    zn_image_free(c);
    zn_image_free(im);
    blob_free(&b);
}

static void alpha_over_background(void **state)
{
    (void)state;
    const zn_image_read_options options = { .background = { 20, 200, 90 } };
    uint8_t rgba[W * H * 4];
    for (int i = 0; i < W * H; i++) {
        for (int c = 0; c < 3; c++)
            rgba[i * 4 + c] = pattern(i % W, i / W, c);
        rgba[i * 4 + 3] = (uint8_t)(1 + i % 255);
    }
    for (int lossless = 0; lossless < 2; lossless++) {
        blob b = make_webp(W, H, 4, rgba, lossless);
        zn_image *im = must_read(&b, &options);
        for (int i = 0; lossless && i < W * H; i++)
            for (int c = 0; c < 3; c++) {
                const int a = rgba[i * 4 + 3];
                assert_int_equal(at(im, i % W, i / W, c),
                                 (int)((rgba[i * 4 + c] * a + options.background[c] * (255 - a)) / 255.0 + 0.5));
            }
        /* where nothing is opaque, even lossy colours are the background */
        for (int c = 0; c < 3; c++)
            assert_in_range(at(im, 0, 0, c) - options.background[c] + 2, 0, 4);
        zn_image_free(im);
        blob_free(&b);
    }
}

static void extended_files(void **state)
{
    (void)state;
    uint8_t rgb[W * H * 3];
    fill_pattern(rgb, W, H);
    blob plain = make_webp(W, H, 3, rgb, 1);
    blob still = extend_webp(&plain, W, H, 0, NULL, NULL, 0);
    zn_image *im = must_read(&still, NULL);
    assert_memory_equal(im->pixels, rgb, sizeof rgb);
    zn_image_free(im);
    blob_free(&plain);
    blob_free(&still);
}

static void too_large_to_write(void **state)
{
    (void)state;
    zn_image *im;
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_new(1, 16384, 8, &im), ZN_OK);
    assert_int_equal(zn_image_write_memory("webp", im, NULL, &bytes, &size), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "16383"));
    zn_image_free(im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless_is_exact),     cmocka_unit_test(lossy_is_close),
        cmocka_unit_test(alpha_over_background), cmocka_unit_test(extended_files),
        cmocka_unit_test(too_large_to_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

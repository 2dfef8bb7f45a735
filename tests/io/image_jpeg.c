/* JPEG: grey, colour, CMYK in its variants, progressive, restarts, and what writing promises. */
#include "image_make.h"

enum { W = 50, H = 37 };

static void assert_near(const zn_image *im, const uint8_t *rgb, int tolerance)
{
    assert_int_equal(im->bits, 8);
    int worst = 0;
    for (int i = 0; i < im->width * im->height * 3; i++) {
        const int d = abs(((const uint8_t *)im->pixels)[i] - rgb[i]);
        worst = d > worst ? d : worst;
    }
    if (worst > tolerance)
        fail_msg("off by %d, allowed %d", worst, tolerance);
}

/* A slow gradient that JPEG keeps well. */
static void fill_smooth(uint8_t *samples, int channels)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < channels; c++)
                samples[(y * W + x) * channels + c] = (uint8_t)(60 + x * (c + 1) + y * (3 - c % 3));
}

static void grey(void **state)
{
    (void)state;
    uint8_t samples[W * H], rgb[W * H * 3];
    fill_smooth(samples, 1);
    for (int i = 0; i < W * H * 3; i++)
        rgb[i] = samples[i / 3];
    for (int progressive = 0; progressive < 2; progressive++) {
        blob b = make_jpeg(&(jpeg_spec){ W, H, 1, samples, .quality = 95, .progressive = progressive });
        zn_image *im = must_read(&b, NULL);
        assert_near(im, rgb, 4);
        zn_image_free(im);
        blob_free(&b);
    }
}

static void colour(void **state)
{
    (void)state;
    uint8_t rgb[W * H * 3];
    fill_smooth(rgb, 3);
    for (int kind = 0; kind < 16; kind++) {
        blob b = make_jpeg(&(jpeg_spec){ W, H, 3, rgb, .quality = 98, .progressive = kind & 1,
                                         .sampling = 1 + (kind >> 1 & 1), .restart = kind & 4 ? 3 : 0,
                                         .arithmetic = kind >> 3 & 1 });
        blob_add(&b, "garbage behind the end", 22);
        zn_image *im = must_read(&b, NULL);
        assert_int_equal(im->width, W);
        assert_int_equal(im->height, H);
        assert_near(im, rgb, 6);
        zn_image_free(im);
        blob_free(&b);
    }
}

/* Without a profile: light passes ink and black. Files with Adobe's marker hold 255 - ink. */
static void cmyk(void **state)
{
    (void)state;
    uint8_t ink[W * H * 4], rgb[W * H * 3], stored[W * H * 4];
    for (int i = 0; i < W * H; i++) {
        const int cell = i % W / 10;
        const uint8_t cells[5][4] = {
            { 0, 0, 0, 0 }, { 255, 0, 0, 0 }, { 0, 200, 100, 0 }, { 0, 0, 0, 255 }, { 60, 40, 20, 128 }
        };
        memcpy(ink + i * 4, cells[cell], 4);
        for (int c = 0; c < 3; c++)
            rgb[i * 3 + c] = (uint8_t)((255 - cells[cell][c]) * (255 - cells[cell][3]) / 255.0 + 0.5);
    }
    for (int kind = 0; kind < 3; kind++) { /* 0: CMYK with Adobe marker, 1: YCCK with it, 2: CMYK without */
        const int inverted = kind < 2;
        for (int i = 0; i < W * H * 4; i++)
            stored[i] = inverted ? 255 - ink[i] : ink[i];
        blob b = make_jpeg(&(jpeg_spec){ W, H, 4, stored, .quality = 100, .ycck = kind == 1, .no_adobe = !inverted });
        zn_image *im = must_read(&b, NULL);
        for (int y = 0; y < H; y++)
            for (int x = 4; x < W; x += 10) /* away from the edges between cells, which ring */
                for (int c = 0; c < 3; c++)
                    assert_in_range(at(im, x, y, c) - rgb[(y * W + x) * 3 + c] + 6, 0, 12);
        zn_image_free(im);
        blob_free(&b);
    }
}

static void writing(void **state)
{
    (void)state;
    zn_image *im;
    assert_int_equal(zn_image_new(W, H, 8, &im), ZN_OK);
    fill_smooth(im->pixels, 3);
    size_t previous = 0;
    const int qualities[] = { 1, 50, 85, 0, 100 }; /* 0 is 92 */
    for (int i = 0; i < 5; i++) {
        void *bytes;
        size_t size;
        assert_int_equal(
            zn_image_write_memory("jpeg", im, &(zn_image_write_options){ .quality = qualities[i] }, &bytes, &size),
            ZN_OK);
        assert_true(size > previous);
        previous = size;
        const blob b = { bytes, size };
        zn_image *back = must_read(&b, NULL);
        if (qualities[i] == 0 || qualities[i] == 100)
            assert_near(back, im->pixels, qualities[i] ? 3 : 5);
        zn_image_free(back);
        zn_memory_free(bytes);
    }
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_write_memory("jpeg", im, &(zn_image_write_options){ .quality = 101 }, &bytes, &size),
                     ZN_EINVALID);
    assert_null(bytes);
    assert_int_equal(zn_image_write_memory("jpeg", im, &(zn_image_write_options){ .quality = -1 }, &bytes, &size),
                     ZN_EINVALID);
    zn_image_free(im);
    assert_int_equal(zn_image_new(65501, 1, 8, &im), ZN_OK);
    assert_int_equal(zn_image_write_memory("jpeg", im, NULL, &bytes, &size), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "65500"));
    zn_image_free(im);
}

/* A 16-bit image is rounded, not cut. */
static void sixteen_bits_become_eight(void **state)
{
    (void)state;
    zn_image *wide;
    assert_int_equal(zn_image_new(16, 16, 16, &wide), ZN_OK);
    for (int i = 0; i < 16 * 16 * 3; i++)
        ((uint16_t *)wide->pixels)[i] = 100 * 257 + 200; /* 100.78 */
    for (int i = 0; i < 2; i++) {
        void *bytes;
        size_t size;
        assert_int_equal(zn_image_write_memory(i ? "webp" : "jpeg", wide,
                                               &(zn_image_write_options){ .lossless = 1, .quality = 100 }, &bytes,
                                               &size),
                         ZN_OK);
        const blob b = { bytes, size };
        zn_image *back = must_read(&b, NULL);
        assert_int_equal(back->bits, 8);
        assert_int_equal(at(back, 3, 3, 0), 101);
        zn_image_free(back);
        zn_memory_free(bytes);
    }
    zn_image_free(wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grey),
        cmocka_unit_test(colour),
        cmocka_unit_test(cmyk),
        cmocka_unit_test(writing),
        cmocka_unit_test(sixteen_bits_become_eight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

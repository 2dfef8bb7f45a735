/* Samples to floats and back: exact quotients, edges repeated on every side, rounding, NaN. */
#include "image_make.h"

#include "io/image/pixels/pixels.h"

#include <math.h>

static zn_image *new_image(int width, int height, int bits)
{
    zn_image *im;
    assert_int_equal(zn_image_new(width, height, bits, &im), ZN_OK);
    for (int i = 0; i < width * height * 3; i++) {
        if (bits == 8)
            ((uint8_t *)im->pixels)[i] = (uint8_t)(i * 7);
        else
            ((uint16_t *)im->pixels)[i] = (uint16_t)(i * 1237);
    }
    return im;
}

static void every_value_survives(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8) {
        const int count = 1 << bits, max = count - 1;
        zn_image *im = new_image(count, 1, bits), *back = new_image(count, 1, bits);
        float *f = malloc((size_t)count * 3 * sizeof *f);
        for (int i = 0; i < count * 3; i++) {
            if (bits == 8)
                ((uint8_t *)im->pixels)[i] = (uint8_t)(i / 3);
            else
                ((uint16_t *)im->pixels)[i] = (uint16_t)(i / 3);
        }
        const zn_region all = { 0, 0, count, 1 };
        zn_pixels_to_float(im, all, f, 0);
        for (int i = 0; i < count * 3; i++)
            assert_true(f[i] == (float)(i / 3) / (float)max);
        assert_int_equal(zn_pixels_from_float(f, 0, back, all), 1);
        assert_memory_equal(back->pixels, im->pixels, (size_t)count * 3 * (size_t)(bits / 8));
        free(f);
        zn_image_free(im);
        zn_image_free(back);
    }
}

static int inside(int v, int size) { return v < 0 ? 0 : v >= size ? size - 1 : v; }

static void regions_beyond_the_edges(void **state)
{
    (void)state;
    static const zn_region regions[] = { { 0, 0, 5, 4 },
                                         { 0, 0, 8, 8 },
                                         { -3, -2, 5, 4 },
                                         { 2, 1, 2, 2 },
                                         { 4, 3, 1, 1 },
                                         { -9, -9, 3, 3 },
                                         { 7, 9, 4, 2 },
                                         { -4, 1, 20, 1 },
                                         { 3, -5, 1, 20 },
                                         { -1, -1, 1, 1 },
                                         { 4, 0, 6, 2 },
                                         { -2147483647, 0, 4, 1 },
                                         { 2147483640, 2147483640, 5, 5 } };
    for (int bits = 8; bits <= 16; bits += 8) {
        zn_image *im = new_image(5, 4, bits);
        for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
            const zn_region r = regions[i];
            const size_t stride = (size_t)r.width * 3 + 5;
            float *f = malloc((size_t)r.height * stride * sizeof *f);
            for (size_t j = 0; j < (size_t)r.height * stride; j++)
                f[j] = -7;
            zn_pixels_to_float(im, r, f, stride);
            for (int y = 0; y < r.height; y++) {
                for (int x = 0; x < r.width; x++)
                    for (int c = 0; c < 3; c++) {
                        const int64_t u = (int64_t)r.x + x, v = (int64_t)r.y + y;
                        const int want = at(im, u > 5 ? 4 : inside((int)u, 5), v > 4 ? 3 : inside((int)v, 4), c);
                        assert_true(f[(size_t)y * stride + (size_t)(x * 3 + c)] ==
                                    (float)want / (bits == 8 ? 255.0f : 65535.0f));
                    }
                for (size_t j = (size_t)r.width * 3; j < stride; j++)
                    assert_true(f[(size_t)y * stride + j] == -7);
            }
            free(f);
        }
        zn_image_free(im);
    }
}

static void rounding_and_clamping(void **state)
{
    (void)state;
    const float values[] = { -0.0f,        -1e-30f,      -5.0f,        1.0f,        1.0000001f,
                             7.0f,         3e38f,        0.49f / 255,  0.51f / 255, 100.4f / 255,
                             100.6f / 255, 254.4f / 255, 254.6f / 255, 1e-40f,      0.5f };
    const int want8[] = { 0, 0, 0, 255, 255, 255, 255, 0, 1, 100, 101, 254, 255, 0, 128 };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        zn_image *im = new_image(3, 2, 8), *wide = new_image(3, 2, 16);
        const float f[3] = { values[i], values[i], values[i] };
        const zn_region one = { 1, 1, 1, 1 };
        const int before = at(im, 0, 1, 2), after = at(im, 2, 1, 0);
        assert_int_equal(zn_pixels_from_float(f, 3, im, one), 1);
        assert_int_equal(zn_pixels_from_float(f, 3, wide, one), 1);
        for (int c = 0; c < 3; c++) {
            assert_int_equal(at(im, 1, 1, c), want8[i]);
            const double clamped = values[i] < 0 ? 0 : values[i] > 1 ? 1 : values[i];
            assert_true(fabs(at(wide, 1, 1, c) - clamped * 65535) <= 0.505);
        }
        assert_int_equal(at(im, 0, 1, 2), before);
        assert_int_equal(at(im, 2, 1, 0), after);
        zn_image_free(im);
        zn_image_free(wide);
    }
}

static void strange_numbers_are_reported(void **state)
{
    (void)state;
    const float strange[] = { NAN, -NAN, INFINITY, -INFINITY };
    for (int bits = 8; bits <= 16; bits += 8)
        for (int place = 0; place < 37 * 3; place++)
            for (int i = 0; i < 4; i++) {
                zn_image *im = new_image(37, 1, bits);
                float f[37 * 3] = { 0.25f };
                f[place] = strange[i];
                assert_int_equal(zn_pixels_from_float(f, 0, im, (zn_region){ 0, 0, 37, 1 }), 0);
                zn_image_free(im);
            }
}

static void sixteen_to_eight(void **state)
{
    (void)state;
    uint16_t *wide = malloc(65536 * sizeof *wide);
    uint8_t *narrow = malloc(65536);
    for (int i = 0; i < 65536; i++)
        wide[i] = (uint16_t)i;
    zn_pixels_to_8(wide, narrow, 65536);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(narrow[i], (int)floor(i * 255.0 / 65535 + 0.5));
    free(wide);
    free(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_survives),  cmocka_unit_test(regions_beyond_the_edges),
        cmocka_unit_test(rounding_and_clamping), cmocka_unit_test(strange_numbers_are_reported),
        cmocka_unit_test(sixteen_to_eight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

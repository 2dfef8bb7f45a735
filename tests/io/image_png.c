/* PNG reader: every colour type and depth against values worked out here. */
#include "image_make.h"

#include <math.h>
#include <png.h>

/* Sample i of packed bits. */
static int packed(const uint8_t *row, int depth, int i)
{
    if (depth == 16)
        return row[2 * i] << 8 | row[2 * i + 1];
    return row[i * depth / 8] >> (8 - depth - i * depth % 8) & ((1 << depth) - 1);
}

static void fill_noise(uint8_t *bytes, size_t size)
{
    uint32_t s = 12345;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((s = s * 1664525u + 1013904223u) >> 24);
}

enum { W = 21, H = 19 };

/* What the reader should give for a sample of the file. */
static int widened(int value, int depth) { return depth == 16 ? value : value * 255 / ((1 << depth) - 1); }

static void check_opaque(int type, int channels, int depth, int interlaced)
{
    uint8_t rows[H * W * 6];
    const size_t row_bytes = (size_t)(W * channels * depth + 7) / 8;
    fill_noise(rows, sizeof rows);
    blob b = make_png(&(png_spec){ .width = W,
                                   .height = H,
                                   .type = type,
                                   .depth = depth,
                                   .interlaced = interlaced,
                                   .rows = rows,
                                   .row_bytes = row_bytes,
                                   .text = 1 });
    zn_image *im = must_read(&b, NULL);
    assert_int_equal(im->width, W);
    assert_int_equal(im->height, H);
    assert_int_equal(im->bits, depth == 16 ? 16 : 8);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(
                    at(im, x, y, c),
                    widened(packed(rows + (size_t)y * row_bytes, depth, channels == 1 ? x : x * 3 + c), depth));
    zn_image_free(im);
    blob_free(&b);
}

static void grey_and_rgb(void **state)
{
    (void)state;
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        for (int depth = 1; depth <= 16; depth *= 2)
            check_opaque(PNG_COLOR_TYPE_GRAY, 1, depth, interlaced);
        check_opaque(PNG_COLOR_TYPE_RGB, 3, 8, interlaced);
        check_opaque(PNG_COLOR_TYPE_RGB, 3, 16, interlaced);
    }
}

static int over(int value, int alpha, int background, int max)
{
    return (int)floor(((double)value * alpha + (double)background * (max - alpha)) / max + 0.5);
}

static void check_alpha(int type, int channels, int depth, int interlaced)
{
    const zn_image_read_options options = { .background = { 10, 128, 250 } };
    uint8_t rows[H * W * 8];
    const size_t row_bytes = (size_t)(W * channels * depth) / 8;
    const int max = depth == 8 ? 255 : 65535;
    fill_noise(rows, sizeof rows);
    blob b = make_png(&(png_spec){ .width = W,
                                   .height = H,
                                   .type = type,
                                   .depth = depth,
                                   .interlaced = interlaced,
                                   .rows = rows,
                                   .row_bytes = row_bytes });
    zn_image *im = must_read(&b, &options);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++) {
                const uint8_t *row = rows + (size_t)y * row_bytes;
                const int alpha = packed(row, depth, x * channels + channels - 1);
                const int value = packed(row, depth, x * channels + (channels == 4 ? c : 0));
                assert_int_equal(at(im, x, y, c), over(value, alpha, options.background[c] * (max / 255), max));
            }
    zn_image_free(im);
    blob_free(&b);
}

static void alpha_over_background(void **state)
{
    (void)state;
    for (int interlaced = 0; interlaced < 2; interlaced++)
        for (int depth = 8; depth <= 16; depth *= 2) {
            check_alpha(PNG_COLOR_TYPE_GRAY_ALPHA, 2, depth, interlaced);
            check_alpha(PNG_COLOR_TYPE_RGB_ALPHA, 4, depth, interlaced);
        }
}

static void palettes(void **state)
{
    (void)state;
    const zn_image_read_options options = { .background = { 100, 0, 200 } };
    uint8_t palette[256 * 3], alpha[256], rows[H * W];
    fill_noise(palette, sizeof palette);
    for (int i = 0; i < 256; i++)
        alpha[i] = (uint8_t)(255 - i);
    for (int depth = 1; depth <= 8; depth *= 2)
        for (int transparent = 0; transparent < 2; transparent++) {
            const size_t row_bytes = (size_t)(W * depth + 7) / 8;
            const int colours = 1 << depth;
            fill_noise(rows, sizeof rows);
            blob b = make_png(&(png_spec){ .width = W,
                                           .height = H,
                                           .type = PNG_COLOR_TYPE_PALETTE,
                                           .depth = depth,
                                           .rows = rows,
                                           .row_bytes = row_bytes,
                                           .palette = palette,
                                           .palette_size = colours,
                                           .alpha = alpha,
                                           .alpha_size = transparent ? (colours + 1) / 2 : 0 });
            zn_image *im = must_read(&b, &options);
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++)
                    for (int c = 0; c < 3; c++) {
                        const int i = packed(rows + (size_t)y * row_bytes, depth, x);
                        const int a = transparent && i < (colours + 1) / 2 ? alpha[i] : 255;
                        assert_int_equal(at(im, x, y, c), over(palette[i * 3 + c], a, options.background[c], 255));
                    }
            zn_image_free(im);
            blob_free(&b);
        }
}

/* tRNS with one colour: the pixels of exactly that value are transparent, also at 16 bits. */
static void transparent_colour(void **state)
{
    (void)state;
    const zn_image_read_options options = { .background = { 1, 2, 3 } };
    const uint8_t grey4[] = { 0x7a, 0x70 },
                  rgb16[] = { 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x35 };
    blob b = make_png(&(png_spec){ .width = 3,
                                   .height = 1,
                                   .type = PNG_COLOR_TYPE_GRAY,
                                   .depth = 4,
                                   .rows = grey4,
                                   .row_bytes = 2,
                                   .has_key = 1,
                                   .key = 7 });
    zn_image *im = must_read(&b, &options);
    for (int c = 0; c < 3; c++) {
        assert_int_equal(at(im, 0, 0, c), c + 1);
        assert_int_equal(at(im, 1, 0, c), 0xaa);
        assert_int_equal(at(im, 2, 0, c), c + 1);
    }
    zn_image_free(im);
    blob_free(&b);
    b = make_png(&(png_spec){ .width = 2,
                              .height = 1,
                              .type = PNG_COLOR_TYPE_RGB,
                              .depth = 16,
                              .rows = rgb16,
                              .row_bytes = 12,
                              .has_key = 1,
                              .key = 0x1234 });
    im = must_read(&b, &options);
    for (int c = 0; c < 3; c++) {
        assert_int_equal(at(im, 0, 0, c), (c + 1) * 257);
        assert_int_equal(at(im, 1, 0, c), c == 2 ? 0x1235 : 0x1234);
    }
    zn_image_free(im);
    blob_free(&b);
}

static int to_srgb(double light, int max)
{
    return (int)lrint((light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055) * max);
}

static void gamma_is_honoured(void **state)
{
    (void)state;
    uint8_t ramp[256 * 3], wide[256 * 2];
    for (int i = 0; i < 256; i++) {
        memset(ramp + i * 3, i, 3);
        wide[2 * i] = wide[2 * i + 1] = (uint8_t)i;
    }
    const double gammas[] = { 1.0, 1 / 1.8, 1 / 2.2, 0.45 };
    for (int g = 0; g < 4; g++) {
        blob b = make_png(&(png_spec){ .width = 256,
                                       .height = 1,
                                       .type = PNG_COLOR_TYPE_RGB,
                                       .depth = 8,
                                       .rows = ramp,
                                       .row_bytes = 768,
                                       .gamma = gammas[g] });
        blob d = make_png(&(png_spec){ .width = 256,
                                       .height = 1,
                                       .type = PNG_COLOR_TYPE_GRAY,
                                       .depth = 16,
                                       .rows = wide,
                                       .row_bytes = 512,
                                       .gamma = gammas[g] });
        zn_image *im = must_read(&b, NULL), *im16 = must_read(&d, NULL);
        for (int i = 0; i < 256; i++) {
            const double light = pow(i / 255.0, 1 / gammas[g]);
            assert_in_range(at(im, i, 0, 1) - (g < 2 ? to_srgb(light, 255) : i) + 1, 0, 2);
            /* the file keeps gamma to five digits */
            assert_in_range(at(im16, i, 0, 2) - (g < 2 ? to_srgb(light, 65535) : i * 257) + 8, 0, 16);
        }
        zn_image_free(im);
        zn_image_free(im16);
        blob_free(&b);
        blob_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grey_and_rgb),       cmocka_unit_test(alpha_over_background), cmocka_unit_test(palettes),
        cmocka_unit_test(transparent_colour), cmocka_unit_test(gamma_is_honoured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

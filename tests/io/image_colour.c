/* ICC profiles: known colours of a wide space arrive at the sRGB values that the definition of both spaces gives. */
#include "image_make.h"

#include <math.h>
#include <png.h>

static double light_of(double v) { return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4); }
static double value_of(double l) { return l <= 0.0031308 ? 12.92 * l : 1.055 * pow(l, 1 / 2.4) - 0.055; }

/* Display P3 to sRGB, both with the D65 white point: the product of the two published matrices. */
static void p3_to_srgb(const double *p3, double *srgb)
{
    static const double m[3][3] = { { 1.2249401763, -0.2249401763, 0 },
                                    { -0.0420569547, 1.0420569547, 0 },
                                    { -0.0196375546, -0.0786360456, 1.0982736001 } };
    for (int i = 0; i < 3; i++) {
        double l = 0;
        for (int j = 0; j < 3; j++)
            l += m[i][j] * light_of(p3[j]);
        srgb[i] = value_of(l < 0 ? 0 : l > 1 ? 1 : l);
    }
}

/* Colours of P3 that sRGB has too, some greys, and one it lacks. */
static const uint8_t colours[][3] = { { 0, 0, 0 },     { 255, 255, 255 }, { 128, 128, 128 }, { 180, 120, 100 },
                                      { 60, 110, 90 }, { 200, 180, 60 },  { 90, 80, 160 },   { 20, 30, 25 },
                                      { 234, 51, 35 }, { 117, 251, 76 },  { 0, 255, 0 } };
enum { COLOURS = sizeof colours / sizeof *colours };

static void check_p3(const zn_image *im, int tolerance)
{
    const int max = im->bits == 8 ? 255 : 65535;
    for (int i = 0; i < COLOURS; i++) {
        double p3[3], srgb[3];
        for (int c = 0; c < 3; c++)
            p3[c] = colours[i][c] / 255.0;
        p3_to_srgb(p3, srgb);
        for (int c = 0; c < 3; c++) {
            const double d = fabs(at(im, i, 0, c) - srgb[c] * max);
            if (d > tolerance + 0.5)
                fail_msg("colour %d channel %d: %d, wanted %.1f of %d", i, c, at(im, i, 0, c), srgb[c] * max, max);
        }
    }
}

static void wide_gamut(void **state)
{
    (void)state;
    blob icc = make_display_p3(), png8, png16, plain, webp;
    uint8_t wide[COLOURS * 6];
    for (int i = 0; i < COLOURS * 6; i++)
        wide[i] = ((const uint8_t *)colours)[i / 2];
    png_spec spec = { .width = COLOURS,
                      .height = 1,
                      .type = PNG_COLOR_TYPE_RGB,
                      .depth = 8,
                      .rows = (const uint8_t *)colours,
                      .row_bytes = COLOURS * 3,
                      .icc = icc };
    png8 = make_png(&spec);
    spec.depth = 16, spec.rows = wide, spec.row_bytes = COLOURS * 6;
    png16 = make_png(&spec);
    plain = make_webp(COLOURS, 1, 3, (const uint8_t *)colours, 1);
    webp = extend_webp(&plain, COLOURS, 1, 0, &icc, NULL, 0);
    zn_image *im = must_read(&png8, NULL);
    check_p3(im, 1);
    zn_image_free(im);
    im = must_read(&png16, NULL);
    assert_int_equal(im->bits, 16);
    check_p3(im, 64); /* a quarter of an 8-bit step */
    zn_image_free(im);
    im = must_read(&webp, NULL);
    check_p3(im, 1);
    zn_image_free(im);
    blob_free(&icc), blob_free(&png8), blob_free(&png16), blob_free(&plain), blob_free(&webp);
}

/* The profile applies to the colour, then the alpha to the result. */
static void profile_and_alpha(void **state)
{
    (void)state;
    const uint8_t rgba[8] = { 234, 51, 35, 255, 234, 51, 35, 100 };
    blob icc = make_display_p3();
    blob b = make_png(&(png_spec){ .width = 2,
                                   .height = 1,
                                   .type = PNG_COLOR_TYPE_RGB_ALPHA,
                                   .depth = 8,
                                   .rows = rgba,
                                   .row_bytes = 8,
                                   .icc = icc });
    zn_image *im = must_read(&b, &(zn_image_read_options){ .background = { 10, 20, 30 } });
    for (int c = 0; c < 3; c++)
        assert_int_equal(at(im, 1, 0, c), (int)((at(im, 0, 0, c) * 100 + (c + 1) * 10 * 155) / 255.0 + 0.5));
    assert_int_equal(at(im, 0, 0, 0), 255); /* P3 (234,51,35) is sRGB's purest red */
    zn_image_free(im);
    blob_free(&icc), blob_free(&b);
}

/* A JPEG with the profile in many parts. */
static void profile_in_parts(void **state)
{
    (void)state;
    uint8_t rgb[16 * 16 * 3];
    for (int i = 0; i < 16 * 16; i++)
        memcpy(rgb + i * 3, colours[3], 3);
    blob icc = make_display_p3();
    for (int part = 100; part <= 300; part += 200) {
        blob b = make_jpeg(&(jpeg_spec){ 16, 16, 3, rgb, .quality = 100, .icc = icc, .icc_part = part });
        zn_image *im = must_read(&b, NULL);
        const double p3[3] = { colours[3][0] / 255.0, colours[3][1] / 255.0, colours[3][2] / 255.0 };
        double srgb[3];
        p3_to_srgb(p3, srgb);
        for (int c = 0; c < 3; c++)
            assert_true(fabs(at(im, 8, 8, c) - srgb[c] * 255) < 2.5);
        zn_image_free(im);
        blob_free(&b);
    }
    blob_free(&icc);
}

static void grey_profiles(void **state)
{
    (void)state;
    uint8_t ramp[256], wide[512];
    for (int i = 0; i < 256; i++)
        ramp[i] = wide[2 * i] = wide[2 * i + 1] = (uint8_t)i;
    blob icc = make_grey_profile(1.8);
    png_spec spec = {
        .width = 256, .height = 1, .type = PNG_COLOR_TYPE_GRAY, .depth = 8, .rows = ramp, .row_bytes = 256, .icc = icc
    };
    for (int bits = 8; bits <= 16; bits += 8) {
        if (bits == 16)
            spec.depth = 16, spec.rows = wide, spec.row_bytes = 512;
        blob b = make_png(&spec);
        zn_image *im = must_read(&b, NULL);
        const int max = bits == 8 ? 255 : 65535;
        for (int i = 0; i < 256; i += 5)
            for (int c = 0; c < 3; c++)
                assert_true(fabs(at(im, i, 0, c) - value_of(pow(i / 255.0, 1.8)) * max) <= (bits == 8 ? 1.5 : 130));
        zn_image_free(im);
        blob_free(&b);
    }
    blob_free(&icc);
    /* A grey JPEG with an RGB profile means equal red, green and blue of that space: grey again. */
    icc = make_display_p3();
    uint8_t grey[64];
    memset(grey, 77, sizeof grey);
    blob b = make_jpeg(&(jpeg_spec){ 8, 8, 1, grey, .quality = 100, .icc = icc });
    zn_image *im = must_read(&b, NULL);
    for (int c = 0; c < 3; c++)
        assert_in_range(at(im, 4, 4, c), 76, 78);
    zn_image_free(im);
    blob_free(&b), blob_free(&icc);
}

static int grey_of_lightness(double l)
{
    const double f = (l + 16) / 116;
    return (int)lrint(255 * value_of(l > 8 ? f * f * f : l / 903.3));
}

static void ink_profiles(void **state)
{
    (void)state;
    static const struct {
        uint8_t ink[4];
        double lightness;
    } cases[] = { { { 0, 0, 0, 0 }, 100 },
                  { { 255, 0, 0, 0 }, 50 },
                  { { 0, 255, 255, 0 }, 100 },
                  { { 0, 0, 0, 255 }, 0 },
                  { { 0, 0, 0, 102 }, 60 } };
    blob icc = make_ink_profile();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind < 3; kind++) { /* inverted CMYK, inverted YCCK, plain */
            uint8_t samples[16 * 16 * 4];
            for (int j = 0; j < 16 * 16 * 4; j++)
                samples[j] = kind < 2 ? 255 - cases[i].ink[j % 4] : cases[i].ink[j % 4];
            blob b = make_jpeg(&(jpeg_spec){ 16, 16, 4, samples, .quality = 100, .ycck = kind == 1,
                                             .no_adobe = kind == 2, .icc = icc });
            zn_image *im = must_read(&b, NULL);
            for (int c = 0; c < 3; c++)
                assert_in_range(at(im, 7, 7, c) - grey_of_lightness(cases[i].lightness) + 3, 0, 6);
            zn_image_free(im);
            blob_free(&b);
        }
    blob_free(&icc);
}

/* sRGB under any name, profiles for other kinds of picture, and rubbish: the pixels stay as they are. */
static void pixels_left_alone(void **state)
{
    (void)state;
    uint8_t rgb[32 * 16 * 3], rubbish[600];
    fill_pattern(rgb, 32, 16);
    for (int i = 0; i < 600; i++)
        rubbish[i] = (uint8_t)(i * 37);
    blob plain = make_webp(32, 16, 3, rgb, 1), cut = make_display_p3(), tagless = make_display_p3();
    cut.size /= 3;
    memset(tagless.data + 128, 0xff, 4); /* an absurd count of tags */
    blob profiles[] = { make_srgb_profile(), make_grey_profile(1.8), make_ink_profile(), cut, tagless,
                        { rubbish, 600 },    { rubbish, 1 } };
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        blob b = extend_webp(&plain, 32, 16, 0, &profiles[i], NULL, 0);
        zn_image *im = must_read(&b, NULL);
        assert_memory_equal(im->pixels, rgb, sizeof rgb);
        zn_image_free(im);
        blob_free(&b);
        if (profiles[i].data != rubbish)
            blob_free(&profiles[i]);
    }
    blob_free(&plain);
}

/* Parts missing, doubled, or counted differently: no profile, but the picture. */
static void broken_parts(void **state)
{
    (void)state;
    uint8_t grey[64];
    memset(grey, 100, sizeof grey);
    blob icc = make_grey_profile(1.0);
    blob whole = make_jpeg(&(jpeg_spec){ 8, 8, 1, grey, .quality = 100, .icc = icc, .icc_part = (int)icc.size / 3 });
    zn_image *im = must_read(&whole, NULL);
    assert_true(at(im, 0, 0, 0) > 150); /* linear 100 is far brighter in sRGB */
    zn_image_free(im);
    const uint8_t *first = NULL;
    for (size_t i = 0; !first && i + 12 < whole.size; i++)
        if (!memcmp(whole.data + i, "ICC_PROFILE", 12))
            first = whole.data + i;
    assert_non_null(first);
    const size_t number = (size_t)(first - whole.data) + 12;
    for (int value = 0; value < 8; value++)
        for (size_t byte = number; byte < number + 2; byte++) {
            const uint8_t old = whole.data[byte];
            if (old == value)
                continue;
            whole.data[byte] = (uint8_t)value;
            im = must_read(&whole, NULL);
            assert_in_range(at(im, 0, 0, 0), 98, 102);
            zn_image_free(im);
            whole.data[byte] = old;
        }
    blob_free(&icc), blob_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_gamut),    cmocka_unit_test(profile_and_alpha), cmocka_unit_test(profile_in_parts),
        cmocka_unit_test(grey_profiles), cmocka_unit_test(ink_profiles),      cmocka_unit_test(pixels_left_alone),
        cmocka_unit_test(broken_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

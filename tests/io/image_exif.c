/* Orientation: the eight cases in each format and at both depths, and EXIF blocks that lie. */
#include "image_make.h"

#include "io/image/metadata/exif.h"

#include <png.h>

enum { W = 45, H = 70 }; /* more than two tiles high */

/* Where the stored pixel (x,y) of a W x H picture is seen: EXIF says which visual sides row 0 and column 0 are. */
static void seen_at(int orientation, int x, int y, int *u, int *v)
{
    switch (orientation) {
    case 1:
        *u = x, *v = y;
        break; /* row 0 top, column 0 left */
    case 2:
        *u = W - 1 - x, *v = y;
        break; /* top, right */
    case 3:
        *u = W - 1 - x, *v = H - 1 - y;
        break; /* bottom, right */
    case 4:
        *u = x, *v = H - 1 - y;
        break; /* bottom, left */
    case 5:
        *u = y, *v = x;
        break; /* left, top */
    case 6:
        *u = H - 1 - y, *v = x;
        break; /* right, top */
    case 7:
        *u = H - 1 - y, *v = W - 1 - x;
        break; /* right, bottom */
    case 8:
        *u = y, *v = W - 1 - x;
        break; /* left, bottom */
    }
}

static void check_turned(const zn_image *im, int orientation, int tolerance)
{
    assert_int_equal(im->width, orientation < 5 ? W : H);
    assert_int_equal(im->height, orientation < 5 ? H : W);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++) {
                int u, v;
                seen_at(orientation, x, y, &u, &v);
                const int d = at(im, u, v, c) - pattern(x, y, c) * (im->bits == 16 ? 257 : 1);
                assert_in_range(d + tolerance, 0, 2 * tolerance);
            }
}

static void every_orientation(void **state)
{
    (void)state;
    static uint8_t rgb[W * H * 3], wide[W * H * 6];
    fill_pattern(rgb, W, H);
    for (size_t i = 0; i < sizeof wide; i++)
        wide[i] = rgb[i / 2];
    for (int o = 1; o <= 8; o++) {
        blob exif = make_exif(o, o % 2), jpeg_picture, webp_plain = make_webp(W, H, 3, rgb, 1);
        const png_spec spec = { .width = W,
                                .height = H,
                                .type = PNG_COLOR_TYPE_RGB,
                                .depth = 8,
                                .rows = rgb,
                                .row_bytes = W * 3,
                                .exif = exif,
                                .exif_last = o > 4 };
        png_spec spec16 = spec;
        spec16.depth = 16, spec16.rows = wide, spec16.row_bytes = W * 6;
        jpeg_picture = make_jpeg(&(jpeg_spec){ W, H, 3, rgb, .quality = 100, .exif = exif });
        blob files[] = { make_png(&spec), make_png(&spec16), jpeg_picture,
                         extend_webp(&webp_plain, W, H, 0, NULL, &exif, 0) };
        for (int i = 0; i < 4; i++) {
            zn_image *im = must_read(&files[i], NULL);
            check_turned(im, o, i == 2 ? 12 : 0);
            zn_image_free(im);
            blob_free(&files[i]);
        }
        blob_free(&exif);
        blob_free(&webp_plain);
    }
}

static void prefix_is_optional(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        blob exif = make_exif(6, big), prefixed = { 0 };
        blob_add(&prefixed, "Exif\0", 6);
        blob_add(&prefixed, exif.data, exif.size);
        assert_int_equal(zn_exif_orientation(exif.data, exif.size), 6);
        assert_int_equal(zn_exif_orientation(prefixed.data, prefixed.size), 6);
        blob_free(&exif);
        blob_free(&prefixed);
    }
}

/* A copy that ends exactly where the block does, so that a sanitizer sees any step beyond. */
static int orientation_of(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    const int o = zn_exif_orientation(copy, size);
    free(copy);
    return o;
}

static void blocks_that_lie(void **state)
{
    (void)state;
    blob exif = make_exif(6, 0);
    assert_int_equal(orientation_of(exif.data, exif.size), 6);
    for (size_t size = 0; size < exif.size - 4; size++)
        assert_int_equal(orientation_of(exif.data, size), 1);
    static const struct {
        int offset, value;
    } changes[] = { { 0, 'M' }, { 2, 43 }, { 4, 0xff }, { 7, 0xff }, { 24, 1 },
                    { 26, 2 },  { 29, 1 }, { 30, 0 },   { 30, 9 },   { 31, 1 } };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const uint8_t old = exif.data[changes[i].offset];
        exif.data[changes[i].offset] = (uint8_t)changes[i].value;
        assert_int_equal(orientation_of(exif.data, exif.size), 1);
        exif.data[changes[i].offset] = old;
    }
    exif.data[8] = 0xff; /* more entries than there are, the orientation still among the first */
    exif.data[9] = 0xff;
    assert_int_equal(orientation_of(exif.data, exif.size), 6);
    exif.data[22] = 0x13; /* and now it is not */
    assert_int_equal(orientation_of(exif.data, exif.size), 1);
    blob_free(&exif);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_orientation),
        cmocka_unit_test(prefix_is_optional),
        cmocka_unit_test(blocks_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

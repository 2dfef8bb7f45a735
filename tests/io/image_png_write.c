/* PNG writer: round trips, threads, lack of memory, and sizes beside those of libpng. */
#include "image_make.h"

#include "base/alloc.h"

#include <png.h>

static void fill_noise(uint8_t *bytes, size_t size)
{
    uint32_t s = 12345;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((s = s * 1664525u + 1013904223u) >> 24);
}

static void round_trips(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8)
        for (int width = 1; width < 40; width += 13) {
            zn_image *im;
            assert_int_equal(zn_image_new(width, 7, bits, &im), ZN_OK);
            fill_noise(im->pixels, (size_t)width * 7 * 3 * (size_t)(bits / 8));
            blob b = { 0 };
            void *bytes;
            size_t size;
            assert_int_equal(zn_image_write_memory("png", im, NULL, &bytes, &size), ZN_OK);
            blob_add(&b, bytes, size);
            zn_memory_free(bytes);
            blob_add(&b, "trailing garbage", 16);
            zn_image *back = must_read(&b, NULL);
            assert_int_equal(back->bits, bits);
            assert_memory_equal(back->pixels, im->pixels, (size_t)width * 7 * 3 * (size_t)(bits / 8));
            zn_image_free(back);
            zn_image_free(im);
            blob_free(&b);
        }
}

/* A window as on a screen, on a background of one colour: a bar that gets darker, lines of text, a chart. */
static void draw(uint8_t *at, int x, int y)
{
    static const uint8_t colours[][3] = { { 250, 250, 250 }, { 30, 30, 30 }, { 31, 119, 180 }, { 255, 127, 14 } };
    const int column = x / 2 % 8, letter = (x / 16 * 7 + y / 20 * 13) % 26;
    int colour = 0;
    if (y % 400 < 40) {
        at[0] = at[1] = (uint8_t)(200 - y % 400);
        at[2] = 220;
        return;
    }
    if (x < 600)
        colour =
            y % 20 < 14 && letter && column < 6 && (0x5a3c96e1u >> ((letter * 5 + column * 3 + y % 20 / 2) % 32) & 1);
    else
        colour = y % 50 == 0 || (x - 600) / 3 % 100 == y % 100 ? 2 + y / 100 % 2 : 0;
    memcpy(at, colours[colour], 3);
}

typedef enum content { MIXED, SCREEN, DITHER } content;

/* MIXED: half noise, half a gradient, so that blocks do and do not get smaller, with a screen in between. DITHER: two
 * colours in no order. */
static zn_image *large_image(int width, int height, int bits, content kind)
{
    zn_image *im;
    assert_int_equal(zn_image_new(width, height, bits, &im), ZN_OK);
    const size_t size = (size_t)width * (size_t)height * 3 * (size_t)(bits / 8);
    fill_noise(im->pixels, size);
    for (size_t i = size / 2; kind == MIXED && i < size; i++)
        ((uint8_t *)im->pixels)[i] = (uint8_t)(i / 7);
    const int begin = kind == MIXED ? height / 4 : 0, end = kind == MIXED ? height / 2 : height;
    for (int y = begin; y < end; y++)
        for (int x = 0; x < width; x++) {
            const size_t i = ((size_t)y * (size_t)width + (size_t)x) * 3;
            uint8_t rgb[3];
            memset(rgb, (((const uint8_t *)im->pixels)[i] & 96) == 96 ? 240 : 16, 3);
            if (kind != DITHER)
                draw(rgb, x, y);
            for (int c = 0; c < 3; c++)
                if (bits == 8)
                    ((uint8_t *)im->pixels)[i + (size_t)c] = rgb[c];
                else
                    ((uint16_t *)im->pixels)[i + (size_t)c] = (uint16_t)(rgb[c] * 257);
        }
    return im;
}

/* Large images are compressed in blocks: the same bytes for any number of threads, read by libpng, which checks all
 * sums. */
static void threads_write_the_same(void **state)
{
    static const int cases[][5] = {
        { 700, 500, 8, 0, MIXED },    { 300, 500, 16, 0, MIXED },  { 1, 90000, 8, 0, MIXED },
        { 90000, 9, 8, 0, MIXED },    { 1200, 1100, 8, 1, MIXED }, { 43690, 2, 8, 0, MIXED },
        { 1000, 1500, 8, 0, SCREEN }, { 700, 900, 16, 0, SCREEN }, { 900, 1500, 8, 1, SCREEN },
        { 800, 900, 8, 0, DITHER },   { 90000, 9, 8, 0, SCREEN },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zn_image *im = large_image(cases[i][0], cases[i][1], cases[i][2], (content)cases[i][4]);
        if (cases[i][3])
            zn_image_make_grey(im);
        blob first = { 0 };
        for (int threads = 1; threads <= 5; threads += 2) {
            const zn_image_write_options o = { .threads = threads };
            blob b = { 0 };
            void *bytes;
            size_t size;
            assert_int_equal(zn_image_write_memory("png", im, &o, &bytes, &size), ZN_OK);
            blob_add(&b, bytes, size);
            zn_memory_free(bytes);
            zn_image *back = must_read(&b, NULL);
            assert_memory_equal(back->pixels, im->pixels,
                                (size_t)im->width * (size_t)im->height * 3 * (size_t)(im->bits / 8));
            zn_image_free(back);
            if (threads == 1)
                first = b;
            else {
                assert_int_equal(b.size, first.size);
                assert_memory_equal(b.data, first.data, b.size);
                blob_free(&b);
            }
        }
        blob_free(&first);
        zn_image_free(im);
    }
}

/* Not much larger than with the filters that libpng chooses, at level 6. */
static void flat_pictures_are_small(void **state)
{
    static const struct {
        int width, height, grey;
        content content;

    } cases[] = { { 1000, 1500, 0, SCREEN }, { 900, 1500, 1, SCREEN }, { 800, 900, 0, DITHER } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zn_image *im = large_image(cases[i].width, cases[i].height, 8, cases[i].content);
        if (cases[i].grey)
            zn_image_make_grey(im);
        const size_t pixels = (size_t)im->width * (size_t)im->height;
        uint8_t *rows = malloc(pixels * 3);
        assert_non_null(rows);
        for (size_t k = 0; k < pixels; k++)
            memcpy(rows + (cases[i].grey ? k : 3 * k), (const uint8_t *)im->pixels + 3 * k, cases[i].grey ? 1 : 3);
        blob other = make_png(&(png_spec){ .width = im->width,
                                           .height = im->height,
                                           .type = cases[i].grey ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                                           .depth = 8,
                                           .rows = rows,
                                           .row_bytes = (size_t)im->width * (cases[i].grey ? 1 : 3) });
        void *bytes;
        size_t size;
        assert_int_equal(zn_image_write_memory("png", im, NULL, &bytes, &size), ZN_OK);
        if (size * 100 > other.size * 110)
            fail_msg("case %zu: %zu bytes, and libpng makes %zu", i, size, other.size);
        zn_memory_free(bytes);
        blob_free(&other);
        free(rows);
        zn_image_free(im);
    }
}

static void memory_may_run_out(void **state)
{
    (void)state;
    zn_image *im = large_image(500, 400, 8, MIXED);
    int failures = 0;
    for (int64_t n = 1; n <= 40; n++) { /* some of these are for threads, without which it goes on */
        const zn_image_write_options o = { .threads = 3 };
        void *bytes = NULL;
        size_t size;
        zn_alloc_fail_at(n);
        const zn_status status = zn_image_write_memory("png", im, &o, &bytes, &size);
        zn_alloc_fail_at(0);
        zn_memory_free(bytes);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
        failures += status != ZN_OK;
    }
    assert_true(failures > 20);
    const zn_image_write_options negative = { .threads = -1 };
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_write_memory("png", im, &negative, &bytes, &size), ZN_EINVALID);
    zn_image_free(im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(threads_write_the_same),
        cmocka_unit_test(flat_pictures_are_small),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

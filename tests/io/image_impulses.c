/* Impulse noise: found in damaged images only, and replaced by what was there. */
#include "image_make.h"
#include "io/image/pixels/impulses.h"

enum { WIDE = 160, HIGH = 100, SAMPLES = WIDE * HIGH * 3 };

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 16;
}

static int sample(const zn_image *p, int i)
{
    return p->bits == 8 ? ((const uint8_t *)p->pixels)[i] : ((const uint16_t *)p->pixels)[i];
}

static void set(zn_image *p, int i, int value) /* of 255 */
{
    const int v = value < 0 ? 0 : value > 255 ? 255 : value;
    if (p->bits == 8)
        ((uint8_t *)p->pixels)[i] = (uint8_t)v;
    else
        ((uint16_t *)p->pixels)[i] = (uint16_t)(v * 257);
}

/* Slopes of different colours with an edge between them; a white and a black area, clipped, below. */
static zn_image *scene(int bits, bool grey)
{
    zn_image *p;
    assert_int_equal(zn_image_new(WIDE, HIGH, bits, &p), ZN_OK);
    for (int i = 0; i < SAMPLES; i++) {
        const int x = i / 3 % WIDE, y = i / 3 / WIDE, c = grey ? 0 : i % 3;
        const int v = x + y / 2 < 90 ? 70 + x / 2 + 8 * c : 210 - x / 3 - 12 * c;
        set(p, i, y < 88 ? v : x < WIDE / 2 ? 255 : 0);
    }
    p->grey = grey;
    return p;
}

/* Salt and pepper in `percent` of the samples, or of the pixels. */
static zn_image *damaged(const zn_image *clean, int percent, bool pixels)
{
    zn_image *p;
    uint32_t random = 1;
    assert_int_equal(zn_image_new(WIDE, HIGH, clean->bits, &p), ZN_OK);
    memcpy(p->pixels, clean->pixels, (size_t)SAMPLES * (size_t)(clean->bits / 8));
    p->grey = clean->grey;
    for (int i = 0; i < SAMPLES; i += pixels ? 3 : 1) {
        const bool hit = (int)(next(&random) % 100) < percent;
        const int value = next(&random) % 2 ? 255 : 0;
        for (int c = 0; hit && c < (pixels ? 3 : 1); c++)
            set(p, i + c, value);
    }
    return p;
}

/* Any value in `percent` of the samples, or of the pixels, whose channels then agree. */
static zn_image *hit_at_random(const zn_image *clean, int percent, bool pixels)
{
    zn_image *p = damaged(clean, 0, false);
    uint32_t random = 7;
    for (int i = 0; i < SAMPLES; i += pixels ? 3 : 1) {
        const bool hit = (int)(next(&random) % 100) < percent;
        const int value = (int)(next(&random) % 256);
        for (int c = 0; hit && c < (pixels ? 3 : 1); c++)
            set(p, i + c, value);
    }
    return p;
}

static double mean_square(const zn_image *a, const zn_image *b)
{
    double sum = 0;
    const double scale = a->bits == 8 ? 1 : 257;
    for (int i = 0; i < SAMPLES; i++)
        sum += (sample(a, i) - sample(b, i)) / scale * (sample(a, i) - sample(b, i)) / scale;
    return sum / SAMPLES;
}

static void expect_filled(int bits, bool grey, int percent, bool pixels, double most)
{
    zn_image *clean = scene(bits, grey), *bad = damaged(clean, percent, pixels), *filled;
    assert_int_equal(zn_impulses_fill(bad, &filled), ZN_OK);
    assert_non_null(filled);
    assert_true(filled->bits == bits && filled->grey == grey);
    assert_true(mean_square(clean, bad) > 500);
    if (mean_square(clean, filled) > most)
        fail_msg("%d bits, %d %%: mean square error %.2f", bits, percent, mean_square(clean, filled));
    for (int i = 0; i < SAMPLES; i++) {
        assert_true(!grey || sample(filled, i) == sample(filled, i / 3 * 3));
        assert_true(sample(bad, i) == 0 || sample(bad, i) == (bits == 8 ? 255 : 65535) ||
                    sample(filled, i) == sample(bad, i));
    }
    zn_image_free(clean);
    zn_image_free(bad);
    zn_image_free(filled);
}

static void expect_untouched(zn_image *p)
{
    zn_image *filled;
    assert_int_equal(zn_impulses_fill(p, &filled), ZN_OK);
    assert_null(filled);
    zn_image_free(p);
}

static void salt_and_pepper_is_filled(void **state)
{
    (void)state;
    expect_filled(8, false, 5, false, 4);
    expect_filled(8, false, 20, false, 40);
    expect_filled(16, false, 5, false, 4);
    expect_filled(8, false, 5, true, 80);
}

/* What remains are impulses near the right value; of a hundred right samples hardly one changes. */
static void random_values_are_filled(void **state)
{
    (void)state;
    static const struct {
        int bits, grey, percent, pixels;
        double most;
    } cases[] = { { 8, 0, 2, 0, 4 }, { 8, 0, 5, 0, 8 }, { 16, 0, 5, 0, 8 }, { 8, 0, 10, 0, 20 }, { 8, 1, 5, 1, 60 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        zn_image *clean = scene(cases[k].bits, cases[k].grey), *filled;
        zn_image *bad = hit_at_random(clean, cases[k].percent, cases[k].pixels);
        assert_int_equal(zn_impulses_fill(bad, &filled), ZN_OK);
        assert_non_null(filled);
        int changed = 0;
        for (int i = 0; i < SAMPLES; i++) {
            changed += sample(clean, i) == sample(bad, i) && sample(bad, i) != sample(filled, i);
            assert_true(!cases[k].grey || sample(filled, i) == sample(filled, i / 3 * 3));
        }
        if (mean_square(clean, filled) > cases[k].most || changed > SAMPLES / 100)
            fail_msg("case %zu: mean square error %.2f of %.0f, %d right samples changed", k,
                     mean_square(clean, filled), mean_square(clean, bad), changed);
        zn_image_free(clean);
        zn_image_free(bad);
        zn_image_free(filled);
    }
}

/* Hot pixels and snow are brighter than what is around them, and only that. */
static void bright_points_are_untouched(void **state)
{
    (void)state;
    zn_image *p = scene(8, false);
    uint32_t random = 3;
    for (int i = 0; i < SAMPLES; i++)
        if (next(&random) % 50 == 0)
            set(p, i, sample(p, i) + 40 + (int)(next(&random) % 160));
    expect_untouched(p);
}

static void grey_stays_grey(void **state)
{
    (void)state;
    expect_filled(8, true, 5, true, 80);
}

static void clean_images_are_untouched(void **state)
{
    (void)state;
    expect_untouched(scene(8, false));
    expect_untouched(scene(16, true));
}

/* Points of one kind, as stars and lights at night are. */
static void stars_are_untouched(void **state)
{
    (void)state;
    zn_image *p = scene(8, false);
    for (int i = 0; i < WIDE * HIGH; i++) {
        const bool star = i % WIDE % 7 == 3 && i / WIDE % 5 == 2;
        for (int c = 0; c < 3; c++)
            set(p, 3 * i + c, star ? 255 : 20 + i % 3);
    }
    expect_untouched(p);
}

/* Black and white strokes of one pixel on grey, and black and white pixels in turn. */
static void text_and_dithering_are_untouched(void **state)
{
    (void)state;
    zn_image *text = scene(8, false), *dither = scene(8, false);
    for (int i = 0; i < WIDE * HIGH; i++) {
        const int x = i % WIDE, y = i / WIDE, stroke = y % 8 < 5 && x % 6 == 2, value = x % 12 < 6 ? 0 : 255;
        memset((uint8_t *)text->pixels + 3 * i, stroke ? value : 140, 3);
        memset((uint8_t *)dither->pixels + 3 * i, (x * 5 + y * 3) % 9 < y * 9 / HIGH ? 255 : 0, 3);
    }
    expect_untouched(text);
    expect_untouched(dither);
}

/* Noise that reaches both ends of the scale: of a tenth of full scale, and wider than the scale. */
static void noise_is_untouched(void **state)
{
    (void)state;
    for (int width = 60; width <= 600; width += 180) {
        zn_image *p = scene(8, false);
        uint32_t random = 1;
        for (int i = 0; i < SAMPLES; i++) {
            int sum = 0; /* of four: nearly normal */
            for (int k = 0; k < 4; k++)
                sum += (int)(next(&random) % (uint32_t)width) - width / 2;
            set(p, i, sample(p, i) + sum / 2);
        }
        expect_untouched(p);
    }
}

static void tiny_images_are_untouched(void **state)
{
    (void)state;
    for (int side = 1; side <= 3; side++) {
        zn_image *p;
        assert_int_equal(zn_image_new(side, side, 16, &p), ZN_OK);
        expect_untouched(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(salt_and_pepper_is_filled),        cmocka_unit_test(grey_stays_grey),
        cmocka_unit_test(clean_images_are_untouched),       cmocka_unit_test(stars_are_untouched),
        cmocka_unit_test(text_and_dithering_are_untouched), cmocka_unit_test(noise_is_untouched),
        cmocka_unit_test(tiny_images_are_untouched),        cmocka_unit_test(random_values_are_filled),
        cmocka_unit_test(bright_points_are_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

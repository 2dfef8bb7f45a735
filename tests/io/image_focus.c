/* Parts of a photo that are out of focus. */
#include "image_make.h"
#include "io/image/pixels/focus.h"

enum { WIDE = 256, HIGH = 64, MIDDLE = 128 };

/* Bars of 16 pixels, with edges that take `ramp` pixels. */
static uint8_t bars(int x, int ramp)
{
    const int in = x % 16, up = x / 16 % 2;
    const int rise = in < ramp ? 160 * (in + 1) / ramp : 160;
    return (uint8_t)(40 + (up ? rise : 160 - rise));
}

/* Edges of `left` pixels in the left half, of `right` pixels in the right one, and noise of up to `noise`. */
static zn_image *scene(int left, int right, int noise)
{
    zn_image *p;
    uint32_t random = 1;
    assert_int_equal(zn_image_new(WIDE, HIGH, 8, &p), ZN_OK);
    for (int i = 0; i < WIDE * HIGH; i++) {
        random = random * 1664525u + 1013904223u;
        const int x = i % WIDE, add = noise ? (int)(random >> 16) % (2 * noise) - noise : 0;
        memset((uint8_t *)p->pixels + 3 * i, bars(x, x < MIDDLE ? left : right) + add, 3);
    }
    return p;
}

/* Share of soft pixels in columns [first, end). */
static double soft(const zn_focus *f, int first, int end)
{
    int count = 0;
    for (int y = 0; y < HIGH; y++)
        for (int x = first; x < end; x++)
            count += zn_focus_is_soft(f, x, y);
    return count / (double)(HIGH * (end - first));
}

static void expect(zn_image *p, double left, double right)
{
    zn_focus f;
    assert_int_equal(zn_focus_of(p, &f), ZN_OK);
    assert_true(soft(&f, 0, MIDDLE) == left && soft(&f, MIDDLE, WIDE) == right);
    assert_int_equal(zn_focus_is_soft(&f, WIDE + 50, HIGH + 50), zn_focus_is_soft(&f, WIDE - 1, HIGH - 1));
    assert_int_equal(zn_focus_is_soft(&f, -9, -9), zn_focus_is_soft(&f, 0, 0));
    zn_focus_free(&f);
    zn_image_free(p);
}

static void only_a_soft_part_of_a_sharp_photo_is_soft(void **state)
{
    (void)state;
    expect(scene(1, 8, 0), 0, 1);
    expect(scene(1, 1, 0), 0, 0);
}

static void a_photo_without_sharp_parts_is_blurred(void **state)
{
    (void)state;
    expect(scene(8, 8, 0), 0, 0);
}

static void noise_is_sharp(void **state)
{
    (void)state;
    expect(scene(1, 8, 30), 0, 0);
}

/* Everything becomes white: soft parts by a few steps only, more towards the sharp ones. */
static void soft_parts_change_little(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8) {
        const int step = bits == 8 ? 1 : 257;
        zn_image *eight = scene(1, 8, 0), *before, *after;
        zn_focus f;
        assert_int_equal(zn_image_new(WIDE, HIGH, bits, &before), ZN_OK);
        assert_int_equal(zn_image_new(WIDE, HIGH, bits, &after), ZN_OK);
        for (int i = 0; i < WIDE * HIGH * 3; i++) {
            const int v = ((const uint8_t *)eight->pixels)[i];
            if (bits == 8)
                ((uint8_t *)before->pixels)[i] = (uint8_t)v;
            else
                ((uint16_t *)before->pixels)[i] = (uint16_t)(v * 257);
        }
        memset(after->pixels, 255, (size_t)WIDE * HIGH * 3 * (size_t)(bits / 8));
        assert_int_equal(zn_focus_of(before, &f), ZN_OK);
        zn_focus_bound(&f, before, after);
        int last = 255 * step;
        for (int x = 0; x < WIDE; x++) {
            const int i = 3 * (HIGH / 2 * WIDE + x);
            const int was = bits == 8 ? ((uint8_t *)before->pixels)[i] : ((uint16_t *)before->pixels)[i];
            const int is = bits == 8 ? ((uint8_t *)after->pixels)[i] : ((uint16_t *)after->pixels)[i];
            assert_true(x >= MIDDLE - 16 || is == 255 * step);
            assert_true(x < MIDDLE + 16 || is - was == 6 * step);
            assert_true(is - was <= last || is == 255 * step);
            last = is == 255 * step ? last : is - was;
        }
        zn_focus_free(&f);
        zn_image_free(eight);
        zn_image_free(before);
        zn_image_free(after);
    }
}

/* The result of a restorer: columns from `first` on are of another scene. */
static void replace_from(zn_image *p, zn_image *other, int first)
{
    for (int i = 0; i < WIDE * HIGH; i++)
        if (i % WIDE >= first)
            memcpy((uint8_t *)p->pixels + 3 * i, (uint8_t *)other->pixels + 3 * i, 3);
    zn_image_free(other);
}

/* Keeps `after` clean of sharpening; the first column, of those in the middle row, that differs from it before, or
 * WIDE. */
static int first_given_back(zn_image *before, zn_image *after, int *last_kept)
{
    zn_focus f;
    zn_image *was = scene(1, 1, 0);
    memcpy(was->pixels, after->pixels, (size_t)WIDE * HIGH * 3);
    assert_int_equal(zn_focus_of(before, &f), ZN_OK);
    assert_int_equal(zn_focus_keep_clean(&f, before, after), ZN_OK);
    int first = WIDE;
    *last_kept = -1;
    for (int x = WIDE - 1; x >= 0; x--) {
        const int i = 3 * (HIGH / 2 * WIDE + x);
        first = ((uint8_t *)after->pixels)[i] != ((uint8_t *)was->pixels)[i] ? x : first;
        if (*last_kept < 0 && ((uint8_t *)after->pixels)[i] != ((uint8_t *)before->pixels)[i])
            *last_kept = x;
    }
    zn_focus_free(&f);
    zn_image_free(was);
    zn_image_free(before);
    zn_image_free(after);
    return first;
}

static void sharpening_of_a_clean_photo_is_undone(void **state)
{
    (void)state;
    enum { FIRST = 192 };
    int last;
    zn_image *after = scene(1, 8, 0);
    replace_from(after, scene(1, 4, 0), FIRST);
    const int given = first_given_back(scene(1, 8, 0), after, &last);
    assert_true(given >= FIRST && given < FIRST + 16 && last < FIRST + 16);
    after = scene(1, 8, 0); /* noise was removed, so the photo was not clean */
    replace_from(after, scene(1, 4, 0), FIRST);
    assert_int_equal(first_given_back(scene(1, 8, 30), after, &last), WIDE);
    assert_int_equal(first_given_back(scene(8, 8, 0), scene(1, 1, 0), &last), WIDE); /* it was blurred */
    assert_int_equal(first_given_back(scene(2, 2, 0), scene(1, 1, 0), &last), WIDE); /* a little, but everywhere */
}

static void small_images_have_a_cell(void **state)
{
    (void)state;
    zn_image *p;
    zn_focus f;
    assert_int_equal(zn_image_new(1, 1, 16, &p), ZN_OK);
    assert_int_equal(zn_focus_of(p, &f), ZN_OK);
    assert_true(f.across == 1 && f.down == 1 && !zn_focus_is_soft(&f, 0, 0));
    zn_focus_free(&f);
    zn_image_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_soft_part_of_a_sharp_photo_is_soft),
        cmocka_unit_test(a_photo_without_sharp_parts_is_blurred),
        cmocka_unit_test(noise_is_sharp),
        cmocka_unit_test(soft_parts_change_little),
        cmocka_unit_test(sharpening_of_a_clean_photo_is_undone),
        cmocka_unit_test(small_images_have_a_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Pictures of another size, against another implementation's values. */
#include "image_make.h"
#include "io/image/pixels/resample.h"

/* Values of Pillow 13's resize with BILINEAR. */
static void scaling_is_pillows(void **state)
{
    (void)state;
    static const uint8_t two[] = { 98,  103, 140, 148, 119, 111, 126, 103, 134,
                                   135, 125, 105, 122, 154, 114, 132, 125, 130 },
                         larger[] = { 0,   37,  74,  83,  120, 157, 176, 66,  103, 164, 54,  91,  110, 147, 121, 193,
                                      230, 16,  30,  67,  104, 113, 150, 187, 122, 96,  133, 110, 84,  121, 140, 141,
                                      151, 223, 117, 46,  68,  105, 142, 151, 134, 171, 97,  104, 141, 85,  122, 129,
                                      160, 152, 135, 189, 47,  84,  106, 143, 180, 189, 38,  75,  135, 68,  105, 123,
                                      160, 93,  153, 190, 39,  48,  85,  122, 144, 181, 218, 93,  76,  113, 99,  106,
                                      143, 161, 124, 131, 191, 94,  77,  86,  123, 160, 182, 219, 148, 77,  114, 124,
                                      107, 144, 118, 154, 132, 106, 148, 78,  115, 124, 161, 198, 212, 249, 35,  107,
                                      144, 118, 137, 174, 64,  125, 162, 52,  71,  108, 145, 154, 191, 228 };
    zn_image *p, *out;
    assert_int_equal(zn_image_new(5, 5, 8, &p), ZN_OK);
    for (int i = 0; i < 5 * 5 * 3; i++)
        ((uint8_t *)p->pixels)[i] = (uint8_t)(i * 37 % 251);
    assert_int_equal(zn_image_resample(p, 2, 3, &out), ZN_OK);
    assert_memory_equal(out->pixels, two, sizeof two);
    zn_image_free(out);
    assert_int_equal(zn_image_resample(p, 6, 7, &out), ZN_OK);
    assert_memory_equal(out->pixels, larger, sizeof larger);
    zn_image_free(out);
    assert_int_equal(zn_image_fit(p, 5, 5, &out), ZN_OK);
    assert_memory_equal(out->pixels, p->pixels, 75);
    zn_image_free(out);
    zn_image_free(p);
}

/* A line of a few kilobytes must not ask for gigabytes. */
static void lines_are_no_squares(void **state)
{
    (void)state;
    zn_image *line, *out;
    assert_int_equal(zn_image_new(1 << 14, 1, 8, &line), ZN_OK);
    assert_int_equal(zn_image_fit(line, 8, 8, &out), ZN_OK);
    assert_true(out->width == 8 && out->height == 8);
    zn_image_free(out);
    assert_int_equal(zn_image_fit(line, 256, 256, &out), ZN_ELIMIT);
    assert_null(out);
    zn_image_free(line);
}

/* Bars of three colours across: a wide image keeps its middle, a narrow one its full width. */
static void middle_is_kept(void **state)
{
    (void)state;
    zn_image *bars, *out;
    assert_int_equal(zn_image_new(60, 20, 8, &bars), ZN_OK);
    for (int i = 0; i < 60 * 20; i++)
        ((uint8_t *)bars->pixels)[3 * i + i % 60 / 20] = 200;
    assert_int_equal(zn_image_fit(bars, 16, 32, &out), ZN_OK);
    assert_true(out->width == 16 && out->height == 32);
    for (int i = 0; i < 16 * 32; i++)
        assert_memory_equal((uint8_t *)out->pixels + 3 * i, "\0\310\0", 3);
    zn_image_free(out);
    assert_int_equal(zn_image_fit(bars, 90, 10, &out), ZN_OK);
    assert_true(out->width == 90 && out->height == 10);
    assert_memory_equal(out->pixels, "\310\0\0", 3);
    assert_memory_equal((uint8_t *)out->pixels + 3 * 89, "\0\0\310", 3);
    zn_image_free(out);
    zn_image_free(bars);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scaling_is_pillows), cmocka_unit_test(lines_are_no_squares),
                                        cmocka_unit_test(middle_is_kept) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

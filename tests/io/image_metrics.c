/* PSNR and SSIM against an independent implementation's values and against the textbook formula in double precision. */
#include "image_make.h"

#include <math.h>

/* Three pairs of 52x40 pixels in one picture each, with the values PyTorch computed in float64. */
static void against_reference(void **state)
{
    (void)state;
    const double psnr[3] = { 26.164990046827830, 22.471080780029297, 24.395574569702148 };
    const double ssim[3] = { 0.95878213644027710, 0.97050392627716064, 0.96824371814727783 };
    zn_image *a, *b;
    assert_int_equal(zn_image_read(TEST_DATA "/metrics_a.png", NULL, &a), ZN_OK);
    assert_int_equal(zn_image_read(TEST_DATA "/metrics_b.png", NULL, &b), ZN_OK);
    assert_int_equal(a->height, 120);
    for (int i = 0; i < 3; i++) {
        const size_t part = (size_t)i * 40 * 52 * 3;
        const zn_image x = { 52, 40, 8, (uint8_t *)a->pixels + part, 0 },
                       y = { 52, 40, 8, (uint8_t *)b->pixels + part, 0 };
        zn_image_difference d;
        assert_int_equal(zn_image_compare(&x, &y, &d), ZN_OK);
        assert_true(fabs(d.psnr - psnr[i]) < 1e-4);
        assert_true(fabs(d.ssim - ssim[i]) < 1e-5);
    }
    zn_image_free(a);
    zn_image_free(b);
}

static double textbook_ssim(const zn_image *a, const zn_image *b)
{
    const int nx = a->width < 11 ? a->width : 11, ny = a->height < 11 ? a->height : 11;
    double window[11][11], total = 0, sum = 0;
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            const double u = x - (nx - 1) / 2.0, v = y - (ny - 1) / 2.0;
            total += window[y][x] = exp(-(u * u + v * v) / (2 * 1.5 * 1.5));
        }
    int count = 0;
    for (int y0 = 0; y0 + ny <= a->height; y0++)
        for (int x0 = 0; x0 + nx <= a->width; x0++)
            for (int c = 0; c < 3; c++, count++) {
                double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
                for (int y = 0; y < ny; y++)
                    for (int x = 0; x < nx; x++) {
                        const double w = window[y][x] / total, p = at(a, x0 + x, y0 + y, c),
                                     q = at(b, x0 + x, y0 + y, c);
                        ma += w * p, mb += w * q, aa += w * p * p, bb += w * q * q, ab += w * p * q;
                    }
                const double c1 = 2.55 * 2.55, c2 = 7.65 * 7.65;
                sum += (2 * ma * mb + c1) * (2 * (ab - ma * mb) + c2) /
                       ((ma * ma + mb * mb + c1) * (aa - ma * ma + bb - mb * mb + c2));
            }
    return sum / count;
}

static uint32_t seed = 1;
static int noise(int range) { return (int)((seed = seed * 1664525u + 1013904223u) >> 8) % range; }

static void against_textbook(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 1, 1 },   { 2, 3 },   { 10, 30 }, { 30, 4 },
                                    { 11, 11 }, { 12, 11 }, { 37, 29 }, { 64, 13 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int level = 0; level < 3; level++) { /* around black, grey and white */
            zn_image *a, *b;
            assert_int_equal(zn_image_new(sizes[i][0], sizes[i][1], 8, &a), ZN_OK);
            assert_int_equal(zn_image_new(sizes[i][0], sizes[i][1], 8, &b), ZN_OK);
            uint64_t squares = 0;
            int worst = 0;
            const int samples = a->width * a->height * 3;
            for (int j = 0; j < samples; j++) {
                const int base = level == 0 ? noise(4) : level == 1 ? 64 + noise(128) : 251 + noise(4);
                const int other = base + noise(9) - 4;
                ((uint8_t *)a->pixels)[j] = (uint8_t)base;
                ((uint8_t *)b->pixels)[j] = (uint8_t)(other < 0 ? 0 : other > 255 ? 255 : other);
                const int d = abs(((uint8_t *)a->pixels)[j] - ((uint8_t *)b->pixels)[j]);
                squares += (uint64_t)(d * d);
                worst = d > worst ? d : worst;
            }
            zn_image_difference d;
            assert_int_equal(zn_image_compare(a, b, &d), ZN_OK);
            assert_true(fabs(d.ssim - textbook_ssim(a, b)) < 2e-5);
            assert_true(squares == 0 || fabs(d.psnr - 10 * log10(65025.0 * samples / (double)squares)) < 1e-9);
            assert_int_equal(d.max_difference, worst);
            zn_image_free(a);
            zn_image_free(b);
        }
}

static void equal_images(void **state)
{
    (void)state;
    zn_image *a, *wide;
    assert_int_equal(zn_image_new(40, 30, 8, &a), ZN_OK);
    assert_int_equal(zn_image_new(40, 30, 16, &wide), ZN_OK);
    fill_pattern(a->pixels, 40, 30);
    for (int i = 0; i < 40 * 30 * 3; i++) /* off by less than half an 8-bit step */
        ((uint16_t *)wide->pixels)[i] = (uint16_t)(((uint8_t *)a->pixels)[i] * 257 + (i % 2 ? 128 : -128));
    const zn_image *others[] = { a, wide };
    for (int i = 0; i < 2; i++) {
        zn_image_difference d;
        assert_int_equal(zn_image_compare(a, others[i], &d), ZN_OK);
        assert_true(isinf(d.psnr) && d.psnr > 0);
        assert_true(d.ssim == 1.0);
        assert_int_equal(d.max_difference, 0);
    }
    zn_image_free(a);
    zn_image_free(wide);
}

static void sizes_must_match(void **state)
{
    (void)state;
    zn_image *a, *b, *both;
    zn_image_difference d;
    assert_int_equal(zn_image_new(4, 5, 8, &a), ZN_OK);
    assert_int_equal(zn_image_new(5, 4, 8, &b), ZN_OK);
    assert_int_equal(zn_image_compare(a, b, &d), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "4x5"));
    assert_int_equal(zn_image_side_by_side(a, b, &both), ZN_ESHAPE);
    assert_null(both);
    zn_image_free(a);
    zn_image_free(b);
}

/* As deep as the deeper one. */
static void side_by_side(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 16; bits += 8) {
        zn_image *a, *b, *both;
        const int scale = bits == 16 ? 257 : 1, most = 255 * scale;
        assert_int_equal(zn_image_new(6, 4, 8, &a), ZN_OK);
        assert_int_equal(zn_image_new(6, 4, bits, &b), ZN_OK);
        fill_pattern(a->pixels, 6, 4);
        for (int i = 0; i < 6 * 4 * 3; i++) {
            const int v = (((uint8_t *)a->pixels)[i] ^ (i % 3 ? 5 : 127)) * scale;
            if (bits == 16)
                ((uint16_t *)b->pixels)[i] = (uint16_t)(v + (i % 5 && v < 65000)); /* not of 8 bits */
            else
                ((uint8_t *)b->pixels)[i] = (uint8_t)v;
        }
        assert_int_equal(zn_image_side_by_side(a, b, &both), ZN_OK);
        assert_int_equal(both->height, 4);
        assert_int_equal(both->bits, bits);
        const int gap = (both->width - 18) / 2;
        assert_int_equal(both->width, 18 + 2 * gap);
        assert_in_range(gap, 1, 32);
        for (int y = 0; y < 4; y++) {
            for (int x = 0; x < 6; x++)
                for (int c = 0; c < 3; c++) {
                    const int p = at(a, x, y, c) * scale, q = at(b, x, y, c), d = 4 * abs(p - q);
                    assert_int_equal(at(both, x, y, c), p);
                    assert_int_equal(at(both, 6 + gap + x, y, c), q);
                    assert_int_equal(at(both, 12 + 2 * gap + x, y, c), d > most ? most : d);
                }
            assert_int_equal(at(both, 6, y, 0), most);
        }
        zn_image_free(a);
        zn_image_free(b);
        zn_image_free(both);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_reference), cmocka_unit_test(against_textbook), cmocka_unit_test(equal_images),
        cmocka_unit_test(sizes_must_match),  cmocka_unit_test(side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

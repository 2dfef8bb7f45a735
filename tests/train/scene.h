/* Images for the tests of restoration, and their degradation. All functions stop the test on failure. */
#ifndef SCENE_H
#define SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <zenith/restore.h>

/* Coloured stripes and gradients. */
static inline zn_image *scene(int width, int height, int bits, int n)
{
    zn_image *image;
    assert_int_equal(zn_image_new(width, height, bits, &image), ZN_OK);
    for (int i = 0; i < width * height * 3; i++) {
        const int x = i / 3 % width, y = i / 3 / width, c = i % 3;
        const double v = 0.5 + 0.2 * sin(0.15 * (x + 5 * n) + c) + 0.2 * ((x * (n % 3 + 1) + y * 2) / 16 % 2) - 0.1;
        if (bits == 16)
            ((uint16_t *)image->pixels)[i] = (uint16_t)lrint(65535 * v);
        else
            ((uint8_t *)image->pixels)[i] = (uint8_t)lrint(255 * v);
    }
    return image;
}

static inline zn_image *damaged(const zn_image *image, const char *how, uint64_t seed)
{
    zn_corruption c;
    zn_image *out;
    assert_int_equal(zn_corruption_parse(how, &c), ZN_OK);
    assert_int_equal(zn_corrupt(image, c, seed, &out), ZN_OK);
    assert_true(out->width == image->width && out->height == image->height && out->bits == image->bits);
    return out;
}

static inline size_t bytes_of(const zn_image *a)
{
    return (size_t)a->width * (size_t)a->height * 3 * (size_t)(a->bits / 8);
}

static inline double psnr(const zn_image *a, const zn_image *b)
{
    zn_image_difference d;
    assert_int_equal(zn_image_compare(a, b, &d), ZN_OK);
    return d.psnr;
}

#endif

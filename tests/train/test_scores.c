/* Scores of pairs of images: kept detail, and LPIPS by the weights that come with the program. */
#include "base/rng.h"
#include "pipeline/eval/neighbours.h"
#include "train/score/bands.h"
#include "train/score/scores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/eval.h>

#include "../skip.h"

enum { SIDE = 16, PIXELS = SIDE * SIDE };

static void fill(float *image, uint64_t seed, bool grey)
{
    zn_rng rng = zn_rng_new(seed);
    for (int i = 0; i < 3 * PIXELS; i++)
        image[i] = grey && i % 3 ? image[i - i % 3] : zn_rng_uniform(&rng);
}

static void all_detail_is_kept(void **state)
{
    (void)state;
    float image[3 * PIXELS];
    double luma[ZN_BANDS], chroma[ZN_BANDS];
    fill(image, 1, false);
    assert_int_equal(zn_bands_kept(image, image, ZN_SHAPE(1, SIDE, SIDE, 3), luma, chroma), ZN_OK);
    for (int i = 0; i < ZN_BANDS; i++)
        assert_true(luma[i] == 1 && chroma[i] == 1);
}

/* Half the contrast is a quarter of the energy, at every scale. */
static void energy_is_a_square(void **state)
{
    (void)state;
    float image[3 * PIXELS], flat[3 * PIXELS];
    double luma[ZN_BANDS], chroma[ZN_BANDS];
    fill(image, 2, false);
    for (int i = 0; i < 3 * PIXELS; i++)
        flat[i] = 0.5f + (image[i] - 0.5f) / 2;
    assert_int_equal(zn_bands_kept(image, flat, ZN_SHAPE(1, SIDE, SIDE, 3), luma, chroma), ZN_OK);
    for (int i = 0; i < ZN_BANDS; i++)
        assert_true(fabs(luma[i] - 0.25) < 1e-5 && fabs(chroma[i] - 0.25) < 1e-5);
}

/* Means of 2x2 have nothing of the finest scale and all of the others. */
static void the_finest_scale_is_apart(void **state)
{
    (void)state;
    float image[3 * PIXELS], coarse[3 * PIXELS];
    double luma[ZN_BANDS], chroma[ZN_BANDS];
    fill(image, 3, false);
    for (int i = 0; i < 3 * PIXELS; i++) {
        const int y = i / (3 * SIDE) / 2 * 2, x = i / 3 % SIDE / 2 * 2, c = i % 3;
        const float *p = image + (y * SIDE + x) * 3 + c;
        coarse[i] = (p[0] + p[3] + p[3 * SIDE] + p[3 * SIDE + 3]) / 4;
    }
    assert_int_equal(zn_bands_kept(image, coarse, ZN_SHAPE(1, SIDE, SIDE, 3), luma, chroma), ZN_OK);
    assert_true(luma[0] < 1e-9 && chroma[0] < 1e-9);
    assert_true(fabs(luma[1] - 1) < 1e-5 && fabs(chroma[2] - 1) < 1e-5);
}

static void grey_and_tiny_images_have_no_share(void **state)
{
    (void)state;
    float image[3 * PIXELS];
    double luma[ZN_BANDS], chroma[ZN_BANDS];
    fill(image, 4, true);
    assert_int_equal(zn_bands_kept(image, image, ZN_SHAPE(1, SIDE, SIDE, 3), luma, chroma), ZN_OK);
    assert_true(luma[0] == 1 && isnan(chroma[0]) && isnan(chroma[2]));
    assert_int_equal(zn_bands_kept(image, image, ZN_SHAPE(1, 3, 2, 3), luma, chroma), ZN_OK);
    assert_true(luma[0] == 1 && isnan(luma[1]));
}

/* ---- distances of sets ---- */

/* `count` vectors of 3 features, which depend on each other. */
static zn_spread made_set(int count, double shift, double factor)
{
    zn_spread s = { .width = 3 };
    for (int i = 0; i < count; i++) {
        const double a = sin(1.3 * i), b = cos(0.7 * i * i), c = sin(2.1 * i + 1);
        const float v[] = { (float)(factor * a + shift), (float)(factor * (0.5 * a + b)), (float)(factor * (b - c)) };
        assert_int_equal(zn_spread_add(&s, v), ZN_OK);
    }
    return s;
}

static double distance_of(zn_spread a, zn_spread b)
{
    double d;
    assert_int_equal(zn_frechet_distance(&a, &b, &d), ZN_OK);
    zn_spread_free(&a);
    zn_spread_free(&b);
    return d;
}

static void sets_have_known_distances(void **state)
{
    (void)state;
    assert_true(distance_of(made_set(50, 0, 1), made_set(50, 0, 1)) < 1e-9);
    assert_true(fabs(distance_of(made_set(50, 0, 1), made_set(50, 3, 1)) - 9) < 1e-5);
    /* numpy: by the eigenvalues of the product of the covariances */
    assert_true(fabs(distance_of(made_set(50, 0, 1), made_set(80, 0.5, 2)) - 2.361953397) < 1e-5);
    zn_spread one = made_set(1, 0, 1), two = made_set(2, 0, 1);
    double d;
    assert_int_equal(zn_frechet_distance(&one, &two, &d), ZN_EINVALID);
    zn_spread_free(&one);
    zn_spread_free(&two);
}

/* ---- LPIPS ---- */

static zn_image *noisy(int width, int height, int bits, int noise)
{
    zn_image *image;
    assert_int_equal(zn_image_new(width, height, bits, &image), ZN_OK);
    zn_rng rng = zn_rng_new(9);
    for (int i = 0; i < width * height * 3; i++) {
        const int base = 128 + (int)(100 * sin(0.2 * (i / 3 % width)) * cos(0.13 * (i / 3 / width)));
        const int v = base + (int)((float)noise * (zn_rng_uniform(&rng) - 0.5f));
        if (bits == 8)
            ((uint8_t *)image->pixels)[i] = (uint8_t)v;
        else
            ((uint16_t *)image->pixels)[i] = (uint16_t)(257 * v);
    }
    return image;
}

static zn_scores scores_of(zn_scorer *s, zn_image *a, zn_image *b)
{
    zn_scores out;
    assert_int_equal(zn_scorer_compare(s, a, b, &out), ZN_OK);
    zn_image_free(a);
    zn_image_free(b);
    return out;
}

static void distances_follow_the_damage(void **state)
{
    (void)state;
    zn_scorer *s;
    setenv("ZENITH_MODELS", ZN_WEIGHTS, 1);
    assert_int_equal(zn_scorer_new(ZN_LPIPS_SQUEEZE, NULL, &s), ZN_OK);
    const zn_scores same = scores_of(s, noisy(80, 64, 8, 0), noisy(80, 64, 8, 0));
    const zn_scores little = scores_of(s, noisy(80, 64, 8, 0), noisy(80, 64, 8, 10));
    const zn_scores much = scores_of(s, noisy(80, 64, 8, 0), noisy(80, 64, 8, 50));
    assert_true(same.lpips_squeeze == 0 && isinf(same.psnr) && same.psnr_infinite == 1);
    assert_true(little.lpips_squeeze > 0 && much.lpips_squeeze > 2 * little.lpips_squeeze && much.luma_kept[0] > 1);
    assert_true(isnan(much.lpips_alex));
    const zn_scores fine = scores_of(s, noisy(80, 64, 16, 0), noisy(80, 64, 16, 50));
    assert_memory_equal(&fine.lpips_squeeze, &much.lpips_squeeze, sizeof(double));
    assert_true(isnan(scores_of(s, noisy(80, 63, 8, 0), noisy(80, 63, 8, 9)).lpips_squeeze));
    zn_scorer_free(s);
}

/* An image too wide for one run: the mean of its two halves. */
static void large_images_are_measured_in_pieces(void **state)
{
    (void)state;
    enum { WIDE = 2052, HALF = WIDE / 2, HIGH = 64 };
    zn_scorer *s;
    setenv("ZENITH_MODELS", ZN_WEIGHTS, 1);
    assert_int_equal(zn_scorer_new(ZN_LPIPS_AUTO, NULL, &s), ZN_OK);
    double sum = 0;
    for (int half = 0; half < 2; half++) {
        zn_image *pair[2];
        for (int k = 0; k < 2; k++) {
            zn_image *whole = noisy(WIDE, HIGH, 8, 30 * k);
            assert_int_equal(zn_image_new(HALF, HIGH, 8, &pair[k]), ZN_OK);
            for (int y = 0; y < HIGH; y++)
                memcpy((uint8_t *)pair[k]->pixels + y * HALF * 3,
                       (uint8_t *)whole->pixels + (y * WIDE + half * HALF) * 3, HALF * 3);
            zn_image_free(whole);
        }
        sum += scores_of(s, pair[0], pair[1]).lpips_squeeze / 2;
    }
    const zn_scores whole = scores_of(s, noisy(WIDE, HIGH, 8, 0), noisy(WIDE, HIGH, 8, 30));
    assert_true(sum > 0 && fabs(whole.lpips_squeeze - sum) < 1e-9);
    zn_scorer_free(s);
}

static void a_network_that_is_asked_for_must_be_there(void **state)
{
    (void)state;
    zn_scorer *s;
    setenv("ZENITH_MODELS", "/nowhere", 1);
    if (zn_scorer_new(ZN_LPIPS_ALEX, NULL, &s) == ZN_OK) {
        zn_scorer_free(s);
        skip_because("the weights of lpips-alex are installed");
    }
    assert_non_null(strstr(zn_error_text(), "lpips-alex"));
    assert_null(s);
    assert_int_equal(zn_scorer_new(ZN_LPIPS_NONE, NULL, &s), ZN_OK);
    assert_true(isnan(scores_of(s, noisy(64, 64, 8, 0), noisy(64, 64, 8, 9)).lpips_squeeze));
    zn_scorer_free(s);
}

/* ---- attributes and neighbours ---- */

static void areas_are_counted_by_pairs(void **state)
{
    (void)state;
    zn_opinion all[] = { { 0.9f, true }, { 0.1f, false }, { 0.4f, true }, { 0.4f, false }, { 0.6f, false } };
    /* of six pairs 0.9 wins three, 0.4 one, and one is even */
    assert_float_equal(zn_area_under_curve(all, 5), 4.5 / 6, 1e-12);
    zn_opinion one_kind[] = { { 0.9f, true }, { 0.1f, true } };
    assert_true(isnan(zn_area_under_curve(one_kind, 2)));
    assert_true(isnan(zn_area_under_curve(all, 0)));
}

static void the_nearest_is_found(void **state)
{
    (void)state;
    zn_neighbours n = { 0 };
    float features[ZN_FEATURES] = { 0 };
    double distance;
    assert_int_equal(zn_neighbours_find(&n, features, &distance), -1);
    for (int i = 0; i < 5; i++) {
        features[0] = (float)i;
        features[1] = 1;
        assert_int_equal(zn_neighbours_add(&n, 10 + i, features), ZN_OK);
    }
    features[0] = 2.75f;
    assert_int_equal(zn_neighbours_find(&n, features, &distance), 13);
    assert_float_equal(distance, 0.25, 1e-12);
    features[0] = 0;
    assert_float_equal(zn_neighbours_cosine(&n, 0, features), 1, 1e-12);
    assert_float_equal(zn_neighbours_cosine(&n, 1, features), sqrt(0.5), 1e-7);
    zn_neighbours_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_detail_is_kept),
        cmocka_unit_test(energy_is_a_square),
        cmocka_unit_test(the_finest_scale_is_apart),
        cmocka_unit_test(grey_and_tiny_images_have_no_share),
        cmocka_unit_test(sets_have_known_distances),
        cmocka_unit_test(distances_follow_the_damage),
        cmocka_unit_test(large_images_are_measured_in_pieces),
        cmocka_unit_test(a_network_that_is_asked_for_must_be_there),
        cmocka_unit_test(areas_are_counted_by_pairs),
        cmocka_unit_test(the_nearest_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

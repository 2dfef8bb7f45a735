/* Damage as photos have it: drawn in the shares that a recipe sets, repeatable, and each step what it says. */
#include "base/alloc.h"
#include "base/rng.h"
#include "io/image/pixels/enlarge.h"
#include "models/zenith/zenith.h"
#include "scene.h"
#include "train/data/corrupt.h"
#include "train/data/halve.h"
#include "train/score/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "../skip.h"

enum { SIDE = 48, PIXELS = SIDE * SIDE, COUNT = 3 * PIXELS };

static const zn_damage_mix usual = {
    .kind = ZN_DAMAGE_MIX_PHOTO, .clean = 0.08, .grey = 0.05, .noise = 55, .quality = 10
};

static bool no_jpeg(void) { return !zn_image_can_write("a.jpg"); }

/* Coloured stripes and squares between 0.2 and 0.8. */
static void fill(float *x)
{
    for (int i = 0; i < COUNT; i++) {
        const int column = i / 3 % SIDE, row = i / 3 / SIDE, c = i % 3;
        x[i] = 0.5f + 0.1f * sinf(0.7f * (float)column + 2 * (float)c) + 0.1f * sinf(0.9f * (float)row - 2 * (float)c) +
               ((row / 5 + column / 7) % 2 ? 0.1f : -0.1f);
    }
}

static void done_to(const float *x, const zn_photo_draw *d, float *y)
{
    assert_int_equal(zn_photo_damage(x, SIDE, SIDE, d, y), ZN_OK);
}

static void draws_have_the_shares_of_the_mix(void **state)
{
    (void)state;
    enum { DRAWS = 5000 };
    int clean = 0, grey = 0, noise = 0, jpeg = 0, both = 0, blur = 0, hinted = 0, webp = 0, kinds[3] = { 0 },
        styles[8] = { 0 };
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        const zn_photo_draw d = zn_photo_draw_of(seed, &usual), again = zn_photo_draw_of(seed, &usual);
        assert_memory_equal(&d, &again, sizeof d);
        const bool saved = d.jpeg[0].quality > 0;
        clean += !(d.noise > 0 || d.blur > 0 || d.impulses > 0 || d.scale > 0 || saved);
        grey += d.grey;
        noise += d.noise > 0;
        jpeg += saved;
        both += saved && d.noise > 0;
        blur += d.blur > 0;
        hinted += d.hint != ZN_TASK_AUTO;
        styles[d.noise_style] += d.noise > 0;
        assert_true(d.noise >= 0 && d.noise <= 55 && d.impulses <= 20 && d.blur <= 4.5f);
        for (int i = 0; i < 2 && d.jpeg[i].quality; i++) {
            assert_in_range(d.jpeg[i].quality, 10, 95);
            kinds[d.jpeg[i].subsampling == 420 ? 0 : d.jpeg[i].subsampling == 422 ? 1 : 2]++;
            webp += d.jpeg[i].subsampling == 0;
        }
        if (d.hint != ZN_TASK_AUTO)
            assert_true(!saved && d.scale == 0);
    }
    assert_true(!zn_image_can_write("a.webp") ? webp == 0 : webp > DRAWS / 40 && webp < DRAWS / 10);
    assert_in_range(clean, DRAWS * 7 / 100, DRAWS * 11 / 100);
    assert_in_range(grey, DRAWS * 4 / 100, DRAWS * 6 / 100);
    assert_in_range(noise, DRAWS * 49 / 100, DRAWS * 54 / 100);
    assert_in_range(jpeg, DRAWS * 39 / 100, DRAWS * 44 / 100);
    assert_in_range(both, DRAWS * 15 / 100, DRAWS * 19 / 100);
    assert_true(blur > DRAWS / 12 && hinted > DRAWS / 8);
    assert_true(kinds[0] > kinds[2] && kinds[2] > kinds[1] && kinds[1] > DRAWS / 50);
    for (int i = 0; i < ZN_NOISE_STYLES; i++)
        assert_true(styles[i] > DRAWS / 50);
}

static void asked_shares_get_one_damage_alone(void **state)
{
    (void)state;
    enum { DRAWS = 4000 };
    zn_damage_mix mix = usual;
    int noise = 0, impulses = 0, blur = 0;
    mix.clean = 0.1;
    mix.independent = 0.5;
    mix.impulses = 0.4;
    mix.blur = 0.5;
    for (int i = 0; i < DRAWS; i++) {
        const zn_photo_draw d = zn_photo_draw_of((uint64_t)i, &mix);
        const bool other = d.scale > 0 || d.shot > 0 || d.jpeg[0].quality > 0;
        noise += d.noise > 0 && d.noise_style == ZN_NOISE_RGB && d.impulses == 0 && d.blur == 0 && !other;
        impulses += d.impulses > 0 && d.noise == 0 && d.blur == 0 && !other;
        blur += d.blur > 0 && d.noise == 0 && d.impulses == 0 && !other;
    }
    /* 0.9 x 0.5, 0.9 x 0.5 x 0.4 and 0.9 x 0.5 x 0.6 x 0.5, beside what the others, 0.9 x 0.5 x 0.6 x 0.5, have:
     * 0.36 x 0.625 x 0.7, 0.07 and 0.09 of them */
    assert_true(fabs(noise / (double)DRAWS - 0.471) < 0.03);
    assert_true(fabs(impulses / (double)DRAWS - 0.189) < 0.03);
    assert_true(fabs(blur / (double)DRAWS - 0.147) < 0.03);
}

static void a_clean_image_stays_as_it_is(void **state)
{
    (void)state;
    float x[COUNT], y[COUNT];
    fill(x);
    done_to(x, &(zn_photo_draw){ .seed = 1 }, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == floorf(x[i] * 255 + 0.5f) / 255);
}

static void noise_is_as_strong_as_it_says(void **state)
{
    (void)state;
    float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = 0.5f;
    for (int style = 0; style < ZN_NOISE_STYLES; style++)
        for (int shot = 0; shot < 2; shot++) {
            memcpy(y, x, sizeof y);
            const zn_photo_draw d = {
                .noise = 20, .noise_style = (zn_noise_style)style, .shot = (float)shot, .seed = 3
            };
            assert_int_equal(zn_add_photo_noise(y, SIDE, SIDE, &d), ZN_OK);
            const double deviation = 255 * sqrt(zn_mean_square(x, y, COUNT));
            if (!(deviation > 18.5 && deviation < (style == ZN_NOISE_CHROMA ? 27 : 21.5)))
                fail_msg("style %d, shot %d: deviation %g", style, shot, deviation);
            double beside = 0, grey = 0;
            for (int i = 0; i < COUNT - 3; i++) {
                beside += (double)((y[i] - x[i]) * (y[i + 3] - x[i + 3]));
                grey += i % 3 == 0 ? fabs((double)(y[i] - y[i + 1])) : 0;
            }
            assert_int_equal(grey == 0, style == ZN_NOISE_GREY);
            assert_int_equal(beside > 0.2 * COUNT * deviation * deviation / 65025, style == ZN_NOISE_CLUMPS);
        }
}

/* Dark places have less of it. */
static void shot_noise_grows_with_brightness(void **state)
{
    (void)state;
    float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = i < COUNT / 2 ? 0.1f : 0.7f;
    memcpy(y, x, sizeof y);
    assert_int_equal(zn_add_photo_noise(y, SIDE, SIDE, &(zn_photo_draw){ .noise = 10, .shot = 1, .seed = 4 }), ZN_OK);
    const double dark = zn_mean_square(x, y, COUNT / 2),
                 light = zn_mean_square(x + COUNT / 2, y + COUNT / 2, COUNT / 2);
    assert_true(light > 5 * dark && light < 9 * dark);
}

static void blurs_keep_flat_images_and_take_detail(void **state)
{
    (void)state;
    float x[COUNT], flat[COUNT], y[COUNT];
    fill(x);
    for (int i = 0; i < COUNT; i++)
        flat[i] = 0.4f;
    for (int style = 0; style <= ZN_BLUR_STYLES; style++) { /* the last: scaling */
        const bool scales = style == ZN_BLUR_STYLES;
        const zn_photo_draw d = { .blur_style = (zn_blur_style)(scales ? 0 : style),
                                  .blur = scales ? 0 : 1.6f,
                                  .angle = 0.6f,
                                  .scale = scales ? 0.6f : 0,
                                  .seed = 1 };
        done_to(flat, &d, y);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabsf(y[i] - 0.4f) < 1e-6f);
        done_to(x, &d, y);
        double before = 0, after = 0;
        for (int i = 3; i < COUNT; i++) {
            before += fabs((double)(x[i] - x[i - 3]));
            after += fabs((double)(y[i] - y[i - 3]));
        }
        if (!(after < 0.95 * before && after > 0.1 * before))
            fail_msg("style %d leaves %g of the differences", style, after / before);
    }
}

static void jpeg_is_saved_as_asked(void **state)
{
    (void)state;
    float x[COUNT], y[COUNT];
    double error[2][3];
    static const int subsampling[] = { 444, 422, 420 };
    fill(x);
    if (no_jpeg()) {
        assert_int_equal(zn_save_as_jpeg(x, SIDE, SIDE, 50, 420, y), ZN_EUNSUPPORTED);
        skip_because("this build has no JPEG");
    }
    for (int q = 0; q < 2; q++)
        for (int k = 0; k < 3; k++) {
            assert_int_equal(zn_save_as_jpeg(x, SIDE, SIDE, q ? 95 : 20, subsampling[k], y), ZN_OK);
            error[q][k] = zn_mean_square(x, y, COUNT);
        }
    for (int k = 0; k < 3; k++)
        assert_true(error[1][k] < error[0][k]);
    assert_true(error[1][0] < error[1][1] && error[1][1] < error[1][2]);
    assert_int_equal(zn_save_as_jpeg(x, SIDE, SIDE, 95, 411, y), ZN_EINVALID);
    zn_image *clean = scene(40, 30, 8, 1), *once = damaged(clean, "jpeg:30", 1),
             *full = damaged(clean, "jpeg444:30", 1);
    zn_image *chain = damaged(clean, "grey:10+jpeg:90", 1);
    assert_true(memcmp(full->pixels, once->pixels, bytes_of(full)) != 0 && psnr(clean, once) < 50);
    assert_true(psnr(clean, chain) > 25 && psnr(clean, chain) < 30); /* noise of 10 alone: 28.1 */
    zn_image_free(clean);
    zn_image_free(once);
    zn_image_free(full);
    zn_image_free(chain);
}

static void webp_is_saved_as_asked(void **state)
{
    (void)state;
    float x[COUNT], y[COUNT];
    fill(x);
    if (!zn_image_can_write("a.webp")) {
        assert_int_equal(zn_save_as_webp(x, SIDE, SIDE, 50, y), ZN_EUNSUPPORTED);
        skip_because("this build has no WebP");
    }
    assert_int_equal(zn_save_as_webp(x, SIDE, SIDE, 10, y), ZN_OK);
    const double coarse = zn_mean_square(x, y, COUNT);
    assert_int_equal(zn_save_as_webp(x, SIDE, SIDE, 95, y), ZN_OK);
    assert_true(zn_mean_square(x, y, COUNT) < 0.7 * coarse);
    zn_photo_draw d = { .seed = 1 };
    d.jpeg[0].quality = 10;
    done_to(x, &d, y);
    assert_true(fabs(zn_mean_square(x, y, COUNT) - coarse) < 0.05 * coarse);
    zn_image *clean = scene(40, 30, 8, 1), *lossy = damaged(clean, "webp:30", 1);
    assert_true(psnr(clean, lossy) < 50);
    zn_image_free(clean);
    zn_image_free(lossy);
}

static void grey_pictures_stay_grey(void **state)
{
    (void)state;
    if (no_jpeg())
        skip_because("this build has no JPEG");
    const zn_damage_mix grey = { .kind = ZN_DAMAGE_MIX_PHOTO, .clean = 0.1, .grey = 1, .noise = 40, .quality = 10 };
    float picture[COUNT], input[PIXELS * ZN_RESTORE_INPUTS];
    for (uint64_t seed = 0; seed < 40; seed++) {
        fill(picture);
        assert_int_equal(zn_restore_input(&grey, picture, SIDE, seed, input), ZN_OK);
        for (int i = 0; i < PIXELS; i++)
            assert_true(picture[3 * i] == picture[3 * i + 1] && picture[3 * i] == picture[3 * i + 2]);
    }
    zn_photo_draw d = { .grey = true, .noise = 20, .noise_style = ZN_NOISE_CHROMA, .impulses = 5, .seed = 2 };
    d.jpeg[0].quality = 30;
    d.jpeg[0].subsampling = 420;
    float y[COUNT];
    done_to(picture, &d, y);
    for (int i = 0; i < PIXELS; i++)
        assert_true(y[3 * i] == y[3 * i + 1] && y[3 * i] == y[3 * i + 2]);
}

static void inputs_repeat(void **state)
{
    (void)state;
    if (no_jpeg())
        skip_because("this build has no JPEG");
    float *picture = zn_alloc(sizeof(float) * COUNT), *first = zn_alloc(sizeof(float) * PIXELS * ZN_RESTORE_INPUTS);
    float *second = zn_alloc(sizeof(float) * PIXELS * ZN_RESTORE_INPUTS);
    int same = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        fill(picture);
        assert_int_equal(zn_restore_input(&usual, picture, SIDE, seed, first), ZN_OK);
        fill(picture);
        assert_int_equal(zn_restore_input(&usual, picture, SIDE, seed, second), ZN_OK);
        assert_memory_equal(first, second, sizeof(float) * PIXELS * ZN_RESTORE_INPUTS);
        assert_int_equal(zn_restore_input(&usual, picture, SIDE, seed + 1000, second), ZN_OK);
        same += memcmp(first, second, sizeof(float) * PIXELS * ZN_RESTORE_INPUTS) == 0;
    }
    assert_true(same < 5); /* two clean ones */
    zn_free(picture);
    zn_free(first);
    zn_free(second);
}

/* Ramps come back to a level of 8 bits inside, flat images exactly, and no filter shifts the image. */
static void halved_images_keep_what_is_smooth(void **state)
{
    (void)state;
    float x[COUNT], y[COUNT];
    for (int filter = 0; filter < ZN_HALVE_FILTERS; filter++) {
        const zn_halving h = { .filter = (zn_halving_filter)filter };
        for (int i = 0; i < COUNT; i++)
            x[i] = 0.2f;
        assert_int_equal(zn_halve_and_enlarge(x, SIDE, SIDE, &h, y), ZN_OK);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabsf(y[i] - x[i]) < 1e-6f);
        for (int i = 0; i < COUNT; i++)
            x[i] = 0.1f + 0.01f * (float)(i / 3 % SIDE) + 0.005f * (float)(i / 3 / SIDE);
        assert_int_equal(zn_halve_and_enlarge(x, SIDE, SIDE, &h, y), ZN_OK);
        for (int i = 0; i < COUNT; i++) {
            const int column = i / 3 % SIDE, row = i / 3 / SIDE;
            if (column > 8 && row > 8 && column < SIDE - 8 && row < SIDE - 8)
                assert_true(fabsf(y[i] - x[i]) < 0.8f / 255);
        }
        fill(x);
        assert_int_equal(zn_halve_and_enlarge(x, SIDE - 1, SIDE - 3, &h, y), ZN_OK);
        assert_true(zn_mean_square(x, y, 3 * (SIDE - 1)) > 1e-5);
    }
}

/* A region of the enlarged image is that part of the whole, wherever it begins, also beyond the edge. */
static void enlarged_regions_are_parts_of_the_whole(void **state)
{
    (void)state;
    enum { W = 45, H = 21 };
    static const zn_region parts[] = { { 0, 0, 1, 1 }, { 3, 5, 70, 9 }, { 64, 1, 26, 41 }, { -3, -5, 20, 11 } };
    zn_image *image = scene(W, H, 16, 1);
    float whole[4 * W * H * 3], part[70 * 41 * 3];
    zn_pixels_enlarged(image, (zn_region){ 0, 0, 2 * W, 2 * H }, whole, (size_t)2 * W * 3);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const zn_region r = parts[k];
        zn_pixels_enlarged(image, r, part, (size_t)r.width * 3);
        for (int i = 0; i < r.width * r.height; i++) {
            const int x = r.x + i % r.width, y = r.y + i / r.width;
            if (x >= 0 && y >= 0)
                assert_memory_equal(part + 3 * i, whole + (size_t)(y * 2 * W + x) * 3, 3 * sizeof(float));
        }
    }
    zn_image_free(image);
}

/* Half by the cubic filter, a quarter saved as JPEG, grey ones grey in and out. */
static void halvings_have_the_shares_of_the_mix(void **state)
{
    (void)state;
    enum { DRAWS = 4000 };
    const zn_damage_mix mix = { .kind = ZN_DAMAGE_MIX_UPSCALE, .grey = 0.1, .quality = 60 };
    int cubic = 0, saved = 0, grey = 0;
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        const zn_halving h = zn_halving_of(seed, &mix);
        cubic += h.filter == ZN_HALVE_CUBIC;
        saved += h.quality > 0;
        grey += h.grey;
        assert_true(!h.quality || (h.quality >= 60 && h.quality <= 95));
    }
    assert_in_range(cubic, DRAWS * 45 / 100, DRAWS * 55 / 100);
    assert_in_range(saved, DRAWS * 20 / 100, DRAWS * 30 / 100);
    assert_in_range(grey, DRAWS * 8 / 100, DRAWS * 12 / 100);
    if (no_jpeg())
        skip_because("this build has no JPEG");
    const zn_damage_mix all_grey = { .kind = ZN_DAMAGE_MIX_UPSCALE, .grey = 1, .quality = 60 };
    float picture[COUNT], input[PIXELS * ZN_RESTORE_INPUTS];
    for (uint64_t seed = 0; seed < 8; seed++) {
        fill(picture);
        assert_int_equal(zn_restore_input(&all_grey, picture, SIDE, seed, input), ZN_OK);
        for (int i = 0; i < PIXELS; i++) {
            const float *in = input + i * ZN_RESTORE_INPUTS, *out = picture + 3 * i;
            assert_true(in[0] == in[1] && in[0] == in[2] && out[0] == out[1] && out[0] == out[2]);
            assert_true(in[3] == 0 && in[4] == 0 && in[5] == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_have_the_shares_of_the_mix),
        cmocka_unit_test(asked_shares_get_one_damage_alone),
        cmocka_unit_test(a_clean_image_stays_as_it_is),
        cmocka_unit_test(noise_is_as_strong_as_it_says),
        cmocka_unit_test(shot_noise_grows_with_brightness),
        cmocka_unit_test(blurs_keep_flat_images_and_take_detail),
        cmocka_unit_test(jpeg_is_saved_as_asked),
        cmocka_unit_test(webp_is_saved_as_asked),
        cmocka_unit_test(grey_pictures_stay_grey),
        cmocka_unit_test(inputs_repeat),
        cmocka_unit_test(halved_images_keep_what_is_smooth),
        cmocka_unit_test(enlarged_regions_are_parts_of_the_whole),
        cmocka_unit_test(halvings_have_the_shares_of_the_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

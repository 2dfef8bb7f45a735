/* Damages are what they say and repeat; filters do what they are named for. */
#include "base/rng.h"
#include "scene.h"
#include "train/data/corrupt.h"
#include "train/data/filters.h"

#include <stdlib.h>
#include <string.h>

static void damages_are_what_they_say(void **state)
{
    (void)state;
    zn_image *clean = scene(128, 96, 8, 1), *noisy = damaged(clean, "gaussian:20", 7);
    const uint8_t *a = clean->pixels, *b = noisy->pixels;
    const int count = 128 * 96 * 3;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        const double d = (double)b[i] - a[i];
        sum += d;
        squares += d * d;
    }
    assert_true(fabs(sum / count) < 0.5 && fabs(sqrt(squares / count) - 20) < 0.5);
    zn_image_free(noisy);
    noisy = damaged(clean, "salt:10", 7);
    b = noisy->pixels;
    int black = 0, white = 0;
    for (int i = 0; i < count; i++) {
        black += b[i] != a[i] && b[i] == 0;
        white += b[i] != a[i] && b[i] == 255;
        assert_true(b[i] == a[i] || b[i] == 0 || b[i] == 255);
    }
    assert_true(abs(black - count / 20) < count / 200 && abs(white - count / 20) < count / 200);
    zn_image_free(noisy);
    noisy = damaged(clean, "random:10", 7);
    b = noisy->pixels;
    int hit = 0;
    for (int i = 0; i < count; i++)
        hit += a[i] != b[i];
    assert_true(abs(hit - count / 10) < count / 100);
    zn_image_free(noisy);
    zn_image_free(clean);
}

static void damages_repeat(void **state)
{
    (void)state;
    static const char *const all[] = { "gaussian:25", "salt:5", "random:5", "blur:1.5", "box:5", "none" };
    for (int bits = 8; bits <= 16; bits += 8)
        for (int i = 0; i < 6; i++) {
            zn_image *clean = scene(33, 20, bits, 2), *one = damaged(clean, all[i], 5),
                     *two = damaged(clean, all[i], 5);
            zn_image *other = damaged(clean, all[i], 6);
            assert_memory_equal(one->pixels, two->pixels, bytes_of(one));
            assert_int_equal(memcmp(one->pixels, other->pixels, bytes_of(one)) != 0, i < 3); /* chance or none */
            assert_int_equal(memcmp(one->pixels, clean->pixels, bytes_of(one)) != 0, i < 5);
            zn_image_free(clean);
            zn_image_free(one);
            zn_image_free(two);
            zn_image_free(other);
        }
    const zn_damage_mix mix = { .kind = ZN_DAMAGE_MIX_PLAIN };
    float picture[16 * 16 * 3] = { 0 }, input[16 * 16 * 6], again[16 * 16 * 6];
    int told = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        assert_int_equal(zn_restore_input(&mix, picture, 16, seed, input), ZN_OK);
        assert_int_equal(zn_restore_input(&mix, picture, 16, seed, again), ZN_OK);
        assert_memory_equal(input, again, sizeof input);
        told += input[3] + input[4] + input[5] == 1;
    }
    assert_in_range(told, 10, 30);
}

static void bad_damages_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "gaussian",
                                       "gaussian:",
                                       "gaussian:x",
                                       "gaussian:25x",
                                       "salt:101",
                                       "box:4",
                                       "blur:-1",
                                       "none:1",
                                       "snow:3",
                                       "",
                                       "box:2.5",
                                       "gaussian:nan",
                                       "jpeg:0",
                                       "jpeg:9.5",
                                       "salt:5+",
                                       "+salt:5",
                                       "none+salt:5",
                                       "salt:5+none",
                                       "salt:5+jpeg:10+jpeg:5" };
    zn_corruption c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (zn_corruption_parse(bad[i], &c) != ZN_EINVALID)
            fail_msg("'%s' was taken", bad[i]);
    int count = 0;
    for (int task = ZN_TASK_DENOISE; zn_task_name(task); task++)
        for (int i = 0; zn_corruption_of_task((zn_task)task, i, &c); i++, count++)
            assert_int_equal(zn_corruption_task(c), task);
    int jpegs = 0;
    for (int i = 0; zn_corruption_of_task(ZN_TASK_AUTO, i, &c); i++, count--)
        jpegs += zn_corruption_task(c) == ZN_TASK_JPEG;
    assert_int_equal(count, 0); /* every damage has its task */
    assert_int_equal(jpegs, zn_image_can_write("a.jpg") ? 3 : 0);
    char text[32];
    assert_int_equal(zn_corruption_parse("gaussian:20+jpeg:90", &c), ZN_OK);
    assert_string_equal(zn_corruption_text(c, text), "gaussian:20+jpeg:90");
}

static void the_least_blur_is_none(void **state)
{
    (void)state;
    const float x[12] = { 0, 1, 0.5f, 0.25f, 1, 0, 0.75f, 0.1f, 0.9f, 0.3f, 0.6f, 0.2f };
    static const float sigmas[] = { 0, 1e-30f, 1e-3f };
    for (int i = 0; i < 3; i++) {
        float y[12];
        assert_int_equal(zn_gaussian_blur(x, ZN_SHAPE(1, 2, 2, 3), sigmas[i], y), ZN_OK);
        assert_memory_equal(x, y, sizeof x);
    }
}

/* Non-local means by its definition: the mean of pixels weighted by exp(-max(0, d^2 - 2 s^2) / h^2). */
static double nlm_at(const float *x, int w, int h, int px, int py, int c, double sigma)
{
    const int patch = 1, search = 10;
    double total = 0, sum = 0;
    for (int dy = -search; dy <= search; dy++)
        for (int dx = -search; dx <= search; dx++) {
            double d = 0;
            for (int k = 0; k < 27; k++) {
                const int ax = px + k % 3 - patch, ay = py + k / 3 % 3 - patch;
#define AT(column, row)                                                                                                \
    x[(((row) < 0    ? 0                                                                                               \
        : (row) >= h ? h - 1                                                                                           \
                     : (row)) *                                                                                        \
           w +                                                                                                         \
       ((column) < 0    ? 0                                                                                            \
        : (column) >= w ? w - 1                                                                                        \
                        : (column))) *                                                                                 \
          3 +                                                                                                          \
      k / 9]
                const double e = (double)AT(ax, ay) - (double)AT(ax + dx, ay + dy);
#undef AT
                d += e * e / 27;
            }
            const int qx = px + dx < 0    ? 0
                           : px + dx >= w ? w - 1
                                          : px + dx,
                      qy = py + dy < 0    ? 0
                           : py + dy >= h ? h - 1
                                          : py + dy;
            const double far = (d - 2 * sigma * sigma) / (0.55 * 0.55 * sigma * sigma),
                         weight = far > 0 ? exp(-far) : 1;
            total += weight;
            sum += weight * (double)x[(qy * w + qx) * 3 + c];
        }
    return sum / total;
}

static void non_local_means_follows_its_definition(void **state)
{
    (void)state;
    enum { W = 23, H = 41 };
    static float x[W * H * 3], one[W * H * 3], three[W * H * 3];
    zn_rng rng = zn_rng_new(3);
    for (int i = 0; i < W * H * 3; i++)
        x[i] = 0.4f + 0.2f * (float)(i / 3 % W > 10) + 0.06f * zn_rng_normal(&rng);
    zn_pool *pool;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    assert_int_equal(zn_nlm(x, W, H, 0.06f, pool, one), ZN_OK);
    zn_pool_free(pool);
    assert_int_equal(zn_pool_new(3, &pool), ZN_OK);
    assert_int_equal(zn_nlm(x, W, H, 0.06f, pool, three), ZN_OK);
    zn_pool_free(pool);
    assert_memory_equal(one, three, sizeof one);
    for (int i = 0; i < W * H * 3; i += 101) {
        const double want = nlm_at(x, W, H, i / 3 % W, i / 3 / W, i % 3, 0.06);
        if (fabs((double)one[i] - want) > 1e-5)
            fail_msg("at %d: %g, not %g", i, (double)one[i], want);
    }
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Both medians against sorting, on maps down to one pixel, several images at once. */
static void medians_are_the_middle(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 1, 1 }, { 2, 1 }, { 1, 5 }, { 7, 6 }, { 19, 4 } };
    zn_rng rng = zn_rng_new(6);
    for (size_t n = 0; n < 5; n++)
        for (int side = 3; side <= 5; side += 2) {
            const int w = sizes[n][0], h = sizes[n][1];
            float x[2 * 19 * 6 * 3], y[2 * 19 * 6 * 3], around[25];
            for (int i = 0; i < 2 * w * h * 3; i++)
                x[i] = (float)(zn_rng_next(&rng) % 7); /* with ties */
            zn_median(x, ZN_SHAPE(2, h, w, 3), side, y);
            for (int i = 0; i < 2 * w * h * 3; i++) {
                const int image = i / (3 * w * h), px = i / 3 % w, py = i / 3 / w % h;
                for (int k = 0; k < side * side; k++) {
                    const int qx = px + k % side - side / 2, qy = py + k / side - side / 2;
                    const int cx = qx < 0 ? 0 : qx >= w ? w - 1 : qx, cy = qy < 0 ? 0 : qy >= h ? h - 1 : qy;
                    around[k] = x[((image * h + cy) * w + cx) * 3 + i % 3];
                }
                qsort(around, (size_t)(side * side), sizeof *around, by_value);
                assert_true(y[i] == around[side * side / 2]);
            }
        }
}

static void filters_do_their_work(void **state)
{
    (void)state;
    zn_image *clean = scene(64, 48, 8, 1), *noisy = damaged(clean, "gaussian:25", 1),
             *wrong = damaged(clean, "salt:5", 1);
    zn_image *out;
    assert_int_equal(zn_filter(noisy, ZN_FILTER_MEAN, 0, 1, &out), ZN_OK);
    assert_true(psnr(clean, out) > psnr(clean, noisy) + 2);
    zn_image_free(out);
    assert_int_equal(zn_filter(wrong, ZN_FILTER_MEDIAN, 0, 1, &out), ZN_OK);
    assert_true(psnr(clean, out) > psnr(clean, wrong) + 6);
    zn_image_free(out);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_NLM, 25, 1, &out), ZN_OK);
    assert_true(psnr(clean, out) > psnr(clean, noisy) + 6);
    zn_image_free(out);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_MEDIAN, 4, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_MEAN, 2.5, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_MEAN, 101, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_MEAN, 1e300, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_MEDIAN, NAN, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_filter(noisy, ZN_FILTER_NLM, -1, 1, &out), ZN_EINVALID);
    zn_image_free(clean);
    zn_image_free(noisy);
    zn_image_free(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damages_are_what_they_say),
        cmocka_unit_test(damages_repeat),
        cmocka_unit_test(bad_damages_are_refused),
        cmocka_unit_test(the_least_blur_is_none),
        cmocka_unit_test(non_local_means_follows_its_definition),
        cmocka_unit_test(medians_are_the_middle),
        cmocka_unit_test(filters_do_their_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

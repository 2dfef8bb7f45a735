/* What the library promises of diffusion autoencoders: the same bits with any number of threads and pictures at a time,
 * and a sentence for what cannot be. */
#include "base/alloc.h"
#include "diffae_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/diffae.h>
#include <zenith/sample.h>

static zn_image *picture_of(int side)
{
    zn_image *p;
    assert_int_equal(zn_image_new(side, side, 8, &p), ZN_OK);
    for (int i = 0; i < side * side * 3; i++)
        ((uint8_t *)p->pixels)[i] = (uint8_t)(i * 37 % 251);
    return p;
}

/* Everything once, with so many threads; the picture at the end. */
static zn_image *round_trip(const zn_model *m, int threads)
{
    zn_diffae *d;
    zn_image *photo = picture_of(50), *picture, *both[2] = { NULL };
    assert_int_equal(zn_diffae_new(m, &(zn_options){ .threads = threads }, &d), ZN_OK);
    const int width = zn_diffae_width(d);
    const size_t size = zn_diffae_noise_size(d, 1);
    float *cond = zn_alloc(sizeof(float) * 3 * (size_t)width), *noise = zn_alloc(sizeof(float) * 3 * size);
    assert_int_equal(zn_diffae_fit(d, photo, &picture), ZN_OK);
    assert_int_equal(picture->width, 32);
    assert_int_equal(zn_diffae_encode(d, picture, cond), ZN_OK);
    assert_int_equal(zn_diffae_invert(d, picture, cond, 5, noise), ZN_OK);
    assert_int_equal(zn_diffae_imagine(d, 1, 7, 5, cond + width), ZN_OK);
    zn_diffae_noise(d, 1, 8, noise + size);
    assert_int_equal(zn_diffae_move(d, cond, "4", 0.3, cond), ZN_OK);
    zn_diffae_between(d, cond, noise, cond + width, noise + size, 0.5, cond + 2 * width, noise + 2 * size);
    assert_int_equal(zn_diffae_render(d, 2, cond + width, noise + size, 5, both), ZN_OK);
    zn_image_free(both[0]);
    zn_image_free(photo);
    zn_image_free(picture);
    zn_free(cond);
    zn_free(noise);
    zn_diffae_free(d);
    return both[1];
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    zn_model *m = small_diffae(true);
    zn_image *one = round_trip(m, 1), *three = round_trip(m, 3);
    assert_memory_equal(one->pixels, three->pixels, 32 * 32 * 3);
    zn_image_free(one);
    zn_image_free(three);
    zn_model_free(m);
}

/* Several pictures at once are those one by one. */
static void pictures_do_not_matter_to_each_other(void **state)
{
    (void)state;
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    zn_image *both[2], *single;
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    const int width = zn_diffae_width(d);
    const size_t size = zn_diffae_noise_size(d, 1);
    float *cond = zn_alloc(sizeof(float) * 2 * (size_t)width), *noise = zn_alloc(sizeof(float) * 2 * size);
    assert_int_equal(zn_diffae_imagine(d, 2, 3, 5, cond), ZN_OK);
    zn_diffae_noise(d, 2, 4, noise);
    assert_int_equal(zn_diffae_render(d, 2, cond, noise, 5, both), ZN_OK);
    assert_int_equal(zn_diffae_render(d, 1, cond + width, noise + size, 5, &single), ZN_OK);
    assert_memory_equal(single->pixels, both[1]->pixels, 32 * 32 * 3);
    zn_image_free(single);
    /* and the second is the first of the next seed */
    float *again = zn_alloc(sizeof(float) * size);
    assert_int_equal(zn_diffae_imagine(d, 1, 4, 5, again), ZN_OK);
    assert_memory_equal(again, cond + width, sizeof(float) * (size_t)width);
    zn_diffae_noise(d, 1, 5, again);
    assert_memory_equal(again, noise + size, sizeof(float) * size);
    zn_free(again);
    zn_image_free(both[0]);
    zn_image_free(both[1]);
    zn_free(cond);
    zn_free(noise);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* zn_sample: image i is the first of seed + i, and a number of images that cannot be touches none of them. */
static void samples_are_those_of_their_seeds(void **state)
{
    (void)state;
    zn_model *m = small_diffae(true);
    zn_image *both[2], *single, *kept = picture_of(2), *const before = kept;
    assert_int_equal(zn_sample(m, &(zn_sample_options){ .seed = 3, .steps = 5 }, 2, both), ZN_OK);
    assert_int_equal(zn_sample(m, &(zn_sample_options){ .seed = 4, .steps = 5 }, 1, &single), ZN_OK);
    assert_memory_equal(single->pixels, both[1]->pixels, 32 * 32 * 3);
    zn_image_free(both[1]);
    for (int count = -1; count < 1; count++) {
        assert_int_equal(zn_sample(m, NULL, count, &kept), ZN_EINVALID);
        assert_ptr_equal(kept, before);
    }
    assert_int_equal(zn_sample(m, &(zn_sample_options){ .steps = 37 }, 1, both + 1), ZN_EINVALID);
    assert_null(both[1]);
    zn_image_free(both[0]);
    zn_image_free(single);
    zn_image_free(kept);
    zn_model_free(m);
}

/* A condition that is moved along an attribute shows more of it. */
static void conditions_are_judged(void **state)
{
    (void)state;
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    float cond[16], moved[16], before[5], after[5];
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    assert_int_equal(zn_diffae_attribute_count(d), 5);
    assert_int_equal(zn_diffae_width(d), 16);
    assert_int_equal(zn_diffae_imagine(d, 1, 2, 5, cond), ZN_OK);
    assert_int_equal(zn_diffae_judge(d, cond, before), ZN_OK);
    for (int row = 0; row < 5; row++) {
        const char number[] = { (char)('0' + row), 0 };
        const zn_model_parameter *w = zn_model_parameter_find(m, "classifier.weight"),
                                 *b = zn_model_parameter_find(m, "classifier.bias"),
                                 *mean = zn_model_parameter_find(m, "conds_mean"),
                                 *std = zn_model_parameter_find(m, "conds_std");
        double logit = b->data[row];
        for (int i = 0; i < 16; i++)
            logit += (double)w->data[i * 5 + row] * ((cond[i] - mean->data[i]) / std->data[i]);
        assert_true(fabs(before[row] - 1 / (1 + exp(-logit))) < 1e-5);
        assert_int_equal(zn_diffae_move(d, cond, number, 0.3, moved), ZN_OK);
        assert_int_equal(zn_diffae_judge(d, moved, after), ZN_OK);
        assert_true(after[row] > before[row]);
        assert_int_equal(zn_diffae_move(d, cond, number, -0.3, moved), ZN_OK);
        assert_int_equal(zn_diffae_judge(d, moved, after), ZN_OK);
        assert_true(after[row] < before[row]);
    }
    m->has[ZN_CLASSIFIER] = false;
    assert_int_equal(zn_diffae_attribute_count(d), 0);
    assert_int_equal(zn_diffae_judge(d, cond, after), ZN_EUNSUPPORTED);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* Noise on the way to a goal: the image's own at 0, equally far from it and from fresh noise at 1, of the same length.
 */
static void noise_is_half_fresh_at_a_goal(void **state)
{
    (void)state;
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    const size_t count = zn_diffae_noise_size(d, 1);
    float *own = calloc(count, sizeof *own), *fresh = calloc(count, sizeof *fresh), *out = calloc(count, sizeof *out),
          *beyond = calloc(count, sizeof *beyond);
    zn_diffae_noise(d, 1, 4, own);
    zn_diffae_noise(d, 1, 9, fresh);
    assert_int_equal(zn_diffae_loosen(d, own, 0, 9, out), ZN_OK);
    assert_memory_equal(out, own, count * sizeof *own);
    assert_int_equal(zn_diffae_loosen(d, own, 1, 9, out), ZN_OK);
    double to_own = 0, to_fresh = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        to_own += (double)out[i] * (double)own[i];
        to_fresh += (double)out[i] * (double)fresh[i];
        length += (double)out[i] * (double)out[i];
    }
    assert_float_equal(to_own / (double)count, to_fresh / (double)count, 0.05);
    assert_float_equal(length / (double)count, 1, 0.1);
    assert_int_equal(zn_diffae_loosen(d, own, 3, 9, beyond), ZN_OK);
    assert_memory_equal(beyond, out, count * sizeof *out);
    assert_int_equal(zn_diffae_loosen(d, own, 1, 4, out), ZN_OK); /* the same noise: --random-noise */
    for (size_t i = 0; i < count; i++)
        assert_float_equal(out[i], own[i], 1e-5);
    free(own);
    free(fresh);
    free(out);
    free(beyond);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* What the latent net imagines as a goal shows the attribute, or does not, and is near: that of a condition that shows
 * nothing else differs from that of another one. */
static void goals_show_what_is_asked(void **state)
{
    (void)state;
    enum { WIDTH = 16 };
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    float cond[2][WIDTH], goal[WIDTH], other[WIDTH], with[5], without[5];
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    assert_int_equal(zn_diffae_imagine(d, 2, 2, 5, cond[0]), ZN_OK);
    for (int row = 0; row < 5; row++) {
        const char number[] = { (char)('0' + row), 0 };
        assert_int_equal(zn_diffae_goal(d, cond[0], number, 1, 5, 3, goal), ZN_OK);
        assert_int_equal(zn_diffae_goal(d, cond[0], number, 0, 5, 3, other), ZN_OK);
        assert_int_equal(zn_diffae_judge(d, goal, with), ZN_OK);
        assert_int_equal(zn_diffae_judge(d, other, without), ZN_OK);
        assert_true(with[row] > without[row]);
    }
    assert_int_equal(zn_diffae_goal(d, cond[1], "4", 1, 5, 3, other), ZN_OK);
    double own[2] = { 0 }, crossed[2] = { 0 };
    const zn_model_parameter *std = zn_model_parameter_find(m, "conds_std");
    for (int i = 0; i < WIDTH; i++) {
        own[0] += pow((double)(goal[i] - cond[0][i]) / (double)std->data[i], 2);
        crossed[0] += pow((double)(other[i] - cond[0][i]) / (double)std->data[i], 2);
        own[1] += pow((double)(other[i] - cond[1][i]) / (double)std->data[i], 2);
        crossed[1] += pow((double)(goal[i] - cond[1][i]) / (double)std->data[i], 2);
    }
    assert_true(own[0] < crossed[0] && own[1] < crossed[1]);
    zn_diffae_approach(d, cond[0], goal, 1, other);
    assert_memory_equal(other, goal, sizeof goal);
    zn_diffae_approach(d, cond[0], goal, 0, other);
    assert_memory_equal(other, cond[0], sizeof other);
    assert_int_equal(zn_diffae_goal(d, cond[0], "Old", 1, 5, 3, goal), ZN_ENOTFOUND);
    m->has[ZN_LATENT_NET] = false;
    assert_int_equal(zn_diffae_goal(d, cond[0], "4", 1, 5, 3, goal), ZN_EUNSUPPORTED);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* Edits are moves along the classifier with the noise as it is, or go to goals, of which each is found once. */
static void edits_move_or_go_to_goals(void **state)
{
    (void)state;
    enum { WIDTH = 16 };
    const double amounts[] = { -0.5, 0, 1, 2 };
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    float cond[WIDTH], goal[WIDTH], want[WIDTH], got[WIDTH];
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    const size_t count = zn_diffae_noise_size(d, 1);
    float *noise = calloc(3 * count, sizeof *noise), *wanted = noise + count, *given = wanted + count;
    zn_diffae_edit along = { .attribute = "3" }, toward = { .attribute = "3", .imagine = 1, .seed = 7 };
    assert_int_equal(zn_diffae_imagine(d, 1, 2, 5, cond), ZN_OK);
    zn_diffae_noise(d, 1, 4, noise);
    assert_int_equal(zn_diffae_edit_steps(&along, amounts, 4), 0);
    assert_int_equal(zn_diffae_edit_steps(&toward, amounts, 4), 100);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(zn_diffae_edit_by(d, &along, cond, noise, amounts[i], got, given), ZN_OK);
        assert_int_equal(zn_diffae_move(d, cond, "3", amounts[i], want), ZN_OK);
        assert_memory_equal(got, want, sizeof want);
        assert_memory_equal(given, noise, count * sizeof *noise);
        assert_int_equal(zn_diffae_edit_steps(&toward, &amounts[i], 1), i % 2 || i > 2 ? 0 : 50);
        assert_int_equal(zn_diffae_edit_by(d, &toward, cond, noise, amounts[i], got, given), ZN_OK);
        assert_int_equal(zn_diffae_goal(d, cond, "3", amounts[i] > 0, 50, 7, goal), ZN_OK);
        zn_diffae_approach(d, cond, amounts[i] == 0 ? cond : goal, fabs(amounts[i]), want);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(zn_diffae_loosen(d, noise, fabs(amounts[i]), 7, wanted), ZN_OK);
        assert_memory_equal(given, wanted, count * sizeof *noise);
    }
    zn_diffae_edit_clear(&toward);
    free(noise);
    zn_diffae_free(d);
    zn_model_free(m);
}

static void possible_steps_are_known(void **state)
{
    (void)state;
    int possible = 0;
    for (int steps = 2; steps <= 1000; steps++)
        possible += zn_diffae_check_steps(steps) == ZN_OK;
    assert_int_equal(possible, 62);
    assert_int_equal(zn_diffae_check_steps(1), ZN_EINVALID);
    assert_int_equal(zn_diffae_check_steps(41), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "40 or 42"));
    assert_int_equal(zn_diffae_check_steps(1001), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "at most 1000"));
}

static int stop(void *user, double fraction)
{
    ++*(int *)user;
    return fraction > 0.5;
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    zn_image *wrong = picture_of(40), *out = NULL;
    int calls = 0;
    assert_int_equal(zn_diffae_new(m, &(zn_options){ .progress = stop, .user = &calls }, &d), ZN_OK);
    float *cond = zn_calloc((size_t)zn_diffae_width(d), sizeof *cond),
          *noise = zn_calloc(zn_diffae_noise_size(d, 1), 4);
    assert_int_equal(zn_diffae_encode(d, wrong, cond), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "40x40"));
    assert_int_equal(zn_diffae_render(d, 1, cond, noise, 37, &out), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "36 or 38"));
    assert_int_equal(zn_diffae_render(d, 1, cond, noise, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_diffae_render(d, 0, cond, noise, 10, &out), ZN_EINVALID);
    assert_int_equal(zn_diffae_move(d, cond, "Smiling", 1, cond), ZN_ENOTFOUND); /* five classes without names */
    assert_int_equal(zn_diffae_move(d, cond, "7", 1, cond), ZN_ENOTFOUND);
    assert_int_equal(zn_diffae_move(d, cond, "4", 1, cond), ZN_OK);
    assert_int_equal(zn_diffae_render(d, 1, cond, noise, 10, &out), ZN_ECANCELLED);
    assert_int_equal(calls, 6);
    assert_null(out);
    zn_free(cond);
    zn_free(noise);
    zn_image_free(wrong);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* A classifier without names has CelebA's only if it has as many rows as the original's. */
static void names_are_those_of_the_classifier(void **state)
{
    (void)state;
    static const char *const own[] = { "Cat", "Dog", "Fox", "Owl", "Yak" };
    zn_model *m = small_diffae(true);
    zn_diffae *d;
    int row = -1;
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    for (int i = 0; i < 5; i++)
        assert_null(zn_diffae_attribute(d, i));
    assert_int_equal(zn_diffae_find_attribute(d, "Bald", &row), ZN_ENOTFOUND);
    assert_non_null(strstr(zn_error_text(), "numbers below 5"));
    assert_int_equal(zn_diffae_find_attribute(d, "4", &row), ZN_OK);
    assert_int_equal(row, 4);
    assert_int_equal(zn_model_name_attributes(m, own, 5), ZN_OK);
    assert_int_equal(zn_diffae_find_attribute(d, "yAK", &row), ZN_OK);
    assert_string_equal(zn_diffae_attribute(d, row), "Yak");
    m->attributes = NULL;
    m->config.classes = 40;
    assert_int_equal(zn_diffae_find_attribute(d, "bALD", &row), ZN_OK);
    assert_string_equal(zn_diffae_attribute(d, row), "Bald");
    assert_int_equal(zn_diffae_find_attribute(d, "Balding", &row), ZN_ENOTFOUND);
    assert_string_equal(zn_diffae_attribute(d, 39), "Young");
    assert_null(zn_diffae_attribute(d, 40));
    zn_diffae_free(d);
    zn_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(pictures_do_not_matter_to_each_other),
        cmocka_unit_test(samples_are_those_of_their_seeds),
        cmocka_unit_test(conditions_are_judged),
        cmocka_unit_test(noise_is_half_fresh_at_a_goal),
        cmocka_unit_test(goals_show_what_is_asked),
        cmocka_unit_test(edits_move_or_go_to_goals),
        cmocka_unit_test(possible_steps_are_known),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(names_are_those_of_the_classifier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

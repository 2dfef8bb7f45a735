/* Mamba models through whole runs: an encoder of patches, fields over points, coordinates, and the convolutional
 * encoder with a mask that they are compared with. Each run is stopped and resumed with the same bits, its file is
 * recognised, and the model encodes some of the pixels and decodes more of them. */
#include "base/rng.h"
#include "graph/exec.h"
#include "train/objective/noising.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

enum { SIDE = 16, STEPS = 4 };

static const zn_options one_thread = { .threads = 1 };

static void expect(zn_status status)
{
    if (status != ZN_OK)
        fail_msg("%s", zn_error_text());
}

/* Trains a recipe into the folder's `name`, stopping after `stop` steps (0: not before its end). */
static void train(const char *name, const char *settings, int64_t stop, int resume)
{
    char yaml[512], run[128];
    zn_train_result r;
    snprintf(
        yaml, sizeof yaml,
        "task: diffuse\nlatent: 8\nbatch: 2\naccumulate: 2\nsize: %d\nsteps: %d\nwarmup: 0\nheld_out: 20\neval_every: "
        "2\ncheckpoint_every: 100\nlr: 1e-2\n%s",
        SIDE, STEPS, settings);
    write_text(in_folder("field.yaml"), yaml);
    snprintf(run, sizeof run, "%s", in_folder(name));
    const zn_train_options o = { .recipe = resume ? NULL : in_folder("field.yaml"),
                                 .run = { .data = in_folder("pictures"),
                                          .folder = run,
                                          .compute = &one_thread,
                                          .resume = resume,
                                          .progress = stop ? stop_at : NULL,
                                          .user = &stop } };
    const zn_status status = zn_train(&o, &r);
    if (status != (stop ? ZN_ECANCELLED : ZN_OK))
        fail_msg("%s: %s", settings, zn_error_text());
    assert_true(isfinite(r.loss));
}

/* What the model in a folder's run makes of an image: from some pixels, and twice as large. */
static void use(const char *name, bool field)
{
    zn_model *m;
    zn_diffae *d;
    zn_image *picture, *large = NULL;
    float some[8], same[8], all[8], points[6] = { -0.5f, 0.2f, 0.9f, -0.9f, 0, 0 }, colours[9];
    expect(zn_model_open(in_folder(name), &m));
    assert_int_equal(zn_model_info_of(m)->image_size, SIDE);
    expect(zn_diffae_new(m, &one_thread, &d));
    expect(zn_image_new(SIDE, SIDE, 8, &picture));
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        ((uint8_t *)picture->pixels)[i] = (uint8_t)(i * 37 % 251);
    assert_int_equal(zn_diffae_width(d), 8);
    expect(zn_diffae_encode(d, picture, all));
    expect(zn_field_encode_some(d, picture, 0.3, 1, some));
    expect(zn_field_encode_some(d, picture, 0.3, 1, same));
    assert_memory_equal(some, same, sizeof some);
    expect(zn_field_encode_some(d, picture, 0.3, 2, same));
    assert_memory_not_equal(some, same, sizeof some);
    assert_int_equal(zn_diffae_is_field(d), field);
    assert_int_equal(zn_field_encode_some(d, picture, 0, 1, some), ZN_EINVALID);
    if (field) {
        expect(zn_field_encode_some(d, picture, 1, 1, same)); /* every pixel, in another order */
        for (int i = 0; i < 8; i++)
            assert_true(fabsf(same[i] - all[i]) < 1e-4f * (1 + fabsf(all[i])));
        expect(zn_field_render(d, all, 2, 1, 5, &large));
        assert_int_equal(large->width, 2 * SIDE);
        expect(zn_field_colours_at(d, all, points, 3, 1, 5, colours));
        for (int i = 0; i < 9; i++)
            assert_true(colours[i] >= 0 && colours[i] <= 1);
    } else {
        assert_int_equal(zn_field_render(d, all, 2, 1, 5, &large), ZN_EUNSUPPORTED);
        expect_text("only mamba-field models");
        expect(zn_field_render(d, all, 1, 1, 5, &large));
    }
    zn_image_free(large);
    zn_image_free(picture);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* Encoders of whole images. */
static void check_images(const char *name)
{
    zn_model *m;
    zn_diffae *d;
    zn_image *picture;
    float cond[8];
    expect(zn_model_open(in_folder(name), &m));
    expect(zn_diffae_new(m, &one_thread, &d));
    expect(zn_image_new(SIDE, SIDE, 8, &picture));
    memset(picture->pixels, 90, SIDE * SIDE * 3);
    expect(zn_diffae_encode(d, picture, cond));
    assert_int_equal(zn_field_encode_some(d, picture, 0.5, 1, cond), ZN_EUNSUPPORTED);
    zn_image_free(picture);
    zn_diffae_free(d);
    zn_model_free(m);
}

static void stopped_and_resumed_is_the_same(const char *settings)
{
    static int number;
    char whole[32], parts[32];
    snprintf(whole, sizeof whole, "whole%d", number);
    snprintf(parts, sizeof parts, "parts%d", number++);
    train(whole, settings, 0, 0);
    train(parts, settings, 2, 0);
    train(parts, settings, 0, 1);
    char a[64], b[64];
    snprintf(a, sizeof a, "%s/model.safetensors", whole);
    snprintf(b, sizeof b, "%s/model.safetensors", parts);
    same_tensors(in_folder(a), in_folder(b));
    if (strstr(settings, "diffae-mamba64"))
        check_images(whole);
    else
        use(whole, strstr(settings, "model: mamba") != NULL);
}

#define FIELD "width: 12\nlayers: 2\npoints: {least: 0.1, most: 0.4, asked: 0.3}\n"

static void a_field_of_noise_trains(void **state)
{
    (void)state;
    stopped_and_resumed_is_the_same("model: mamba-field\n" FIELD);
}

static void a_field_of_values_trains(void **state)
{
    (void)state;
    stopped_and_resumed_is_the_same("model: mamba-field-direct\n" FIELD);
}

static void coordinates_train(void **state)
{
    (void)state;
    stopped_and_resumed_is_the_same("model: mamba-coordinates\n" FIELD);
}

static void an_encoder_of_patches_trains(void **state)
{
    (void)state;
    stopped_and_resumed_is_the_same("model: diffae-mamba64\nwidth: 2\nlayers: 2\n");
}

static void an_encoder_behind_a_mask_trains(void **state)
{
    (void)state;
    stopped_and_resumed_is_the_same("model: diffae-masked64\nwidth: 2\npoints: {least: 0.1, most: 0.4}\n");
}

/* Points are pixels, each once, with the values that the image has there; the rest is padding. */
static void points_are_pixels_of_the_image(void **state)
{
    (void)state;
    enum { N = 2, LENGTH = 100 };
    static float image[SIDE * SIDE * 3];
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        image[i] = (float)i / (SIDE * SIDE * 3);
    zn_graph *g = zn_graph_new();
    zn_points p = { { zn_graph_input(g, "points", ZN_SHAPE(N, 1, LENGTH, 2)),
                      zn_graph_input(g, "orders", ZN_SHAPE(2, N, ZN_SCAN_WAYS, LENGTH)) },
                    zn_graph_input(g, "values", ZN_SHAPE(N, 1, LENGTH, 3)) };
    p.at.points->data = calloc(N * LENGTH * 2, sizeof(float));
    p.at.orders->data = calloc(2 * N * ZN_SCAN_WAYS * LENGTH, sizeof(float));
    p.values->data = calloc(N * LENGTH * 3, sizeof(float));
    zn_rng rng = zn_rng_new(5);
    expect(zn_points_draw(&p, &(zn_points_choice){ SIDE, 0.25, 0.25, 64 }, 1, image, &rng));
    bool seen[SIDE * SIDE] = { false };
    for (int i = 0; i < SIDE * SIDE / 4; i++) {
        const float *point = p.at.points->data + 2 * (LENGTH + i), *value = p.values->data + 3 * (LENGTH + i);
        const int x = (int)((point[0] + 1) * SIDE / 2), y = (int)((point[1] + 1) * SIDE / 2), at = y * SIDE + x;
        assert_true(x >= 0 && x < SIDE && y >= 0 && y < SIDE && !seen[at]);
        seen[at] = true;
        for (int c = 0; c < 3; c++)
            assert_true(fabsf(value[c] - (2 * image[3 * at + c] - 1)) < 1e-6f);
    }
    const float *positions = p.at.orders->data + (N + 1) * ZN_SCAN_WAYS * LENGTH; /* of the second sample's tokens */
    assert_true(positions[SIDE * SIDE / 4 - 1] >= 0 && positions[SIDE * SIDE / 4] < 0);
    free(p.at.points->data);
    free(p.at.orders->data);
    free(p.values->data);
    zn_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_pixels_of_the_image), cmocka_unit_test(a_field_of_noise_trains),
        cmocka_unit_test(a_field_of_values_trains),       cmocka_unit_test(coordinates_train),
        cmocka_unit_test(an_encoder_of_patches_trains),   cmocka_unit_test(an_encoder_behind_a_mask_trains),
    };
    return cmocka_run_group_tests_name("fields", tests, files_set_up, files_tear_down);
}

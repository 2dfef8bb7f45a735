/* FP8 in generators: images differ little, layers are measured, and the file that remembers them is used. */
#include "tiny_layouts.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zenith/generate.h>

enum { SIDE = 32, BYTES = SIDE * SIDE * 3 };

static char root[64], list[256];

static void must(zn_status status)
{
    if (status != ZN_OK)
        fail_msg("%s", zn_error_text());
}

static zn_generator *open_as(const char *folder, zn_precision precision)
{
    char path[128];
    zn_generator *g;
    snprintf(path, sizeof path, "%s/%s", root, folder);
    const zn_generator_files files = { .size = sizeof files, .model = path, .cache = "" };
    const zn_options options = { .size = sizeof options, .threads = 2, .precision = precision };
    must(zn_generator_open(&files, &options, &g));
    return g;
}

static const zn_generation request = {
    .size = sizeof request, .prompt = "abc", .width = SIDE, .height = SIDE, .steps = 2, .seed = 7
};

static void draw(const char *folder, zn_precision precision, uint8_t *pixels)
{
    zn_generator *g = open_as(folder, precision);
    zn_image *image;
    must(zn_generate(g, &request, &image));
    memcpy(pixels, image->pixels, BYTES);
    zn_image_free(image);
    zn_generator_free(g);
}

static double difference(const uint8_t *a, const uint8_t *b)
{
    double sum = 0;
    for (int i = 0; i < BYTES; i++)
        sum += abs(a[i] - b[i]);
    return sum / BYTES;
}

/* An image in FP8 is not the one in bf16, but near it: from plain weights and from those that are FP8 in their file. */
static void images_differ_little(void **state)
{
    static const char *const folders[] = { "plain", "fp8" };
    uint8_t exact[BYTES], fp8[BYTES];
    (void)state;
    for (int i = 0; i < 2; i++) {
        draw(folders[i], ZN_PRECISION_BF16, exact);
        draw(folders[i], ZN_PRECISION_FP8, fp8);
        const double d = difference(fp8, exact);
        if (!(d > 0 && d < 8))
            fail_msg("%s: the images differ by %.3f levels", folders[i], d);
    }
}

typedef struct seen {
    int layers, kept;
    double last, worst;
} seen;

static void see(void *user, const char *layer, double error, int kept)
{
    seen *s = user;
    assert_true(strstr(layer, "layers.") == layer || strstr(layer, "noise_refiner.") == layer);
    assert_null(strstr(layer, ".weight"));
    assert_true(s->layers == 0 || error <= s->last);
    assert_true(kept == 0 || s->kept == s->layers); /* the worst ones first */
    s->worst = s->layers ? s->worst : error;
    s->last = error;
    s->layers++;
    s->kept += kept;
}

static seen measure(const char *file, double keep)
{
    seen s = { 0 };
    zn_generator *g = open_as("plain", ZN_PRECISION_BF16);
    const zn_calibration c = { .size = sizeof c, .file = file, .keep = keep, .visit = see, .user = &s };
    must(zn_generator_calibrate(g, &request, &c));
    zn_generator_free(g);
    return s;
}

static void layers_are_measured(void **state)
{
    (void)state;
    const seen s = measure(NULL, 0.25);
    assert_true(s.layers > 7);
    assert_int_equal(s.kept, (s.layers + 3) / 4);
    assert_true(s.last > 0 && s.worst < 0.5);
    assert_int_equal(access(list, F_OK), 0);
}

/* With all layers kept in bf16, an image in FP8 is the one in bf16. */
static void kept_layers_stay(void **state)
{
    uint8_t exact[BYTES], fp8[BYTES];
    (void)state;
    measure(list, 1);
    draw("plain", ZN_PRECISION_BF16, exact);
    draw("plain", ZN_PRECISION_FP8, fp8);
    assert_memory_equal(exact, fp8, BYTES);
    assert_int_equal(unlink(list), 0);
    draw("plain", ZN_PRECISION_FP8, fp8);
    assert_true(difference(fp8, exact) > 0);
}

static void broken_files_are_refused(void **state)
{
    static const char *const texts[] = { "{", "{}", "{\"format\": 2, \"keep\": [], \"errors\": {}}",
                                         "{\"format\": 1, \"keep\": 1, \"errors\": {}}" };
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/plain", root);
    const zn_generator_files files = { .size = sizeof files, .model = path, .cache = "" };
    const zn_options options = { .size = sizeof options, .precision = ZN_PRECISION_FP8 };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        zn_generator *g;
        must(zn_file_write(list, texts[i], strlen(texts[i])));
        assert_int_equal(zn_generator_open(&files, &options, &g), ZN_EFORMAT);
        assert_non_null(strstr(zn_error_text(), ".fp8.json"));
    }
    assert_int_equal(unlink(list), 0);
}

static void bad_requests_are_refused(void **state)
{
    zn_generation guided = request;
    zn_generator *g = open_as("plain", ZN_PRECISION_BF16);
    (void)state;
    guided.guidance = 3;
    assert_int_equal(zn_generator_calibrate(g, &guided, NULL), ZN_EINVALID);
    assert_int_equal(
        zn_generator_calibrate(g, &request, &(zn_calibration){ .size = sizeof(zn_calibration), .keep = 2 }),
        ZN_EINVALID);
    zn_generator_free(g);
}

static int setup(void **state)
{
    char path[128];
    (void)state;
    snprintf(root, sizeof root, "/tmp/zenith-fp8-XXXXXX");
    if (!mkdtemp(root))
        return 1;
    snprintf(path, sizeof path, "%s/plain", root);
    tiny_diffusers(path);
    snprintf(list, sizeof list, "%s/transformer/diffusion_pytorch_model.safetensors.index.json.fp8.json", path);
    snprintf(path, sizeof path, "%s/fp8", root);
    tiny_comfy(path, TINY_FP8_SCALED);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_differ_little),     cmocka_unit_test(layers_are_measured),
        cmocka_unit_test(kept_layers_stay),         cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(bad_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* From prompt to image with a tiny model: results do not depend on threads, what is asked is done, and what cannot be
 * is refused with a sentence. */
#include "tiny.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/generate.h>

enum { WIDTH = 48, HEIGHT = 32, BYTES = WIDTH * HEIGHT * 3 };

static char folder[2048], cache[4096];

static int make_model(void **state)
{
    (void)state;
    char name[] = "/tmp/zenith-generate-XXXXXX";
    assert_non_null(mkdtemp(name));
    snprintf(folder, sizeof folder, "%s/tiny", name);
    snprintf(cache, sizeof cache, "%s/cache", name);
    tiny_model(folder);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    char command[4096];
    *strrchr(folder, '/') = 0;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static zn_generator *open_with(int threads, const char *cache_folder)
{
    zn_generator *g;
    const zn_generator_files files = { .size = sizeof files, .model = folder, .cache = cache_folder };
    const zn_options options = { .size = sizeof options, .threads = threads };
    if (zn_generator_open(&files, &options, &g) != ZN_OK)
        fail_msg("%s", zn_error_text());
    return g;
}

static zn_image *make(zn_generator *g, const zn_generation *request)
{
    zn_image *image;
    if (zn_generate(g, request, &image) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_int_equal(image->width, WIDTH);
    assert_int_equal(image->height, HEIGHT);
    return image;
}

static zn_generation fox(void)
{
    return (zn_generation){
        .size = sizeof(zn_generation), .prompt = "a red fox", .width = WIDTH, .height = HEIGHT, .steps = 3, .seed = 7
    };
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    zn_image *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        zn_generator *g = open_with(threads, "");
        const zn_generation r = fox();
        zn_image *image = make(g, &r);
        if (first)
            assert_memory_equal(first->pixels, image->pixels, BYTES);
        else
            first = image;
        if (image != first)
            zn_image_free(image);
        zn_generator_free(g);
    }
    zn_image_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}

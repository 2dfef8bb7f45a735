/* A build without the image libraries knows the formats and says that it cannot read or write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <zenith/image.h>
#include <zenith/latent.h>

static void says_so(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *title, *path;
    } cases[] = { { "\x89PNG\r\n\x1a\n....", "PNG", "/tmp/zenith-missing.png" },
                  { "\xff\xd8\xff.........", "JPEG", "/tmp/zenith-missing.jpg" },
                  { "RIFF....WEBP", "WebP", "/tmp/zenith-missing.webp" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sentence[64];
        zn_image *im;
        snprintf(sentence, sizeof sentence, "%s is not supported in this build; install lib", cases[i].title);
        assert_int_equal(zn_image_read_memory(cases[i].bytes, 12, NULL, &im), ZN_EUNSUPPORTED);
        assert_non_null(strstr(zn_error_text(), sentence));
        snprintf(sentence, sizeof sentence, "this build cannot write %s", cases[i].title);
        assert_int_equal(zn_image_new(2, 2, 8, &im), ZN_OK);
        assert_int_equal(zn_image_write(cases[i].path, im, NULL), ZN_EUNSUPPORTED);
        assert_non_null(strstr(zn_error_text(), sentence));
        assert_false(zn_image_can_write(cases[i].path));
        zn_image_free(im);
    }
    zn_latent *z;
    assert_int_equal(zn_latent_new(2, 2, 4, &z), ZN_OK);
    assert_int_equal(zn_latent_write("/tmp/zenith-missing.png", z), ZN_EUNSUPPORTED);
    zn_latent_free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(says_so) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

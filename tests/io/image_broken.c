/* Broken pictures: the files of tests/broken/images with the code and the word each must give, and good pictures cut
 * at every byte or damaged at random. */
#include "image_make.h"

#include <png.h>

static zn_status code_of(const char *name)
{
    static const struct {
        const char *name;
        zn_status code;
    } codes[] = {
        { "format", ZN_EFORMAT }, { "unsupported", ZN_EUNSUPPORTED }, { "limit", ZN_ELIMIT }, { "ok", ZN_OK }
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strcmp(name, codes[i].name))
            return codes[i].code;
    fail_msg("unknown code '%s'", name);
    return ZN_OK;
}

/* Lines of "file code words of the sentence". */
static void table(void **state)
{
    (void)state;
    FILE *f = fopen(TEST_BROKEN "/expected.txt", "r");
    assert_non_null(f);
    char line[256], name[64], code[16], path[1024];
    int lines = 0;
    while (fgets(line, sizeof line, f)) {
        int words = 0;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        assert_int_equal(sscanf(line, "%63s %15s %n", name, code, &words), 2);
        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof path, TEST_BROKEN "/%s", name);
        zn_image *im = NULL;
        const zn_status status = zn_image_read(path, NULL, &im);
        if (status != code_of(code))
            fail_msg("%s: status %d, wanted %s: %s", name, status, code, zn_error_text());
        if (status != ZN_OK && (!strstr(zn_error_text(), line + words) || !strstr(zn_error_text(), name)))
            fail_msg("%s: '%s' lacks '%s' or the name", name, zn_error_text(), line + words);
        assert_true((im != NULL) == (status == ZN_OK));
        zn_image_free(im);
        lines++;
    }
    fclose(f);
    assert_true(lines > 20);
}

enum { W = 24, H = 20, FILES = 9 };
static blob files[FILES];

static int make_files(void **state)
{
    (void)state;
    static uint8_t rgba[W * H * 8];
    uint32_t s = 9;
    for (size_t i = 0; i < sizeof rgba; i++)
        rgba[i] = (uint8_t)((s = s * 1664525u + 1013904223u) >> 29 << 5);
    const png_spec png = {
        .width = W, .height = H, .type = PNG_COLOR_TYPE_RGB, .depth = 8, .rows = rgba, .row_bytes = W * 3
    };
    png_spec deep = png, turned = png;
    deep.depth = 16, deep.type = PNG_COLOR_TYPE_RGB_ALPHA, deep.row_bytes = W * 8, deep.interlaced = 1;
    turned.exif = make_exif(5, 1), turned.gamma = 1, turned.text = 1;
    const jpeg_spec jpeg = { W, H, 3, rgba, .sampling = 2, .quality = 80 };
    jpeg_spec progressive = jpeg, grey = jpeg;
    progressive.progressive = 1;
    grey.channels = 1, grey.sampling = 1, grey.exif = turned.exif, grey.restart = 2;
    blob plain = make_webp(W, H, 4, rgba, 0);
    blob made[FILES] = { make_png(&png),
                         make_png(&deep),
                         make_png(&turned),
                         make_jpeg(&jpeg),
                         make_jpeg(&progressive),
                         make_jpeg(&grey),
                         make_webp(W, H, 3, rgba, 0),
                         make_webp(W, H, 3, rgba, 1),
                         extend_webp(&plain, W, H, 1, NULL, &turned.exif, 0) };
    memcpy(files, made, sizeof made);
    blob_free(&plain);
    blob_free(&turned.exif);
    return 0;
}

static int free_files(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++)
        blob_free(&files[i]);
    return 0;
}

/* Reads from a copy of exactly this size, so that a sanitizer sees any step beyond it. */
static zn_status read_exactly(const uint8_t *data, size_t size, zn_image **out)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    const zn_status status = zn_image_read_memory(copy, size, NULL, out);
    free(copy);
    return status;
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++) {
        zn_image *whole, *im;
        assert_int_equal(read_exactly(files[i].data, files[i].size, &whole), ZN_OK);
        const size_t pixels = (size_t)W * H * 3 * (size_t)(whole->bits / 8);
        for (size_t size = 0; size < files[i].size; size++) {
            const zn_status status = read_exactly(files[i].data, size, &im);
            if (status == ZN_OK) { /* only what follows the pixels may be missing, and only in WebP */
                assert_true(i >= 6);
                if (im->width == whole->width)
                    assert_memory_equal(im->pixels, whole->pixels, pixels);
                else
                    assert_int_equal(i, 8); /* the orientation was cut off */
                assert_true(size + 40 + 46 * (i == 8) > files[i].size);
                zn_image_free(im);
            } else {
                assert_int_equal(status, ZN_EFORMAT);
                assert_null(im);
            }
        }
        zn_image_free(whole);
    }
}

static void damaged_at_random(void **state)
{
    (void)state;
    uint32_t s = 4711;
    for (int i = 0; i < FILES; i++)
        for (int round = 0; round < 400; round++) {
            blob b = { 0 };
            blob_add(&b, files[i].data, files[i].size);
            for (int k = 0; k <= round % 4; k++) {
                s = s * 1664525u + 1013904223u;
                b.data[(s >> 8) % b.size] ^= (uint8_t)(1 << (s >> 5) % 8);
            }
            zn_image *im = NULL;
            const zn_status status = read_exactly(b.data, b.size, &im);
            assert_true((status == ZN_OK) == (im != NULL));
            assert_true(status == ZN_OK || status == ZN_EFORMAT || status == ZN_EUNSUPPORTED || status == ZN_ELIMIT);
            zn_image_free(im);
            blob_free(&b);
        }
}

/* The limit counts pixels, not sides, and is checked before anything is decoded. */
static void limit_on_pixels(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++) {
        must_fail(&files[i], &(zn_image_read_options){ .max_pixels = W * H - 1 }, ZN_ELIMIT, "limit of 479");
        zn_image *im = must_read(&files[i], &(zn_image_read_options){ .max_pixels = W * H });
        zn_image_free(im);
    }
    must_fail(&files[0], &(zn_image_read_options){ .max_pixels = -1 }, ZN_EINVALID, "max_pixels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(damaged_at_random),
        cmocka_unit_test(limit_on_pixels),
    };
    return cmocka_run_group_tests(tests, make_files, free_files);
}

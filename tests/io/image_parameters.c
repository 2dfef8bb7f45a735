/* The text of generated images: in each format, in every script, as other programs write it, and in blocks that lie. */
#include "image_make.h"

#include "base/alloc.h"
#include "io/image/metadata/comment.h"
#include "io/image/metadata/exif.h"
#include "io/image/metadata/metadata.h"

enum { W = 6, H = 4, FORMATS = 3 };
static const char *const formats[FORMATS] = { "png", "jpeg", "webp" };

static zn_image *image(void)
{
    zn_image *im;
    assert_int_equal(zn_image_new(W, H, 8, &im), ZN_OK);
    return im;
}

static zn_source written(const char *format, const zn_image_metadata *m)
{
    zn_image *im = image();
    void *bytes;
    zn_source s = { .name = format };
    assert_int_equal(zn_image_write_memory(format, im, &(zn_image_write_options){ .metadata = m }, &bytes, &s.size),
                     ZN_OK);
    s.bytes = bytes;
    zn_image_free(im);
    return s;
}

static void expect_text(const uint8_t *file, size_t size, const char *expected)
{
    zn_image_metadata m;
    assert_int_equal(zn_metadata_find(&(zn_source){ file, size, "file", NULL }, &m), ZN_OK);
    if (expected) {
        assert_non_null(m.parameters);
        assert_string_equal(m.parameters, expected);
    } else {
        assert_null(m.parameters);
    }
    zn_image_metadata_free(&m);
}

static void every_format_keeps_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a fox\nNegative prompt: a dog\nSteps: 8, Seed: 1",
        "caf\u00e9 \u00c3\u00a9\nSteps: 8, Seed: 1", /* in Latin-1 its bytes would pass for UTF-8 */
        "\u96ea\u306e\u4e2d\u306e\u72d0\nSteps: 8, Seed: 1",
        "\U0001f98a\nSteps: 8, Seed: 1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int f = 0; f < FORMATS; f++) {
            const zn_source s = written(formats[f], &(zn_image_metadata){ .parameters = (char *)texts[i] });
            expect_text(s.bytes, s.size, texts[i]);
            zn_image_free(must_read(&(blob){ (uint8_t *)s.bytes, s.size }, NULL));
            zn_memory_free((void *)s.bytes);
        }
}

/* ASCII goes into the chunk that every reader knows. */
static void png_uses_the_plainest_chunk(void **state)
{
    (void)state;
    const zn_source plain = written("png", &(zn_image_metadata){ .parameters = "a fox\nSteps: 8" }),
                    wide = written("png", &(zn_image_metadata){ .parameters = "\u72d0\nSteps: 8" });
    assert_memory_equal(plain.bytes + 8 + 25 + 4, "tEXtparameters\0a fox\nSteps: 8", 15 + 14);
    assert_memory_equal(wide.bytes + 8 + 25 + 4, "iTXtparameters\0\0\0\0\0\xe7\x8b\x90\nSteps: 8", 19 + 12);
    zn_memory_free((void *)plain.bytes);
    zn_memory_free((void *)wide.bytes);
}

/* ---- files of others ---- */

/* EXIF with this UserComment, in either byte order. */
static blob comment_exif(const char *comment, size_t size, int big)
{
    uint8_t *block;
    size_t length;
    assert_int_equal(zn_exif_with_comment((const uint8_t *)comment, size, &block, &length), ZN_OK);
    static const uint8_t little[] = "II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x1a\0\0\0\0\0\0\0"
                                    "\x01\0\x86\x92\x07\0\0\0\0\0\x2c\0\0\0\0\0\0";
    blob b = { 0 };
    blob_add(&b, block, length);
    if (!big) {
        memcpy(b.data, little, 44);
        b.data[32] = (uint8_t)size;
    }
    zn_free(block);
    return b;
}

static void expect_comment(const char *comment, size_t size, int big, const char *expected)
{
    uint8_t rgb[W * H * 3] = { 0 };
    blob exif = comment_exif(comment, size, big);
    blob file =
        make_jpeg(&(jpeg_spec){ .width = W, .height = H, .channels = 3, .samples = rgb, .quality = 90, .exif = exif });
    expect_text(file.data, file.size, expected);
    blob_free(&file);
    blob_free(&exif);
}

#define COMMENT(text) text, sizeof(text) - 1
static void comments_of_others_are_read(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        expect_comment(COMMENT("UNICODE\0\0x\0\n\0S\0t\0e\0p\0s\0:\0 \0\x38"), big, "x\nSteps: 8");
        expect_comment(COMMENT("UNICODE\0x\0\n\0S\0t\0e\0p\0s\0:\0 \0\x38\0"), big, "x\nSteps: 8");
        expect_comment(COMMENT("UNICODE\0\xfe\xff\0S\0t\0e\0p\0s\0:\0 \xd8\x3e"), big,
                       "Steps: \ufffd"); /* half a pair */
        expect_comment(COMMENT("ASCII\0\0\0x\nSteps: 8\0\0\0"), big, "x\nSteps: 8");
        expect_comment(COMMENT("ASCII\0\0\0taken at the zoo"), big, NULL);
        expect_comment(COMMENT("\0\0\0\0\0\0\0\0Steps: 8"), big, NULL);
        expect_comment(COMMENT("UNICODE"), big, NULL);
    }
}

/* Text chunks are Latin-1 by the standard, and UTF-8 in many files. */
static void text_chunks_of_others_are_read(void **state)
{
    (void)state;
    char *text;
    assert_int_equal(zn_comment_copy((const uint8_t *)"caf\xe9", 4, &text), ZN_OK);
    assert_string_equal(text, "caf\u00e9");
    zn_free(text);
    assert_int_equal(zn_comment_copy((const uint8_t *)"caf\xc3\xa9", 5, &text), ZN_OK);
    assert_string_equal(text, "caf\u00e9");
    zn_free(text);
}

/* A photo's own EXIF is kept; PNG has a place for the text as well. */
static void exif_takes_precedence(void **state)
{
    (void)state;
    blob exif = make_exif(1, 1);
    for (int f = 0; f < FORMATS; f++) {
        const zn_image_metadata m = { .exif = exif.data, .exif_size = exif.size, .parameters = "a fox\nSteps: 8" };
        const zn_source s = written(formats[f], &m);
        expect_text(s.bytes, s.size, f ? NULL : "a fox\nSteps: 8");
        zn_image_metadata back;
        assert_int_equal(zn_metadata_find(&s, &back), ZN_OK);
        assert_int_equal(back.exif_size, exif.size);
        zn_image_metadata_free(&back);
        zn_memory_free((void *)s.bytes);
    }
    blob_free(&exif);
}

/* ---- what lies ---- */

static void hostile_blocks_stay_within(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        blob exif = comment_exif(COMMENT("UNICODE\0\0S\0t\0e\0p\0s\0:\0 \0\x38"), big);
        for (size_t i = 0; i < exif.size * 256; i++) {
            uint8_t *copy = malloc(exif.size);
            char *text = NULL;
            memcpy(copy, exif.data, exif.size);
            copy[i / 256] = (uint8_t)i;
            if (zn_exif_is_valid(copy, exif.size))
                assert_int_equal(zn_comment_find(copy, exif.size, &text), ZN_OK);
            zn_free(text);
            free(copy);
        }
        blob_free(&exif);
    }
}

static void damaged_files_are_survived(void **state)
{
    (void)state;
    for (int f = 0; f < 2 * FORMATS; f++) {
        char *const text = f < FORMATS ? "a fox\nSteps: 8" : "\u72d0\nSteps: 8";
        const zn_source s = written(formats[f % FORMATS], &(zn_image_metadata){ .parameters = text });
        for (size_t i = 0; i < 2 * s.size; i++) {
            const size_t size = i < s.size ? i : s.size;
            uint8_t *copy = malloc(size ? size : 1); /* of exactly this size, for the address sanitizer */
            memcpy(copy, s.bytes, size);
            if (i >= s.size)
                copy[i - s.size] ^= 0xff;
            zn_image_metadata found;
            assert_int_equal(zn_metadata_find(&(zn_source){ copy, size, "damaged", NULL }, &found), ZN_OK);
            zn_image_metadata_free(&found);
            free(copy);
        }
        zn_memory_free((void *)s.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_keeps_text),     cmocka_unit_test(png_uses_the_plainest_chunk),
        cmocka_unit_test(comments_of_others_are_read), cmocka_unit_test(text_chunks_of_others_are_read),
        cmocka_unit_test(exif_takes_precedence),       cmocka_unit_test(hostile_blocks_stay_within),
        cmocka_unit_test(damaged_files_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

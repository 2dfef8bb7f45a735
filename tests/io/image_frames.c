/* Animated images: the first frame as a still image, all of them one by one, drawn over each other as the file asks. */
#include "image_make.h"

#include <unistd.h>
#include <zlib.h>

enum { W = 6, H = 4 };

static char path[64];

/* ---- an animated PNG, made by hand ---- */

static void big(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void chunk(blob *b, const char *name, const void *data, size_t size)
{
    uint8_t number[4];
    const size_t start = b->size + 4;
    big(number, (uint32_t)size);
    blob_add(b, number, 4);
    blob_add(b, name, 4);
    blob_add(b, data, size);
    big(number, (uint32_t)crc32(0, b->data + start, (uInt)(b->size - start)));
    blob_add(b, number, 4);
}

typedef struct frame {
    uint32_t left, top, width, height;
    uint8_t disposal, blend;
    uint8_t rgba[4]; /* the colour of all of it */
} frame;

static void add_frame(blob *b, const frame *f, uint32_t *number, int first)
{
    uint8_t control[26] = { 0 }, raw[H * (1 + W * 4)], packed[4 + 2 * sizeof raw];
    uLongf size = sizeof packed - 4;
    const uint32_t values[] = { (*number)++, f->width, f->height, f->left, f->top };
    for (int i = 0; i < 5; i++)
        big(control + 4 * i, values[i]);
    control[24] = f->disposal;
    control[25] = f->blend;
    chunk(b, "fcTL", control, sizeof control);
    size_t n = 0;
    for (uint32_t i = 0; i < f->height; i++) {
        raw[n++] = 0;
        for (uint32_t k = 0; k < f->width * 4; k++)
            raw[n++] = f->rgba[k % 4];
    }
    assert_int_equal(compress(packed + 4, &size, raw, n), Z_OK);
    if (first) {
        chunk(b, "IDAT", packed + 4, size);
    } else {
        big(packed, (*number)++);
        chunk(b, "fdAT", packed, size + 4);
    }
}

/* still: the default image comes before the first frame and is not part of the animation. */
static blob make_apng(const frame *frames, uint32_t count, int still)
{
    blob b = { 0 };
    uint8_t head[13] = { [8] = 8, [9] = 6 }, animation[8] = { 0 };
    uint32_t number = 0;
    big(head, W);
    big(head + 4, H);
    big(animation, count);
    blob_add(&b, "\x89PNG\r\n\x1a\n", 8);
    chunk(&b, "IHDR", head, sizeof head);
    chunk(&b, "acTL", animation, sizeof animation);
    if (still) {
        uint8_t raw[H * (1 + W * 4)] = { 0 }, packed[2 * sizeof raw];
        uLongf size = sizeof packed;
        assert_int_equal(compress(packed, &size, raw, sizeof raw), Z_OK);
        chunk(&b, "IDAT", packed, size);
    }
    for (uint32_t i = 0; i < count; i++)
        add_frame(&b, &frames[i], &number, !still && i == 0);
    chunk(&b, "IEND", NULL, 0);
    return b;
}

/* ---- reading ---- */

static void write_file(const uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

static int is_colour(const zn_image *im, int x, int y, int r, int g, int b)
{
    return at(im, x, y, 0) == r && at(im, x, y, 1) == g && at(im, x, y, 2) == b;
}

static zn_image *next(zn_animation *a)
{
    zn_image *im;
    assert_int_equal(zn_animation_next(a, &im), ZN_OK);
    return im;
}

static void apng_is_drawn(void **state)
{
    (void)state;
    const frame frames[] = {
        { 0, 0, W, H, 0, 0, { 200, 0, 0, 255 } },
        { 1, 1, 3, 2, 2, 0, { 0, 200, 0, 255 } }, /* taken back again */
        { 2, 1, 2, 2, 1, 1, { 0, 0, 255, 128 } }, /* half over the red, then cleared */
        { 5, 3, 1, 1, 0, 0, { 9, 9, 9, 255 } },
    };
    for (int still = 0; still < 2; still++) {
        blob b = make_apng(frames, 4, still);
        write_file(b.data, b.size);
        zn_image_kind kind;
        assert_int_equal(zn_image_probe(path, &kind), ZN_OK);
        assert_int_equal(kind.frames, 4);
        zn_animation *a;
        assert_int_equal(zn_animation_open(path, &(zn_image_read_options){ .background = { 1, 2, 3 } }, &a), ZN_OK);
        zn_image *im[4];
        for (int i = 0; i < 4; i++) {
            im[i] = next(a);
            assert_true(im[i] && im[i]->width == W && im[i]->height == H);
            assert_true(is_colour(im[i], 0, 0, 200, 0, 0));
        }
        assert_null(next(a));
        assert_null(next(a)); /* and again */
        assert_true(is_colour(im[0], 1, 1, 200, 0, 0));
        assert_true(is_colour(im[1], 1, 1, 0, 200, 0) && is_colour(im[1], 3, 2, 0, 200, 0));
        assert_true(is_colour(im[2], 1, 1, 200, 0, 0) && is_colour(im[2], 2, 1, 100, 0, 128));
        assert_true(is_colour(im[3], 2, 1, 1, 2, 3) && is_colour(im[3], 5, 3, 9, 9, 9));
        for (int i = 0; i < 4; i++)
            zn_image_free(im[i]);
        zn_animation_close(a);
        blob_free(&b);
    }
}

/* Frames beyond the canvas, of no size or too large, and files that end early. */
static void apng_that_lies(void **state)
{
    (void)state;
    const frame frames[] = { { 0, 0, W, H, 0, 0, { 5, 6, 7, 255 } }, { 4, 3, W, H, 1, 1, { 8, 9, 10, 99 } } };
    blob b = make_apng(frames, 2, 0);
    uint32_t s = 5;
    for (size_t i = 0; i < 3 * b.size; i++) {
        const size_t size = i < b.size ? i + 1 : b.size;
        uint8_t *copy = malloc(size);
        memcpy(copy, b.data, size);
        s = s * 1664525u + 1013904223u;
        if (i >= b.size)
            copy[(s >> 8) % size] ^= (uint8_t)(1 << (s >> 5) % 8);
        write_file(copy, size);
        free(copy);
        zn_animation *a = NULL;
        zn_status status = zn_animation_open(path, &(zn_image_read_options){ .max_pixels = 1000 }, &a);
        for (zn_image *im = NULL; status == ZN_OK && (status = zn_animation_next(a, &im)) == ZN_OK && im;)
            zn_image_free(im);
        assert_true(status == ZN_OK || status == ZN_EFORMAT || status == ZN_ELIMIT || status == ZN_EUNSUPPORTED);
        zn_animation_close(a);
    }
    blob_free(&b);
}

static void still_image_is_one_frame(void **state)
{
    (void)state;
    uint8_t rgb[W * H * 3];
    fill_pattern(rgb, W, H);
    blob b = make_webp(W, H, 3, rgb, 1);
    write_file(b.data, b.size);
    zn_animation *a;
    assert_int_equal(zn_animation_open(path, NULL, &a), ZN_OK);
    zn_image *im = next(a);
    assert_non_null(im);
    assert_memory_equal(im->pixels, rgb, sizeof rgb);
    assert_null(next(a));
    zn_image_free(im);
    zn_animation_close(a);
    blob_free(&b);
    unlink(path);
    assert_int_equal(zn_animation_open(path, NULL, &a), ZN_ENOTFOUND);
}

static void webp_frames(void **state)
{
    (void)state;
    uint8_t rgb[W * H * 3];
    fill_pattern(rgb, W, H);
    blob plain = make_webp(W, H, 3, rgb, 1), moving = extend_webp(&plain, W, H, 0, NULL, NULL, 3);
    write_file(moving.data, moving.size);
    zn_image_kind kind;
    assert_int_equal(zn_image_probe(path, &kind), ZN_OK);
    assert_int_equal(kind.frames, 3);
#ifdef TEST_WEBPDEMUX
    zn_animation *a;
    zn_image *im;
    assert_int_equal(zn_animation_open(path, NULL, &a), ZN_OK);
    for (int i = 0; i < 3; i++) {
        im = next(a);
        assert_non_null(im);
        assert_memory_equal(im->pixels, rgb, sizeof rgb);
        zn_image_free(im);
    }
    assert_null(next(a));
    zn_animation_close(a);
    im = must_read(&moving, NULL);
    assert_memory_equal(im->pixels, rgb, sizeof rgb);
    zn_image_free(im);
#else
    must_fail(&moving, NULL, ZN_EUNSUPPORTED, "animated WebP is not supported in this build; install libwebp-dev");
#endif
    blob_free(&plain);
    blob_free(&moving);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/zenith-frames-%ld", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apng_is_drawn),
        cmocka_unit_test(apng_that_lies),
        cmocka_unit_test(still_image_is_one_frame),
        cmocka_unit_test(webp_frames),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

/* Films: pictures come back in number, size and colour; nothing is left of what is given up; garbage is refused. In a
 * build without FFmpeg every call says so. */
#include <zenith/film.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef TEST_FFMPEG
#include "io/video/ffmpeg.h"
#endif

static char folder[] = "/tmp/zenith-film.XXXXXX", path[64], other[64];

/* Smooth colours that move. */
static zn_image *picture(int width, int height, int number)
{
    zn_image *im;
    assert_int_equal(zn_image_new(width, height, 8, &im), ZN_OK);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *p = (uint8_t *)im->pixels + 3 * (y * width + x);
            p[0] = (uint8_t)(40 + 150 * x / width);
            p[1] = (uint8_t)(60 + 120 * y / height);
            p[2] = (uint8_t)(30 + 10 * number);
        }
    return im;
}

static zn_status make(const char *name, int width, int height, int count)
{
    zn_film_writer *w;
    const zn_status status = zn_film_create(name, width, height, 24, 0, &w);
    if (status != ZN_OK)
        return status;
    for (int i = 0; i < count; i++) {
        zn_image *im = picture(width, height, i);
        assert_int_equal(zn_film_write(w, im), ZN_OK);
        zn_image_free(im);
    }
    return zn_film_finish(w);
}

static int is_built_in(void)
{
    const zn_status status = make(path, 16, 16, 1);
    if (status != ZN_EUNSUPPORTED) {
        assert_int_equal(status, ZN_OK);
        return 1;
    }
    zn_film *f;
    assert_non_null(strstr(zn_error_text(), "video is not supported in this build"));
    assert_int_equal(zn_film_check(path), ZN_EUNSUPPORTED);
    assert_int_equal(zn_film_describe(path, &(zn_film_info){ 0 }), ZN_EUNSUPPORTED);
    assert_int_equal(zn_film_open(path, &f), ZN_EUNSUPPORTED);
    assert_null(f);
    return 0;
}

static void pictures_come_back(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 64, 48 }, { 31, 17 } };
    for (int i = 0; i < 2 && is_built_in(); i++) {
        const int width = sizes[i][0], height = sizes[i][1], even[] = { (width + 1) & ~1, (height + 1) & ~1 };
        zn_film *f;
        zn_image *im;
        int count = 0;
        assert_int_equal(make(path, width, height, 9), ZN_OK);
        assert_int_equal(zn_film_open(path, &f), ZN_OK);
        for (; zn_film_next(f, &im) == ZN_OK && im; count++) {
            zn_image *wanted = picture(width, height, count);
            assert_int_equal(im->width, even[0]);
            assert_int_equal(im->height, even[1]);
            double error = 0;
            for (int y = 0; y < height; y++)
                for (int x = 0; x < 3 * width; x++)
                    error += abs(((uint8_t *)im->pixels)[3 * y * even[0] + x] -
                                 ((uint8_t *)wanted->pixels)[3 * y * width + x]);
            if (error / (3 * width * height) > 4)
                fail_msg("picture %d differs by %.1f on average", count, error / (3 * width * height));
            zn_image_free(wanted);
            zn_image_free(im);
        }
        assert_int_equal(count, 9);
        zn_film_close(f);
    }
}

/* A .mkv file does not say how many frames it has, a .mp4 file does. */
static void films_are_described(void **state)
{
    (void)state;
    if (!is_built_in())
        return;
    static const char *const extensions[] = { "mkv", "mp4" };
    for (int i = 0; i < 2; i++) {
        zn_film_info info;
        snprintf(other, sizeof other, "%s/described.%s", folder, extensions[i]);
        assert_int_equal(zn_film_check(other), ZN_OK);
        assert_int_equal(make(other, 48, 32, 7), ZN_OK);
        assert_int_equal(zn_film_describe(other, &info), ZN_OK);
        assert_true(info.width == 48 && info.height == 32 && info.frames == 7);
        assert_true(info.rate > 23.9 && info.rate < 24.1 && info.codec[0]);
        unlink(other);
        assert_int_equal(zn_film_describe(other, &info), ZN_ENOTFOUND);
    }
    assert_int_equal(zn_film_check(NULL), ZN_OK);
    assert_int_equal(zn_film_check("film.txt"), ZN_EUNSUPPORTED);
}

static void what_is_no_film_is_refused(void **state)
{
    (void)state;
    zn_film *f;
    zn_film_writer *w;
    if (!is_built_in())
        return;
    FILE *file = fopen(other, "wb");
    for (int i = 0; i < 5000; i++)
        fputc(i * 37 & 255, file);
    fclose(file);
    assert_int_not_equal(zn_film_open(other, &f), ZN_OK);
    assert_null(f);
    assert_non_null(strstr(zn_error_text(), other));
    unlink(other);
    assert_int_equal(zn_film_open(other, &f), ZN_ENOTFOUND);
    assert_int_equal(zn_film_create("no/such/folder/film.mp4", 16, 16, 24, 0, &w), ZN_EIO);
    assert_int_equal(zn_film_create("film", 16, 16, 24, 0, &w), ZN_EUNSUPPORTED);
    assert_int_equal(zn_film_create(other, 16, 16, 0, 0, &w), ZN_EINVALID);
    assert_int_equal(zn_film_create(other, 0, 16, 24, 0, &w), ZN_EINVALID);
    assert_null(w);
}

/* A film of which the end is missing gives what it has, or none, but ends. */
static void cut_films_end(void **state)
{
    (void)state;
    if (!is_built_in())
        return;
    assert_int_equal(make(other, 64, 48, 9), ZN_OK);
    for (int size = 2000; size > 0; size -= 250) {
        zn_film *f;
        zn_image *im = NULL;
        assert_int_equal(truncate(other, size), 0);
        if (zn_film_open(other, &f) != ZN_OK)
            continue;
        for (int i = 0; i < 20 && zn_film_next(f, &im) == ZN_OK && im; i++)
            zn_image_free(im);
        zn_film_close(f);
    }
    unlink(other);
}

static unsigned char *find(unsigned char *bytes, size_t size, const unsigned char *what, size_t length)
{
    for (size_t i = 0; i + length <= size; i++)
        if (!memcmp(bytes + i, what, length))
            return bytes + i;
    fail_msg("not found");
    return bytes;
}

/* Overwrites the coded images of a .mp4 file. */
static void spoil_images(const char *name)
{
    unsigned char bytes[1 << 16];
    FILE *file = fopen(name, "rb+");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    unsigned char *box = find(bytes, size, (const unsigned char *)"mdat", 4);
    const size_t length = (size_t)box[-4] << 24 | (size_t)box[-3] << 16 | (size_t)box[-2] << 8 | box[-1];
    assert_true(length > 8 && length <= size);
    memset(box + 4, 255, length - 8);
    rewind(file);
    fwrite(bytes, 1, size, file);
    fclose(file);
}

/* A film of which no image can be decoded is not one without images. */
static void films_without_a_good_image_fail(void **state)
{
    (void)state;
    static const char *const errors[] = { ": its only frame could not be decoded",
                                          ": none of its 9 frames could be decoded" };
    for (int i = 0; i < 2 && is_built_in(); i++) {
        zn_film *f;
        zn_film_faults faults;
        zn_image *im;
        assert_int_equal(make(path, 64, 48, i ? 9 : 1), ZN_OK);
        spoil_images(path);
        assert_int_equal(zn_film_open(path, &f), ZN_OK);
        assert_int_equal(zn_film_next(f, &im), ZN_EFORMAT);
        assert_null(im);
        assert_non_null(strstr(zn_error_text(), errors[i]));
        zn_film_find_faults(f, &faults);
        assert_true(faults.lost == (i ? 9 : 1) && faults.damaged == 0);
        zn_film_close(f);
    }
}

#ifdef TEST_FFMPEG
static int errors_left;
static __typeof__(zn_ff.avcodec_receive_frame) real_receive;
static __typeof__(zn_ff.avcodec_send_packet) real_send;

static int fail_at_end(AVCodecContext *decoder, AVFrame *frame)
{
    const int code = real_receive(decoder, frame);
    return code == AVERROR_EOF && errors_left-- > 0 ? AVERROR_INVALIDDATA : code;
}

static int refuse_end(AVCodecContext *decoder, const AVPacket *packet)
{
    const int code = real_send(decoder, packet);
    return packet ? code : AVERROR_INVALIDDATA;
}

/* Errors after the last packet, as of decoders with several threads, cost their images only, and they may not end. */
static void errors_at_the_end_cost_their_images_only(void **state)
{
    (void)state;
    static const int errors[] = { 0, 3, 1 << 20 };
    for (int i = 0; i < 3 && is_built_in(); i++) {
        zn_film *f;
        zn_film_faults faults;
        zn_image *im;
        int count = 0;
        assert_int_equal(make(path, 64, 48, 9), ZN_OK);
        assert_int_equal(zn_film_open(path, &f), ZN_OK);
        errors_left = errors[i];
        real_receive = zn_ff.avcodec_receive_frame;
        real_send = zn_ff.avcodec_send_packet;
        zn_ff.avcodec_receive_frame = fail_at_end;
        zn_ff.avcodec_send_packet = refuse_end;
        for (; zn_film_next(f, &im) == ZN_OK && im; count++)
            zn_image_free(im);
        const zn_status status = zn_film_next(f, &im);
        zn_ff.avcodec_receive_frame = real_receive;
        zn_ff.avcodec_send_packet = real_send;
        assert_int_equal(status, ZN_OK);
        assert_int_equal(count, 9);
        zn_film_find_faults(f, &faults);
        if (i < 2)
            assert_int_equal(faults.lost, 1 + errors[i]);
        zn_film_close(f);
    }
}
#endif

/* Gives the first cluster of a .mkv file another time, and sizes that are unknown, as in a stream. */
static void set_first_time(const char *name, uint64_t time)
{
    static const unsigned char segment[] = { 0x18, 0x53, 0x80, 0x67 }, cluster[] = { 0x1f, 0x43, 0xb6, 0x75 },
                               stamp[] = { 0xe7, 0x81 }, unknown[] = { 1, 255, 255, 255, 255, 255, 255, 255 };
    unsigned char bytes[1 << 16];
    FILE *file = fopen(name, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    unsigned char *body = find(bytes, size, segment, 4), *first = find(bytes, size, cluster, 4);
    unsigned char *old = find(first, 32, stamp, 2), new[10] = { 0xe7, 0x88 };
    memcpy(body + 4, unknown, 8);
    for (int i = 0; i < 8; i++)
        new[2 + i] = (unsigned char)(time >> 8 * (7 - i));
    file = fopen(name, "wb");
    fwrite(bytes, 1, (size_t)(first + 4 - bytes), file);
    fwrite(unknown, 1, sizeof unknown, file);
    fwrite(new, 1, sizeof new, file);
    fwrite(old + 3, 1, (size_t)(bytes + size - old - 3), file);
    fclose(file);
}

/* Times that no film reaches count as none: the images follow each other at the usual rate, also in a copy. */
static void times_out_of_reach_are_ignored(void **state)
{
    (void)state;
    static const uint64_t times[] = { 0x8000000000008000, 0x7fffffffffff0000, 0x2000000000000000 };
    snprintf(other, sizeof other, "%s/timed.mkv", folder);
    for (int i = 0; i < 3 && is_built_in(); i++) {
        zn_film *f;
        zn_film_writer *w;
        zn_film_info info;
        zn_image *im;
        double shortest, longest;
        assert_int_equal(make(other, 64, 48, 9), ZN_OK);
        set_first_time(other, times[i]);
        assert_int_equal(zn_film_open(other, &f), ZN_OK);
        assert_int_equal(zn_film_create_from(path, f, 64, 48, 0, &w), ZN_OK);
        while (zn_film_next(f, &im) == ZN_OK && im) {
            assert_int_equal(zn_film_write(w, im), ZN_OK);
            zn_image_free(im);
        }
        zn_film_intervals(f, &shortest, &longest);
        if (shortest < 0.04 || longest > 0.043)
            fail_msg("from %g to %g seconds between images", shortest, longest);
        assert_int_equal(zn_film_finish(w), ZN_OK);
        zn_film_close(f);
        assert_int_equal(zn_film_describe(path, &info), ZN_OK);
        assert_true(info.frames == 9 && info.rate > 23 && info.rate < 25);
        unlink(other);
    }
}

/* What looks like the address of another machine is a name like any other. */
static void names_may_have_colons(void **state)
{
    (void)state;
    zn_film *f;
    zn_image *im = NULL;
    char here[4096];
    if (!is_built_in())
        return;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(make("take:2.mkv", 16, 16, 1), ZN_OK);
    assert_int_equal(zn_film_open("take:2.mkv", &f), ZN_OK);
    assert_int_equal(zn_film_next(f, &im), ZN_OK);
    assert_non_null(im);
    zn_image_free(im);
    zn_film_close(f);
    assert_int_equal(unlink("take:2.mkv"), 0);
    assert_int_equal(chdir(here), 0);
}

static void nothing_is_left_of_what_is_given_up(void **state)
{
    (void)state;
    zn_film_writer *w;
    if (!is_built_in())
        return;
    zn_image *im = picture(16, 16, 0), *large = picture(32, 16, 0);
    assert_int_equal(zn_film_create(other, 16, 16, 24, 0, &w), ZN_OK);
    assert_int_equal(zn_film_write(w, im), ZN_OK);
    assert_int_equal(zn_film_write(w, large), ZN_ESHAPE);
    assert_int_not_equal(access(other, F_OK), 0);
    zn_film_drop(w);
    zn_film_drop(NULL);
    zn_film_close(NULL);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* it is empty */
    assert_non_null(strcpy(folder + strlen(folder) - 6, "XXXXXX"));
    assert_non_null(mkdtemp(folder));
    zn_image_free(im);
    zn_image_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_come_back),
        cmocka_unit_test(films_are_described),
        cmocka_unit_test(what_is_no_film_is_refused),
        cmocka_unit_test(cut_films_end),
        cmocka_unit_test(films_without_a_good_image_fail),
#ifdef TEST_FFMPEG
        cmocka_unit_test(errors_at_the_end_cost_their_images_only),
#endif
        cmocka_unit_test(times_out_of_reach_are_ignored),
        cmocka_unit_test(names_may_have_colons),
        cmocka_unit_test(nothing_is_left_of_what_is_given_up),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/film.mp4", folder);
    snprintf(other, sizeof other, "%s/other.mkv", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}

/* Files on disk: names and contents, failures that leave nothing behind, memory that runs out at every step. */
#include "image_make.h"

#include "base/alloc.h"

#include <dirent.h>
#include <png.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zenith-image-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlink(in_folder(e->d_name));
    closedir(d);
    return rmdir(folder);
}

static zn_image *picture(int bits)
{
    zn_image *im;
    assert_int_equal(zn_image_new(19, 11, bits, &im), ZN_OK);
    if (bits == 8)
        fill_pattern(im->pixels, 19, 11);
    return im;
}

/* The name decides what is written; the content decides what is read. */
static void names_and_contents(void **state)
{
    (void)state;
    static const struct {
        const char *name, *magic;
    } cases[] = {
        { "a.png", "\x89PNG" }, { "b.JPG", "\xff\xd8\xff" }, { "c.jpeg", "\xff\xd8\xff" }, { "d.x.WebP", "RIFF" }
    };
    zn_image *im = picture(8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        strcpy(path, in_folder(cases[i].name));
        assert_true(zn_image_can_write(path));
        assert_int_equal(zn_image_write(path, im, NULL), ZN_OK);
        char start[5] = { 0 };
        FILE *f = fopen(path, "rb");
        assert_int_equal(fread(start, 1, 4, f), 4);
        fclose(f);
        assert_memory_equal(start, cases[i].magic, strlen(cases[i].magic));
        assert_int_equal(rename(path, in_folder("wrong.name")), 0);
        zn_image *back;
        assert_int_equal(zn_image_read(in_folder("wrong.name"), NULL, &back), ZN_OK);
        assert_int_equal(back->width, 19);
        zn_image_free(back);
        unlink(in_folder("wrong.name"));
    }
    zn_image_free(im);
    assert_int_equal(files_in_folder(), 0);
}

static void refused_names(void **state)
{
    (void)state;
    zn_image *im = picture(8);
    const char *names[] = { "a.bmp", "png", "a", "a.png.txt", "", "dir.png/a" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_false(zn_image_can_write(names[i]));
        assert_int_equal(zn_image_write(names[i], im, NULL), ZN_EUNSUPPORTED);
        assert_non_null(strstr(zn_error_text(), ".webp"));
    }
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_write_memory("gif", im, NULL, &bytes, &size), ZN_EINVALID);
    zn_image_free(im);
    const zn_image bad[] = {
        { 0, 1, 8, folder, 0 }, { 1, 0, 8, folder, 0 }, { 1, 1, 12, folder, 0 }, { 1, 1, 8, NULL, 0 }
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(zn_image_write(in_folder("bad.png"), &bad[i], NULL), ZN_EINVALID);
    assert_int_equal(files_in_folder(), 0);
}

static void failures_name_the_file(void **state)
{
    (void)state;
    zn_image *im;
    assert_int_equal(zn_image_read(in_folder("missing.png"), NULL, &im), ZN_ENOTFOUND);
    assert_non_null(strstr(zn_error_text(), "missing.png"));
    FILE *f = fopen(in_folder("text.png"), "wb");
    fputs("hello", f);
    fclose(f);
    assert_int_equal(zn_image_read(in_folder("text.png"), NULL, &im), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "text.png"));
    fclose(fopen(in_folder("text.png"), "wb"));
    assert_int_equal(zn_image_read(in_folder("text.png"), NULL, &im), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "empty"));
    unlink(in_folder("text.png"));
    im = picture(8);
    assert_int_not_equal(zn_image_write(in_folder("no/such/folder.png"), im, NULL), ZN_OK);
    assert_non_null(strstr(zn_error_text(), "folder.png"));
    zn_image_free(im);
    assert_int_equal(files_in_folder(), 0);
}

static void new_images(void **state)
{
    (void)state;
    zn_image *im = (zn_image *)1;
    assert_int_equal(zn_image_new(0, 5, 8, &im), ZN_EINVALID);
    assert_null(im);
    assert_int_equal(zn_image_new(5, -1, 8, &im), ZN_EINVALID);
    assert_int_equal(zn_image_new(5, 5, 12, &im), ZN_EINVALID);
    assert_int_equal(zn_image_new(2147483647, 2147483647, 16, &im), ZN_ELIMIT);
    assert_null(im);
    assert_int_equal(zn_image_new(3, 2, 16, &im), ZN_OK);
    for (int i = 0; i < 18; i++)
        assert_int_equal(((uint16_t *)im->pixels)[i], 0);
    zn_image_free(im);
    zn_image_free(NULL);
}

/* Every allocation fails once; each time the call says so, and a leak checker finds nothing. */
static void memory_runs_out_reading(void **state)
{
    (void)state;
    uint8_t rgba[16 * 16 * 4], rgb[16 * 16 * 3];
    fill_pattern(rgb, 16, 16);
    for (int i = 0; i < 16 * 16 * 4; i++)
        rgba[i] = (uint8_t)(i * 3);
    FILE *f = fopen(TEST_DATA "/p3.icc", "rb");
    uint8_t profile[4096];
    assert_non_null(f);
    const blob icc = { profile, fread(profile, 1, sizeof profile, f) };
    fclose(f);
    blob exif = make_exif(6, 0), plain = make_webp(16, 16, 4, rgba, 1);
    blob files[] = {
        make_png(&(png_spec){ .width = 16,
                              .height = 16,
                              .type = PNG_COLOR_TYPE_RGB_ALPHA,
                              .depth = 8,
                              .rows = rgba,
                              .row_bytes = 64,
                              .icc = icc,
                              .exif = exif,
                              .interlaced = 1 }),
        make_png(&(png_spec){ .width = 16,
                              .height = 16,
                              .type = PNG_COLOR_TYPE_RGB,
                              .depth = 8,
                              .rows = rgb,
                              .row_bytes = 48,
                              .gamma = 1 }),
        make_jpeg(&(jpeg_spec){ 16, 16, 1, rgb, .icc = icc, .exif = exif }),
        extend_webp(&plain, 16, 16, 1, &icc, &exif, 0),
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int failed = 0;
        zn_image *im = NULL;
        for (int nth = 1; !im; nth++) {
            zn_alloc_fail_at(nth);
            const zn_status status = zn_image_read_memory(files[i].data, files[i].size, NULL, &im);
            zn_alloc_fail_at(0);
            assert_int_equal(status, im ? ZN_OK : ZN_ENOMEM);
            assert_true(im || strstr(zn_error_text(), "memory"));
            failed += !im;
        }
        assert_true(failed >= 4);
        zn_image_free(im);
        blob_free(&files[i]);
    }
    blob_free(&exif), blob_free(&plain);
}

static void memory_runs_out_writing(void **state)
{
    (void)state;
    const char *names[] = { "o.png", "o.jpg", "o.webp", "o.png" };
    for (int i = 0; i < 4; i++) {
        zn_image *im = picture(i ? 16 : 8);
        zn_status status = ZN_ENOMEM;
        int failed = -1;
        for (int nth = 1; status != ZN_OK; nth++, failed++) {
            zn_alloc_fail_at(nth);
            status = zn_image_write(in_folder(names[i]), im, NULL);
            zn_alloc_fail_at(0);
            assert_true(status == ZN_OK || status == ZN_ENOMEM);
            assert_int_equal(files_in_folder(), status == ZN_OK);
        }
        assert_true(failed >= 2);
        unlink(in_folder(names[i]));
        zn_image_free(im);
    }
    zn_image *a = picture(8), *out;
    zn_image_difference d;
    zn_alloc_fail_at(1);
    assert_int_equal(zn_image_compare(a, a, &d), ZN_ENOMEM);
    for (int nth = 1; nth <= 2; nth++) {
        zn_alloc_fail_at(nth);
        assert_int_equal(zn_image_side_by_side(a, a, &out), ZN_ENOMEM);
        assert_null(out);
    }
    zn_alloc_fail_at(0);
    zn_image_free(a);
}

/* What cannot be stored is known before the image is made. */
static void sizes_and_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t width;
        int bits;
        zn_status status;
    } cases[] = { { "a.png", 1 << 28, 16, ZN_OK },      { "a.jpg", 65500, 8, ZN_OK },
                  { "-.JPEG", 65501, 8, ZN_EINVALID },  { "a.webp", 16383, 8, ZN_OK },
                  { "a.webp", 16384, 8, ZN_EINVALID },  { "a.jpg", 8, 16, ZN_EUNSUPPORTED },
                  { "a.webp", 8, 16, ZN_EUNSUPPORTED }, { "a.gif", 8, 8, ZN_EUNSUPPORTED } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(zn_image_check(cases[i].name, cases[i].width, 1, cases[i].bits), cases[i].status);
        assert_int_equal(zn_image_check(cases[i].name, 1, cases[i].width, cases[i].bits), cases[i].status);
    }
    zn_image *im;
    assert_int_equal(zn_image_new(16384, 1, 8, &im), ZN_OK);
    assert_int_equal(zn_image_write(in_folder("a.webp"), im, NULL), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "16384x1 is too large for a WebP"));
    zn_image_free(im);
    assert_int_equal(files_in_folder(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_contents),
        cmocka_unit_test(refused_names),
        cmocka_unit_test(sizes_and_bits),
        cmocka_unit_test(failures_name_the_file),
        cmocka_unit_test(new_images),
        cmocka_unit_test(memory_runs_out_reading),
        cmocka_unit_test(memory_runs_out_writing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

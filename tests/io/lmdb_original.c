/* The LMDB folders of the original DiffAE are data sets: NAME.lmdb/data.mdb with images under "256-00042" and their
 * number under "length". Of the whole photos of CelebA, under "None-0000042", the square is read that the original
 * cuts. */
#include "io/dataset/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], file[96];

/* Every pixel tells where it is. */
static zn_image *picture(int width, int height)
{
    zn_image *im;
    assert_int_equal(zn_image_new(width, height, 8, &im), ZN_OK);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            memcpy((uint8_t *)im->pixels + ((size_t)y * (size_t)width + (size_t)x) * 3,
                   (uint8_t[]){ (uint8_t)x, (uint8_t)y, 7 }, 3);
    return im;
}

static void add(zn_dataset_writer *w, const char *name, int width, int height)
{
    zn_image *im = picture(width, height);
    void *bytes;
    size_t size;
    assert_int_equal(zn_image_write_memory("png", im, NULL, &bytes, &size), ZN_OK);
    assert_int_equal(zn_dataset_writer_add(w, name, bytes, size), ZN_OK);
    zn_memory_free(bytes);
    zn_image_free(im);
}

static int make(void **state)
{
    (void)state;
    char made[96];
    zn_dataset_writer *w;
    snprintf(folder, sizeof folder, "/tmp/zenith-original-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(made, sizeof made, "%s/made.lmdb", folder);
    snprintf(file, sizeof file, "%s/data.mdb", folder);
    assert_int_equal(zn_dataset_writer_open(made, &w), ZN_OK);
    add(w, "256-00042", 16, 16);
    add(w, "None-0000007", 178, 218);
    add(w, "None-0000008", 40, 30);
    assert_int_equal(zn_dataset_writer_add(w, "length", "3", 1), ZN_OK);
    assert_int_equal(zn_dataset_writer_commit(w, NULL), ZN_OK);
    zn_dataset_writer_free(w);
    return rename(made, file);
}

static int clean(void **state)
{
    (void)state;
    remove(file);
    return rmdir(folder);
}

/* Reads the record of that name and checks its size and where its first pixel was. */
static void expect(const zn_dataset *d, const char *name, int width, int height, int left, int top)
{
    int64_t index = 0;
    zn_image *im;
    while (index < zn_dataset_count(d) && strcmp(zn_dataset_name(d, index), name))
        index++;
    assert_int_equal(zn_dataset_read(d, index, &im), ZN_OK);
    assert_int_equal(im->width, width);
    assert_int_equal(im->height, height);
    const uint8_t *first = im->pixels, *last = first + ((size_t)width * (size_t)height - 1) * 3;
    assert_int_equal(first[0], left);
    assert_int_equal(first[1], top);
    assert_int_equal(last[0], left + width - 1);
    assert_int_equal(last[1], top + height - 1);
    zn_image_free(im);
}

static void folders_are_data_sets(void **state)
{
    (void)state;
    zn_dataset *d;
    struct stat s;
    assert_int_equal(zn_dataset_open(folder, &d), ZN_OK);
    assert_int_equal(zn_dataset_count(d), 3); /* "length" is no image */
    assert_int_equal(stat(file, &s), 0);
    assert_int_equal(zn_dataset_bytes(d), s.st_size);
    expect(d, "256-00042", 16, 16, 0, 0);
    expect(d, "None-0000007", 128, 128, 25, 57);
    expect(d, "None-0000008", 40, 30, 0, 0); /* not a photo of CelebA */
    zn_dataset_close(d);
}

static void the_file_in_the_folder_is_one_too(void **state)
{
    (void)state;
    zn_dataset *d;
    assert_int_equal(zn_dataset_open(file, &d), ZN_OK);
    assert_int_equal(zn_dataset_count(d), 3);
    expect(d, "256-00042", 16, 16, 0, 0);
    zn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_data_sets),
        cmocka_unit_test(the_file_in_the_folder_is_one_too),
    };
    return cmocka_run_group_tests(tests, make, clean);
}

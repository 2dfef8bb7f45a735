/* Folders and pictures for the tests of whole runs. */
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zenith/image.h>
#include <zenith/weights.h>

char folder[64];

const char *in_folder(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

void make_pictures(const char *where, int count, int side)
{
    assert_int_equal(mkdir(where, 0777), 0);
    for (int n = 0; n < count; n++) {
        zn_image *image;
        char path[256];
        assert_int_equal(zn_image_new(side + n, side, 8, &image), ZN_OK);
        uint8_t *p = image->pixels;
        for (int y = 0; y < image->height; y++)
            for (int x = 0; x < image->width; x++)
                for (int c = 0; c < 3; c++)
                    *p++ = (uint8_t)(128 + 100 * sin(0.07 * (x + n * 3) * (c + 1) + 0.05 * y * (n % 5)));
        snprintf(path, sizeof path, "%s/p%02d.png", where, n);
        assert_int_equal(zn_image_write(path, image, NULL), ZN_OK);
        zn_image_free(image);
    }
}

int files_set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zenith-train-XXXXXX");
    assert_non_null(mkdtemp(folder));
    make_pictures(in_folder("pictures"), 20, 40);
    return 0;
}

int files_tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

char *contents(const char *name, size_t *size)
{
    FILE *f = fopen(in_folder(name), "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = calloc(1, *size + 1);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

const char *text_of(const char *name)
{
    static char text[8192];
    size_t size;
    char *bytes = contents(name, &size);
    assert_true(size < sizeof text);
    memcpy(text, bytes, size + 1);
    free(bytes);
    return text;
}

void same_tensors(const char *a, const char *b)
{
    zn_weights *x, *y;
    assert_int_equal(zn_weights_open(a, &x), ZN_OK);
    assert_int_equal(zn_weights_open(b, &y), ZN_OK);
    assert_int_equal(zn_weights_count(x), zn_weights_count(y));
    for (int64_t i = 0; i < zn_weights_count(x); i++) {
        assert_int_equal(zn_weights_at(x, i)->bytes, zn_weights_at(y, i)->bytes);
        assert_memory_equal(zn_weights_at(x, i)->data, zn_weights_at(y, i)->data, zn_weights_at(x, i)->bytes);
    }
    zn_weights_close(x);
    zn_weights_close(y);
}

void expect_text(const char *words)
{
    if (!strstr(zn_error_text(), words))
        fail_msg("'%s' does not say '%s'", zn_error_text(), words);
}

int stop_at(void *user, const zn_train_progress *p) { return p->step == *(int64_t *)user; }

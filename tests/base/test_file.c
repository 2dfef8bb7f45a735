/* Files: mapping of every kind, and output that appears whole or not at all. */
#include "base/alloc.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../skip.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zenith-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int count_files(void)
{
    int count = -2;
    DIR *d = opendir(folder);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

/* After each test the folder must hold what the test leaves: nothing. */
static int drop_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void assert_holds(const char *path, const char *text)
{
    zn_map map;
    assert_int_equal(zn_map_open(&map, path), ZN_OK);
    assert_int_equal(map.size, strlen(text));
    assert_memory_equal(map.bytes, text, map.size);
    zn_map_close(&map);
    assert_null(map.bytes);
    zn_map_close(&map);
}

static void mapping(void **state)
{
    (void)state;
    zn_map map;
    const char *path = in_folder("a");
    assert_int_equal(zn_map_open(&map, path), ZN_ENOTFOUND);
    assert_non_null(strstr(zn_error_text(), path));
    assert_int_equal(zn_map_open(&map, folder), ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "directory"));
    assert_int_equal(zn_file_write(path, "", 0), ZN_OK);
    assert_int_equal(zn_map_open(&map, path), ZN_OK);
    assert_int_equal(map.size, 0);
    assert_non_null(map.bytes);
    zn_map_close(&map);
    assert_int_equal(zn_map_open(&map, in_folder("a/b")), ZN_ENOTFOUND); /* a is no folder */
    assert_int_equal(zn_file_write(path, "hello", 5), ZN_OK);
    assert_holds(path, "hello");
    unlink(path);
}

/* A pipe has no size; more than one chunk goes through it. */
static void reading_a_pipe(void **state)
{
    (void)state;
    enum { SIZE = 300000 };
    char command[600];
    zn_map map;
    const char *path = in_folder("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int fail = 0; fail < 2; fail++) {
        snprintf(command, sizeof command, "head -c %d /dev/zero > %s &", SIZE, path);
        assert_int_equal(system(command), 0);
        zn_alloc_fail_at(fail ? 2 : 0);
        const zn_status status = zn_map_open(&map, path);
        zn_alloc_fail_at(0);
        assert_int_equal(status, fail ? ZN_ENOMEM : ZN_OK);
        if (!fail)
            assert_int_equal(map.size, SIZE);
        zn_map_close(&map);
    }
    unlink(path);
}

/* What is released is read again; bytes of a pipe, which cannot be, stay. */
static void releasing(void **state)
{
    (void)state;
    enum { SIZE = 300000 };
    static uint8_t bytes[SIZE];
    char command[600];
    const char *path = in_folder("a");
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * 31 % 251);
    for (int pipe = 0; pipe < 2; pipe++) {
        zn_map map;
        assert_int_equal(zn_file_write(path, bytes, SIZE), ZN_OK);
        const char *from = pipe ? in_folder("pipe") : path;
        if (pipe) {
            assert_int_equal(mkfifo(from, 0600), 0);
            snprintf(command, sizeof command, "cat %s > %s &", in_folder("a"), in_folder("pipe"));
            assert_int_equal(system(command), 0);
        }
        assert_int_equal(zn_map_open(&map, from), ZN_OK);
        zn_map_expect(&map, map.bytes, map.size);
        assert_memory_equal(map.bytes, bytes, SIZE);
        zn_map_release(&map, map.bytes, map.size);
        zn_map_release(&map, map.bytes + 5000, map.size); /* ends beyond the map */
        zn_map_release(&map, bytes, SIZE);                /* not of the map */
        assert_memory_equal(map.bytes, bytes, SIZE);
        assert_int_equal(bytes[1], 31);
        zn_map_close(&map);
        unlink(from);
    }
    unlink(in_folder("a"));
}

static void replacing(void **state)
{
    (void)state;
    const char *path = in_folder("a");
    struct stat s;
    assert_int_equal(zn_file_write(path, "old", 3), ZN_OK);
    assert_int_equal(chmod(path, 0640), 0);
    zn_outfile out;
    assert_int_equal(zn_outfile_open(&out, path), ZN_OK);
    zn_outfile_write(&out, "new", 3);
    assert_holds(path, "old");
    assert_int_equal(count_files(), 2);
    assert_int_equal(zn_outfile_commit(&out), ZN_OK);
    assert_holds(path, "new");
    assert_int_equal(count_files(), 1);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    zn_outfile_abandon(&out);
    assert_int_equal(zn_outfile_open(&out, path), ZN_OK);
    zn_outfile_write(&out, "never", 5);
    zn_outfile_abandon(&out);
    zn_outfile_abandon(&out);
    assert_holds(path, "new");
    assert_int_equal(count_files(), 1);
    unlink(path);
}

static void new_files_obey_the_mask(void **state)
{
    (void)state;
    struct stat s;
    const mode_t old = umask(027);
    assert_int_equal(zn_file_write(in_folder("a"), "x", 1), ZN_OK);
    umask(old);
    assert_int_equal(stat(in_folder("a"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    unlink(in_folder("a"));
}

static void links_are_followed(void **state)
{
    (void)state;
    struct stat s;
    assert_int_equal(zn_file_write(in_folder("target"), "old", 3), ZN_OK);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(zn_file_write(in_folder("link"), "new", 3), ZN_OK);
    assert_int_equal(lstat(in_folder("link"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_holds(in_folder("target"), "new");
    unlink(in_folder("link"));
    unlink(in_folder("target"));
}

static void refused_places(void **state)
{
    (void)state;
    zn_outfile out;
    assert_int_equal(zn_outfile_open(&out, folder), ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "directory"));
    assert_int_equal(zn_outfile_open(&out, in_folder("no/such")), ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "no/such"));
    assert_int_equal(zn_outfile_open(&out, "-"), ZN_EINVALID);
    assert_int_equal(zn_outfile_open(&out, ""), ZN_EINVALID);
    zn_outfile_abandon(&out);
    assert_int_equal(count_files(), 0);
}

static void longest_name(void **state)
{
    (void)state;
    char name[256] = { 0 };
    memset(name, 'n', 255);
    assert_int_equal(zn_file_write(in_folder(name), "x", 1), ZN_OK);
    assert_holds(in_folder(name), "x");
    unlink(in_folder(name));
}

static void full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip_because("there is no /dev/full");
    assert_int_equal(zn_file_write("/dev/full", "x", 1), ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "/dev/full"));
    assert_non_null(strstr(zn_error_text(), "space"));
}

/* A limit on the size of files stands for a disk that fills up on the way. */
static void disk_fills_up(void **state)
{
    (void)state;
    struct rlimit old, small = { 8192, 8192 };
    signal(SIGXFSZ, SIG_IGN);
    char *large = calloc(1, 1 << 20);
    assert_int_equal(zn_file_write(in_folder("a"), "old", 3), ZN_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const zn_status status = zn_file_write(in_folder("a"), large, 1 << 20);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "/a: "));
    assert_holds(in_folder("a"), "old");
    assert_int_equal(count_files(), 1);
    free(large);
    unlink(in_folder("a"));
}

static void direct_output(void **state)
{
    (void)state;
    zn_outfile out;
    assert_int_equal(zn_outfile_open(&out, "/dev/null"), ZN_OK);
    assert_null(out.temporary);
    zn_outfile_write(&out, "x", 1);
    assert_int_equal(zn_outfile_commit(&out), ZN_OK);
}

static void memory_failures(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 1;; n++, failures++) {
        zn_alloc_fail_at(n);
        const zn_status status = zn_file_write(in_folder("a"), "x", 1);
        zn_alloc_fail_at(0);
        if (status == ZN_OK)
            break;
        assert_int_equal(status, ZN_ENOMEM);
        assert_int_equal(count_files(), 0);
    }
    assert_int_equal(failures, 2);
    unlink(in_folder("a"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mapping),
        TEST(reading_a_pipe),
        TEST(releasing),
        TEST(replacing),
        TEST(new_files_obey_the_mask),
        TEST(links_are_followed),
        TEST(refused_places),
        TEST(longest_name),
        TEST(full_disk),
        TEST(disk_fills_up),
        TEST(direct_output),
        TEST(memory_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Each allocation in turn fails: the call says so, leaks nothing (the sanitizer watches) and leaves no file behind. */
#include "weights_test.h"

#include "base/alloc.h"

#include <dirent.h>
#include <unistd.h>

static const char *const files[] = { TEST_DATA "/checkpoint.safetensors", TEST_DATA "/checkpoint_p2.pth",
                                     TEST_DATA "/checkpoint_p4.pth" };

static void opening(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        zn_weights *w;
        assert_true(open_short_of_memory(files[f], NULL, &w) >= 6);
        assert_int_equal(zn_weights_count(w), 36);
        zn_weights_close(w);
    }
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static void saving(void **state)
{
    (void)state;
    char folder[] = "/tmp/zenith-weights-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.safetensors", folder);
    zn_weights *w = must_open(files[1]);
    const int before = count_files(folder);
    int failures = 0;
    for (int64_t n = 1;; n++) {
        zn_alloc_fail_at(n);
        const zn_status status = zn_weights_save(w, path, 1, ZN_BF16);
        zn_alloc_fail_at(0);
        if (status == ZN_OK)
            break;
        assert_int_equal(status, ZN_ENOMEM);
        assert_int_equal(count_files(folder), before);
        failures++;
    }
    assert_true(failures >= 5);
    assert_int_equal(count_files(folder), before + 1);
    zn_weights_close(w);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(opening), cmocka_unit_test(saving) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

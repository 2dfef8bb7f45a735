/* Available memory: the cache counts, since it is given back when it is needed. */
#define _DEFAULT_SOURCE /* mkstemp, dprintf */
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void the_cache_counts(void **state)
{
    (void)state;
    char path[] = "/tmp/zenith-meminfo-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "MemTotal:       16000 kB\nMemFree:          100 kB\nMemAvailable:    2048 kB\nCached:     3000 kB\n");
    close(fd);
    assert_int_equal(zn_memory_available(path), 2 << 20);
    zn_memory_share_among(4); /* ranks on one machine */
    assert_int_equal(zn_memory_available(path), (2 << 20) / 4);
    zn_memory_share_among(0);
    assert_int_equal(zn_memory_available(path), 2 << 20);
    unlink(path);
}

static void without_the_file_there_is_a_number(void **state)
{
    (void)state;
    assert_true(zn_memory_available("/nowhere/meminfo") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_counts),
        cmocka_unit_test(without_the_file_there_is_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Memory: blocks are aligned and keep their contents, lists grow by doubling, sizes that overflow and allocations that
 * fail leave everything as it was. */
#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

static void blocks(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 300; bytes += 37) {
        unsigned char *b = zn_alloc(bytes);
        assert_non_null(b);
        assert_int_equal((uintptr_t)b % 64, 0);
        memset(b, 7, bytes);
        b = zn_realloc(b, 2 * bytes + 1);
        assert_non_null(b);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(b[i], 7);
        zn_free(b);
    }
    zn_free(NULL);
}

static void too_large(void **state)
{
    (void)state;
    assert_null(zn_alloc(SIZE_MAX));
    assert_null(zn_calloc(SIZE_MAX / 2, 3));
    void *out;
    assert_int_equal(zn_alloc_for("a test", SIZE_MAX, &out), ZN_ENOMEM);
    assert_null(out);
}

static void one_by_one(void **state)
{
    (void)state;
    int *list = NULL;
    size_t capacity = 0, count = 0;
    const int64_t before = zn_alloc_calls();
    for (; count < 10000; count++) {
        assert_true(ZN_GROW(list, capacity, count + 1));
        assert_true(capacity > count);
        list[count] = (int)count;
    }
    assert_in_range(zn_alloc_calls() - before, 1, 16); /* doubling, not one at a time */
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list[i], i);
    zn_free(list);
}

static void many_at_once(void **state)
{
    (void)state;
    char *text = NULL;
    size_t capacity = 0;
    assert_true(ZN_GROW(text, capacity, 0));
    assert_null(text);
    assert_true(ZN_GROW(text, capacity, 1000));
    assert_true(capacity >= 1000);
    memset(text, 'x', capacity);
    const char *was = text;
    assert_true(ZN_GROW(text, capacity, capacity));
    assert_ptr_equal(text, was);
    assert_true(ZN_GROW(text, capacity, 10 * capacity));
    assert_true(capacity >= 10000);
    assert_int_equal(text[999], 'x');
    zn_free(text);
}

/* A list that cannot grow keeps what it has. */
static void assert_stays(size_t need, int64_t fail_at)
{
    struct {
        char bytes[48];
    } *list = NULL;
    size_t capacity = 0;
    assert_true(ZN_GROW(list, capacity, 1));
    memset(list, 5, sizeof *list);
    const void *was = list;
    const size_t had = capacity;
    zn_alloc_fail_at(fail_at);
    assert_false(ZN_GROW(list, capacity, need ? need : capacity + 1));
    zn_alloc_fail_at(0);
    assert_ptr_equal(list, was);
    assert_int_equal(capacity, had);
    assert_int_equal(list->bytes[47], 5);
    zn_free(list);
}

static void no_growth(void **state)
{
    (void)state;
    assert_stays(SIZE_MAX, 0);
    assert_stays(SIZE_MAX / 48 + 1, 0); /* the product is 32, or so it seems */
    assert_stays(SIZE_MAX / 48, 0);     /* no overflow, but no such memory */
    assert_stays(0, 1);
    size_t capacity = SIZE_MAX - 64; /* twice that is less */
    char *none = NULL;
    assert_false(ZN_GROW(none, capacity, capacity + 1));
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),       cmocka_unit_test(too_large), cmocka_unit_test(one_by_one),
        cmocka_unit_test(many_at_once), cmocka_unit_test(no_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

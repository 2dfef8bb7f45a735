/* Benchmarks as a call of the library: sizes that are none, and memory that runs out. Not among the tests of threads:
 * the thread checker would need gigabytes for the measurement of the memory's bandwidth. */
#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <zenith/zenith.h>

static void sizes_have_an_end(void **state)
{
    (void)state;
    zn_model *m;
    zn_bench_result r;
    zn_cost cost;
    assert_int_equal(zn_model_random("taesd", 3, &m), ZN_OK);
    assert_int_equal(zn_bench(m, &(zn_bench_options){ .width = INT_MAX, .height = 8 }, &r), ZN_EINVALID);
    assert_int_equal(zn_model_cost(m, ZN_DECODER, INT_MAX, 8, &cost), ZN_EINVALID);
    assert_int_equal(zn_model_cost(m, ZN_DECODER, 8, 0, &cost), ZN_EINVALID);
    assert_int_equal(zn_model_cost(m, ZN_DECODER, 1 << 24, 8, &cost), ZN_OK);
    assert_true(cost.gflop > 72000 && cost.gflop < 73000); /* 512 times a picture of 512x512 */
    zn_model_free(m);
}

/* Each allocation fails in turn: an error, no leak, no crash. What the machine can do is measured the first time. */
static void a_benchmark_may_lack_memory(void **state)
{
    (void)state;
    zn_model *m;
    assert_int_equal(zn_model_random("taesd", 3, &m), ZN_OK);
    const zn_bench_options o = { .part = ZN_DECODER, .width = 16, .height = 16, .threads = 1, .runs = 1, .profile = 1 };
    zn_bench_result r;
    int64_t calls = 0, refused = 0;
    for (int64_t nth = -1; nth <= calls; nth++) { /* the second one counts them */
        const int64_t before = zn_alloc_calls();
        zn_alloc_fail_at(nth > 0 ? nth : 0);
        const zn_status status = zn_bench(m, &o, &r);
        zn_alloc_fail_at(0);
        calls = nth < 1 ? zn_alloc_calls() - before : calls;
        refused += status == ZN_ENOMEM;
        assert_true(status == ZN_OK || (status == ZN_ENOMEM && !r.rows && !r.row_count));
        zn_bench_result_clear(&r);
    }
    assert_true(refused > 20);
    zn_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_have_an_end),
                                        cmocka_unit_test(a_benchmark_may_lack_memory) };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}

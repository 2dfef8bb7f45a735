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

static zn_status starve(const zn_model *m, int64_t nth, int *rows)
{
    const zn_options compute = { .threads = 1, .profile = 1 };
    const zn_bench_options o = { .part = ZN_DECODER, .width = 8, .height = 8, .runs = 1, .compute = &compute };
    zn_bench_result r;
    zn_alloc_fail_at(nth);
    const zn_status status = zn_bench(m, &o, &r);
    zn_alloc_fail_at(0);
    assert_true(status == ZN_OK || (status == ZN_ENOMEM && !r.rows && !r.row_count));
    *rows = r.row_count;
    zn_bench_result_clear(&r);
    return status;
}

/* Allocations fail, sparser and sparser, and then those of the profile: an error, no crash. Its rows are one, and each
 * of their names. What the machine can do is measured the first time. */
static void a_benchmark_may_lack_memory(void **state)
{
    (void)state;
    zn_model *m;
    int rows, none;
    assert_int_equal(zn_model_random("taesd", 3, &m), ZN_OK);
    assert_int_equal(starve(m, 0, &rows), ZN_OK);
    const int64_t before = zn_alloc_calls();
    assert_int_equal(starve(m, 0, &rows), ZN_OK);
    const int64_t calls = zn_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls - rows; nth += 1 + nth / 3)
        (void)!starve(m, nth, &none);
    assert_int_equal(starve(m, calls - rows, &none), ZN_ENOMEM);
    assert_int_equal(starve(m, calls - rows / 2, &none), ZN_ENOMEM);
    assert_int_equal(starve(m, calls, &none), ZN_ENOMEM);
    zn_model_free(m);
}

/* A step of the U-Net, with its time and condition, and the encoder; only at the size of the model. */
static void a_diffusion_autoencoder_has_steps(void **state)
{
    (void)state;
    zn_model *m;
    zn_bench_result r;
    const zn_options compute = { .threads = 1, .profile = 1 };
    zn_bench_options o = { .part = ZN_DECODER, .runs = 1, .compute = &compute };
    assert_int_equal(zn_model_random("diffae-compact", 3, &m), ZN_OK);
    assert_int_equal(zn_bench(m, &o, &r), ZN_OK);
    assert_true(r.gflop > 9 && r.gflop < 11 && r.row_count > 100 && r.ms_median > 0 && r.cpu_ms > 0);
    zn_bench_result_clear(&r);
    o.part = ZN_ENCODER;
    assert_int_equal(zn_bench(m, &o, &r), ZN_OK);
    assert_true(r.gflop > 0.3 && r.gflop < 0.5 && r.row_count > 10);
    zn_bench_result_clear(&r);
    o.width = 128;
    assert_int_equal(zn_bench(m, &o, &r), ZN_EINVALID);
    o.width = 64;
    for (int64_t nth = 1; nth < 5000; nth *= 3) {
        zn_alloc_fail_at(nth);
        const zn_status status = zn_bench(m, &o, &r);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || (status == ZN_ENOMEM && !r.rows && !r.row_count));
        zn_bench_result_clear(&r);
    }
    zn_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_have_an_end),
                                        cmocka_unit_test(a_benchmark_may_lack_memory),
                                        cmocka_unit_test(a_diffusion_autoencoder_has_steps) };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}

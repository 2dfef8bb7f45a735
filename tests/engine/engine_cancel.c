/* Runs that are cancelled. */
#include "engine_cancel.h"

#include "base/alloc.h"
#include "part_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static int cancel_at_once(void *user, double fraction)
{
    (void)fraction;
    ++*(int *)user;
    return 1;
}

void progress_can_cancel(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_pool *pool = pool_of(1);
    zn_runner *r;
    int calls = 0;
    const zn_runner_options o = { .pool = pool, .tile = 32, .progress = cancel_at_once, .user = &calls };
    assert_int_equal(zn_runner_new(m, ZN_DECODER, ZN_SHAPE(1, 16, 16, 4), &o, &r), ZN_OK);
    assert_int_equal(zn_runner_run(r), ZN_ECANCELLED);
    assert_int_equal(calls, 1);
    zn_runner_free(r);
    zn_pool_free(pool);
    zn_model_free(m);
}

/* `user`: the part of the work after which to stop. */
static int cancel_after(void *user, double fraction) { return fraction > *(double *)user; }

/* Nothing of a picture that was given up gets into the next one, wherever it was stopped. */
void a_cancelled_run_leaves_no_trace(void **state)
{
    (void)state;
    zn_model *m = model_of("taef2");
    zn_pool *pool = pool_of(1);
    zn_runner *r;
    int64_t count;
    double limit;
    float *want = result_of(m, ZN_ENCODER, 200, 64, 1, 32, 0, &count);
    const zn_runner_options o = { .pool = pool, .tile = 32, .progress = cancel_after, .user = &limit };
    assert_int_equal(zn_runner_new(m, ZN_ENCODER, shape_of(m, ZN_ENCODER, 200, 64), &o, &r), ZN_OK);
    for (int part = 1; part < 20; part++) {
        float *input = zn_runner_input(r);
        const int64_t floats = zn_shape_count(zn_runner_input_shape(r));
        memset(input, 0, sizeof *input * (size_t)floats);
        limit = part / 20.0;
        assert_int_equal(zn_runner_run(r), ZN_ECANCELLED);
        fill(input, floats, 5);
        limit = 2;
        assert_int_equal(zn_runner_run(r), ZN_OK);
        assert_memory_equal(zn_runner_output(r), want, sizeof *want * (size_t)count);
    }
    zn_free(want);
    zn_runner_free(r);
    zn_pool_free(pool);
    zn_model_free(m);
}

/* The pool: every unit of every job is done once, with that job's arguments and a thread's own scratch, also when jobs
 * are so short that workers wake for one that is over. */
#include "base/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, MOST = 200, JOBS = 20000 };

typedef struct job {
    int number;
    int *seen; /* [units]: times done */
} job;

/* The scratch of a thread holds the number of the job it works at; another thread in it would be seen. */
static void count(const void *args, zn_range r)
{
    const job *j = args;
    volatile int *mine = r.scratch;
    *mine = j->number;
    for (int64_t i = r.begin; i < r.end; i++)
        j->seen[i]++;
    if (*mine != j->number)
        j->seen[r.begin] += MOST;
}

static void many_short_jobs(void **state)
{
    (void)state;
    zn_pool *pool;
    assert_int_equal(zn_pool_new(THREADS, &pool), ZN_OK);
    int seen[MOST], scratch[THREADS * 16];
    unsigned random = 1;
    for (int n = 1; n <= JOBS; n++) {
        random = random * 1103515245u + 12345u;
        const int units = 1 + (int)(random >> 16) % MOST, grain = 1 + (int)(random >> 8) % 9;
        for (int i = 0; i < units; i++)
            seen[i] = 0;
        const job j = { n, seen };
        zn_pool_run(pool, units, grain, count, &j, scratch, 16 * sizeof *scratch);
        for (int i = 0; i < units; i++)
            assert_int_equal(seen[i], 1);
    }
    zn_pool_free(pool);
}

static void blocks_by_grain(const void *args, zn_range r)
{
    int *bad = *(int *const *)args;
    if (r.begin % 7 || (r.end != r.begin + 7 && r.end != 40) || r.scratch)
        *bad = 1;
}

static void split_by_grain_alone(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        zn_pool *pool;
        assert_int_equal(zn_pool_new(threads, &pool), ZN_OK);
        int bad = 0, *to = &bad;
        zn_pool_run(pool, 40, 7, blocks_by_grain, &to, NULL, 0);
        zn_pool_run(pool, 0, 7, blocks_by_grain, &to, NULL, 0);
        assert_int_equal(bad, 0);
        zn_pool_free(pool);
    }
}

typedef struct caller {
    zn_pool *pool;
    int number, bad;
} caller;

static void *run_many(void *arg)
{
    caller *c = arg;
    int seen[MOST], scratch[THREADS * 16];
    for (int n = 1; n <= JOBS / 20; n++) {
        for (int i = 0; i < MOST; i++)
            seen[i] = 0;
        const job j = { n + c->number * JOBS, seen };
        zn_pool_run(c->pool, MOST, 1 + n % 9, count, &j, scratch, 16 * sizeof *scratch);
        for (int i = 0; i < MOST; i++)
            c->bad += seen[i] != 1;
    }
    return NULL;
}

static void callers_from_several_threads_take_turns(void **state)
{
    (void)state;
    enum { CALLERS = 4 };
    zn_pool *pool;
    assert_int_equal(zn_pool_new(3, &pool), ZN_OK);
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){ .pool = pool, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].bad, 0);
    }
    zn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(many_short_jobs), cmocka_unit_test(split_by_grain_alone),
                                        cmocka_unit_test(callers_from_several_threads_take_turns) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Thread pool: workers sleep on a futex-backed condition, wake for a job, and take blocks from an atomic counter.
 * Waking many sleeping threads takes longer than most layers of a network. So a thread polls for work for some
 * milliseconds before it sleeps: at first it spins, then it yields the CPU between polls.
 *
 * The pool runs one job at a time: callers from several threads take turns, and each gets the whole pool. A job of one
 * block, or any job of a pool with one thread, runs directly on the caller's thread.
 *
 * A job is complete when its blocks are done, even if some workers have not seen it: a worker whose CPU was busy finds
 * no blocks left when it wakes. A worker must never take a block of one job with the settings of another. So one atomic
 * word holds both the job number and the number of blocks taken. While the settings change, the word says that all
 * blocks are taken. */
#define _GNU_SOURCE
#include "base/threads.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Spins before yielding, and total polls. */
enum { SPINS = 2000, LOOKS = 6000 };

typedef struct worker {
    zn_pool *pool;
    int index;
    pthread_t thread;
} worker;

typedef struct job {
    zn_body body;
    const void *args;
    int64_t units, grain;
    void *scratch;
    size_t scratch_stride;
} job;

struct zn_pool {
    int threads;
    worker *workers; /* threads - 1 workers; the caller is thread 0 */
    int started;
    pthread_mutex_t turn; /* held by the caller whose job is running */
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    _Atomic bool stop;
    _Atomic uint64_t state; /* job number and number of its blocks taken; see below */
    _Atomic int64_t blocks, done;
    job job; /* read by threads that have taken one of its blocks */
};

enum { JOB_SHIFT = 40 };
#define TAKEN_MASK ((UINT64_C(1) << JOB_SHIFT) - 1) /* as a count: all blocks are taken */

static uint64_t job_of(uint64_t state) { return state >> JOB_SHIFT; }

static void run_block(const job *j, int64_t block, int index)
{
    const int64_t begin = block * j->grain, end = j->units - begin < j->grain ? j->units : begin + j->grain;
    void *scratch = j->scratch ? (char *)j->scratch + (size_t)index * j->scratch_stride : NULL;
    j->body(j->args, (zn_range){ begin, end, scratch });
}

/* Takes and runs blocks until none is left. Returns the job number. */
static uint64_t take_blocks(zn_pool *p, int index)
{
    for (;;) {
        uint64_t state = atomic_load(&p->state);
        do {
            if ((state & TAKEN_MASK) >= (uint64_t)atomic_load(&p->blocks))
                return job_of(state);
        } while (!atomic_compare_exchange_weak(&p->state, &state, state + 1));
        run_block(&p->job, (int64_t)(state & TAKEN_MASK), index);
        if (atomic_fetch_add(&p->done, 1) + 1 == atomic_load(&p->blocks)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static inline void relax(void)
{
#if defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits between two polls; `look` is the number of the poll. */
static inline void pause_before(int look)
{
    if (look < SPINS)
        relax();
    else
        sched_yield();
}

static void *work(void *arg)
{
    worker *w = arg;
    zn_pool *p = w->pool;
    uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < LOOKS && job_of(atomic_load(&p->state)) == seen && !atomic_load(&p->stop); i++)
            pause_before(i);
        if (job_of(atomic_load(&p->state)) == seen) {
            pthread_mutex_lock(&p->lock);
            while (job_of(atomic_load(&p->state)) == seen && !atomic_load(&p->stop))
                pthread_cond_wait(&p->wake, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        if (atomic_load(&p->stop))
            return NULL;
        seen = take_blocks(p, w->index);
    }
}

zn_status zn_pool_new(int threads, zn_pool **out)
{
    *out = NULL;
    if (threads <= 0)
        threads = zn_cpu_count();
    if (threads > 1024)
        return ZN_FAIL(ZN_EINVALID, "%d threads: at most 1024", threads);
    zn_pool *p = zn_calloc(1, sizeof *p);
    worker *workers = zn_calloc((size_t)threads, sizeof *workers);
    if (!p || !workers) {
        zn_free(p);
        zn_free(workers);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a pool of %d threads", threads);
    }
    p->threads = threads;
    p->workers = workers;
    atomic_init(&p->state, TAKEN_MASK);
    pthread_mutex_init(&p->turn, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    for (int i = 1; i < threads; i++) {
        workers[i] = (worker){ .pool = p, .index = i };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            zn_pool_free(p);
            return ZN_FAIL(ZN_ENOMEM, "the system refused thread %d of %d", i + 1, threads);
        }
        p->started++;
    }
    *out = p;
    return ZN_OK;
}

void zn_pool_free(zn_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->finished);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->turn);
    zn_free(p->workers);
    zn_free(p);
}

int zn_pool_threads(const zn_pool *p) { return p->threads; }

/* The caller holds p->turn. */
static void run_shared(zn_pool *p, const job *j, int64_t blocks)
{
    p->job = *j;
    atomic_store(&p->blocks, blocks);
    atomic_store(&p->done, 0);
    const uint64_t number = (job_of(atomic_load(&p->state)) + 1) << JOB_SHIFT;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->state, number);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    take_blocks(p, 0);
    for (int i = 0; i < LOOKS && atomic_load(&p->done) < blocks; i++)
        pause_before(i);
    if (atomic_load(&p->done) < blocks) {
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->done) < blocks)
            pthread_cond_wait(&p->finished, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
    atomic_store(&p->state, number | TAKEN_MASK);
}

void zn_pool_run(zn_pool *p, int64_t units, int64_t grain, zn_body body, const void *args, void *scratch,
                 size_t scratch_stride)
{
    if (units <= 0)
        return;
    const job j = { body, args, units, grain < 1 ? 1 : grain, scratch, scratch_stride };
    const int64_t blocks = (units + j.grain - 1) / j.grain;
    if (p->threads == 1 || blocks == 1) {
        for (int64_t i = 0; i < blocks; i++)
            run_block(&j, i, 0);
        return;
    }
    pthread_mutex_lock(&p->turn);
    run_shared(p, &j, blocks);
    pthread_mutex_unlock(&p->turn);
}

int zn_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return 1;
}

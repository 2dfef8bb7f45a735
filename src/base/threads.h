/* A thread pool that divides ranges into blocks. The division of [0,units) depends only on `units` and `grain`, never
 * on the number of threads. So results that depend on it are the same for any thread count.
 *
 *     zn_pool *pool;
 *     ZN_TRY(zn_pool_new(4, &pool));
 *     zn_pool_run(pool, rows, 1, body, &args, NULL, 0);
 *     zn_pool_free(pool); */
#ifndef ZN_THREADS_H
#define ZN_THREADS_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

typedef struct zn_pool zn_pool;

/* What a body may use: units [begin,end), and the scratch memory of its thread (may be NULL). */
typedef struct zn_range {
    int64_t begin, end;
    void *scratch;
} zn_range;

typedef void (*zn_body)(const void *args, zn_range range);

ZN_MUST_USE zn_status zn_pool_new(int threads, zn_pool **out); /* threads 0: zn_cpu_count() */
void zn_pool_free(zn_pool *pool);
int zn_pool_threads(const zn_pool *pool);

/* Runs body over [0,units) in blocks of `grain` units. Each thread takes the next block when it is free. Returns when
 * all blocks are done. Thread t gets scratch + t * scratch_stride. Calls from several threads run one after the other.
 * A body must not call zn_pool_run. */
void zn_pool_run(zn_pool *pool, int64_t units, int64_t grain, zn_body body, const void *args, void *scratch,
                 size_t scratch_stride);

int zn_cpu_count(void); /* CPUs this process may use */

#endif

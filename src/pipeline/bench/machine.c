/* What this machine can do: peak arithmetic and memory bandwidth, measured in a few hundred milliseconds and kept. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/peak.h"
#include "pipeline/bench/profile.h"

#include <pthread.h>
#include <string.h>
#include <zenith/codec.h>

enum { MEGABYTES = 256, TRIES = 5, MAX_KEPT = 16 };

static double peak_gflops(zn_pool *pool, zn_precision math)
{
    const zn_peak peak = zn_peak_choose(math, zn_cpu_flags());
    const int64_t units = 64LL * zn_pool_threads(pool); /* long enough to forget the start of the threads */
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        /* Some CPUs slow down when nothing but multiply-adds runs for long: short bursts after a rest show the peak. */
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        const double start = zn_clock_ms();
        zn_pool_run(pool, units, 1, peak.body, NULL, NULL, 0);
        const double gflops = (double)units * peak.flops_per_unit / (zn_clock_ms() - start) * 1e-6;
        best = gflops > best ? gflops : best;
    }
    return best;
}

typedef struct copy {
    const char *from;
    char *to;
} copy;

static void copy_body(const void *args, zn_range r)
{
    const copy *c = args;
    memcpy(c->to + (r.begin << 20), c->from + (r.begin << 20), (size_t)(r.end - r.begin) << 20);
}

/* A large copy, counting bytes read and written. */
static zn_status bandwidth(zn_pool *pool, double *gbs)
{
    char *block;
    ZN_TRY(zn_alloc_for("a bandwidth test", (size_t)2 * MEGABYTES << 20, (void **)&block));
    const copy c = { block, block + ((size_t)MEGABYTES << 20) };
    memset(block, 1, (size_t)2 * MEGABYTES << 20);
    *gbs = 0;
    for (int i = 0; i < TRIES; i++) {
        const double start = zn_clock_ms();
        zn_pool_run(pool, MEGABYTES, 4, copy_body, &c, NULL, 0);
        const double now = 2.0 * MEGABYTES * 1.048576 / (zn_clock_ms() - start);
        *gbs = now > *gbs ? now : *gbs;
    }
    zn_free(block);
    return ZN_OK;
}

/* Measurements of this process, so that each is made once. */
static struct {
    int threads;
    zn_precision precision;
    zn_machine machine;
} kept[MAX_KEPT];
static int kept_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static zn_status measure(int threads, zn_precision precision, zn_machine *m)
{
    zn_pool *pool;
    ZN_TRY(zn_pool_new(threads, &pool));
    zn_cpu_text(zn_cpu_flags(), m->isa, sizeof m->isa);
    m->cpus = zn_cpu_count();
    m->peak_gflops = peak_gflops(pool, zn_precision_or_f32(precision));
    const zn_status status = bandwidth(pool, &m->bandwidth_gbs);
    zn_pool_free(pool);
    return status;
}

zn_status zn_machine_measure(int threads, zn_precision precision, zn_machine *out)
{
    threads = threads > 0 ? threads : zn_cpu_count();
    precision = precision == ZN_PRECISION_DEFAULT ? ZN_PRECISION_F32 : precision;
    zn_status status = ZN_OK;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < kept_count && (kept[i].threads != threads || kept[i].precision != precision))
        i++;
    if (i < kept_count)
        *out = kept[i].machine;
    else
        status = measure(threads, precision, out);
    if (status == ZN_OK && i == kept_count && kept_count < MAX_KEPT) {
        kept[kept_count].threads = threads;
        kept[kept_count].precision = precision;
        kept[kept_count++].machine = *out;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

zn_status zn_machine_of(const zn_compute *c, zn_precision precision, zn_machine *out)
{
    if (!c->device)
        return zn_machine_measure(zn_pool_threads(c->pool), precision, out);
    *out = (zn_machine){ .cpus = zn_cpu_count() };
    zn_device_describe(c->device, out->isa, sizeof out->isa, &out->peak_gflops, &out->bandwidth_gbs);
    return ZN_OK;
}

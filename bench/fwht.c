/* Walsh-Hadamard transforms of every length beside what binds them, along rows, columns and channels of a map of 64 MB
 * that is read once and written once: memory, or the same passes with all data in the first cache.
 *
 *     fwht [threads]        Markdown: one table for each axis */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/threads.h"
#include "kernels/spectral.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zenith/codec.h>

enum {
    FLOATS = 1 << 24,
    CHANNELS = 16,
    TRIES = 7,
    LONGEST = 4096,
    WINDOW = 16384, /* bytes that a map in the first cache consists of, again and again */
    WINDOWS = FLOATS / (WINDOW / 4),
    LEAST = 1 << 20, /* floats of such a map, or one line */
};

typedef struct maps {
    const float *x;
    float *y;
} maps;

static double gbs_of(int64_t floats, double ms) { return 2.0 * sizeof(float) * (double)floats / ms * 1e-6; }

/* Dependent additions take a cycle each. */
static double measure_ghz(void)
{
    enum { STEPS = 16, ROUNDS = 200000 };
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t sum = 0;
        const double start = zn_clock_ms();
        for (int k = 0; k < ROUNDS; k++)
#pragma GCC unroll 16
            for (int s = 0; s < STEPS; s++) {
                sum += 1;
                __asm__ volatile("" : "+r"(sum));
            }
        const double ghz = (double)STEPS * ROUNDS / (zn_clock_ms() - start) * 1e-6;
        best = ghz > best ? ghz : best;
    }
    return best;
}

/* A copy that fetches ahead: the most that transforms can hope for, on some machines more than memcpy does. */
static void copy_body(const void *args, zn_range r)
{
    enum { LINE = 16, AHEAD = 4096 };
    const maps *m = args;
    for (int64_t i = r.begin << 18; i < r.end << 18; i += LINE) {
        __builtin_prefetch(m->x + i + AHEAD, 0, 2);
        memcpy(m->y + i, m->x + i, LINE * sizeof(float));
    }
}

static double copy_gbs(zn_pool *pool, const maps *m)
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const double start = zn_clock_ms();
        zn_pool_run(pool, FLOATS >> 18, 4, copy_body, m, NULL, 0);
        const double gbs = gbs_of(FLOATS, zn_clock_ms() - start);
        best = gbs > best ? gbs : best;
    }
    return best;
}

/* Addresses for FLOATS floats, all of which are the same WINDOW bytes: `offset` in a file. */
static float *windows(int file, off_t offset)
{
    char *base =
        mmap(NULL, (size_t)WINDOWS * WINDOW + WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    base += WINDOW - (int64_t)((uintptr_t)base % WINDOW); /* what is the same lies in the same set of the cache */
    for (int64_t i = 0; i < WINDOWS; i++)
        if (mmap(base + i * WINDOW, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file,
                 offset) == MAP_FAILED)
            return NULL;
    return (float *)base;
}

static bool windows_new(maps *m)
{
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), 2 * WINDOW))
        return false;
    m->x = windows(fileno(file), 0);
    m->y = windows(fileno(file), WINDOW);
    return m->x && m->y;
}

enum { ROWS, COLUMNS, ALONG_CHANNELS, AXES };
static const char *const axes[] = { "rows", "columns", "channels" };

/* The axis of length n of maps of `floats` floats, 16 channels; rows of 256 pixels where columns are transformed. */
static zn_wht_args form(int axis, int64_t n, int64_t floats)
{
    const int64_t inner = axis == ALONG_CHANNELS ? 1
                          : axis == ROWS         ? CHANNELS
                                                 : 256 * CHANNELS,
                  outer = floats / n / inner;
    return (zn_wht_args){ .outer = outer ? outer : 1, .n = n, .inner = inner, .scale = 1 };
}

/* Milliseconds for one vector of four floats, times the threads: so long has a core for it. */
static double vector_ms(zn_pool *pool, const maps *m, int axis, int64_t n, int64_t floats)
{
    zn_wht_args a = form(axis, n, floats);
    a.x = m->x;
    a.y = m->y;
    const int threads = zn_pool_threads(pool);
    void *scratch = zn_alloc(zn_wht_scratch(&a) * (size_t)threads);
    double best = 1e30;
    for (int i = 0; scratch && i < TRIES; i++) {
        const double start = zn_clock_ms();
        zn_pool_run(pool, zn_wht_units(&a), zn_wht_grain(&a), zn_k_wht, &a, scratch, zn_wht_scratch(&a));
        const double ms = zn_clock_ms() - start;
        best = ms < best ? ms : best;
    }
    zn_free(scratch);
    return best * threads * 4 / (double)(a.outer * a.n * a.inner);
}

typedef struct bench {
    zn_pool *pool, *one;
    maps memory, cache;
    double ghz, memcpy_gbs, copy_gbs;
} bench;

static void table(const bench *b, int axis)
{
    const int threads = zn_pool_threads(b->pool);
    const double cycles_of_ms = b->ghz * 1e6;
    const double memory = 2 * 4 * sizeof(float) * threads / b->copy_gbs * b->ghz;
    printf("| %s of | GB/s | of memcpy | cycles | in L1 | memory | of what binds |\n"
           "|---:|---:|---:|---:|---:|---:|---:|\n",
           axes[axis]);
    for (int64_t n = 2; n <= LONGEST; n *= 2) {
        const double ms = vector_ms(b->pool, &b->memory, axis, n, FLOATS), cycles = ms * cycles_of_ms;
        const double near = vector_ms(b->one, &b->cache, axis, n, LEAST) * cycles_of_ms;
        const double gbs = gbs_of(4, ms / threads), bound = near > memory ? near : memory;
        printf("| %lld | %.1f | %.0f %% | %.2f | %.2f | %.2f | %.0f %% |\n", (long long)n, gbs,
               100 * gbs / b->memcpy_gbs, cycles, near, memory, 100 * bound / cycles);
        fflush(stdout);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : zn_cpu_count();
    zn_machine machine;
    bench b = { .ghz = measure_ghz() };
    float *x = zn_calloc(FLOATS, sizeof *x), *y = zn_calloc(FLOATS, sizeof *y);
    if (!x || !y || zn_pool_new(threads, &b.pool) != ZN_OK || zn_pool_new(1, &b.one) != ZN_OK ||
        zn_machine_measure(threads, ZN_PRECISION_F32, &machine) != ZN_OK) {
        fprintf(stderr, "fwht: %s\n", zn_error_text());
        return 1;
    }
    if (!windows_new(&b.cache)) {
        fprintf(stderr, "fwht: no map in the first cache could be made\n");
        return 1;
    }
    for (int64_t i = 0; i < FLOATS; i++) /* pages that were never written would all be one */
        x[i] = (float)(i % 17) - 8;
    b.memory = (maps){ x, y };
    b.memcpy_gbs = machine.bandwidth_gbs;
    b.copy_gbs = copy_gbs(b.pool, &b.memory);
    b.copy_gbs = b.copy_gbs > b.memcpy_gbs ? b.copy_gbs : b.memcpy_gbs;
    printf("%d threads, %s, %.2f GHz; memcpy %.1f GB/s, a copy that fetches ahead %.1f GB/s\n\n", threads, machine.isa,
           b.ghz, b.memcpy_gbs, b.copy_gbs);
    for (int axis = 0; axis < AXES; axis++)
        table(&b, axis);
    zn_pool_free(b.pool);
    zn_pool_free(b.one);
    zn_free(x);
    zn_free(y);
    return 0;
}

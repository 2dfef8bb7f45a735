/* Fences, guards and splits; see fence.h. */
#define _GNU_SOURCE
#include "fence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 64 };
static const float guard_value = -7.25e33f;

/* The page before the block's first one holds the size of the whole mapping. */

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

float *fenced_new(int64_t count, bool aligned)
{
    const size_t page = page_bytes();
    size_t bytes = sizeof(float) * (size_t)(count > 0 ? count : 1);
    if (aligned)
        bytes = (bytes + 63) / 64 * 64;
    const size_t body = (bytes + page - 1) / page * page, all = page + body + page;
    char *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page + body, page, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for %zu bytes of test data\n", bytes);
        exit(2);
    }
    *(size_t *)base = all;
    return (float *)(base + page + body - bytes);
}

void fenced_free(float *block)
{
    if (!block)
        return;
    /* the block begins in the page that follows the header */
    char *base = (char *)((uintptr_t)block / page_bytes() * page_bytes() - page_bytes());
    munmap(base, *(size_t *)base);
}

void fill_normal(zn_rng *r, float *x, int64_t count, float scale)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = scale * zn_rng_normal(r);
}

float *guarded_new(int64_t count)
{
    float *y = fenced_new(count + 2 * GUARD, false);
    for (int64_t i = 0; i < count + 2 * GUARD; i++)
        y[i] = guard_value;
    return y + GUARD;
}

void guarded_free(float *y) { fenced_free(y - GUARD); }

bool guards_whole(const float *y, int64_t count)
{
    for (int i = 0; i < GUARD; i++)
        if (y[i - GUARD] != guard_value || y[count + i] != guard_value)
            return false;
    return true;
}

double relative_error(const float *got, const float *want, int64_t count)
{
    double e = 0, n = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)got[i] - (double)want[i];
        e += d * d;
        n += (double)want[i] * (double)want[i];
    }
    return n > 0 ? sqrt(e / n) : sqrt(e);
}

void run_split(const split_run *r, split how)
{
    if (how == WHOLE)
        r->body(r->args, (zn_range){ 0, r->units, r->scratch });
    for (int64_t u = r->units; how == SINGLY_BACKWARDS && u > 0; u--)
        r->body(r->args, (zn_range){ u - 1, u, r->scratch });
    if (how == TWO_THREADS)
        zn_pool_run(r->two, r->units, r->grain, r->body, r->args, r->scratch, r->stride);
}

/* For kernels under test: memory that ends at a protected page, results between guard zones, and divisions of the units
 * that must not change a bit. */
#ifndef ZN_TESTS_FENCE_H
#define ZN_TESTS_FENCE_H

#include "base/rng.h"
#include "base/threads.h"

#include <stdbool.h>

/* `count` floats that end exactly at a protected page. With `aligned`, they are 64-byte aligned and may end up to 60
 * bytes before it. */
float *fenced_new(int64_t count, bool aligned);
void fenced_free(float *block);

/* The same with guard values before and after it that no kernel writes. */
float *guarded_new(int64_t count);
void guarded_free(float *y);
bool guards_whole(const float *y, int64_t count);

void fill_normal(zn_rng *r, float *x, int64_t count, float scale);
/* RMS of the difference, divided by the RMS of the expected values. */
double relative_error(const float *got, const float *want, int64_t count);

typedef enum split { WHOLE, SINGLY_BACKWARDS, TWO_THREADS } split;
typedef struct split_run {
    zn_body body;
    const void *args;
    int64_t units, grain;
    void *scratch; /* [2][stride bytes], one for each thread */
    size_t stride;
    zn_pool *two; /* a pool of two threads; only for TWO_THREADS */
} split_run;
void run_split(const split_run *r, split how);

#endif

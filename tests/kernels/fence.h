/* What a kernel under test gets: memory that ends at a forbidden page, results between guard zones, and its units
 * divided in ways that must not change a bit. */
#ifndef ZN_TESTS_FENCE_H
#define ZN_TESTS_FENCE_H

#include "base/rng.h"
#include "base/threads.h"

#include <stdbool.h>

/* `count` floats that end exactly at a page nobody may touch; 64-byte aligned where `aligned` (then up to 60 bytes
 * before it). */
float *fenced_new(int64_t count, bool aligned);
void fenced_free(float *block);

/* The same with numbers before and behind that no kernel gives. */
float *guarded_new(int64_t count);
void guarded_free(float *y);
bool guards_whole(const float *y, int64_t count);

void fill_normal(zn_rng *r, float *x, int64_t count, float scale);
/* Root of the mean square of the difference over that of what is wanted. */
double relative_error(const float *got, const float *want, int64_t count);

typedef enum split { WHOLE, SINGLY_BACKWARDS, TWO_THREADS } split;
typedef struct split_run {
    zn_body body;
    const void *args;
    int64_t units, grain;
    void *scratch; /* [2][stride bytes], one for each thread */
    size_t stride;
    zn_pool *two; /* of two threads; only for TWO_THREADS */
} split_run;
void run_split(const split_run *r, split how);

#endif

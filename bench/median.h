/* The median of measured times. */
#ifndef ZN_BENCH_MEDIAN_H
#define ZN_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the times. */
static inline double median(double *ms, int count)
{
    qsort(ms, (size_t)count, sizeof *ms, median_compare);
    return ms[count / 2];
}

#endif

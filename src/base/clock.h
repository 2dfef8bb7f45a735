/* Time in milliseconds. */
#ifndef ZN_CLOCK_H
#define ZN_CLOCK_H

#include <time.h>

static inline double zn_clock_read(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Monotonic. */
static inline double zn_clock_ms(void) { return zn_clock_read(CLOCK_MONOTONIC); }

/* CPU time that the threads of the process have taken together. */
static inline double zn_clock_cpu_ms(void) { return zn_clock_read(CLOCK_PROCESS_CPUTIME_ID); }

#endif

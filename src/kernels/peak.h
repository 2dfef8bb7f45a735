/* Loops that only multiply and add in registers. They measure the peak throughput of the machine. */
#ifndef ZN_PEAK_H
#define ZN_PEAK_H

#include "base/threads.h"
#include "kernels/conv.h"

typedef struct zn_peak {
    zn_body body; /* args: NULL; every unit is the same amount of work */
    double flops_per_unit;
} zn_peak;

/* Returns the fastest loop of this CPU for a precision, or the fp32 loop if it has none. */
zn_peak zn_peak_choose(zn_precision math, uint32_t cpu);

#endif

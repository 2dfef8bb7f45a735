/* Loops that do nothing but multiply and add in registers: what the machine could do at best. */
#ifndef ZN_PEAK_H
#define ZN_PEAK_H

#include "base/threads.h"
#include "kernels/conv.h"

typedef struct zn_peak {
    zn_body body; /* args: NULL; each unit is the same work */
    double flops_per_unit;
} zn_peak;

/* The best loop of this CPU for a precision; the fp32 one where it has nothing better. */
zn_peak zn_peak_choose(zn_math math, uint32_t cpu);

#endif

/* See compute.h. */
#include "options/compute.h"

zn_options compute_options(const options *o, progress *bar)
{
    return (zn_options){ .size = sizeof(zn_options),
                         .threads = o->threads,
                         .precision = (zn_precision)o->precision,
                         .device = o->device,
                         .memory = o->memory,
                         .tile = o->tile,
                         .profile = o->profile,
                         .progress = bar ? progress_tick : NULL,
                         .user = bar,
                         .blend = o->blend };
}

/* What a handle computes with: its options, read and checked here for every handle, and what it borrows from a context.
 *
 *     zn_compute compute;
 *     ZN_TRY(zn_compute_begin(options, &compute));     // options may be NULL
 *     use(compute.pool, compute.math);
 *     zn_compute_end(&compute); */
#ifndef ZN_COMPUTE_H
#define ZN_COMPUTE_H

#include "graph/context.h"

#include <zenith/options.h>

typedef struct zn_compute {
    zn_options options; /* all fields, whatever the caller's size; device is NULL: it was not retained */
    zn_context *context;
    zn_pool *pool;     /* the context's */
    zn_device *device; /* the context's; NULL: the CPU */
    zn_packs *packs;   /* packed weights that the handle has used */
    zn_math math;
} zn_compute;

/* The options of a caller that may know fewer fields or more; those beyond ours must be zero. Checks the values of all
 * but the device. */
ZN_MUST_USE zn_status zn_options_read(const zn_options *given, zn_options *out);

/* What it means for kernels; DEFAULT is fp32. */
zn_math zn_math_of(zn_precision precision);

/* On failure there is nothing to end. */
ZN_MUST_USE zn_status zn_compute_begin(const zn_options *given, zn_compute *out);
/* After the executors that used it. Zeros are fine. */
void zn_compute_end(zn_compute *c);

#endif

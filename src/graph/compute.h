/* What a handle computes with: its options and what it borrows from a context. Every handle reads and checks its
 * options here.
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
    zn_options options; /* all fields are set, whatever size the caller gave; device is NULL because its name is not
                           retained */
    zn_context *context;
    zn_pool *pool;     /* the context's */
    zn_device *device; /* the context's; NULL: the CPU */
    zn_packs *packs;   /* packed weights that this handle uses */
    zn_precision math; /* of graphs: options.precision, or what the handle prefers */
} zn_compute;

/* Copies the options of a caller compiled against an older or newer version. Bytes after the fields of this version
 * must be zero. Checks every value except the device. */
ZN_MUST_USE zn_status zn_options_read(const zn_options *given, zn_options *out);

/* After a failure, zn_compute_end need not be called. */
ZN_MUST_USE zn_status zn_compute_begin(const zn_options *given, zn_compute *out);
/* For handles that have no layer in FP8: ZN_EUNSUPPORTED if it is asked for. who: "image autoencoders". */
ZN_MUST_USE zn_status zn_compute_refuse_fp8(const zn_compute *c, const char *who);
/* Bytes of options.memory that the device's driver and libraries take; 0 on the CPU and without a budget. */
size_t zn_compute_overhead(const zn_compute *c);
/* Call it after freeing the executors that use c. A zeroed struct is allowed. */
void zn_compute_end(zn_compute *c);

#endif

/* Internal interface of a context, for the layers above. */
#ifndef ZN_GRAPH_CONTEXT_H
#define ZN_GRAPH_CONTEXT_H

#include "base/threads.h"
#include "graph/packs.h"
#include "kernels/device.h"

#include <zenith/context.h>

/* Takes a reference to `given`, or creates a context with this number of threads if `given` is NULL. Release it with
 * zn_context_free. */
ZN_MUST_USE zn_status zn_context_borrow(zn_context *given, int threads, zn_context **out);

zn_pool *zn_context_pool(const zn_context *c);
zn_pack_cache *zn_context_packs(const zn_context *c);
/* Returns the device with this name (zn_device_open). It is opened once and closed with the context. *out is NULL for
 * the CPU. */
ZN_MUST_USE zn_status zn_context_device(zn_context *c, const char *name, zn_device **out);

#endif

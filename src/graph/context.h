/* A context inside: what the layers above ask it for. */
#ifndef ZN_GRAPH_CONTEXT_H
#define ZN_GRAPH_CONTEXT_H

#include "base/threads.h"
#include "graph/packs.h"
#include "kernels/device.h"

#include <zenith/context.h>

/* One more reference to `given`, or a new context of so many threads where there is none. Given back by
 * zn_context_free. */
ZN_MUST_USE zn_status zn_context_borrow(zn_context *given, int threads, zn_context **out);

zn_pool *zn_context_pool(const zn_context *c);
zn_pack_cache *zn_context_packs(const zn_context *c);
/* The device of this name (zn_device_open), opened once and closed with the context; NULL for the CPU. */
ZN_MUST_USE zn_status zn_context_device(zn_context *c, const char *name, zn_device **out);

#endif

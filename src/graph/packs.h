/* Shared packed weights. The output of zn_op.pack depends on the weights, the kernel and the layer's geometry, but not
 * on the size of the image. So executors for different sizes, tiles and handles share the same bytes.
 *
 *     zn_pack_cache *cache;                      // of a context
 *     ZN_TRY(zn_pack_cache_new(&cache));
 *     zn_packs *packs;                           // of a handle: keeps its entries until it is freed
 *     ZN_TRY(zn_packs_new(cache, &packs));
 *     ZN_TRY(zn_packs_get(packs, node, &prepare, bytes, &fetched, &packed));
 *     zn_packs_free(packs);                      // frees entries that no other handle uses
 *     zn_pack_cache_free(cache);
 *
 * Weights are identified by their address. This is safe because an entry lives only while a handle uses it, and a
 * handle borrows its model: the weights must neither move nor change while a zn_packs that holds them exists. Training
 * executors do not use this cache.
 *
 * A cache may be used from several threads. A zn_packs may be used by one thread at a time. */
#ifndef ZN_PACKS_H
#define ZN_PACKS_H

#include "graph/graph.h"
#include "kernels/coded.h"

typedef struct zn_pack_cache zn_pack_cache;
typedef struct zn_packs zn_packs;

ZN_MUST_USE zn_status zn_pack_cache_new(zn_pack_cache **out);
void zn_pack_cache_free(zn_pack_cache *cache); /* free every zn_packs that uses it first */
size_t zn_pack_cache_bytes(zn_pack_cache *cache);
int64_t zn_pack_cache_made(zn_pack_cache *cache); /* number of entries packed so far */

ZN_MUST_USE zn_status zn_packs_new(zn_pack_cache *cache, zn_packs **out);
void zn_packs_free(zn_packs *packs);
zn_pack_cache *zn_packs_cache(const zn_packs *packs);

/* The last values that were read of a deferred parameter (zn_deferred): layers pack it in several parts, one after the
 * other. */
typedef struct zn_fetched {
    const zn_deferred *of;
    bool codes;    /* values are codes */
    float *values; /* zn_free it in the end */
    float meanings[ZN_CODES];
} zn_fetched;

/* Finds or makes the packed weights of a node: `bytes` bytes (zn_needs.packed). The constant sources of the node must
 * already be computed, or be deferred. */
ZN_MUST_USE zn_status zn_packs_get(zn_packs *packs, const zn_node *n, const zn_prepare *p, size_t bytes, zn_fetched *f,
                                   const void **packed);
/* The same into `packed`. */
ZN_MUST_USE zn_status zn_pack_into(const zn_node *n, const zn_prepare *p, zn_fetched *f, void *packed);
/* The deferred parameter that a source of a node is, or is a part of; NULL: it is none, or has values. */
zn_node *zn_deferred_source(const zn_node *source);
/* Whether it is deferred and has 8 bits for each value in its file; also while it has values, to pack them. */
bool zn_is_coded(const zn_node *source);

#endif

/* Packed weights, shared. What an op makes of constant weights (zn_op.pack) depends on the weights, the kernel and the
 * layer's geometry, not on the size of the image: so executors for other sizes, tiles and handles use the same bytes.
 *
 *     zn_pack_cache *cache;                      // of a context
 *     ZN_TRY(zn_pack_cache_new(&cache));
 *     zn_packs *packs;                           // of a handle: what it uses stays until the handle goes
 *     ZN_TRY(zn_packs_new(cache, &packs));
 *     ZN_TRY(zn_packs_get(packs, node, &prepare, bytes, &packed));
 *     zn_packs_free(packs);                      // frees what no other handle uses
 *     zn_pack_cache_free(cache);
 *
 * Weights are known by their address. This is safe because an entry lives only while a handle uses it, and a handle
 * borrows its model: the weights must neither move nor change while a zn_packs that was asked for them lives. Executors
 * of weights that are trained do not pack this way at all.
 *
 * A cache may be used from several threads; a zn_packs belongs to one at a time. */
#ifndef ZN_PACKS_H
#define ZN_PACKS_H

#include "graph/graph.h"

typedef struct zn_pack_cache zn_pack_cache;
typedef struct zn_packs zn_packs;

ZN_MUST_USE zn_status zn_pack_cache_new(zn_pack_cache **out);
void zn_pack_cache_free(zn_pack_cache *cache); /* every zn_packs of it must be gone */
size_t zn_pack_cache_bytes(zn_pack_cache *cache);
int64_t zn_pack_cache_made(zn_pack_cache *cache); /* how often something was packed, so far */

ZN_MUST_USE zn_status zn_packs_new(zn_pack_cache *cache, zn_packs **out);
void zn_packs_free(zn_packs *packs);

/* The packed weights of a node, `bytes` of them (zn_needs.packed), found or made. Its constant sources must have their
 * values. */
ZN_MUST_USE zn_status zn_packs_get(zn_packs *packs, const zn_node *n, const zn_prepare *p, size_t bytes,
                                   const void **packed);

#endif

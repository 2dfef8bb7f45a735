/* All heap memory of the library. Blocks are 64-byte aligned; free takes NULL.
 *
 *     float *x = zn_alloc(count * sizeof *x);
 *     if (!x) return ZN_FAIL(ZN_ENOMEM, "...");
 *     zn_free(x); */
#ifndef ZN_ALLOC_H
#define ZN_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

void *zn_alloc(size_t bytes);                /* uninitialised; NULL on failure; bytes 0 gives a valid pointer */
void *zn_calloc(size_t count, size_t size);  /* zeroed; checks count * size for overflow */
void *zn_realloc(void *block, size_t bytes); /* contents kept; on failure the old block stays valid */
size_t zn_alloc_size(const void *block);     /* as it was asked for; 0 for NULL */
size_t zn_alloc_whole(size_t bytes);         /* what such a block takes: large ones are whole huge pages */
void zn_free(void *block);
char *zn_strdup(const char *s);

/* Like zn_alloc, but sets the error text: "out of memory: N bytes for WHAT". */
ZN_MUST_USE zn_status zn_alloc_for(const char *what, size_t bytes, void **out);

/* Growing lists: ZN_GROW(d->names, d->capacity, d->count + 1) grows the list to at least that many items. The capacity
 * at least doubles, so appending one by one takes linear time. Returns false when out of memory; list and capacity are
 * then unchanged. */
#define ZN_GROW(list, capacity, need) zn_grow(&(list), &(capacity), (size_t)(need), sizeof *(list))
ZN_MUST_USE bool zn_grow(void *list, size_t *capacity, size_t need, size_t size); /* list: address of the pointer */

/* Test hooks. zn_alloc_calls returns the number of calls in this process so far. zn_alloc_fail_at makes the nth call
 * from now fail (1 = next); 0 disables it. */
int64_t zn_alloc_calls(void);
void zn_alloc_fail_at(int64_t nth);

#endif

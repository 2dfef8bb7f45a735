/* All heap memory of the library. Blocks are 64-byte aligned; free takes NULL.
 *
 *     float *x = zn_alloc(count * sizeof *x);
 *     if (!x) return ZN_FAIL(ZN_ENOMEM, "...");
 *     zn_free(x); */
#ifndef ZN_ALLOC_H
#define ZN_ALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

void *zn_alloc(size_t bytes);                /* uninitialised; NULL on failure; bytes 0 gives a valid pointer */
void *zn_calloc(size_t count, size_t size);  /* zeroed, multiplication checked */
void *zn_realloc(void *block, size_t bytes); /* contents kept; on failure the old block stays valid */
void zn_free(void *block);
char *zn_strdup(const char *s);

/* As above but writes the error: "out of memory: N bytes for WHAT". */
ZN_MUST_USE zn_status zn_alloc_for(const char *what, size_t bytes, void **out);

/* Test hooks: calls made so far in the process, and the call number (counted from now, 1 = next) that must fail;
 * 0 switches failing off. */
int64_t zn_alloc_calls(void);
void zn_alloc_fail_at(int64_t nth);

#endif

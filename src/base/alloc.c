/* Aligned heap blocks. A 64-byte header before each block stores its size, so that realloc can copy. Large blocks
 * request huge pages: weights of hundreds of megabytes are read across their rows, and with small pages every row is on
 * a page of its own. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/alloc.h"

#include "base/fail.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FEWEST = 64, ALIGN = 64, LARGE_PAGE = 2 << 20, LARGE = 4 * LARGE_PAGE };

static _Atomic int64_t calls;
static _Atomic int64_t fail_in;

int64_t zn_alloc_calls(void) { return atomic_load(&calls); }
void zn_alloc_fail_at(int64_t nth) { atomic_store(&fail_in, nth); }

static bool must_fail(void)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_load_explicit(&fail_in, memory_order_relaxed) == 0)
        return false;
    return atomic_fetch_sub(&fail_in, 1) == 1;
}

static size_t align_of(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN >= LARGE ? LARGE_PAGE : ALIGN; }

size_t zn_alloc_whole(size_t bytes)
{
    const size_t align = align_of(bytes);
    return ((bytes + ALIGN - 1) / ALIGN * ALIGN + ALIGN + align - 1) / align * align;
}

void *zn_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * LARGE_PAGE || must_fail())
        return NULL;
    const size_t align = align_of(bytes), whole = zn_alloc_whole(bytes);
    const bool large = align == LARGE_PAGE;
    char *base = aligned_alloc(align, whole);
    if (!base)
        return NULL;
#if defined(MADV_HUGEPAGE)
    if (large)
        (void)madvise(base, whole, MADV_HUGEPAGE); /* a hint; failure is harmless */
#endif
    memcpy(base, &bytes, sizeof bytes);
    return base + ALIGN;
}

void *zn_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *block = zn_alloc(bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

size_t zn_alloc_size(const void *block)
{
    size_t bytes = 0;
    if (block)
        memcpy(&bytes, (const char *)block - ALIGN, sizeof bytes);
    return bytes;
}

void *zn_realloc(void *block, size_t bytes)
{
    if (!block)
        return zn_alloc(bytes);
    const size_t old = zn_alloc_size(block);
    void *bigger = zn_alloc(bytes);
    if (!bigger)
        return NULL;
    memcpy(bigger, block, old < bytes ? old : bytes);
    zn_free(block);
    return bigger;
}

void zn_free(void *block)
{
    if (block)
        free((char *)block - ALIGN);
}

char *zn_strdup(const char *s)
{
    const size_t n = strlen(s) + 1;
    char *copy = zn_alloc(n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

bool zn_grow(void *list, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    const size_t doubled = *capacity > SIZE_MAX / 2 ? 0 : 2 * *capacity, wanted = need > doubled ? need : doubled;
    const size_t count = wanted > FEWEST ? wanted : FEWEST;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return false;
    void *block;
    memcpy(&block, list, sizeof block);
    block = zn_realloc(block, bytes);
    if (!block)
        return false;
    memcpy(list, &block, sizeof block);
    *capacity = count;
    return true;
}

zn_status zn_alloc_for(const char *what, size_t bytes, void **out)
{
    *out = zn_alloc(bytes);
    return *out ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory: %zu bytes for %s", bytes, what);
}

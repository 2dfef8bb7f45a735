/* A list of blocks, filled one after the other. Allocations too large for a block get a block of their own. */
#include "base/arena.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 1 << 14, ALIGN = 16 };

struct zn_arena_block {
    struct zn_arena_block *next;
    size_t used, size;
    _Alignas(ALIGN) char bytes[];
};

void *zn_arena_alloc(zn_arena *a, size_t bytes)
{
    if (a->failed || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct zn_arena_block *b = a->blocks;
    if (!b || b->size - b->used < bytes) {
        const size_t size = bytes > BLOCK ? bytes : BLOCK;
        b = zn_alloc(sizeof *b + size);
        if (!b) {
            a->failed = true;
            return NULL;
        }
        *b = (struct zn_arena_block){ .next = a->blocks, .size = size };
        a->blocks = b;
    }
    void *p = b->bytes + b->used;
    b->used += bytes;
    return memset(p, 0, bytes);
}

char *zn_arena_copy(zn_arena *a, const char *text) { return zn_arena_format(a, "%s", text); }

char *zn_arena_format(zn_arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : zn_arena_alloc(a, (size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void zn_arena_free(zn_arena *a)
{
    for (struct zn_arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        zn_free(b);
    }
    *a = (zn_arena){ 0 };
}

/* An arena: many small allocations, one free. A failed allocation sets `failed`, so callers may check once at the end.
 *
 *     zn_arena a = { 0 };
 *     char *name = zn_arena_format(&a, "%s.%d", prefix, i);
 *     if (a.failed) ...
 *     zn_arena_free(&a); */
#ifndef ZN_ARENA_H
#define ZN_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct zn_arena {
    struct zn_arena_block *blocks;
    bool failed;
} zn_arena;

void *zn_arena_alloc(zn_arena *a, size_t bytes); /* zeroed, 16-byte aligned; NULL after a failure */
char *zn_arena_copy(zn_arena *a, const char *text);
__attribute__((format(printf, 2, 3))) char *zn_arena_format(zn_arena *a, const char *format, ...);
void zn_arena_free(zn_arena *a);

#endif

/* The pickle machine's insides: what opcodes.c needs from pickle.c. */
#ifndef ZN_UNPICKLER_H
#define ZN_UNPICKLER_H

#include "io/weights/pickle.h"

typedef struct zn_stack { /* of pointers or sizes, growing */
    void *items;
    size_t count, capacity;
} zn_stack;

typedef struct zn_unpickler {
    const uint8_t *bytes;
    size_t at, size, op_at; /* op_at: offset of the running opcode, for messages */
    const char *name;
    zn_arena *arena;
    zn_stack stack, marks, memo; /* values; stack heights; values or NULL */
    size_t blocks;               /* allocations in the arena */
} zn_unpickler;

/* Runs one opcode whose byte has been read. */
typedef zn_status (*zn_opcode)(zn_unpickler *, int);
extern const zn_opcode zn_opcodes[256]; /* NULL where there is no such opcode */
ZN_MUST_USE zn_status zn_opcode_global(zn_unpickler *m, int op);
ZN_MUST_USE zn_status zn_opcode_call(zn_unpickler *m, int op);
ZN_MUST_USE zn_status zn_opcode_build(zn_unpickler *m, int op);
ZN_MUST_USE zn_status zn_opcode_persistent(zn_unpickler *m, int op);

extern const zn_pickle zn_pickle_opaque;

zn_status zn_unpickler_broken(const zn_unpickler *m, const char *what);
ZN_MUST_USE zn_status zn_unpickler_grow(const zn_unpickler *m, zn_stack *s, size_t count, size_t size);
ZN_MUST_USE zn_status zn_unpickler_alloc(zn_unpickler *m, size_t bytes, void **out);

ZN_MUST_USE zn_status zn_unpickler_take(zn_unpickler *m, size_t count, const uint8_t **bytes);
/* A length of 1, 4 or 8 bytes, then that many bytes. */
ZN_MUST_USE zn_status zn_unpickler_take_counted(zn_unpickler *m, size_t width, const uint8_t **bytes, size_t *count);
/* Bytes up to a newline, which is skipped. */
ZN_MUST_USE zn_status zn_unpickler_take_line(zn_unpickler *m, const char **text, uint32_t *count);

size_t zn_unpickler_floor(const zn_unpickler *m); /* height of the last mark: nothing below it may be taken */
ZN_MUST_USE zn_status zn_unpickler_push(zn_unpickler *m, const zn_pickle *value);
ZN_MUST_USE zn_status zn_unpickler_new(zn_unpickler *m, zn_pickle_kind kind, zn_pickle **value);
ZN_MUST_USE zn_status zn_unpickler_push_new(zn_unpickler *m, zn_pickle_kind kind, zn_pickle **value);
ZN_MUST_USE zn_status zn_unpickler_pop(zn_unpickler *m, const zn_pickle **value);
/* The topmost `count` values, or with pop_mark all above the last mark; readable until the next push. */
ZN_MUST_USE zn_status zn_unpickler_pop_many(zn_unpickler *m, size_t count, const zn_pickle ***values);
ZN_MUST_USE zn_status zn_unpickler_pop_mark(zn_unpickler *m, const zn_pickle ***values, size_t *count);
ZN_MUST_USE zn_status zn_unpickler_top(zn_unpickler *m, zn_pickle **value);

#endif

/* Reads a Python pickle as data. Nothing is imported, constructed or called: a pickle is a program for a stack machine,
 * and this machine knows only how to push constants and fill lists, tuples and dictionaries. Calls of the few functions
 * that make tensors are recorded (ZN_PICKLE_TENSOR); every other object becomes one opaque value.
 *
 *     zn_arena arena = { 0 };
 *     const zn_pickle *root;
 *     ZN_TRY(zn_pickle_read(&arena, bytes, size, "model.pth", &root));
 *
 * Values form a graph: the same list may be reached on many ways, or contain itself. Walkers must count steps. */
#ifndef ZN_PICKLE_H
#define ZN_PICKLE_H

#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <zenith/weights.h>

typedef enum zn_pickle_kind {
    ZN_PICKLE_OPAQUE,  /* anything not listed here; origin: the class or function it came from, or NULL */
    ZN_PICKLE_NONE,    /* None */
    ZN_PICKLE_BOOL,    /* integer */
    ZN_PICKLE_INT,     /* integer; those beyond 64 bits are opaque */
    ZN_PICKLE_TEXT,    /* text, count bytes; a str, or the 8-bit string of Python 2 */
    ZN_PICKLE_TUPLE,   /* items, count */
    ZN_PICKLE_LIST,    /* chunks of one value for each item */
    ZN_PICKLE_DICT,    /* chunks of two values for each item: key, value */
    ZN_PICKLE_GLOBAL,  /* text, count: module; name, name_count; role says what it means to us */
    ZN_PICKLE_STORAGE, /* arguments: the tuple ("storage", class, key, device, elements) */
    ZN_PICKLE_TENSOR   /* origin: the function that would make it; arguments: its tuple */
} zn_pickle_kind;

/* What a global of the allow-list means. */
typedef enum zn_pickle_role {
    ZN_ROLE_NONE,          /* not on the list */
    ZN_ROLE_DICT,          /* a dictionary class */
    ZN_ROLE_SIZE,          /* torch.Size */
    ZN_ROLE_TENSOR,        /* (storage, offset, shape, strides, ..., [metadata]) */
    ZN_ROLE_TENSOR_DTYPE,  /* (untyped storage, offset, shape, strides, grad, hooks, dtype, [metadata]) */
    ZN_ROLE_PARAMETER,     /* (tensor, ...) */
    ZN_ROLE_SUBCLASS,      /* (function, class, its arguments, state) */
    ZN_ROLE_OTHER_TENSOR,  /* makes a tensor in a way that is not supported */
    ZN_ROLE_STORAGE,       /* a storage class; dtype */
    ZN_ROLE_UNTYPED,       /* a storage class of bytes */
    ZN_ROLE_OTHER_STORAGE, /* a storage class of a dtype that is not supported */
    ZN_ROLE_DTYPE          /* dtype */
} zn_pickle_role;

typedef struct zn_pickle zn_pickle;

typedef struct zn_pickle_chunk {
    struct zn_pickle_chunk *next;
    const zn_pickle *pairs; /* if not NULL, a list or tuple of (key, value) instead of values */
    size_t count;           /* values */
    const zn_pickle *values[];
} zn_pickle_chunk;

struct zn_pickle {
    uint8_t kind, role, dtype;
    uint32_t count, name_count;
    union {
        int64_t integer;
        const char *text; /* borrowed from the pickle, not NUL-terminated */
        const zn_pickle *const *items;
        zn_pickle_chunk *first;
        const zn_pickle *origin;
    } a;
    union {
        const char *name;
        zn_pickle_chunk *last;
        const zn_pickle *arguments;
    } b;
};

/* Protocols 2 to 5. The values live in the arena and point into bytes; memory is bounded by a multiple of size. */
ZN_MUST_USE zn_status zn_pickle_read(zn_arena *arena, const uint8_t *bytes, size_t size, const char *name,
                                     const zn_pickle **root);

/* Item of a tuple or list; NULL if the value is neither or is shorter. Cheap for small indices only. */
const zn_pickle *zn_pickle_item(const zn_pickle *value, size_t index);

/* Looks up module.name in the allow-list and sets role and dtype. */
void zn_pickle_classify(zn_pickle *global);

/* "module.name" of a global, of the origin of a value, or "an unknown object". */
void zn_pickle_describe(const zn_pickle *value, char *text, size_t size);

#endif

/* Strict JSON (RFC 8259): UTF-8 is checked, nothing may follow the value, and nesting is limited to 64 levels.
 *
 *     zn_json doc;
 *     ZN_TRY(zn_json_parse(&doc, bytes, size, "config.json"));
 *     const zn_json_node *shape = zn_json_get(doc.root, "shape");
 *     ZN_JSON_EACH(side, shape)
 *         ok &= zn_json_u64(side, &sides[n++]);
 *     zn_json_free(&doc);
 *
 * A document is one array of nodes in document order. The first child of a node is the next node in the array. The
 * children of an object are its keys, each followed by its value. */
#ifndef ZN_JSON_H
#define ZN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

typedef enum zn_json_kind {
    ZN_JSON_NULL,
    ZN_JSON_BOOL,
    ZN_JSON_NUMBER,
    ZN_JSON_STRING,
    ZN_JSON_ARRAY,
    ZN_JSON_OBJECT
} zn_json_kind;

typedef struct zn_json_node {
    union {
        const char *text;   /* a string: decoded and NUL-terminated; may also contain NULs */
        double real;        /* a number with a fraction, an exponent or more than 64 bits */
        uint64_t magnitude; /* an integer; 0 or 1 for a boolean */
    } value;
    uint32_t length; /* number of bytes in a string, elements in an array, pairs in an object */
    uint32_t span;   /* number of nodes in this value, including itself */
    uint8_t kind;    /* zn_json_kind */
    uint8_t integer, negative;
} zn_json_node;

typedef struct zn_json {
    const zn_json_node *root;
    zn_json_node *nodes;
    char *text;
} zn_json;

/* Uses at most 25 bytes of memory per input byte. Error messages contain `name` and the byte offset. */
ZN_MUST_USE zn_status zn_json_parse(zn_json *doc, const void *bytes, size_t size, const char *name);
void zn_json_free(zn_json *doc);

/* Iterates over the elements of an array or the keys of an object, in order. Other kinds and NULL have no children. */
#define ZN_JSON_EACH(child, container)                                                                                 \
    for (const zn_json_node *child = zn_json_first(container); child; child = zn_json_next(container, child))
const zn_json_node *zn_json_first(const zn_json_node *container);
const zn_json_node *zn_json_next(const zn_json_node *container, const zn_json_node *child);

/* The value of the first pair with this key; NULL if the key is missing or the node is not an object. */
const zn_json_node *zn_json_get(const zn_json_node *object, const char *key);

/* The text of a string; NULL for other kinds and for strings that contain NULs. */
const char *zn_json_string(const zn_json_node *node);
/* Returns true and the value if the node is a number that the type can hold: exactly (integers) or rounded to nearest
 * (double). */
bool zn_json_i64(const zn_json_node *node, int64_t *value);
bool zn_json_u64(const zn_json_node *node, uint64_t *value);
bool zn_json_double(const zn_json_node *node, double *value);
/* Sets *value to the value of a key if that is a number above 0 (for int also an integer below 2^30). Otherwise *value
 * is unchanged. */
void zn_json_update_int(const zn_json_node *object, const char *key, int *value);
void zn_json_update_double(const zn_json_node *object, const char *key, double *value);

/* Length of the UTF-8 sequence at p (1 to 4 bytes), or 0 if there is no valid sequence within n bytes. */
int zn_utf8_sequence(const uint8_t *p, size_t n);
bool zn_utf8_valid(const void *text, size_t size);

/* A growing output buffer. After the first failed allocation, `failed` is set and later calls do nothing. */
typedef struct zn_json_out {
    char *bytes;
    size_t size, capacity;
    bool failed;
} zn_json_out;

void zn_json_out_raw(zn_json_out *out, const char *text, size_t size);
__attribute__((format(printf, 2, 3))) void zn_json_out_format(zn_json_out *out, const char *format, ...);
/* Writes text quoted and escaped. Bytes that are not UTF-8 become U+FFFD. */
void zn_json_out_string(zn_json_out *out, const char *text);
/* Writes a value that was parsed, without spaces; strings up to a NUL. */
void zn_json_out_node(zn_json_out *out, const zn_json_node *node);
void zn_json_out_free(zn_json_out *out);

#endif

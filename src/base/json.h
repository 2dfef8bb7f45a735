/* JSON (RFC 8259), strict: UTF-8 is checked, nothing may follow the value, arrays and objects nest at most 64 deep.
 *
 *     zn_json doc;
 *     ZN_TRY(zn_json_parse(&doc, bytes, size, "config.json"));
 *     const zn_json_node *shape = zn_json_get(doc.root, "shape");
 *     ZN_JSON_EACH(side, shape)
 *         ok &= zn_json_u64(side, &sides[n++]);
 *     zn_json_free(&doc);
 *
 * A document is one array of nodes in reading order. A node's first child is the node after it; the children of an
 * object are its keys, each followed by its value. */
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
        const char *text;   /* of a string: decoded, NUL-terminated, may also hold NULs */
        double real;        /* of a number with fraction, exponent or more than 64 bits */
        uint64_t magnitude; /* of an integer; 0 or 1 of a boolean */
    } value;
    uint32_t length; /* bytes of a string, elements of an array, pairs of an object */
    uint32_t span;   /* nodes of this value, itself included */
    uint8_t kind;    /* zn_json_kind */
    uint8_t integer, negative;
} zn_json_node;

typedef struct zn_json {
    const zn_json_node *root;
    zn_json_node *nodes;
    char *text;
} zn_json;

/* Memory is at most 25 bytes for each byte of input. name goes into messages, which give the byte offset. */
ZN_MUST_USE zn_status zn_json_parse(zn_json *doc, const void *bytes, size_t size, const char *name);
void zn_json_free(zn_json *doc);

/* Elements of an array, or keys of an object, in order; nothing for other kinds and NULL. */
#define ZN_JSON_EACH(child, container)                                                                                 \
    for (const zn_json_node *child = zn_json_first(container); child; child = zn_json_next(container, child))
const zn_json_node *zn_json_first(const zn_json_node *container);
const zn_json_node *zn_json_next(const zn_json_node *container, const zn_json_node *child);

/* The value of the first pair with this key; NULL if there is none or the node is no object. */
const zn_json_node *zn_json_get(const zn_json_node *object, const char *key);

/* The text of a string without NULs in it, else NULL. */
const char *zn_json_string(const zn_json_node *node);
/* True and the value if the node is a number that fits exactly (integers) or nearest (double). */
bool zn_json_i64(const zn_json_node *node, int64_t *value);
bool zn_json_u64(const zn_json_node *node, uint64_t *value);
bool zn_json_double(const zn_json_node *node, double *value);
/* The value of a key, where it is a number above 0, a whole one below 2^30; else *value stays as it is. */
void zn_json_update_int(const zn_json_node *object, const char *key, int *value);
void zn_json_update_double(const zn_json_node *object, const char *key, double *value);

/* Bytes of the UTF-8 sequence at p (1 to 4), or 0 if there is none within n bytes. */
int zn_utf8_sequence(const uint8_t *p, size_t n);
bool zn_utf8_valid(const void *text, size_t size);

/* Output text that grows. The first failed allocation is remembered; later calls do nothing. */
typedef struct zn_json_out {
    char *bytes;
    size_t size, capacity;
    bool failed;
} zn_json_out;

void zn_json_out_raw(zn_json_out *out, const char *text, size_t size);
__attribute__((format(printf, 2, 3))) void zn_json_out_format(zn_json_out *out, const char *format, ...);
/* Quoted and escaped; bytes that are not UTF-8 become U+FFFD. */
void zn_json_out_string(zn_json_out *out, const char *text);
void zn_json_out_free(zn_json_out *out);

#endif

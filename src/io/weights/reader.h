/* What the readers of weight files share: the open file and how tensors are added to it.
 *
 * A reader recognises a file by its first bytes and adds every tensor with zn_weights_add. Adding a format: one file
 * with one zn_weights_reader, one line in the list in weights.c. */
#ifndef ZN_READER_H
#define ZN_READER_H

#include "base/arena.h"
#include "base/file.h"

#include <zenith/weights.h>

typedef struct zn_metadata {
    const char *key, *value;
} zn_metadata;

/* A value of a GGUF file's metadata as it lies there; of an array: u32 type, u64 count, elements. */
typedef struct zn_gguf_value {
    const char *key;
    uint32_t type;
    const uint8_t *bytes;
    size_t size;
} zn_gguf_value;

struct zn_weights {
    const char *format;
    const char *name; /* of the file, for messages */
    zn_map map;       /* zeroed when the bytes are the caller's */
    const uint8_t *bytes;
    size_t size;
    zn_weight *items; /* in file order */
    int64_t count;
    size_t capacity;
    const zn_weight **sorted; /* by name, for finding */
    zn_metadata *metadata;
    int64_t metadata_count;
    zn_gguf_value *values; /* all keys of a GGUF file, arrays too */
    int64_t value_count;
    zn_arena arena; /* names, metadata and tensors that had to be copied */
    char *text;     /* decoded strings of a JSON header, or NULL */
};

typedef struct zn_weights_reader {
    const char *format;
    bool (*probe)(const uint8_t *bytes, size_t size);
    zn_status (*read)(zn_weights *w); /* bytes, size and name are set; what it adds is freed by zn_weights_close */
} zn_weights_reader;

extern const zn_weights_reader zn_gguf_reader, zn_safetensors_reader, zn_pytorch_reader;

/* Appends a copy of the record; name and data must live as long as the file is open. */
ZN_MUST_USE zn_status zn_weights_add(zn_weights *w, const zn_weight *item);

/* Makes `sorted`, once all tensors are added; refuses names that occur twice. */
ZN_MUST_USE zn_status zn_weights_index(zn_weights *w);

/* The value of a key, or NULL: always NULL for files that are not GGUF. */
const zn_gguf_value *zn_gguf_find(const zn_weights *w, const char *key);
/* The elements of an array: their number, or 0 if there is no array of this element type. Strings are u64 length and
 * bytes, one after the other; all of them lie in the file. */
uint64_t zn_gguf_array(const zn_weights *w, const char *key, uint32_t type, const uint8_t **elements);
enum { ZN_GGUF_U32 = 4, ZN_GGUF_I32 = 5, ZN_GGUF_F32 = 6, ZN_GGUF_STRING = 8, ZN_GGUF_ARRAY = 9 };

/* The number that GGUF files have for a dtype, or -1. */
int zn_gguf_type(zn_dtype dtype);

/* All tensors in the order of their data, which must not overlap; data: where messages count from. zn_free the order.
 */
ZN_MUST_USE zn_status zn_weights_places(const zn_weights *w, const uint8_t *data, const zn_weight ***order);

#endif

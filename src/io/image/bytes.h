/* Bytes in memory: what a reader is given and what a writer makes.
 *
 *     zn_bytes out = { 0 };
 *     if (!zn_bytes_append(&out, chunk, size))
 *         ... out of memory ...
 *     zn_bytes_free(&out); */
#ifndef ZN_BYTES_H
#define ZN_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file's content, borrowed, and the name to use in messages. */
typedef struct zn_source {
    const uint8_t *bytes;
    size_t size;
    const char *name;
    int64_t *pixels; /* receives the number of pixels once the header is read; may be NULL */
} zn_source;

typedef struct zn_bytes {
    uint8_t *data;
    size_t size, capacity;
} zn_bytes;

/* Room for `extra` more bytes after size; false when memory runs out (the content stays). */
bool zn_bytes_reserve(zn_bytes *bytes, size_t extra);
bool zn_bytes_append(zn_bytes *bytes, const void *data, size_t size);
void zn_bytes_free(zn_bytes *bytes);

#endif

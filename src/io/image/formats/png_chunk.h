/* Chunks of a PNG file, for those who put files together themselves. */
#ifndef ZN_PNG_CHUNK_H
#define ZN_PNG_CHUNK_H

#include "io/image/bytes.h"

enum { ZN_PNG_SIGNATURE = 8, ZN_PNG_CHUNK = 12, ZN_PNG_IHDR = 13 }; /* bytes; of a chunk: all but its data */

static inline uint32_t zn_big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void zn_put_big32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Appends a chunk whose data is head and body; false for lack of memory. */
bool zn_png_add_chunk(zn_bytes *out, const char *name, const void *head, size_t head_size, const void *body,
                      size_t size);

#endif

/* Chunks of a WebP file, which is a RIFF container:
 *
 *     "RIFF" | size (4) | "WEBP" | { name (4) | size (4) | data, padded to even }... */
#ifndef ZN_RIFF_H
#define ZN_RIFF_H

#include "io/image/bytes.h"

#include <string.h>

enum { ZN_RIFF_HEAD = 12, ZN_RIFF_CHUNK = 8 };

static inline uint32_t zn_little32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* The data of the first chunk of that name; NULL if there is none. */
static inline const uint8_t *zn_riff_find(const zn_source *s, const char *name, size_t *size)
{
    size_t at = ZN_RIFF_HEAD;
    while (at <= s->size && s->size - at >= ZN_RIFF_CHUNK) {
        const size_t length = zn_little32(s->bytes + at + 4);
        if (length > s->size - at - ZN_RIFF_CHUNK)
            return NULL;
        if (!memcmp(s->bytes + at, name, 4)) {
            *size = length;
            return s->bytes + at + ZN_RIFF_CHUNK;
        }
        at += ZN_RIFF_CHUNK + length + length % 2;
    }
    return NULL;
}

#endif

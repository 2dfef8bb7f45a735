/* A growing run of bytes: encoders write into one, so that a file is only touched when its whole content is known. */
#include "io/image/bytes.h"

#include "base/alloc.h"

#include <string.h>

bool zn_bytes_reserve(zn_bytes *bytes, size_t extra)
{
    return extra <= SIZE_MAX - bytes->size && ZN_GROW(bytes->data, bytes->capacity, bytes->size + extra);
}

bool zn_bytes_append(zn_bytes *bytes, const void *data, size_t size)
{
    if (!zn_bytes_reserve(bytes, size))
        return false;
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return true;
}

void zn_bytes_free(zn_bytes *bytes)
{
    zn_free(bytes->data);
    *bytes = (zn_bytes){ 0 };
}

/* Packing, sending and taking out again. */
#include "train/ranks/parcel.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

void zn_parcel_put(zn_parcel *p, const void *bytes, size_t size)
{
    p->failed = p->failed || !ZN_GROW(p->bytes, p->capacity, p->size + size);
    if (p->failed)
        return;
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

void zn_parcel_put_bytes(zn_parcel *p, const void *bytes, size_t size)
{
    zn_parcel_put(p, &size, sizeof size);
    zn_parcel_put(p, bytes, size);
}

void zn_parcel_put_text(zn_parcel *p, const char *text) { zn_parcel_put_bytes(p, text, strlen(text) + 1); }

zn_status zn_parcel_gather(zn_parcel *p, zn_ranks *ranks)
{
    zn_parcel all = { 0 };
    size_t *sizes = zn_calloc((size_t)zn_ranks_count(ranks), sizeof *sizes);
    const bool failed = p->failed || !sizes;
    zn_status status =
        zn_ranks_agree(ranks, failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for results of a rank") : ZN_OK);
    if (status == ZN_OK)
        status = zn_ranks_gather(ranks, p->bytes ? p->bytes : "", p->size, (void **)&all.bytes, sizes);
    for (int i = 0; status == ZN_OK && all.bytes && i < zn_ranks_count(ranks); i++)
        all.size += sizes[i];
    zn_free(sizes);
    zn_parcel_free(p);
    *p = all;
    return status;
}

bool zn_parcel_take(zn_parcel *p, void *to, size_t size)
{
    if (size > p->size - p->at)
        return false;
    memcpy(to, p->bytes + p->at, size);
    p->at += size;
    return true;
}

const void *zn_parcel_take_bytes(zn_parcel *p, size_t *size)
{
    if (!zn_parcel_take(p, size, sizeof *size) || *size > p->size - p->at)
        return NULL;
    p->at += *size;
    return p->bytes + p->at - *size;
}

void zn_parcel_free(zn_parcel *p)
{
    zn_free(p->bytes);
    *p = (zn_parcel){ 0 };
}

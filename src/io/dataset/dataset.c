/* What all kinds of data sets share. */
#include "io/dataset/dataset.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

extern const zn_dataset_kind zn_dataset_folder, zn_dataset_lmdb;
static const zn_dataset_kind *const kinds[] = { &zn_dataset_lmdb, &zn_dataset_folder, NULL };

/* Fails because there are no images at the path, but perhaps videos. */
static zn_status complain_of_videos(const char *path, const char *otherwise)
{
    zn_dataset *films = NULL;
    bool any = zn_dataset_is_film(path);
    if (!any && zn_is_folder(path) && zn_dataset_list_films(path, &films) == ZN_OK)
        any = zn_dataset_count(films) > 0;
    zn_dataset_close(films);
    return any ? ZN_FAIL(ZN_ENOTFOUND,
                         "%s: videos, not images: make a data set of their clips with zenith dataset build --clips N "
                         "%s -o SET.lmdb",
                         path, path)
               : ZN_FAIL(ZN_ENOTFOUND, "%s: %s", path, otherwise);
}

zn_status zn_dataset_open(const char *path, zn_dataset **out)
{
    *out = NULL;
    int k = 0;
    while (kinds[k] && !kinds[k]->is_mine(path))
        k++;
    if (!kinds[k] && !zn_exists(path))
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no such folder or data set", path);
    if (!kinds[k])
        return complain_of_videos(path, "neither a folder of images nor an LMDB data set");
    zn_dataset *d = zn_calloc(1, sizeof *d);
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    d->kind = kinds[k];
    d->path = zn_strdup(path);
    zn_status status = d->path ? d->kind->open(path, d) : ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    if (status == ZN_OK && d->count == 0)
        status = complain_of_videos(path, "no images in it");
    if (status != ZN_OK) {
        zn_dataset_close(d);
        return status;
    }
    *out = d;
    return ZN_OK;
}

void zn_dataset_close(zn_dataset *d)
{
    if (!d)
        return;
    d->kind->close(d);
    for (int64_t i = 0; i < d->count; i++)
        zn_free(d->names[i]);
    zn_free(d->names);
    zn_free(d->path);
    zn_free(d);
}

zn_status zn_dataset_add(zn_dataset *d, const char *name)
{
    if (!ZN_GROW(d->names, d->capacity, d->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the names of %lld images", (long long)d->count + 1);
    d->names[d->count] = zn_strdup(name);
    if (!d->names[d->count])
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the name of an image");
    d->count++;
    return ZN_OK;
}

int64_t zn_dataset_count(const zn_dataset *d) { return d->count; }
int64_t zn_dataset_pixels(const zn_dataset *d, int64_t index) { return d->kind->pixels(d, index); }
int64_t zn_dataset_bytes(const zn_dataset *d) { return d->kind->bytes(d); }
const char *zn_dataset_name(const zn_dataset *d, int64_t index) { return d->names[index]; }

zn_status zn_dataset_read(const zn_dataset *d, int64_t index, zn_image **out)
{
    *out = NULL;
    if (index < 0 || index >= d->count)
        return ZN_FAIL(ZN_EINVALID, "%s: image %lld of %lld", d->path, (long long)index, (long long)d->count);
    return d->kind->read(d, index, out);
}

int zn_dataset_frames(const zn_dataset *d, int64_t index)
{
    const char *name = d->names[index], *number = strrchr(name, '#'), *at = strrchr(name, '@');
    if (!number || !at || at < number)
        return 1;
    const size_t digits = strspn(at + 1, "0123456789");
    if (!digits || digits > 4 || at[1 + digits])
        return 1;
    const int frames = (int)strtol(at + 1, NULL, 10);
    return frames > 0 ? frames : 1;
}

/* FNV-1a of the name up to '#', so that all crops of one picture fall on the same side. */
bool zn_dataset_held_out(const zn_dataset *d, int64_t index, int percent)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = d->names[index]; *c && *c != '#'; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    return (int)((hash ^ hash >> 32) % 100) < percent;
}

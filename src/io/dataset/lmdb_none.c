/* Stands in for lmdb.c in a build without LMDB. */
#include "io/dataset/dataset.h"

#include "base/fail.h"
#include "base/text.h"

static zn_status missing(const char *path) { return ZN_FAIL(ZN_EUNSUPPORTED, "%s: this build has no LMDB", path); }

static bool is_mine(const char *path) { return zn_ending(path, ".lmdb"); }

static zn_status open_lmdb(const char *path, zn_dataset *d)
{
    (void)d;
    return missing(path);
}

static zn_status read_record(const zn_dataset *d, int64_t index, zn_image **out)
{
    (void)index;
    (void)out;
    return missing(d->path);
}

static int64_t count_pixels(const zn_dataset *d, int64_t index)
{
    (void)d;
    (void)index;
    return 0;
}

static int64_t bytes_of(const zn_dataset *d)
{
    (void)d;
    return 0;
}

static void close_lmdb(zn_dataset *d) { (void)d; }

const zn_dataset_kind zn_dataset_lmdb = { "lmdb", is_mine, open_lmdb, read_record, count_pixels, bytes_of, close_lmdb };

zn_status zn_dataset_writer_open(const char *path, zn_dataset_writer **out)
{
    *out = NULL;
    return missing(path);
}

zn_status zn_dataset_writer_add(zn_dataset_writer *w, const char *name, const void *bytes, size_t size)
{
    (void)w;
    (void)bytes;
    (void)size;
    return missing(name);
}

zn_status zn_dataset_writer_commit(zn_dataset_writer *w, int64_t *bytes)
{
    (void)w;
    (void)bytes;
    return missing("data set");
}

void zn_dataset_writer_free(zn_dataset_writer *w) { (void)w; }

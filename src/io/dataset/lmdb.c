/* LMDB data sets: one file, memory-mapped, any number of readers. A record is
 *
 *     offset 0  "ZNI1"          4  width u32 LE    8  height u32 LE    12  bits u32 LE (8)    16  RGB samples
 *
 * under a key that is the record's name. The file is written beside its place and renamed when complete. */
#include "io/dataset/dataset.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <lmdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 16, MAX_SIDE = 1 << 16 };
static const size_t map_size = (size_t)1 << 40; /* address space, not memory */

static bool is_mine(const char *path)
{
    struct stat s;
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".lmdb") == 0 && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static zn_status lmdb_fail(const char *path, const char *what, int code)
{
    return ZN_FAIL(ZN_EIO, "%s: %s: %s", path, what, mdb_strerror(code));
}

static zn_status collect_names(const char *path, MDB_txn *txn, MDB_dbi db, zn_dataset *d)
{
    MDB_cursor *cursor;
    int code = mdb_cursor_open(txn, db, &cursor);
    if (code)
        return lmdb_fail(path, "cannot list", code);
    zn_status status = ZN_OK;
    MDB_val key, value;
    while (status == ZN_OK && (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        char name[512];
        snprintf(name, sizeof name, "%.*s", (int)key.mv_size, (const char *)key.mv_data);
        status = zn_dataset_add(d, name);
    }
    mdb_cursor_close(cursor);
    if (status == ZN_OK && code != MDB_NOTFOUND)
        status = lmdb_fail(path, "cannot list", code);
    return status;
}

static zn_status open_lmdb(const char *path, zn_dataset *d)
{
    MDB_env *env;
    MDB_txn *txn = NULL;
    MDB_dbi db;
    int code = mdb_env_create(&env);
    if (code)
        return lmdb_fail(path, "cannot open", code);
    d->state = env;
    mdb_env_set_mapsize(env, map_size);
    mdb_env_set_maxreaders(env, 512);
    code = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOTLS | MDB_NOLOCK, 0644);
    if (!code)
        code = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (!code)
        code = mdb_dbi_open(txn, NULL, 0, &db);
    zn_status status = code ? lmdb_fail(path, "cannot open", code) : collect_names(path, txn, db, d);
    if (txn)
        mdb_txn_abort(txn);
    return status;
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static zn_status decode(const zn_dataset *d, int64_t index, const MDB_val *value, zn_image **out)
{
    const uint8_t *p = value->mv_data;
    const uint32_t w = value->mv_size >= HEADER ? get32(p + 4) : 0, h = w ? get32(p + 8) : 0;
    if (!w || !h || w > MAX_SIDE || h > MAX_SIDE || memcmp(p, "ZNI1", 4) || get32(p + 12) != 8 ||
        value->mv_size != HEADER + (size_t)w * h * 3)
        return ZN_FAIL(ZN_EFORMAT, "%s: record '%s' is damaged", d->path, d->names[index]);
    ZN_TRY(zn_image_new((int)w, (int)h, 8, out));
    memcpy((*out)->pixels, p + HEADER, (size_t)w * h * 3);
    return ZN_OK;
}

static zn_status read_record(const zn_dataset *d, int64_t index, zn_image **out)
{
    MDB_txn *txn;
    MDB_dbi db;
    int code = mdb_txn_begin(d->state, NULL, MDB_RDONLY, &txn);
    if (code)
        return lmdb_fail(d->path, "cannot read", code);
    MDB_val key = { strlen(d->names[index]), d->names[index] }, value;
    code = mdb_dbi_open(txn, NULL, 0, &db);
    if (!code)
        code = mdb_get(txn, db, &key, &value);
    const zn_status status = code ? lmdb_fail(d->path, "cannot read", code) : decode(d, index, &value, out);
    mdb_txn_abort(txn);
    return status;
}

static void close_lmdb(zn_dataset *d)
{
    if (d->state)
        mdb_env_close(d->state);
}

const zn_dataset_kind zn_dataset_lmdb = { "lmdb", is_mine, open_lmdb, read_record, close_lmdb };

/* ---- writing ---- */

enum { COMMIT_EVERY = 256 }; /* records of one transaction: bounds the dirty pages */

struct zn_dataset_writer {
    char *path, *temporary;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi db;
    int pending;
};

static zn_status begin(zn_dataset_writer *w)
{
    int code = mdb_txn_begin(w->env, NULL, 0, &w->txn);
    if (!code)
        code = mdb_dbi_open(w->txn, NULL, 0, &w->db);
    return code ? lmdb_fail(w->path, "cannot write", code) : ZN_OK;
}

zn_status zn_dataset_writer_open(const char *path, zn_dataset_writer **out)
{
    zn_dataset_writer *w = zn_calloc(1, sizeof *w);
    *out = w;
    const size_t size = strlen(path) + 16;
    if (!w || !(w->path = zn_strdup(path)) || !(w->temporary = zn_alloc(size)))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    snprintf(w->temporary, size, "%s.part", path);
    unlink(w->temporary);
    int code = mdb_env_create(&w->env);
    if (code)
        return lmdb_fail(path, "cannot write", code);
    mdb_env_set_mapsize(w->env, map_size);
    code = mdb_env_open(w->env, w->temporary, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644);
    return code ? lmdb_fail(path, "cannot write", code) : begin(w);
}

zn_status zn_dataset_writer_add(zn_dataset_writer *w, const char *name, const zn_image *image)
{
    const size_t samples = (size_t)image->width * (size_t)image->height * 3;
    if (image->bits != 8)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: data sets hold 8-bit pictures", name);
    MDB_val key = { strlen(name), (void *)(uintptr_t)name }, value = { HEADER + samples, NULL };
    int code = mdb_put(w->txn, w->db, &key, &value, MDB_RESERVE);
    if (code)
        return lmdb_fail(w->path, "cannot write", code);
    uint8_t *p = value.mv_data;
    const uint32_t numbers[] = { (uint32_t)image->width, (uint32_t)image->height, 8 };
    memcpy(p, "ZNI1", 4);
    for (int i = 0; i < 12; i++)
        p[4 + i] = (uint8_t)(numbers[i / 4] >> 8 * (i % 4));
    memcpy(p + HEADER, image->pixels, samples);
    if (++w->pending < COMMIT_EVERY)
        return ZN_OK;
    w->pending = 0;
    code = mdb_txn_commit(w->txn);
    w->txn = NULL;
    return code ? lmdb_fail(w->path, "cannot write", code) : begin(w);
}

zn_status zn_dataset_writer_commit(zn_dataset_writer *w)
{
    int code = mdb_txn_commit(w->txn);
    w->txn = NULL;
    if (!code)
        code = mdb_env_sync(w->env, 1);
    if (code)
        return lmdb_fail(w->path, "cannot write", code);
    mdb_env_close(w->env);
    w->env = NULL;
    if (rename(w->temporary, w->path))
        return ZN_FAIL(ZN_EIO, "%s: cannot put the data set in place", w->path);
    zn_free(w->temporary);
    w->temporary = NULL;
    return ZN_OK;
}

void zn_dataset_writer_free(zn_dataset_writer *w)
{
    if (!w)
        return;
    if (w->txn)
        mdb_txn_abort(w->txn);
    if (w->env)
        mdb_env_close(w->env);
    if (w->temporary)
        unlink(w->temporary);
    zn_free(w->temporary);
    zn_free(w->path);
    zn_free(w);
}

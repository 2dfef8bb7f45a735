/* LMDB data sets: one file, memory-mapped, any number of readers. A record is an image file (PNG, JPEG, WebP) under a
 * key that is its name. LMDB believes what its pages say, so lmdb_check.c reads them first. */
#include "io/dataset/dataset.h"
#include "io/dataset/lmdb_use.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_mine(const char *path)
{
    struct stat s;
    return zn_ending(path, ".lmdb") && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

zn_status zn_lmdb_fail(const char *path, const char *what, int code)
{
    /* LMDB calls a write that was cut short an input/output error */
    return ZN_FAIL(ZN_EIO, "%s: %s: %s", path, what,
                   code == EIO ? "the disk is full or refuses to work" : mdb_strerror(code));
}

static zn_status check_file(const char *path)
{
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_status status = zn_lmdb_check(path, map.bytes, map.size);
    zn_map_close(&map);
    return status;
}

static zn_status collect_names(const char *path, MDB_txn *txn, MDB_dbi db, zn_dataset *d)
{
    MDB_cursor *cursor;
    int code = mdb_cursor_open(txn, db, &cursor);
    if (code)
        return zn_lmdb_fail(path, "cannot list", code);
    zn_status status = ZN_OK;
    MDB_val key, value;
    while (status == ZN_OK && (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        char name[512];
        snprintf(name, sizeof name, "%.*s", (int)key.mv_size, (const char *)key.mv_data);
        status = zn_dataset_add(d, name);
    }
    mdb_cursor_close(cursor);
    if (status == ZN_OK && code != MDB_NOTFOUND)
        status = zn_lmdb_fail(path, "cannot list", code);
    return status;
}

static zn_status open_lmdb(const char *path, zn_dataset *d)
{
    MDB_env *env;
    MDB_txn *txn = NULL;
    MDB_dbi db;
    ZN_TRY(check_file(path));
    int code = mdb_env_create(&env);
    if (code)
        return zn_lmdb_fail(path, "cannot open", code);
    d->state = env;
    mdb_env_set_mapsize(env, 1 << 20); /* LMDB raises it to what the file has */
    mdb_env_set_maxreaders(env, 512);
    code = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOTLS | MDB_NOLOCK, 0644);
    if (!code)
        code = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (!code)
        code = mdb_dbi_open(txn, NULL, 0, &db);
    zn_status status = code ? zn_lmdb_fail(path, "cannot open", code) : collect_names(path, txn, db, d);
    if (txn)
        mdb_txn_abort(txn);
    return status;
}

static zn_status decode(const zn_dataset *d, int64_t index, const MDB_val *value, zn_image **out)
{
    const zn_status status = zn_image_read_memory(value->mv_data, value->mv_size, NULL, out);
    if (status == ZN_OK)
        return ZN_OK;
    char text[512];
    snprintf(text, sizeof text, "%s", zn_error_text());
    return ZN_FAIL(status, "%s: record '%s': %s", d->path, d->names[index], text);
}

static zn_status read_record(const zn_dataset *d, int64_t index, zn_image **out)
{
    MDB_txn *txn;
    MDB_dbi db;
    int code = mdb_txn_begin(d->state, NULL, MDB_RDONLY, &txn);
    if (code)
        return zn_lmdb_fail(d->path, "cannot read", code);
    MDB_val key = { strlen(d->names[index]), d->names[index] }, value;
    code = mdb_dbi_open(txn, NULL, 0, &db);
    if (!code)
        code = mdb_get(txn, db, &key, &value);
    const zn_status status = code ? zn_lmdb_fail(d->path, "cannot read", code) : decode(d, index, &value, out);
    mdb_txn_abort(txn);
    return status;
}

static int64_t bytes_of(const zn_dataset *d)
{
    struct stat s;
    return stat(d->path, &s) == 0 ? (int64_t)s.st_size : 0;
}

static void close_lmdb(zn_dataset *d)
{
    if (d->state)
        mdb_env_close(d->state);
}

const zn_dataset_kind zn_dataset_lmdb = { "lmdb", is_mine, open_lmdb, read_record, bytes_of, close_lmdb };

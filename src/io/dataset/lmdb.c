/* LMDB data sets: one file, memory-mapped, any number of readers. A record is an image file (PNG, JPEG, WebP) under a
 * key that is its name. LMDB believes what its pages say, so lmdb_check.c reads them first.
 *
 * The folders of the original DiffAE (ffhq256.lmdb/data.mdb) are read as they are: keys "256-00042" with images, and
 * "length", which is none. Those of CelebA have keys "None-0000042" and whole aligned photos, of which the original
 * takes a square. */
#include "io/dataset/dataset.h"
#include "io/dataset/lmdb_use.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "io/image/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096 };
#define FILE_NAME  "data.mdb"
#define LENGTH_KEY "length"
#define WHOLE_KEYS "None-"

/* Of an aligned photo of CelebA, and of the square in it. */
enum { CELEBA_WIDTH = 178, CELEBA_HEIGHT = 218, CELEBA_LEFT = 25, CELEBA_TOP = 57, CELEBA_SIDE = 128 };

static bool is_name_of_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return zn_ending(path, ".lmdb") || strcmp(slash ? slash + 1 : path, FILE_NAME) == 0;
}

/* The file of a data set, which is the path itself (NAME.lmdb, data.mdb) or lies in the folder. */
static bool find_file(const char *path, char file[PATH_SIZE])
{
    struct stat s;
    snprintf(file, PATH_SIZE, "%s/" FILE_NAME, path);
    if (stat(file, &s) == 0 && S_ISREG(s.st_mode))
        return true;
    snprintf(file, PATH_SIZE, "%s", path);
    return is_name_of_file(path) && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static bool is_mine(const char *path)
{
    char file[PATH_SIZE];
    return find_file(path, file);
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
        if (strcmp(name, LENGTH_KEY))
            status = zn_dataset_add(d, name);
    }
    mdb_cursor_close(cursor);
    if (status == ZN_OK && code != MDB_NOTFOUND)
        status = zn_lmdb_fail(path, "cannot list", code);
    return status;
}

static zn_status open_lmdb(const char *given, zn_dataset *d)
{
    char path[PATH_SIZE];
    MDB_env *env;
    MDB_txn *txn = NULL;
    MDB_dbi db;
    find_file(given, path);
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

/* The square of a whole photo of CelebA; any other image stays as it is. */
static zn_status cut_square(const char *name, zn_image **image)
{
    const zn_image *whole = *image;
    if (strncmp(name, WHOLE_KEYS, strlen(WHOLE_KEYS)) || whole->width != CELEBA_WIDTH ||
        whole->height != CELEBA_HEIGHT || whole->bits != 8)
        return ZN_OK;
    zn_image *square;
    ZN_TRY(zn_image_new(CELEBA_SIDE, CELEBA_SIDE, 8, &square));
    for (size_t y = 0; y < CELEBA_SIDE; y++)
        memcpy((uint8_t *)square->pixels + y * CELEBA_SIDE * 3,
               (const uint8_t *)whole->pixels + ((CELEBA_TOP + y) * CELEBA_WIDTH + CELEBA_LEFT) * 3, CELEBA_SIDE * 3);
    square->grey = whole->grey;
    zn_image_free(*image);
    *image = square;
    return ZN_OK;
}

/* What is done with the bytes of a record. */
typedef zn_status use(const zn_dataset *d, int64_t index, const MDB_val *value, void *out);

static zn_status decode(const zn_dataset *d, int64_t index, const MDB_val *value, void *out)
{
    const zn_status status = zn_image_read_memory(value->mv_data, value->mv_size, NULL, out);
    if (status == ZN_OK)
        return cut_square(d->names[index], out);
    char text[512];
    snprintf(text, sizeof text, "%s", zn_error_text());
    return ZN_FAIL(status, "%s: record '%s': %s", d->path, d->names[index], text);
}

static zn_status count(const zn_dataset *d, int64_t index, const MDB_val *value, void *out)
{
    (void)d, (void)index;
    *(int64_t *)out = zn_count_pixels(value->mv_data, value->mv_size);
    return ZN_OK;
}

static zn_status use_record(const zn_dataset *d, int64_t index, use *call, void *out)
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
    const zn_status status = code ? zn_lmdb_fail(d->path, "cannot read", code) : call(d, index, &value, out);
    mdb_txn_abort(txn);
    return status;
}

static zn_status read_record(const zn_dataset *d, int64_t index, zn_image **out)
{
    return use_record(d, index, decode, out);
}

static int64_t count_pixels(const zn_dataset *d, int64_t index)
{
    int64_t pixels = 0;
    return use_record(d, index, count, &pixels) == ZN_OK ? pixels : 0;
}

static int64_t bytes_of(const zn_dataset *d)
{
    char file[PATH_SIZE];
    struct stat s;
    return find_file(d->path, file) && stat(file, &s) == 0 ? (int64_t)s.st_size : 0;
}

static void close_lmdb(zn_dataset *d)
{
    if (d->state)
        mdb_env_close(d->state);
}

const zn_dataset_kind zn_dataset_lmdb = { "lmdb", is_mine, open_lmdb, read_record, count_pixels, bytes_of, close_lmdb };

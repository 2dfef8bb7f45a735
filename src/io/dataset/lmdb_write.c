/* Writing LMDB data sets: beside the final place, renamed when complete. The file is locked meanwhile, so that a second
 * process with the same destination fails at once, and the file that a killed process left is reused. */
#include "io/dataset/dataset.h"
#include "io/dataset/lmdb_use.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMIT_EVERY = 256 }; /* records of one transaction: bounds the dirty pages */
enum { MOST_TRIES = 100 };   /* to lock the file */

struct zn_dataset_writer {
    char *path, *temporary;
    int lock; /* the temporary file, open and locked; -1: not ours */
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
    return code ? zn_lmdb_fail(w->path, "cannot write", code) : ZN_OK;
}

/* With as much address space (not memory) as the system gives: a file cannot outgrow it. */
static int open_env(zn_dataset_writer *w)
{
    int code = ENOMEM;
    for (size_t space = (size_t)1 << 40; code == ENOMEM && space >= (size_t)1 << 28; space /= 4) {
        code = mdb_env_create(&w->env);
        if (code)
            break;
        mdb_env_set_mapsize(w->env, space);
        code = mdb_env_open(w->env, w->temporary, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644);
        if (code) {
            mdb_env_close(w->env);
            w->env = NULL;
        }
    }
    return code;
}

/* Of two processes that open one file, the later may get the lock when the first has just put its set in place: then it
 * has locked that, and tries again. File systems without locks give no protection. */
static zn_status lock_temporary(zn_dataset_writer *w)
{
    struct stat ours, there;
    for (int tries = 0;; tries++) {
        w->lock = open(w->temporary, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (w->lock < 0)
            return zn_lmdb_fail(w->path, "cannot write", errno);
        const bool busy = flock(w->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
        if (!busy && !fstat(w->lock, &ours) && !stat(w->temporary, &there) && ours.st_ino == there.st_ino)
            return ftruncate(w->lock, 0) ? zn_lmdb_fail(w->path, "cannot write", errno) : ZN_OK;
        close(w->lock);
        w->lock = -1;
        if (busy || tries == MOST_TRIES)
            return ZN_FAIL(ZN_EIO, "%s: another process is writing it at this moment", w->path);
    }
}

zn_status zn_dataset_writer_open(const char *path, zn_dataset_writer **out)
{
    zn_dataset_writer *w = zn_calloc(1, sizeof *w);
    *out = w;
    const size_t size = strlen(path) + 16;
    if (w)
        w->lock = -1;
    if (!w || !(w->path = zn_strdup(path)) || !(w->temporary = zn_alloc(size)))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    snprintf(w->temporary, size, "%s.part", path);
    ZN_TRY(lock_temporary(w));
    const int code = open_env(w);
    return code ? zn_lmdb_fail(path, "cannot write", code) : begin(w);
}

zn_status zn_dataset_writer_add(zn_dataset_writer *w, const char *name, const void *bytes, size_t size)
{
    const size_t length = strlen(name), most = (size_t)mdb_env_get_maxkeysize(w->env);
    if (length == 0 || length > most)
        return ZN_FAIL(ZN_ELIMIT, "%s: names in a data set have at most %zu bytes", name, most);
    MDB_val key = { length, (void *)(uintptr_t)name }, value = { size, (void *)(uintptr_t)bytes };
    int code = mdb_put(w->txn, w->db, &key, &value, 0);
    if (code)
        return zn_lmdb_fail(w->path, "cannot write", code);
    if (++w->pending < COMMIT_EVERY)
        return ZN_OK;
    w->pending = 0;
    code = mdb_txn_commit(w->txn);
    w->txn = NULL;
    return code ? zn_lmdb_fail(w->path, "cannot write", code) : begin(w);
}

zn_status zn_dataset_writer_commit(zn_dataset_writer *w, int64_t *bytes)
{
    int code = mdb_txn_commit(w->txn);
    w->txn = NULL;
    if (!code)
        code = mdb_env_sync(w->env, 1);
    if (code)
        return zn_lmdb_fail(w->path, "cannot write", code);
    mdb_env_close(w->env);
    w->env = NULL;
    if (rename(w->temporary, w->path))
        return ZN_FAIL(ZN_EIO, "%s: cannot put the data set in place", w->path);
    zn_free(w->temporary);
    w->temporary = NULL;
    struct stat s;
    if (bytes)
        *bytes = stat(w->path, &s) == 0 ? (int64_t)s.st_size : 0;
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
    if (w->temporary && w->lock >= 0)
        unlink(w->temporary);
    if (w->lock >= 0)
        close(w->lock);
    zn_free(w->temporary);
    zn_free(w->path);
    zn_free(w);
}

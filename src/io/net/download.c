/* Fetching a file: PATH.part grows over any number of transfers; when it is complete and its hash is right, it gets its
 * name. */
#include "base/fail.h"
#include "base/file.h"
#include "base/sha1.h"
#include "io/net/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zenith/pull.h>
#include <zenith/weights.h>

enum { TRIES = 4, LOCK_TRIES = 8, LONGEST_PATH = 4096 };

typedef struct download {
    zn_download_options o;
    char part[LONGEST_PATH];
    FILE *file;
    bool ours;       /* the part: no other process fetches it */
    char stated[80]; /* "sha256:HEX" of the server; "" */
    int64_t resumed;
} download;

/* ---- hashes ---- */

/* What `git hash-object` prints. */
static zn_status git_blob(const char *path, char hex[65])
{
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    char head[32];
    const int n = snprintf(head, sizeof head, "blob %zu", map.size);
    zn_sha1 h;
    zn_sha1_start(&h);
    zn_sha1_add(&h, head, (size_t)n + 1); /* with its NUL */
    zn_sha1_add(&h, map.bytes, map.size);
    zn_sha1_finish_hex(&h, hex);
    zn_map_close(&map);
    return ZN_OK;
}

/* Compares a file with "sha256:HEX" or "git:HEX". `what` describes the file in the failure, which ends with `advice`.
 */
static zn_status check_file(const char *path, const char *check, const char *what, const char *advice)
{
    char hex[65];
    const bool git = strncmp(check, "git:", 4) == 0;
    if (!git && strncmp(check, "sha256:", 7))
        return ZN_FAIL(ZN_EINVALID, "%s: a check begins with sha256: or git:, not '%s'", path, check);
    const char *wanted = strchr(check, ':') + 1;
    ZN_TRY(git ? git_blob(path, hex) : zn_file_sha256(path, hex));
    if (strcasecmp(hex, wanted) == 0)
        return ZN_OK;
    return ZN_FAIL(ZN_EFORMAT, "%s is not the published file: its %s is %s, not %s; %s", what,
                   git ? "git blob" : "SHA-256", hex, wanted, advice);
}

/* ---- the part ---- */

static zn_status make_folder_of(const char *path)
{
    char folder[LONGEST_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return ZN_OK;
    *slash = 0;
    return zn_is_folder(folder) ? ZN_OK : zn_folder_make(folder);
}

static int64_t part_size(const download *d)
{
    struct stat s;
    return fflush(d->file) == 0 && fstat(fileno(d->file), &s) == 0 ? (int64_t)s.st_size : -1;
}

/* Another process may rename or remove the part between opening and locking it: the lock is then on that file, and the
 * part is opened again. File systems without locks give no protection. */
static zn_status lock_part(download *d)
{
    struct stat opened, named;
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        d->file = fopen(d->part, "ab");
        if (!d->file)
            return ZN_FAIL(ZN_EIO, "%s: cannot be written: %s", d->part, strerror(errno));
        if (flock(fileno(d->file), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            break;
        d->ours = fstat(fileno(d->file), &opened) == 0 && stat(d->part, &named) == 0 && opened.st_dev == named.st_dev &&
                  opened.st_ino == named.st_ino;
        if (d->ours)
            return ZN_OK;
        fclose(d->file);
        d->file = NULL;
    }
    return ZN_FAIL(ZN_EIO, "%s: another process is fetching it", d->part);
}

static zn_status open_part(download *d)
{
    if (snprintf(d->part, sizeof d->part, "%s.part", d->o.path) >= (int)sizeof d->part)
        return ZN_FAIL(ZN_EINVALID, "%s: the path is too long", d->o.path);
    ZN_TRY(make_folder_of(d->o.path));
    ZN_TRY(lock_part(d));
    d->resumed = part_size(d);
    return ZN_OK;
}

static zn_status cannot_write(const download *d, int error)
{
    return ZN_FAIL(ZN_EIO, "%s: cannot be written: %s; what was fetched is kept, and the next pull continues it",
                   d->part, strerror(error));
}

/* ---- transfers ---- */

static zn_status refused(const download *d, long code)
{
    const char *url = d->o.url;
    if (code == 404 || code == 410)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: the server has no such file (%ld)", url, code);
    if (code == 401 || code == 403)
        return ZN_FAIL(
            ZN_EIO, "%s: the server refuses access (%ld); accept the licence on the publisher's page, then %s", url,
            code, d->o.token ? "use a token that has access" : "use --token, or HF_TOKEN for huggingface.co");
    return ZN_FAIL(ZN_EIO, "%s: the server answered with status %ld", url, code);
}

static void pause_before_retry(void)
{
    const struct timespec second = { .tv_sec = 1 };
    nanosleep(&second, NULL);
}

/* One transfer. *again: it broke, or the part was no beginning of the file; try once more. */
static zn_status transfer_once(download *d, bool *again)
{
    zn_transfer t = { .url = d->o.url,
                      .token = d->o.token,
                      .file = d->file,
                      .offset = part_size(d),
                      .progress = d->o.progress,
                      .user = d->o.user };
    const int64_t asked = t.offset;
    const zn_status status = zn_transfer_run(&t);
    *again = t.broken || t.code >= 500;
    if (!t.offset)
        d->resumed = 0;
    if (t.sha256[0])
        snprintf(d->stated, sizeof d->stated, "sha256:%s", t.sha256);
    if (t.write_error)
        return cannot_write(d, t.write_error);
    if (fflush(d->file) != 0)
        return cannot_write(d, errno);
    if (status != ZN_OK)
        return status;
    const bool complete = t.code == 416 && asked && t.total == asked; /* no bytes are left */
    if (t.code == 416 && asked && !complete) {                        /* longer than the file: begin again */
        *again = ftruncate(fileno(d->file), 0) == 0;
        return ZN_FAIL(ZN_EIO, "%s: the part does not belong to the file at the server", d->part);
    }
    if (t.code >= 300 && !complete)
        return refused(d, t.code);
    const int64_t size = part_size(d);
    *again = t.total >= 0 && size != t.total;
    return *again ? ZN_FAIL(ZN_EIO, "%s: the server sent %lld of %lld bytes", d->o.url, (long long)size,
                            (long long)t.total)
                  : ZN_OK;
}

/* Transfers until the file is complete: a few times without any progress at most. */
static zn_status transfer_all(download *d)
{
    int64_t most = part_size(d);
    for (int tries = 0;;) {
        bool again = false;
        const zn_status status = transfer_once(d, &again);
        const int64_t size = part_size(d);
        if (status == ZN_OK || !again)
            return status;
        tries = size > most ? 0 : tries + 1;
        most = size > most ? size : most;
        if (tries == TRIES - 1)
            return status;
        if (d->o.progress && d->o.progress(d->o.user, 0))
            return ZN_FAIL(ZN_ECANCELLED, "%s: cancelled; the next pull continues it", d->o.url);
        pause_before_retry();
    }
}

/* Checks the complete part and gives it its name. */
static zn_status finish(download *d, zn_download_result *out)
{
    const char *check = d->o.check ? d->o.check : d->stated[0] ? d->stated : NULL;
    if (fsync(fileno(d->file)) != 0)
        return cannot_write(d, errno);
    *out = (zn_download_result){ .bytes = part_size(d), .resumed = d->resumed, .checked = check != NULL };
    const zn_status status =
        check ? check_file(d->part, check, d->o.url, "it was removed; try again, or another source") : ZN_OK;
    if (status == ZN_EFORMAT)
        unlink(d->part);
    if (status == ZN_OK && rename(d->part, d->o.path) != 0)
        return ZN_FAIL(ZN_EIO, "%s: cannot be written: %s", d->o.path, strerror(errno));
    return status;
}

static zn_status use_existing(const zn_download_options *o, zn_download_result *out)
{
    struct stat s;
    *out = (zn_download_result){ .existed = 1, .checked = o->check != NULL };
    if (stat(o->path, &s) == 0)
        out->bytes = s.st_size;
    return o->check ? check_file(o->path, o->check, o->path, "remove it, or fetch it again with --force") : ZN_OK;
}

zn_status zn_download(const zn_download_options *options, zn_download_result *out)
{
    download d = { .file = NULL };
    zn_download_result unused;
    out = out ? out : &unused;
    if (!options)
        return ZN_FAIL(ZN_EINVALID, "zn_download: options must not be NULL");
    memcpy(&d.o, options, options->size && options->size < sizeof d.o ? options->size : sizeof d.o);
    if (!d.o.url || !d.o.path || !*d.o.path)
        return ZN_FAIL(ZN_EINVALID, "zn_download: url and path must be given");
    if (strncasecmp(d.o.url, "http://", 7) && strncasecmp(d.o.url, "https://", 8))
        return ZN_FAIL(ZN_EINVALID, "%s: an address begins with https:// or http://", d.o.url);
    if (zn_exists(d.o.path) && !d.o.replace)
        return use_existing(&d.o, out);
    zn_status status = open_part(&d);
    if (status == ZN_OK)
        status = transfer_all(&d);
    if (status == ZN_OK)
        status = finish(&d, out);
    else if (d.ours && part_size(&d) == 0)
        unlink(d.part);
    if (d.file)
        fclose(d.file);
    return status;
}

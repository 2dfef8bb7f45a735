/* Mapped input and atomic output on POSIX. A reader of the target sees the old file or the new one, never a part of it:
 * the bytes go to a temporary file in the same folder, which is synced and then renamed. */
#define _XOPEN_SOURCE   700 /* realpath */
#define _DEFAULT_SOURCE     /* madvise */
#define _DARWIN_C_SOURCE
#include "base/file.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STREAM_CHUNK = 1 << 16, STREAM_LIMIT = 1 << 30, NAME_ROOM = 224 };

bool zn_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool zn_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool zn_is_regular(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static zn_status open_failed(const char *path, int error)
{
    if (error == ENOENT || error == ENOTDIR)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no such file", path);
    return ZN_FAIL(ZN_EIO, "cannot open %s: %s", path, strerror(error));
}

/* Pipes and devices have no size: reads to the end and doubles the buffer as needed. */
static zn_status read_stream(zn_map *map, int fd, const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0, capacity = 0;
    for (;;) {
        const bool full = size >= STREAM_LIMIT;
        if (size == capacity && (full || !ZN_GROW(bytes, capacity, size + STREAM_CHUNK))) {
            zn_free(bytes);
            return full ? ZN_FAIL(ZN_ELIMIT, "%s: not a regular file and longer than %d bytes", path, STREAM_LIMIT)
                        : ZN_FAIL(ZN_ENOMEM, "out of memory: %zu bytes for %s", size + STREAM_CHUNK, path);
        }
        const ssize_t n = read(fd, bytes + size, capacity - size);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR) {
            const int error = errno;
            zn_free(bytes);
            return ZN_FAIL(ZN_EIO, "cannot read %s: %s", path, strerror(error));
        }
        if (n > 0)
            size += (size_t)n;
    }
    *map = (zn_map){ bytes, size, true };
    return ZN_OK;
}

static zn_status map_descriptor(zn_map *map, int fd, const char *path)
{
    static const uint8_t nothing[1];
    struct stat s;
    if (fstat(fd, &s) != 0)
        return ZN_FAIL(ZN_EIO, "cannot examine %s: %s", path, strerror(errno));
    if (S_ISDIR(s.st_mode))
        return ZN_FAIL(ZN_EIO, "%s is a directory, not a file", path);
    if (!S_ISREG(s.st_mode))
        return read_stream(map, fd, path);
    if (s.st_size < 0 || (uint64_t)s.st_size > SIZE_MAX / 2)
        return ZN_FAIL(ZN_ELIMIT, "%s: too large to map", path);
    if (s.st_size == 0) {
        *map = (zn_map){ nothing, 0, 0 };
        return ZN_OK;
    }
    void *bytes = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return ZN_FAIL(errno == ENOMEM ? ZN_ENOMEM : ZN_EIO, "cannot map %s: %s", path, strerror(errno));
    *map = (zn_map){ bytes, (size_t)s.st_size, 0 };
    return ZN_OK;
}

zn_status zn_map_open(zn_map *map, const char *path)
{
    *map = (zn_map){ 0 };
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(path, errno);
    const zn_status status = map_descriptor(map, fd, path);
    close(fd);
    return status;
}

void zn_map_close(zn_map *map)
{
    if (map->copied)
        zn_free((void *)map->bytes);
    else if (map->size)
        munmap((void *)map->bytes, map->size);
    *map = (zn_map){ 0 };
}

/* advice for the whole pages of a range: with those that it shares with others if `shared`, else without. */
static void advise(const zn_map *map, const void *from, size_t bytes, bool shared, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), map_begin = (uintptr_t)map->bytes;
    uintptr_t begin = (uintptr_t)from, end = begin + bytes;
    if (map->copied || begin < map_begin || end > map_begin + map->size)
        return;
    begin = (begin + (shared ? 0 : page - 1)) / page * page;
    end = (end + (shared ? page - 1 : 0)) / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, advice);
}

void zn_map_expect(const zn_map *map, const void *from, size_t bytes) { advise(map, from, bytes, true, MADV_WILLNEED); }

void zn_map_release(const zn_map *map, const void *from, size_t bytes)
{
    advise(map, from, bytes, false, MADV_DONTNEED);
}

/* The file to write: the target of a symbolic link, or the path itself. */
static char *resolve(const char *path)
{
    struct stat s;
    char target[PATH_MAX];
    if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode) && realpath(path, target))
        return zn_strdup(target);
    return zn_strdup(path);
}

/* out->path with ".tmp-XXXX" appended, shortened if the file system's limit on names requires it. */
static char *temporary_name(const char *path, unsigned long salt)
{
    const char *slash = strrchr(path, '/');
    const size_t folder = slash ? (size_t)(slash - path) + 1 : 0, base = strlen(path) - folder;
    const size_t kept = folder + (base < NAME_ROOM ? base : NAME_ROOM), capacity = kept + 32;
    char *name = zn_alloc(capacity);
    if (name)
        snprintf(name, capacity, "%.*s.tmp-%08lx", (int)kept, path, salt & 0xffffffffUL);
    return name;
}

static zn_status open_temporary(zn_outfile *out, const struct stat *old)
{
    static _Atomic unsigned long counter;
    for (int attempt = 0; attempt < 100; attempt++) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        const unsigned long salt =
            (unsigned long)getpid() * 2654435761UL + (unsigned long)t.tv_nsec + atomic_fetch_add(&counter, 1) * 40503UL;
        zn_free(out->temporary);
        out->temporary = temporary_name(out->path, salt);
        if (!out->temporary)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the name of %s", out->path);
        const int fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        int error = errno;
        if (fd >= 0 && (!old || fchmod(fd, old->st_mode & 07777) == 0) && (out->stream = fdopen(fd, "wb")) != NULL)
            return ZN_OK;
        if (fd >= 0) {
            error = errno;
            close(fd);
            unlink(out->temporary);
        }
        return ZN_FAIL(ZN_EIO, "cannot write %s: %s", out->path, strerror(error));
    }
    return ZN_FAIL(ZN_EIO, "cannot write %s: no free name for a temporary file beside it", out->path);
}

/* True for a path that names an open file, which may be a regular file. */
static bool is_descriptor(const char *path)
{
    return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

static zn_status open_output(zn_outfile *out, const char *path)
{
    struct stat s;
    out->path = resolve(path);
    if (!out->path)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the name of %s", path);
    const int exists = stat(path, &s) == 0;
    if (exists && S_ISDIR(s.st_mode))
        return ZN_FAIL(ZN_EIO, "cannot write %s: it is a directory", path);
    if (exists && access(path, W_OK) != 0)
        return ZN_FAIL(ZN_EIO, "cannot write %s: %s", path, strerror(errno));
    if ((exists && !S_ISREG(s.st_mode)) || is_descriptor(path)) {
        out->stream = fopen(path, "ab"); /* a descriptor may be a file that the shell appends to */
        return out->stream ? ZN_OK : ZN_FAIL(ZN_EIO, "cannot write %s: %s", path, strerror(errno));
    }
    return open_temporary(out, exists ? &s : NULL);
}

zn_status zn_outfile_open(zn_outfile *out, const char *path)
{
    *out = (zn_outfile){ 0 };
    if (strcmp(path, "-") == 0 || !*path)
        return ZN_FAIL(ZN_EINVALID, "'%s' is not a file name; /dev/stdout writes to the standard output", path);
    const zn_status status = open_output(out, path);
    if (status != ZN_OK) {
        zn_free(out->path);
        zn_free(out->temporary);
        *out = (zn_outfile){ 0 };
    }
    return status;
}

void zn_outfile_write(zn_outfile *out, const void *bytes, size_t size)
{
    if (out->failed || size == 0)
        return;
    errno = 0;
    if (fwrite(bytes, 1, size, out->stream) != size)
        out->failed = errno ? errno : EIO;
}

static void note(zn_outfile *out, int succeeded)
{
    if (!succeeded && !out->failed)
        out->failed = errno ? errno : EIO;
}

zn_status zn_outfile_commit(zn_outfile *out)
{
    errno = 0;
    note(out, out->failed || fflush(out->stream) == 0);
    if (out->temporary)
        note(out, out->failed || fsync(fileno(out->stream)) == 0);
    note(out, fclose(out->stream) == 0);
    out->stream = NULL;
    if (out->temporary)
        note(out, out->failed || rename(out->temporary, out->path) == 0);
    zn_status status = ZN_OK;
    if (out->failed) {
        status = ZN_FAIL(ZN_EIO, "cannot write %s: %s", out->path, strerror(out->failed));
        if (out->temporary)
            unlink(out->temporary);
    }
    zn_free(out->path);
    zn_free(out->temporary);
    *out = (zn_outfile){ 0 };
    return status;
}

void zn_outfile_abandon(zn_outfile *out)
{
    if (out->stream)
        fclose(out->stream);
    if (out->stream && out->temporary)
        unlink(out->temporary);
    zn_free(out->path);
    zn_free(out->temporary);
    *out = (zn_outfile){ 0 };
}

bool zn_is_temporary(const char *name)
{
    const size_t length = strlen(name);
    return length > 13 && !memcmp(name + length - 13, ".tmp-", 5) && strspn(name + length - 8, "0123456789abcdef") == 8;
}

void zn_remove_temporaries(const char *folder)
{
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d));)
        if (zn_is_temporary(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

zn_status zn_folder_make(const char *path)
{
    char *part = zn_strdup(path);
    if (!part)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the name of %s", path);
    for (char *slash = part; *slash && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = 0;
        mkdir(part, 0777); /* errors are ignored here: if a parent is missing, creating the last folder fails */
        *slash = '/';
    }
    int error = mkdir(part, 0777) ? errno : 0;
    zn_free(part);
    if (error == EEXIST)
        error = zn_is_folder(path) ? 0 : ENOTDIR;
    return error ? ZN_FAIL(ZN_EIO, "cannot make the folder %s: %s", path, strerror(error)) : ZN_OK;
}

zn_status zn_file_write(const char *path, const void *bytes, size_t size)
{
    zn_outfile out;
    ZN_TRY(zn_outfile_open(&out, path));
    zn_outfile_write(&out, bytes, size);
    return zn_outfile_commit(&out);
}

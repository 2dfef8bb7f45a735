/* Files: input is memory-mapped, output is written atomically.
 *
 *     zn_map map;
 *     ZN_TRY(zn_map_open(&map, path));
 *     ... map.bytes, map.size ...
 *     zn_map_close(&map);
 *
 *     zn_outfile out;
 *     ZN_TRY(zn_outfile_open(&out, path));           // PATH.tmp-XXXX beside it
 *     zn_outfile_write(&out, bytes, size);           // remembers the first failure
 *     ZN_TRY(zn_outfile_commit(&out));               // flush, sync, rename; on failure removes the temporary */
#ifndef ZN_FILE_H
#define ZN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zenith/status.h>

typedef struct zn_map {
    const uint8_t *bytes; /* never NULL while open, even for an empty file */
    size_t size;
    bool copied; /* the bytes come from a pipe or device and are on the heap */
} zn_map;

/* Returns ZN_ENOTFOUND if the file does not exist, ZN_EIO if it cannot be read or is a directory, ZN_ELIMIT if a pipe
 * or device delivers more than 1 GiB. The file must not shrink while it is mapped. */
ZN_MUST_USE zn_status zn_map_open(zn_map *map, const char *path);
void zn_map_close(zn_map *map); /* harmless on a zeroed or closed map */
/* Tells the system that bytes of a mapped file will be needed soon, or are not needed for now: it then reads them, or
 * takes their memory back and reads them again when they are used. Bytes outside the map and copied ones are left
 * alone. */
void zn_map_expect(const zn_map *map, const void *from, size_t bytes);
void zn_map_release(const zn_map *map, const void *from, size_t bytes);

typedef struct zn_outfile {
    FILE *stream;           /* NULL after a failed open, a commit or an abandon */
    char *path, *temporary; /* temporary is NULL when the path is written directly */
    int failed;             /* errno of the first failed write */
} zn_outfile;

/* Writes directly to special files (a pipe, /dev/full) and to names of open files (/dev/stdout, /dev/fd/3). Follows
 * symbolic links. A file that replaces another one keeps its permissions. After a failure, zn_outfile_abandon is not
 * needed. */
ZN_MUST_USE zn_status zn_outfile_open(zn_outfile *out, const char *path);
void zn_outfile_write(zn_outfile *out, const void *bytes, size_t size);
ZN_MUST_USE zn_status zn_outfile_commit(zn_outfile *out);
void zn_outfile_abandon(zn_outfile *out); /* removes the temporary; harmless after commit */

/* zn_is_temporary: is this the name of a temporary file of zn_outfile? zn_remove_temporaries deletes those that killed
 * processes left in a folder. No other process may be writing to that folder. */
bool zn_is_temporary(const char *name);
void zn_remove_temporaries(const char *folder);

bool zn_exists(const char *path);
bool zn_is_folder(const char *path);
bool zn_is_regular(const char *path); /* not a folder, pipe or device */

/* Creates a folder and its missing parents. */
ZN_MUST_USE zn_status zn_folder_make(const char *path);

/* Writes a whole file from memory. */
ZN_MUST_USE zn_status zn_file_write(const char *path, const void *bytes, size_t size);

#endif

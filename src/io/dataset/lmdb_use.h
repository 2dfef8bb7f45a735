/* What reading and writing LMDB files share. */
#ifndef ZN_LMDB_USE_H
#define ZN_LMDB_USE_H

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

/* "PATH: WHAT: reason" */
zn_status zn_lmdb_fail(const char *path, const char *what, int code);

/* Refuses a file, whole in memory, whose structure LMDB could not follow safely, or some of whose records it would not
 * find. What it accepts has names of 1 to 511 bytes, none of them zero. */
ZN_MUST_USE zn_status zn_lmdb_check(const char *path, const uint8_t *bytes, size_t size);

#endif

/* What reading and writing LMDB files share. */
#ifndef ZN_LMDB_USE_H
#define ZN_LMDB_USE_H

#include <lmdb.h>
#include <zenith/status.h>

/* "PATH: WHAT: reason" */
zn_status zn_lmdb_fail(const char *path, const char *what, int code);

#endif

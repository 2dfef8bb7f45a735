/* One request over HTTP, the body appended to a file. curl.c implements it with libcurl; transfer_none.c is for builds
 * without. */
#ifndef ZN_TRANSFER_H
#define ZN_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <zenith/status.h>

typedef struct zn_transfer {
    const char *url;
    const char *token; /* for the host of the url only; NULL: none */
    FILE *file;        /* at its end */
    int64_t offset;    /* bytes that it has: only those after them are asked for */
    zn_progress_fn progress;
    void *user;

    /* Results */
    long code;       /* HTTP status; 0: there was no answer */
    int64_t total;   /* size of the file at the server; -1: not stated */
    char sha256[65]; /* that the server states; "" */
    int write_error; /* errno of a write that failed */
    bool broken;     /* the connection failed: worth another try */
    char why[256];   /* text of a failure */
} zn_transfer;

/* ZN_OK: there was an answer, and its body is complete; code may be that of an error, whose body is not written. If the
 * server sends the file from its start, the file is emptied first and offset set to 0. */
ZN_MUST_USE zn_status zn_transfer_run(zn_transfer *transfer);

#endif

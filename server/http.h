/* HTTP: the only file that knows libmicrohttpd is http.c. It reads whole requests, asks `handle` for an answer and
 * sends it. All handlers run on one thread and must return at once: long work happens elsewhere, and an answer that is
 * not there yet parks its connection until sv_http_wake.
 *
 *     static void handle(const sv_request *r, sv_answer *a) { sv_answer_text(a, 200, "text/plain", "hello\n"); }
 *     sv_http *h = sv_http_start(&(sv_http_settings){ .address = "127.0.0.1", .port = 8188, .handle = handle }, why);
 *     ...
 *     sv_http_stop(h); */
#ifndef ZN_SERVER_HTTP_H
#define ZN_SERVER_HTTP_H

#include <stddef.h>
#include <stdint.h>

/* SV_BEAT_MS: how often an answer that is not there yet is asked again without a wake. */
enum { SV_MOST_ARGUMENTS = 3, SV_MOST_HEADERS = 6, SV_BEAT_MS = 15000 };

typedef struct sv_exchange sv_exchange; /* a request with its connection; for sv_http_wake */

typedef struct sv_request {
    const char *method, *path;               /* path: percent-decoded, without the query */
    const char *body;                        /* NUL-terminated; may contain NULs; valid until `handle` returns */
    size_t size;                             /* of the body */
    char address[64];                        /* of the client */
    const char *argument[SV_MOST_ARGUMENTS]; /* what the stars of the route's pattern stand for */
    void *user;                              /* of the settings */
    sv_exchange *exchange;
} sv_request;

/* NULL if there is none. Valid as long as the request. */
const char *sv_header(const sv_request *r, const char *name);
const char *sv_query(const sv_request *r, const char *name);

/* Either whole (bytes), a file (fd), a stream (pull), or not known yet (ready). */
typedef struct sv_answer {
    int status;
    const char *type; /* media type; a constant */
    char *bytes;      /* owned, unless lasting */
    size_t size;
    int lasting; /* bytes are constant data of the program */
    int fd;      /* owned; 0: no file */
    /* Fills up to `most` bytes. 0: nothing yet, sv_http_wake will come; -1: the end. */
    long (*pull)(void *self, char *bytes, size_t most);
    /* Fills the answer and returns 1, or returns 0: not yet, sv_http_wake will come. */
    int (*ready)(void *self, struct sv_answer *a);
    void (*release)(void *self); /* called once when the exchange ends, however it ends; for pull and ready */
    void *self;
    struct {
        const char *name; /* a constant */
        char value[200];
    } headers[SV_MOST_HEADERS];
    int header_count;
} sv_answer;

typedef struct sv_http_settings {
    const char *address;
    int port;          /* 0: any free one */
    size_t most_bytes; /* of a body */
    int most_connections;
    /* Before the body is read: returns non-zero after filling the answer of a request that is refused. */
    int (*refuse)(const sv_request *r, sv_answer *a);
    void (*handle)(const sv_request *r, sv_answer *a);
    void (*finished)(void *user, int status, size_t received); /* for counters; may be NULL */
    void *user;
} sv_http_settings;

typedef struct sv_http sv_http;
/* NULL after writing one sentence to why. */
sv_http *sv_http_start(const sv_http_settings *settings, char why[256]);
int sv_http_port(const sv_http *http);
/* Closes all connections, also parked ones. */
void sv_http_stop(sv_http *http);

/* The answer of this exchange may have something new. From any thread, until its release was called. */
void sv_http_wake(sv_exchange *e);

/* Open connections, and requests whose answers are not sent yet. */
int sv_http_connections(sv_http *http);
int sv_http_busy(sv_http *http);

#endif

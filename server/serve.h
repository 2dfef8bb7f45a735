/* zenith serve: its settings, and the call that serves until the process is asked to stop. */
#ifndef ZN_SERVER_SERVE_H
#define ZN_SERVER_SERVE_H

#include <stddef.h>
#include <stdint.h>

enum { SV_MOST_NAMES = 32 };

/* Strings must outlive the call. */
typedef struct serve_settings {
    const char *address;                    /* to listen on: an IP address or localhost */
    int port;                               /* 0: any free one */
    const char *key;                        /* NULL: none is needed */
    int insecure;                           /* other addresses than loopback without a key */
    const char *origins[SV_MOST_NAMES + 1]; /* other web pages that may use the server; "*": all */
    const char *hosts[SV_MOST_NAMES + 1];   /* names under which it is reached, besides localhost and addresses */
    const char *data[SV_MOST_NAMES + 1];    /* folders of images for training */
    const char *runs;                       /* folder of training runs */
    const char *instance;                   /* begins the ids of jobs; NULL: random */
    const char *device;                     /* as in zn_options */
    int threads;
    size_t memory;            /* budget of the process for models and work; 0: half of the free memory */
    int workers;              /* jobs that run at a time */
    const char *queue_server; /* redis://...: jobs run on workers, which take them from there; NULL: here */
    int worker;               /* be such a worker, without HTTP */
    int queue;                /* jobs that may wait */
    int per_client;           /* of them, of one client */
    int keep_minutes, grace_seconds, job_seconds; /* job_seconds 0: no limit */
    size_t most_bytes;                            /* of a request */
    int64_t most_pixels;                          /* of an image */
    int connections;                              /* at a time */
    int quiet;
} serve_settings;

/* Serves until SIGINT or SIGTERM. Returns an exit status after reporting errors. */
int serve(const serve_settings *settings);

#endif

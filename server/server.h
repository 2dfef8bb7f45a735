/* What all parts of the server share. */
#ifndef ZN_SERVER_SERVER_H
#define ZN_SERVER_SERVER_H

#include "server/answer.h"
#include "server/http.h"
#include "server/jobs.h"
#include "server/serve.h"

#include <stdatomic.h>

typedef struct sv_models sv_models;
typedef struct sv_runs sv_runs;
typedef struct sv_remote sv_remote;

typedef struct sv_server {
    const serve_settings *settings;
    char spool[256];   /* folder of the jobs' files */
    char instance[24]; /* begins the ids of jobs */
    zn_context *context;
    sv_http *http;
    sv_jobs *jobs;
    sv_models *models;
    sv_runs *runs;
    sv_remote *remote;        /* where jobs run; NULL: here */
    struct sv_worker *worker; /* of a queue server; NULL: this is a server */
    double started;           /* seconds since 1970 */
    atomic_llong requests[6]; /* by the first digit of the status */
    atomic_llong received;    /* bytes */
} sv_server;

static inline sv_server *sv_server_of(const sv_request *r) { return r->user; }

double sv_now(void); /* seconds since 1970 */

/* Who asks, for fair turns: the address, and X-Zenith-Client if it is given. */
void sv_client_of(const sv_request *r, char client[128]);

/* A route: one line in the table of routes.c. A star in the pattern is one part of a path. */
typedef struct sv_route {
    const char *method, *pattern;
    void (*handle)(const sv_request *r, sv_answer *a);
} sv_route;
void sv_route_request(const sv_request *r, sv_answer *a);

/* Non-zero after filling the answer: Host, Origin or key is wrong (guard.c). */
int sv_guard(const sv_request *r, sv_answer *a);
/* Adds the headers that every answer has. */
void sv_guard_headers(const sv_request *r, sv_answer *a);

/* Parses the body; 0 after answering with an error. */
int sv_take_form(const sv_request *r, sv_answer *a, sv_form *form);
/* Creates and queues a job; NULL after answering with an error. The caller has a reference. */
sv_job *sv_create_job(const sv_request *r, sv_answer *a, const sv_task *task, const sv_form *form);
/* Answers when the job has ended, by `finish`; a dropped connection cancels it. Takes the
 * reference to the job, and `own`, which is freed. */
typedef void (*sv_finish_fn)(sv_job *job, sv_answer *a, void *own);
void sv_answer_when_done(const sv_request *r, sv_answer *a, sv_job *job, sv_finish_fn finish, void *own);

#endif

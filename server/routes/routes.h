/* Handlers of routes, by file. The table is in routes.c. */
#ifndef ZN_SERVER_ROUTES_H
#define ZN_SERVER_ROUTES_H

#include "server/server.h"

/* jobs.c */
void sv_post_job(const sv_request *r, sv_answer *a);
void sv_get_jobs(const sv_request *r, sv_answer *a);
void sv_get_job(const sv_request *r, sv_answer *a);
void sv_delete_job(const sv_request *r, sv_answer *a);
void sv_get_events(const sv_request *r, sv_answer *a);
void sv_get_preview(const sv_request *r, sv_answer *a);
void sv_get_result(const sv_request *r, sv_answer *a);
/* models.c */
void sv_get_models(const sv_request *r, sv_answer *a);
void sv_get_attributes(const sv_request *r, sv_answer *a);
/* system.c */
void sv_get_health(const sv_request *r, sv_answer *a);
void sv_get_metrics(const sv_request *r, sv_answer *a);
void sv_get_openapi(const sv_request *r, sv_answer *a);
/* page.c */
void sv_get_page(const sv_request *r, sv_answer *a);

/* A stream of server-sent events about a job: `write` appends the text of what is new and returns 1 after the last.
 * Called locked. cancels: a dropped connection cancels the job. Takes the reference to the job, and `own`, which is
 * freed. */
typedef struct sv_events sv_events;
typedef int (*sv_events_fn)(sv_events *e, json *out);
struct sv_events {
    sv_job *job;
    sv_exchange *exchange;
    sv_events_fn write;
    void *own;
    int cancels;
    unsigned version; /* of the job when it was last looked at */
    int started;
    int preview; /* the last one that was sent */
    json pending;
    size_t sent; /* of pending */
    int ended;
    double spoke; /* ms: when something was last sent */
};
void sv_answer_events(const sv_request *r, sv_answer *a, sv_job *job, sv_events_fn write, void *own, int cancels);
/* Appends "event: NAME\ndata: {...}\n\n"; takes the text of data. name NULL: without one. */
void sv_event(json *out, const char *name, json *data);
/* Appends a comment, lest a proxy thinks that the stream is dead. */
void sv_event_beat(json *out);

#endif

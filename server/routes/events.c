/* Answers that take as long as a job: streams of events, and answers that wait for the end. */
#include "server/routes/routes.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- waiting for the end ---- */

typedef struct waiting {
    sv_job *job;
    sv_exchange *exchange;
    sv_finish_fn finish;
    void *own;
} waiting;

static int ready(void *self, sv_answer *a)
{
    waiting *w = self;
    sv_jobs_lock(w->job->jobs);
    const int ended = sv_job_ended(w->job);
    w->job->fetched |= ended;
    sv_jobs_unlock(w->job->jobs);
    if (ended)
        w->finish(w->job, a, w->own);
    return ended;
}

/* Cancelling a job that has ended does nothing. */
static void stop_waiting(void *self)
{
    waiting *w = self;
    sv_job_unwatch(w->job, w->exchange);
    sv_job_cancel(w->job);
    sv_job_release(w->job);
    free(w->own);
    free(w);
}

void sv_answer_when_done(const sv_request *r, sv_answer *a, sv_job *job, sv_finish_fn finish, void *own)
{
    waiting *w = must_alloc(NULL, sizeof *w);
    *w = (waiting){ .job = job, .exchange = r->exchange, .finish = finish, .own = own };
    sv_job_watch(job, r->exchange);
    a->ready = ready;
    a->release = stop_waiting;
    a->self = w;
}

/* ---- streams ---- */

static void append(json *out, const char *text, size_t length)
{
    out->comma = 0;
    json_raw(out, text, length);
    out->comma = 0;
}

void sv_event(json *out, const char *name, json *data)
{
    if (name) {
        append(out, "event: ", 7);
        append(out, name, strlen(name));
        append(out, "\n", 1);
    }
    append(out, "data: ", 6);
    append(out, data->text, data->length);
    append(out, "\n\n", 2);
    free(data->text);
    *data = (json){ 0 };
}

void sv_event_beat(json *out) { append(out, ":\n\n", 3); }

static long pull(void *self, char *bytes, size_t most)
{
    sv_events *e = self;
    if (e->sent == e->pending.length && !e->ended) {
        e->pending.length = e->sent = 0;
        sv_jobs_lock(e->job->jobs);
        if (!e->started || e->version != e->job->version) {
            e->version = e->job->version;
            e->ended = e->write(e, &e->pending);
            e->started = 1;
        }
        sv_jobs_unlock(e->job->jobs);
        if (!e->pending.length && now_ms() - e->spoke > SV_BEAT_MS / 2)
            sv_event_beat(&e->pending);
        e->spoke = e->pending.length ? now_ms() : e->spoke;
    }
    const size_t left = e->pending.length - e->sent, n = left < most ? left : most;
    if (!n)
        return e->ended ? -1 : 0;
    memcpy(bytes, e->pending.text + e->sent, n);
    e->sent += n;
    return (long)n;
}

static void stop_events(void *self)
{
    sv_events *e = self;
    sv_job_unwatch(e->job, e->exchange);
    if (e->cancels)
        sv_job_cancel(e->job);
    sv_job_release(e->job);
    free(e->pending.text);
    free(e->own);
    free(e);
}

void sv_answer_events(const sv_request *r, sv_answer *a, sv_job *job, sv_events_fn write, void *own, int cancels)
{
    sv_events *e = must_alloc(NULL, sizeof *e);
    *e = (sv_events){ .job = job, .exchange = r->exchange, .write = write, .own = own, .cancels = cancels };
    sv_job_watch(job, r->exchange);
    a->status = 200;
    a->type = "text/event-stream";
    a->pull = pull;
    a->release = stop_events;
    a->self = e;
    sv_answer_header(a, "Cache-Control", "no-store");
    sv_answer_header(a, "X-Accel-Buffering", "no"); /* nginx */
}

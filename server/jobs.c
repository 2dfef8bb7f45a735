/* Jobs: the list, the queue and the workers. One lock guards them all; nothing slow happens under it. */
#include "server/jobs.h"

#include "base/fail.h"
#include "server/queue.h"
#include "server/remote.h"
#include "server/server.h"
#include "ui/report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_KEPT = 1000 };

const char *const sv_state_names[] = { "queued", "running", "done", "failed", "cancelled" };

struct sv_jobs {
    sv_server *server;
    pthread_mutex_t lock;
    pthread_cond_t work; /* something is in the queue, or it is closed */
    sv_queue queue;
    sv_job *first;
    int running, closed, ending;
    double closed_at;
    sv_totals totals;
    pthread_t *workers;
    int worker_count;
};

void sv_jobs_lock(sv_jobs *jobs) { pthread_mutex_lock(&jobs->lock); }
void sv_jobs_unlock(sv_jobs *jobs) { pthread_mutex_unlock(&jobs->lock); }
sv_job *sv_jobs_first(sv_jobs *jobs) { return jobs->first; }
sv_server *sv_jobs_server(const sv_jobs *jobs) { return jobs->server; }

double sv_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- references ---- */

static void release_locked(sv_job *job, sv_job **dead)
{
    if (--job->references == 0) {
        job->next = *dead;
        *dead = job;
    }
}

/* Outside the lock, because it deletes files. */
static void bury(sv_job *dead)
{
    while (dead) {
        sv_job *next = dead->next;
        sv_job_free(dead);
        dead = next;
    }
}

void sv_job_release(sv_job *job)
{
    sv_job *dead = NULL;
    sv_jobs *jobs = job->jobs;
    sv_jobs_lock(jobs);
    release_locked(job, &dead);
    sv_jobs_unlock(jobs);
    bury(dead);
}

/* ---- watchers ---- */

void sv_job_tell(sv_job *job)
{
    job->version++;
    job->told = now_ms();
    for (int i = 0; i < job->watcher_count; i++)
        sv_http_wake(job->watchers[i]);
}

/* Positions of the jobs behind change too. */
static void tell_waiting_locked(sv_jobs *jobs)
{
    for (int i = 0; i < jobs->queue.count; i++)
        sv_job_tell(jobs->queue.items[i].value);
}

void sv_job_watch(sv_job *job, sv_exchange *e)
{
    sv_jobs_lock(job->jobs);
    if (job->watcher_count == job->watcher_capacity) {
        job->watcher_capacity = 2 * job->watcher_capacity + 4;
        job->watchers = must_alloc(job->watchers, (size_t)job->watcher_capacity * sizeof(sv_exchange *));
    }
    job->watchers[job->watcher_count++] = e;
    sv_jobs_unlock(job->jobs);
}

void sv_job_unwatch(sv_job *job, sv_exchange *e)
{
    sv_jobs_lock(job->jobs);
    for (int i = 0; i < job->watcher_count; i++)
        if (job->watchers[i] == e)
            job->watchers[i--] = job->watchers[--job->watcher_count];
    sv_jobs_unlock(job->jobs);
}

int sv_job_position(const sv_job *job) { return sv_queue_position(&job->jobs->queue, job); }
int sv_job_ended(const sv_job *job) { return job->state >= SV_DONE; }

/* ---- queue ---- */

static zn_status check_files(const sv_job *job)
{
    const sv_task *t = job->task;
    if (job->file_count < t->least || job->file_count > t->most) {
        if (t->least == t->most)
            return ZN_FAIL(ZN_EINVALID, "the task %s needs %d file%s, not %d", t->name, t->least,
                           t->least == 1 ? "" : "s", job->file_count);
        return ZN_FAIL(ZN_EINVALID, "the task %s needs %d to %d files, not %d", t->name, t->least, t->most,
                       job->file_count);
    }
    if (t->needs_model && !job->model)
        return ZN_FAIL(ZN_EINVALID, "the task %s needs a model", t->name);
    return ZN_OK;
}

static zn_status enqueue_locked(sv_job *job)
{
    sv_jobs *jobs = job->jobs;
    if (jobs->closed)
        return ZN_FAIL(ZN_ELIMIT, "the server is stopping and takes no new jobs");
    switch (sv_queue_push(&jobs->queue, job, job->client)) {
    case SV_CLIENT_FULL:
        return ZN_FAIL(ZN_ELIMIT, "this client has %d jobs in the queue already", jobs->queue.per_client);
    case SV_QUEUE_FULL:
        return ZN_FAIL(ZN_ELIMIT, "the queue is full: %d jobs wait", jobs->queue.most);
    case SV_QUEUED:
        break;
    }
    job->created = sv_now();
    job->references++; /* of the list */
    job->next = jobs->first;
    jobs->first = job;
    tell_waiting_locked(jobs);
    pthread_cond_signal(&jobs->work);
    return ZN_OK;
}

zn_status sv_job_submit(sv_job *job)
{
    sv_jobs *jobs = job->jobs;
    ZN_TRY(check_files(job));
    sv_jobs_lock(jobs);
    const zn_status status = enqueue_locked(job);
    jobs->totals.refused += status != ZN_OK;
    sv_jobs_unlock(jobs);
    return status;
}

/* error: the sentence for clients, NULL with ZN_OK. */
static void end_locked(sv_job *job, zn_status status, const char *error)
{
    sv_totals *totals = &job->jobs->totals;
    job->status = status;
    job->state = status == ZN_OK ? SV_DONE : status == ZN_ECANCELLED ? SV_CANCELLED : SV_FAILED;
    job->finished = sv_now();
    job->fraction = status == ZN_OK ? 1 : job->fraction;
    job->error = error ? must_copy(error) : NULL;
    totals->ended[job->state]++;
    totals->seconds += sv_job_seconds(job);
    sv_job_tell(job);
}

void sv_job_cancel(sv_job *job)
{
    sv_jobs *jobs = job->jobs;
    sv_jobs_lock(jobs);
    job->cancelled = 1;
    if (sv_queue_remove(&jobs->queue, job)) {
        end_locked(job, ZN_ECANCELLED, "cancelled");
        tell_waiting_locked(jobs);
    }
    sv_jobs_unlock(jobs);
}

void sv_job_skip(sv_job *job)
{
    if (job->server->remote || strcmp(job->task->name, "generate") != 0)
        sv_job_cancel(job);
    else
        job->skipped = 1;
}

/* Takes the job at *at off the list. */
static void forget_locked(sv_job **at, sv_job **dead)
{
    sv_job *job = *at;
    *at = job->next;
    release_locked(job, dead);
}

void sv_job_forget(sv_job *job)
{
    sv_job *dead = NULL;
    sv_jobs_lock(job->jobs);
    sv_job **at = &job->jobs->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at && sv_job_ended(job))
        forget_locked(at, &dead);
    sv_jobs_unlock(job->jobs);
    bury(dead);
}

sv_job *sv_job_find(sv_jobs *jobs, const char *id)
{
    sv_jobs_lock(jobs);
    sv_job *job = jobs->first;
    while (job && strcmp(job->id, id))
        job = job->next;
    if (job)
        job->references++;
    sv_jobs_unlock(jobs);
    return job;
}

sv_job *sv_job_running(sv_jobs *jobs, const char *client)
{
    sv_job *found = NULL;
    sv_jobs_lock(jobs);
    for (sv_job *job = jobs->first; job; job = job->next)
        found = job->state == SV_RUNNING && (!client || !strcmp(client, job->client)) ? job : found;
    if (found)
        found->references++;
    sv_jobs_unlock(jobs);
    return found;
}

sv_totals sv_jobs_totals(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    sv_totals t = jobs->totals;
    t.waiting = jobs->queue.count;
    t.running = jobs->running;
    t.kept = 0;
    for (const sv_job *job = jobs->first; job; job = job->next)
        t.kept += sv_job_ended(job);
    sv_jobs_unlock(jobs);
    return t;
}

/* ---- workers ---- */

static zn_status run_task(sv_job *job)
{
    sv_remote *remote = job->server->remote;
    if (job->cancelled)
        return ZN_ECANCELLED;
    return remote ? sv_remote_run(remote, job) : job->task->run(job);
}

/* A job that is running already, to its end. */
static void run_job(sv_job *job)
{
    const zn_status status = run_task(job);
    char *why = status == ZN_OK || status == ZN_ECANCELLED ? NULL : sv_job_sentence(job, zn_error_text()), late[96];
    snprintf(late, sizeof late, "took longer than the limit of %d seconds", job->server->settings->job_seconds);
    sv_jobs_lock(job->jobs);
    job->jobs->running--;
    if (status != ZN_ECANCELLED)
        end_locked(job, status, why);
    else if (job->cancelled)
        end_locked(job, ZN_ECANCELLED, "cancelled");
    else
        end_locked(job, ZN_ELIMIT, late);
    sv_jobs_unlock(job->jobs);
    free(why);
}

static void begin_locked(sv_job *job)
{
    job->state = SV_RUNNING;
    job->started = sv_now();
    job->began = now_ms();
    job->fraction = 0;
    job->step = job->steps = 0;
    sv_job_tell(job);
}

void sv_job_begin(sv_job *job)
{
    sv_jobs_lock(job->jobs);
    begin_locked(job);
    sv_jobs_unlock(job->jobs);
}

void sv_job_run(sv_job *job)
{
    sv_jobs_lock(job->jobs);
    job->jobs->running++;
    begin_locked(job);
    sv_jobs_unlock(job->jobs);
    run_job(job);
}

static void *worker(void *user)
{
    sv_jobs *jobs = user;
    for (;;) {
        sv_jobs_lock(jobs);
        while (!jobs->queue.count && !jobs->ending)
            pthread_cond_wait(&jobs->work, &jobs->lock);
        sv_job *job = sv_queue_next(&jobs->queue);
        if (job) {
            job->references++;
            jobs->running++;
            if (!jobs->server->remote)
                begin_locked(job);
            tell_waiting_locked(jobs);
        }
        sv_jobs_unlock(jobs);
        if (!job)
            return NULL;
        run_job(job);
        sv_job_release(job);
    }
}

sv_jobs *sv_jobs_start(sv_server *server, char why[256])
{
    sv_jobs *jobs = must_alloc(NULL, sizeof *jobs);
    *jobs = (sv_jobs){ .server = server };
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->work, NULL);
    const serve_settings *s = server->settings;
    const int workers = s->worker ? 0 : s->workers; /* a worker of a queue server has its own */
    int good = sv_queue_init(&jobs->queue, s->queue, s->per_client);
    jobs->workers = must_alloc(NULL, (size_t)(workers + 1) * sizeof *jobs->workers);
    while (good && jobs->worker_count < workers) {
        good = !pthread_create(&jobs->workers[jobs->worker_count], NULL, worker, jobs);
        jobs->worker_count += good;
    }
    if (good)
        return jobs;
    snprintf(why, 256, "cannot start %d workers", workers);
    sv_jobs_stop(jobs);
    return NULL;
}

void sv_jobs_close(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    jobs->closed = 1;
    jobs->closed_at = sv_now();
    sv_jobs_unlock(jobs);
}

int sv_jobs_closed(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    const int closed = jobs->closed;
    sv_jobs_unlock(jobs);
    return closed;
}

int sv_jobs_busy(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    int busy = jobs->running || jobs->queue.count;
    for (const sv_job *job = jobs->first; job; job = job->next)
        busy |= job->state == SV_DONE && job->finished >= jobs->closed_at && !job->fetched;
    sv_jobs_unlock(jobs);
    return busy;
}

int sv_jobs_running(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    const int running = jobs->running;
    sv_jobs_unlock(jobs);
    return running;
}

void sv_jobs_cancel(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    jobs->closed = jobs->ending = 1;
    for (sv_job *job; (job = sv_queue_next(&jobs->queue)) != NULL;)
        end_locked(job, ZN_ECANCELLED, "cancelled: the server has stopped");
    for (sv_job *job = jobs->first; job; job = job->next)
        job->cancelled = 1;
    pthread_cond_broadcast(&jobs->work);
    sv_jobs_unlock(jobs);
}

void sv_jobs_stop(sv_jobs *jobs)
{
    sv_job *dead = NULL;
    sv_jobs_cancel(jobs);
    for (int i = 0; i < jobs->worker_count; i++)
        pthread_join(jobs->workers[i], NULL);
    sv_jobs_lock(jobs);
    while (jobs->first)
        forget_locked(&jobs->first, &dead);
    sv_jobs_unlock(jobs);
    bury(dead);
    sv_queue_free(&jobs->queue);
    pthread_mutex_destroy(&jobs->lock);
    pthread_cond_destroy(&jobs->work);
    free(jobs->workers);
    free(jobs);
}

void sv_jobs_expire(sv_jobs *jobs)
{
    sv_job *dead = NULL;
    const double before = sv_now() - 60.0 * jobs->server->settings->keep_minutes;
    int kept = 0;
    sv_jobs_lock(jobs);
    for (sv_job **at = &jobs->first; *at;) {
        if (sv_job_ended(*at) && ((*at)->finished < before || ++kept > MOST_KEPT))
            forget_locked(at, &dead);
        else
            at = &(*at)->next;
    }
    sv_jobs_unlock(jobs);
    bury(dead);
}

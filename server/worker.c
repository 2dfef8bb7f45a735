/* A worker: takes jobs from the queue in Redis, runs them as the server would, and sends back what happens. Each slot
 * is a thread with its own connection and its own name in the consumer group; while another thread computes, it reports
 * progress, renews the entry, and looks whether somebody still waits for the job. */
#include "server/remote.h"

#include "base/fail.h"
#include "base/file.h"
#include "server/redis.h"
#include "ui/report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BEAT_MS = 100,    /* progress and cancellation */
    RENEW_MS = 1000,  /* of the entry */
    STALE_MS = 6000,  /* without renewal: its worker is lost */
    BLOCK_MS = 500,   /* a stop is seen after this */
    ATTEMPTS = 2,     /* a job that ends two workers is not given to a third */
    MOST_EVENTS = 64, /* kept for a server that reads slowly */
    GIVEN_BACK_MS = 100 * STALE_MS
};

typedef struct slot {
    struct sv_worker *worker;
    sv_redis *redis;
    sv_redis *second; /* of the thread that renews the entry while the first one moves large files */
    pthread_t thread;
    char name[64]; /* as a consumer */
    /* Of the job that is being done. */
    char entry[40], id[80];
    long long attempt;
    sv_job *job;
    unsigned version; /* that was reported */
    int preview;
    int unwanted; /* nobody waits for it any more */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int has_ended; /* guarded by the lock */
    pthread_t keeper;
    pthread_cond_t moved;
    int keeps, has_moved; /* the latter is guarded by the lock */
} slot;

struct sv_worker {
    sv_server *server;
    slot *slots;
    int slot_count;
    atomic_int closed, ending, busy;
};

/* ---- small steps ---- */

static void pause_ms(long ms)
{
    const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

/* Non-zero if the entry is this slot's; sets how often it was delivered. */
static int owns(const slot *s, sv_redis *redis, long long *attempt)
{
    sv_reply *reply = sv_redis_ask(redis, "XPENDING " SV_KEY_JOBS " " SV_GROUP " %s %s 1", s->entry, s->entry);
    const sv_reply *pending = sv_reply_at(reply, 0);
    const char *owner = sv_reply_text(sv_reply_at(pending, 1), NULL);
    const int mine = owner && !strcmp(owner, s->name);
    if (mine)
        *attempt = sv_reply_number(sv_reply_at(pending, 3));
    sv_reply_free(reply);
    return mine;
}

static int is_mine(slot *s) { return owns(s, s->redis, &s->attempt); }

static void renew(const slot *s, sv_redis *redis)
{
    long long attempt;
    if (!owns(s, redis, &attempt))
        return; /* what another worker has is found out at the end */
    (void)!sv_redis_do(redis, "XCLAIM " SV_KEY_JOBS " " SV_GROUP " %s 0 %s JUSTID", s->name, s->entry);
}

static struct timespec time_after(long ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *keep(void *user)
{
    slot *s = user;
    pthread_mutex_lock(&s->lock);
    while (!s->has_moved) {
        const struct timespec until = time_after(RENEW_MS);
        int late = 0;
        while (!s->has_moved && !late)
            late = pthread_cond_timedwait(&s->moved, &s->lock, &until) != 0;
        if (s->has_moved)
            break;
        pthread_mutex_unlock(&s->lock);
        renew(s, s->second);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* From here to keep_end the entry is renewed, although this thread waits for large files. */
static void keep_begin(slot *s)
{
    s->has_moved = 0;
    s->keeps = !pthread_create(&s->keeper, NULL, keep, s);
}

static void keep_end(slot *s)
{
    pthread_mutex_lock(&s->lock);
    s->has_moved = 1;
    pthread_cond_signal(&s->moved);
    pthread_mutex_unlock(&s->lock);
    if (s->keeps)
        pthread_join(s->keeper, NULL);
}

static void finish_entry(slot *s)
{
    (void)!sv_redis_do(s->redis, "XACK " SV_KEY_JOBS " " SV_GROUP " %s", s->entry);
    (void)!sv_redis_do(s->redis, "XDEL " SV_KEY_JOBS " %s", s->entry);
}

/* Another worker takes it at once, and this attempt is not counted. */
static void give_back(slot *s)
{
    (void)!sv_redis_do(s->redis, "XCLAIM " SV_KEY_JOBS " " SV_GROUP " %s 0 %s IDLE %d RETRYCOUNT 0 JUSTID", s->name,
                       s->entry, GIVEN_BACK_MS);
}

static char *key_of(const char *prefix, const char *id) { return must_print("%s%s", prefix, id); }

/* ---- reports ---- */

static zn_status expire(slot *s, const char *key)
{
    return sv_redis_do(s->redis, "EXPIRE %s %d", key, SV_LEASE_SECONDS);
}

static zn_status send_progress(slot *s, const json *progress, const char *preview, size_t size)
{
    char *key = key_of(SV_KEY_EVENTS, s->id);
    zn_status status = preview ? sv_redis_do(s->redis, "XADD %s MAXLEN ~ %d * attempt %lld progress %b preview %b", key,
                                             MOST_EVENTS, s->attempt, progress->text, progress->length, preview, size)
                               : sv_redis_do(s->redis, "XADD %s MAXLEN ~ %d * attempt %lld progress %b", key,
                                             MOST_EVENTS, s->attempt, progress->text, progress->length);
    if (status == ZN_OK)
        status = expire(s, key);
    free(key);
    return status;
}

/* What has changed since the last report. */
static void report(slot *s)
{
    sv_job *job = s->job;
    json progress = { 0 };
    char *preview = NULL;
    size_t size = 0;
    sv_jobs_lock(job->jobs);
    const unsigned version = job->version;
    if (version != s->version)
        sv_job_progress_json(&progress, NULL, job);
    if (job->preview_number != s->preview) {
        size = job->preview_size;
        preview = must_alloc(NULL, size);
        memcpy(preview, job->preview, size);
        s->preview = job->preview_number;
    }
    sv_jobs_unlock(job->jobs);
    if (progress.text && send_progress(s, &progress, preview, size) == ZN_OK)
        s->version = version;
    free(progress.text);
    free(preview);
}

static zn_status send_result(slot *s, const char *key, const sv_result *r, int index)
{
    zn_map map;
    ZN_TRY(zn_map_open(&map, r->path));
    const zn_status status = sv_redis_do(s->redis, "HSET %s %d %b", key, index, map.bytes, map.size);
    zn_map_close(&map);
    return status;
}

static zn_status send_results(slot *s)
{
    char *key = key_of(SV_KEY_RESULTS, s->id);
    zn_status status = ZN_OK;
    for (int i = 0; status == ZN_OK && i < s->job->result_count; i++)
        status = send_result(s, key, &s->job->results[i], i);
    if (status == ZN_OK && s->job->result_count)
        status = expire(s, key);
    free(key);
    return status;
}

static void result_json(json *j, const sv_result *r)
{
    const char *dot = strrchr(r->name, '.');
    char *name = must_print("%.*s", (int)(dot - r->name), r->name);
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    json_text(j, "extension", dot + 1);
    json_integer(j, "width", r->width);
    json_integer(j, "height", r->height);
    json_close(j, '}');
    free(name);
}

/* The last report. error NULL: the job was done. */
static zn_status send_end(slot *s, zn_status status, const char *error)
{
    const sv_job *job = status == ZN_OK ? s->job : NULL;
    json j = { 0 };
    json_open(&j, NULL, '{');
    json_integer(&j, "status", status);
    if (error)
        json_text(&j, "error", error);
    json_open(&j, "results", '[');
    for (int i = 0; job && i < job->result_count; i++)
        result_json(&j, &job->results[i]);
    json_close(&j, ']');
    json_open(&j, "remarks", '[');
    for (int i = 0; job && i < job->remark_count; i++)
        json_text(&j, NULL, job->remarks[i]);
    json_close(&j, ']');
    json_unsigned(&j, "seed", job ? job->seed : 0);
    json_integer(&j, "tokens", job ? job->tokens : 0);
    json_integer(&j, "steps", job ? job->used_steps : 0);
    json_real(&j, "guidance", job ? job->used_guidance : 0);
    json_close(&j, '}');
    char *key = key_of(SV_KEY_EVENTS, s->id);
    const char *facts = job && job->facts.length ? job->facts.text : "";
    zn_status sent = sv_redis_do(s->redis, "XADD %s * attempt %lld facts %b done %b", key, s->attempt, facts,
                                 job ? job->facts.length : 0, j.text, j.length);
    if (sent == ZN_OK)
        sent = expire(s, key);
    free(key);
    free(j.text);
    return sent;
}

/* ---- a job ---- */

static zn_status take_file(sv_job *job, const sv_reply *hash, const char *kind, int index, sv_file *where)
{
    char name_key[40], bytes_key[40];
    snprintf(name_key, sizeof name_key, "%s:%d:name", kind, index);
    snprintf(bytes_key, sizeof bytes_key, "%s:%d:bytes", kind, index);
    size_t size;
    const char *name = sv_reply_text(sv_reply_value(hash, name_key), NULL);
    const char *bytes = sv_reply_text(sv_reply_value(hash, bytes_key), &size);
    if (!name || !bytes)
        return where ? ZN_OK : ZN_FAIL(ZN_EFORMAT, "file %d of the job is not in the queue server", index);
    sv_field field = {
        .name = (char *)kind, .filename = (char *)name, .bytes = (char *)bytes, .size = size, .binary = 1
    };
    return sv_job_add_file(job, &field, where);
}

static int number_of(const sv_reply *hash, const char *name)
{
    const char *text = sv_reply_text(sv_reply_value(hash, name), NULL);
    return text ? atoi(text) : 0;
}

static zn_status fill(sv_job *job, const sv_reply *hash)
{
    size_t size;
    sv_form form = { 0 };
    const char *request = sv_reply_text(sv_reply_value(hash, "request"), &size);
    zn_status status = request ? sv_form_parse(NULL, request, size, &form) : ZN_FAIL(ZN_EFORMAT, "the job is empty");
    if (status == ZN_OK)
        status = sv_job_fill(job, &form);
    sv_form_free(&form);
    job->previews = number_of(hash, "previews");
    job->alpha_mask = number_of(hash, "alpha_mask");
    for (int i = 0, n = number_of(hash, "files"); status == ZN_OK && i < n; i++)
        status = take_file(job, hash, "file", i, NULL);
    if (status == ZN_OK)
        status = take_file(job, hash, "mask", 0, &job->mask);
    return status == ZN_OK ? take_file(job, hash, "reference", 0, &job->reference) : status;
}

/* The job of a request; NULL after a failure. */
static sv_job *job_of(slot *s, const sv_reply *hash)
{
    const char *name = sv_reply_text(sv_reply_value(hash, "task"), NULL);
    const sv_task *task = sv_task_find(name);
    if (!task) {
        zn_fail(ZN_EUNSUPPORTED, "the worker does not know the task '%.60s'; is it older than the server?",
                name ? name : "");
        return NULL;
    }
    sv_job *job = sv_job_new(s->worker->server->jobs, task, s->name);
    if (job && fill(job, hash) != ZN_OK) {
        sv_job_release(job);
        return NULL;
    }
    return job;
}

static void *compute(void *user)
{
    slot *s = user;
    sv_job_run(s->job);
    pthread_mutex_lock(&s->lock);
    s->has_ended = 1;
    pthread_cond_signal(&s->ended);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Waits for the end, but not longer than to the next beat. */
static int has_ended(slot *s)
{
    const struct timespec until = time_after(BEAT_MS);
    pthread_mutex_lock(&s->lock);
    if (!s->has_ended)
        pthread_cond_timedwait(&s->ended, &s->lock, &until);
    const int ended = s->has_ended;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

/* Without its request nobody waits for the job. A queue server that does not answer says nothing about that. */
static int is_wanted(slot *s)
{
    char *key = key_of(SV_KEY_JOB, s->id);
    sv_reply *reply = sv_redis_ask(s->redis, "EXISTS %s", key);
    const int wanted = !reply || sv_reply_number(reply);
    sv_reply_free(reply);
    free(key);
    return wanted;
}

/* While another thread computes. */
static void attend(slot *s)
{
    double renewed = 0;
    report(s);
    while (!has_ended(s)) {
        report(s);
        s->unwanted = s->unwanted || !is_wanted(s);
        if (s->unwanted || s->worker->ending)
            sv_job_cancel(s->job);
        if (now_ms() - renewed > RENEW_MS) {
            renewed = now_ms();
            renew(s, s->redis);
        }
    }
}

/* Only the worker that has the entry may say how the job ended; also after the upload, which may take long. */
static void conclude(slot *s)
{
    const sv_job *job = s->job;
    if (!is_mine(s))
        return;
    if (job->state == SV_CANCELLED && !s->unwanted) {
        give_back(s);
        return;
    }
    zn_status status = job->status;
    char *error = job->error ? must_copy(job->error) : NULL;
    if (!s->unwanted && status == ZN_OK) {
        keep_begin(s);
        status = send_results(s);
        if (status != ZN_OK)
            error = must_copy(zn_error_text());
        keep_end(s);
    }
    if (is_mine(s) && (s->unwanted || send_end(s, status, error) == ZN_OK))
        finish_entry(s);
    free(error);
}

static void run(slot *s)
{
    pthread_t thread;
    s->version = s->job->version - 1;
    s->preview = 0;
    s->unwanted = s->has_ended = 0;
    if (pthread_create(&thread, NULL, compute, s)) {
        give_back(s);
        return;
    }
    attend(s);
    pthread_join(thread, NULL);
    conclude(s);
}

/* Why the job cannot be run, or NULL. */
static const char *hopeless(slot *s)
{
    return s->attempt > ATTEMPTS ? "the job was lost with two workers; a third one does not try it" : NULL;
}

static void work(slot *s)
{
    char *key = key_of(SV_KEY_JOB, s->id);
    keep_begin(s);
    sv_reply *hash = sv_redis_ask(s->redis, "HGETALL %s", key);
    keep_end(s);
    free(key);
    if (hash && !sv_reply_count(hash)) { /* cancelled while it waited */
        finish_entry(s);
    } else if (hash && is_mine(s)) {
        const char *why = hopeless(s);
        s->job = why ? NULL : job_of(s, hash);
        if (s->job)
            run(s);
        else if (send_end(s, why ? ZN_ELIMIT : ZN_EINVALID, why ? why : zn_error_text()) == ZN_OK)
            finish_entry(s);
    }
    sv_reply_free(hash);
    if (s->job)
        sv_job_release(s->job);
    s->job = NULL;
}

/* ---- the queue ---- */

/* entry: [id, [name, value...]] */
static int take_entry(slot *s, const sv_reply *entry)
{
    const char *number = sv_reply_text(sv_reply_at(entry, 0), NULL);
    const char *id = sv_reply_text(sv_reply_value(sv_reply_at(entry, 1), "id"), NULL);
    if (!number)
        return 0;
    snprintf(s->entry, sizeof s->entry, "%s", number);
    snprintf(s->id, sizeof s->id, "%s", id ? id : "");
    return 1;
}

/* A job of a worker that is lost, or else a new one. 0: there is none, or no queue server. */
static int next_job(slot *s, int *failed)
{
    sv_reply *reply =
        sv_redis_ask(s->redis, "XAUTOCLAIM " SV_KEY_JOBS " " SV_GROUP " %s %d 0 COUNT 1", s->name, STALE_MS);
    *failed = !reply;
    int found = take_entry(s, sv_reply_at(sv_reply_at(reply, 1), 0));
    sv_reply_free(reply);
    if (found || *failed)
        return found;
    reply = sv_redis_ask(s->redis, "XREADGROUP GROUP " SV_GROUP " %s COUNT 1 BLOCK %d STREAMS " SV_KEY_JOBS " >",
                         s->name, BLOCK_MS);
    *failed = !reply;
    found = take_entry(s, sv_reply_at(sv_reply_at(sv_reply_at(reply, 0), 1), 0));
    sv_reply_free(reply);
    return found;
}

static void recover(slot *s, int *complained)
{
    if (sv_redis_answered(s->redis, "NOGROUP") && sv_remote_make_group(s->redis) == ZN_OK)
        return;
    if (!*complained)
        complain("%s; trying again", zn_error_text());
    *complained = 1;
    pause_ms(1000);
}

static void *serve_slot(void *user)
{
    slot *s = user;
    int failed, complained = 0;
    while (!s->worker->closed) {
        if (next_job(s, &failed)) {
            s->worker->busy++;
            work(s);
            s->worker->busy--;
        } else if (failed) {
            recover(s, &complained);
        }
        complained &= failed;
    }
    return NULL;
}

/* ---- life ---- */

sv_worker *sv_worker_start(sv_server *server)
{
    const serve_settings *settings = server->settings;
    sv_worker *w = must_alloc(NULL, sizeof *w);
    *w = (sv_worker){ .server = server };
    w->slots = must_alloc(NULL, (size_t)settings->workers * sizeof *w->slots);
    int good = 1;
    while (good && w->slot_count < settings->workers) {
        slot *s = &w->slots[w->slot_count];
        *s = (slot){ .worker = w,
                     .redis = sv_redis_new(settings->queue_server),
                     .second = sv_redis_new(settings->queue_server) };
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->ended, NULL);
        pthread_cond_init(&s->moved, NULL);
        snprintf(s->name, sizeof s->name, "%s-%d-%d", server->instance, (int)getpid(), w->slot_count);
        good = s->redis && s->second && sv_remote_make_group(s->redis) == ZN_OK;
        if (good && pthread_create(&s->thread, NULL, serve_slot, s) != 0)
            good = ZN_FAIL(ZN_EIO, "cannot start a thread") == ZN_OK;
        w->slot_count += good;
        if (!good) {
            sv_redis_free(s->redis);
            sv_redis_free(s->second);
        }
    }
    if (good)
        return w;
    char why[512];
    snprintf(why, sizeof why, "%s", zn_error_text());
    sv_worker_stop(w);
    (void)ZN_FAIL(ZN_EIO, "%s", why);
    return NULL;
}

const char *sv_worker_queue(const sv_worker *w) { return sv_redis_name(w->slots[0].redis); }
void sv_worker_close(sv_worker *w) { w->closed = 1; }
int sv_worker_busy(const sv_worker *w) { return w->busy; }

void sv_worker_stop(sv_worker *w)
{
    if (!w)
        return;
    w->closed = w->ending = 1;
    for (int i = 0; i < w->slot_count; i++) {
        pthread_join(w->slots[i].thread, NULL);
        sv_redis_free(w->slots[i].redis);
        sv_redis_free(w->slots[i].second);
    }
    free(w->slots);
    free(w);
}

/* The server's side of jobs that run on other machines: sends a job to the queue in Redis and follows it to its end. */
#include "server/remote.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "server/models.h"
#include "server/redis.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BLOCK_MS = 100,       /* a cancellation is seen after this */
    RENEW_SECONDS = 5,    /* the lease of a job */
    PATIENCE_SECONDS = 60 /* without a word from the queue server */
};

struct sv_remote {
    char *url;
};

/* A job on its way. */
typedef struct following {
    sv_job *job;
    sv_redis *redis;
    char *request, *events, *results; /* keys */
    char entry[40];                   /* in the stream of jobs */
    char last[40];                    /* event that was read */
    long long attempt;                /* that counts; 0: none has begun */
    double renewed, heard;
    int ended;
    zn_status status; /* of the job */
} following;

zn_status sv_remote_make_group(sv_redis *r)
{
    if (sv_redis_do(r, "XGROUP CREATE " SV_KEY_JOBS " " SV_GROUP " 0 MKSTREAM") == ZN_OK ||
        sv_redis_answered(r, "BUSYGROUP"))
        return ZN_OK;
    return ZN_EIO;
}

sv_remote *sv_remote_open(const char *url)
{
    sv_redis *r = sv_redis_new(url);
    const int good = r && sv_remote_make_group(r) == ZN_OK;
    sv_redis_free(r);
    if (!good)
        return NULL;
    sv_remote *remote = must_alloc(NULL, sizeof *remote);
    *remote = (sv_remote){ .url = must_copy(url) };
    return remote;
}

void sv_remote_close(sv_remote *remote)
{
    if (remote)
        free(remote->url);
    free(remote);
}

/* ---- sending ---- */

static zn_status send_file(following *f, const sv_file *file, const char *kind, int index)
{
    zn_map map;
    if (!file->path)
        return ZN_OK;
    ZN_TRY(zn_map_open(&map, file->path));
    const zn_status status = sv_redis_do(f->redis, "HSET %s %s:%d:name %s %s:%d:bytes %b", f->request, kind, index,
                                         file->name, kind, index, map.bytes, map.size);
    zn_map_close(&map);
    return status;
}

static zn_status send_files(following *f)
{
    const sv_job *job = f->job;
    for (int i = 0; i < job->file_count; i++)
        ZN_TRY(send_file(f, &job->files[i], "file", i));
    ZN_TRY(send_file(f, &job->mask, "mask", 0));
    return send_file(f, &job->reference, "reference", 0);
}

static void request_json(json *j, const sv_job *job)
{
    char chosen[128] = "";
    if (!job->model && job->task->command == CMD_GENERATE)
        sv_default_generator(job->server, chosen);
    const char *model = job->model ? job->model : chosen;
    json_open(j, NULL, '{');
    if (*model)
        json_text(j, "model", model);
    if (job->prompt)
        json_text(j, "prompt", job->prompt);
    json_open(j, "options", '{');
    if (job->given.length)
        json_raw(j, job->given.text, job->given.length);
    json_close(j, '}');
    json_close(j, '}');
}

/* The entry of the stream comes last: whoever reads it finds everything. */
static zn_status send_job(following *f)
{
    const sv_job *job = f->job;
    json j = { 0 };
    request_json(&j, job);
    zn_status status =
        sv_redis_do(f->redis, "HSET %s task %s files %d previews %d alpha_mask %d request %b", f->request,
                    job->task->name, job->file_count, job->previews, job->alpha_mask, j.text, j.length);
    free(j.text);
    if (status == ZN_OK)
        status = send_files(f);
    if (status == ZN_OK)
        status = sv_redis_do(f->redis, "EXPIRE %s %d", f->request, SV_LEASE_SECONDS);
    sv_reply *reply = status == ZN_OK ? sv_redis_ask(f->redis, "XADD " SV_KEY_JOBS " * id %s", job->id) : NULL;
    if (!reply)
        return ZN_EIO;
    snprintf(f->entry, sizeof f->entry, "%s", sv_reply_text(reply, NULL));
    sv_reply_free(reply);
    f->renewed = sv_now();
    return ZN_OK;
}

/* ---- events ---- */

static void take_progress(following *f, const char *text, size_t size)
{
    sv_job *job = f->job;
    zn_json doc;
    if (zn_json_parse(&doc, text, size, "progress") != ZN_OK)
        return;
    const char *stage = zn_json_string(zn_json_get(doc.root, "stage"));
    sv_jobs_lock(job->jobs);
    zn_json_update_double(doc.root, "fraction", &job->fraction);
    zn_json_update_int(doc.root, "step", &job->step);
    zn_json_update_int(doc.root, "total", &job->steps);
    zn_json_update_int(doc.root, "image", &job->image);
    zn_json_update_int(doc.root, "images", &job->images);
    snprintf(job->stage, sizeof job->stage, "%s", stage ? stage : "");
    sv_job_tell(job);
    sv_jobs_unlock(job->jobs);
    zn_json_free(&doc);
}

static void take_preview(following *f, const sv_reply *bytes)
{
    size_t size;
    const char *text = sv_reply_text(bytes, &size);
    if (!text || !size)
        return;
    char *copy = must_alloc(NULL, size);
    memcpy(copy, text, size);
    sv_job_set_preview(f->job, copy, size);
}

static zn_status take_result(following *f, const zn_json_node *about, int index)
{
    const char *name = zn_json_string(zn_json_get(about, "name"));
    const char *extension = zn_json_string(zn_json_get(about, "extension"));
    int width = 0, height = 0;
    size_t size;
    if (!name || !extension || strspn(extension, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(extension))
        return ZN_FAIL(ZN_EFORMAT, "a worker sent a result without a name");
    zn_json_update_int(about, "width", &width);
    zn_json_update_int(about, "height", &height);
    sv_reply *reply = sv_redis_ask(f->redis, "HGET %s %d", f->results, index);
    if (!reply)
        return ZN_EIO;
    const char *bytes = sv_reply_text(reply, &size);
    zn_status status = bytes ? ZN_OK : ZN_FAIL(ZN_EIO, "a result of the worker is not in the queue server");
    if (status == ZN_OK)
        status = zn_file_write(sv_job_new_result(f->job, name, extension), bytes, size);
    if (status == ZN_OK)
        status = sv_job_keep_result(f->job, width, height);
    sv_reply_free(reply);
    return status;
}

static zn_status take_done(following *f, const zn_json_node *done, const sv_reply *facts)
{
    sv_job *job = f->job;
    int64_t status = ZN_EFORMAT, tokens = 0;
    size_t size;
    const char *error = zn_json_string(zn_json_get(done, "error")), *text = sv_reply_text(facts, &size);
    if (!zn_json_i64(zn_json_get(done, "status"), &status) || status != ZN_OK)
        return ZN_FAIL((zn_status)status, "%s", error ? error : "a worker sent an answer that is not one");
    int index = 0;
    ZN_JSON_EACH(result, zn_json_get(done, "results"))
    ZN_TRY(take_result(f, result, index++));
    ZN_JSON_EACH(remark, zn_json_get(done, "remarks"))
    sv_job_remark(job, "%s", zn_json_string(remark) ? zn_json_string(remark) : "");
    if (zn_json_i64(zn_json_get(done, "tokens"), &tokens))
        job->tokens = (int)tokens;
    (void)zn_json_u64(zn_json_get(done, "seed"), &job->seed);
    zn_json_update_int(done, "steps", &job->used_steps);
    zn_json_update_double(done, "guidance", &job->used_guidance);
    if (text && size)
        json_raw(&job->facts, text, size);
    return ZN_OK;
}

static zn_status take_end(following *f, const sv_reply *fields)
{
    size_t size;
    const char *text = sv_reply_text(sv_reply_value(fields, "done"), &size);
    zn_json doc;
    f->ended = 1;
    f->status = zn_json_parse(&doc, text, size, "the answer of a worker");
    if (f->status != ZN_OK)
        return f->status;
    f->status = take_done(f, doc.root, sv_reply_value(fields, "facts"));
    zn_json_free(&doc);
    return ZN_OK;
}

static zn_status take_event(following *f, const sv_reply *event)
{
    const sv_reply *fields = sv_reply_at(event, 1);
    const char *id = sv_reply_text(sv_reply_at(event, 0), NULL);
    const char *attempt = sv_reply_text(sv_reply_value(fields, "attempt"), NULL);
    size_t size;
    const char *progress = sv_reply_text(sv_reply_value(fields, "progress"), &size);
    snprintf(f->last, sizeof f->last, "%s", id ? id : "0");
    const long long number = attempt ? strtoll(attempt, NULL, 10) : 0;
    if (number < f->attempt)
        return ZN_OK; /* of a worker that was taken for lost */
    if (number > f->attempt)
        sv_job_begin(f->job);
    f->attempt = number;
    take_preview(f, sv_reply_value(fields, "preview"));
    if (progress)
        take_progress(f, progress, size);
    return sv_reply_value(fields, "done") ? take_end(f, fields) : ZN_OK;
}

static zn_status read_events(following *f)
{
    sv_reply *reply = sv_redis_ask(f->redis, "XREAD COUNT 16 BLOCK %d STREAMS %s %s", BLOCK_MS, f->events, f->last);
    if (!reply)
        return ZN_EIO;
    f->heard = sv_now();
    const sv_reply *events = sv_reply_at(sv_reply_at(reply, 0), 1);
    zn_status status = ZN_OK;
    for (int i = 0; status == ZN_OK && !f->ended && i < sv_reply_count(events); i++)
        status = take_event(f, sv_reply_at(events, i));
    sv_reply_free(reply);
    return status;
}

/* A job that is no longer in the queue server, which has lost its memory, is sent again. */
static zn_status renew(following *f)
{
    if (sv_now() - f->renewed < RENEW_SECONDS)
        return ZN_OK;
    sv_reply *reply = sv_redis_ask(f->redis, "EXPIRE %s %d", f->request, SV_LEASE_SECONDS);
    if (!reply)
        return ZN_EIO;
    const long long found = sv_reply_number(reply);
    sv_reply_free(reply);
    f->renewed = sv_now();
    if (found)
        return ZN_OK;
    f->attempt = 0;
    snprintf(f->last, sizeof f->last, "0");
    f->entry[0] = 0;
    ZN_TRY(sv_remote_make_group(f->redis));
    return send_job(f);
}

/* ---- following ---- */

/* After a failure: waits a little for the queue server to come back, unless it was silent for too long or refuses. */
static zn_status wait_for_server(const following *f, zn_status status)
{
    const struct timespec pause = { .tv_nsec = 200 * 1000000L };
    if (status == ZN_OK)
        return ZN_OK;
    if (status != ZN_EIO || sv_redis_refused(f->redis) || sv_now() - f->heard > PATIENCE_SECONDS)
        return status;
    nanosleep(&pause, NULL);
    return ZN_OK;
}

static zn_status follow(following *f)
{
    zn_status status = ZN_OK;
    while (status == ZN_OK && !f->ended) {
        if (f->job->cancelled)
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
        status = f->entry[0] ? renew(f) : send_job(f);
        if (status == ZN_OK)
            status = read_events(f);
        status = wait_for_server(f, status);
    }
    return status == ZN_OK ? f->status : status;
}

/* Without its request nobody waits for the job: a worker that runs it stops. */
static void clean(following *f)
{
    char why[512];
    snprintf(why, sizeof why, "%s", zn_error_text());
    (void)!sv_redis_do(f->redis, "DEL %s %s %s", f->request, f->events, f->results);
    if (!f->attempt && f->entry[0])
        (void)!sv_redis_do(f->redis, "XDEL " SV_KEY_JOBS " %s", f->entry);
    if (f->status != ZN_OK)
        (void)ZN_FAIL(f->status, "%s", why);
}

zn_status sv_remote_run(sv_remote *remote, sv_job *job)
{
    following f = { .job = job, .redis = sv_redis_new(remote->url), .last = "0", .heard = sv_now() };
    if (!f.redis)
        return ZN_EINVALID;
    f.request = must_print("%s%s", SV_KEY_JOB, job->id);
    f.events = must_print("%s%s", SV_KEY_EVENTS, job->id);
    f.results = must_print("%s%s", SV_KEY_RESULTS, job->id);
    f.status = follow(&f);
    clean(&f);
    sv_redis_free(f.redis);
    free(f.request);
    free(f.events);
    free(f.results);
    return f.status;
}

/* /api/jobs: create, list, watch, cancel, fetch. */
#include "server/routes/routes.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sv_take_form(const sv_request *r, sv_answer *a, sv_form *form)
{
    const zn_status status = sv_form_parse(sv_header(r, "Content-Type"), r->body, r->size, form);
    if (status == ZN_OK)
        return 1;
    sv_answer_error(a, status == ZN_ELIMIT ? 413 : 400, "%s", zn_error_text());
    sv_form_free(form);
    return 0;
}

static zn_status submit(sv_job *job, const sv_form *form)
{
    const zn_status status = form ? sv_job_fill(job, form) : ZN_OK;
    return status == ZN_OK ? sv_job_submit(job) : status;
}

sv_job *sv_create_job(const sv_request *r, sv_answer *a, const sv_task *task, const sv_form *form)
{
    char client[128];
    sv_client_of(r, client);
    sv_jobs *jobs = sv_server_of(r)->jobs;
    sv_job *job = sv_job_new(jobs, task, client);
    if (!job) {
        sv_answer_error(a, 500, "%s", zn_error_text());
        return NULL;
    }
    const zn_status status = submit(job, form);
    if (status == ZN_OK)
        return job;
    sv_answer_error(a, status == ZN_ELIMIT ? (sv_jobs_closed(jobs) ? 503 : 429) : sv_status_of(status), "%s",
                    zn_error_text());
    sv_job_release(job);
    return NULL;
}

static void answer_job(sv_answer *a, int status, sv_job *job)
{
    json j = { 0 };
    sv_jobs_lock(job->jobs);
    sv_job_json(&j, NULL, job);
    sv_jobs_unlock(job->jobs);
    sv_answer_json(a, status, &j);
}

static void finish(sv_job *job, sv_answer *a, void *own)
{
    (void)own;
    answer_job(a, 200, job);
}

void sv_post_job(const sv_request *r, sv_answer *a)
{
    sv_form form;
    if (!sv_take_form(r, a, &form))
        return;
    const char *name = sv_form_text(&form, "task"), *wait = sv_query(r, "wait");
    const sv_task *task = sv_task_find(name);
    sv_job *job = task ? sv_create_job(r, a, task, &form) : NULL;
    if (!task)
        sv_answer_error(a, 400,
                        "task must be one of generate, encode, decode, reconstruct, restore, upscale, edit, "
                        "interpolate, sample, compare, clip and profile, not '%.60s'",
                        name ? name : "");
    sv_form_free(&form);
    if (!job)
        return;
    if (wait && !strcmp(wait, "1")) {
        sv_answer_when_done(r, a, job, finish, NULL);
        return;
    }
    answer_job(a, 202, job);
    sv_job_release(job);
}

void sv_get_jobs(const sv_request *r, sv_answer *a)
{
    sv_jobs *jobs = sv_server_of(r)->jobs;
    json j = { 0 };
    json_open(&j, NULL, '{');
    json_open(&j, "jobs", '[');
    sv_jobs_lock(jobs);
    for (const sv_job *job = sv_jobs_first(jobs); job; job = job->next)
        sv_job_json(&j, NULL, job);
    sv_jobs_unlock(jobs);
    json_close(&j, ']');
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

/* The job of the path; NULL after answering that there is none. */
static sv_job *job_of(const sv_request *r, sv_answer *a)
{
    sv_job *job = sv_job_find(sv_server_of(r)->jobs, r->argument[0]);
    if (!job)
        sv_answer_error(a, 404, "there is no job '%.80s'; finished jobs are forgotten after a while", r->argument[0]);
    return job;
}

void sv_get_job(const sv_request *r, sv_answer *a)
{
    sv_job *job = job_of(r, a);
    if (!job)
        return;
    answer_job(a, 200, job);
    sv_job_release(job);
}

void sv_delete_job(const sv_request *r, sv_answer *a)
{
    sv_job *job = job_of(r, a);
    if (!job)
        return;
    sv_jobs_lock(job->jobs);
    const int ended = sv_job_ended(job);
    sv_jobs_unlock(job->jobs);
    if (!ended)
        sv_job_cancel(job);
    answer_job(a, 200, job);
    if (ended)
        sv_job_forget(job);
    sv_job_release(job);
}

/* ---- events ---- */

static void preview_event(sv_events *e, json *out)
{
    json j = { 0 };
    char *url = must_print("/api/jobs/%s/preview?number=%d", e->job->id, e->job->preview_number);
    json_open(&j, NULL, '{');
    json_integer(&j, "number", e->job->preview_number);
    json_text(&j, "url", url);
    json_close(&j, '}');
    free(url);
    sv_event(out, "preview", &j);
    e->preview = e->job->preview_number;
}

static int write_events(sv_events *e, json *out)
{
    const sv_job *job = e->job;
    json j = { 0 };
    if (job->preview_number > e->preview)
        preview_event(e, out);
    if (job->state == SV_RUNNING)
        sv_job_progress_json(&j, NULL, job);
    else
        sv_job_json(&j, NULL, job);
    sv_event(out, job->state == SV_RUNNING ? "progress" : sv_state_names[job->state], &j);
    return sv_job_ended(job);
}

void sv_get_events(const sv_request *r, sv_answer *a)
{
    sv_job *job = job_of(r, a);
    if (job)
        sv_answer_events(r, a, job, write_events, NULL, 0);
}

/* ---- bytes ---- */

void sv_get_preview(const sv_request *r, sv_answer *a)
{
    sv_job *job = job_of(r, a);
    if (!job)
        return;
    char *copy = NULL;
    size_t size = 0;
    sv_jobs_lock(job->jobs);
    if (job->preview) {
        size = job->preview_size;
        copy = must_alloc(NULL, size);
        memcpy(copy, job->preview, size);
    }
    sv_jobs_unlock(job->jobs);
    if (copy)
        *a = (sv_answer){ .status = 200, .type = "image/jpeg", .bytes = copy, .size = size };
    else
        sv_answer_error(a, 404, "this job has no preview yet");
    sv_job_release(job);
}

/* A name for Content-Disposition: ASCII, without quotes. */
static void disposition(sv_answer *a, const char *name)
{
    char value[160];
    int n = snprintf(value, sizeof value, "inline; filename=\"");
    for (; *name && n < 150; name++)
        value[n++] = (unsigned char)*name < 32 || (unsigned char)*name > 126 || strchr("\"\\", *name) ? '_' : *name;
    value[n++] = '"';
    value[n] = 0;
    sv_answer_header(a, "Content-Disposition", value);
}

void sv_get_result(const sv_request *r, sv_answer *a)
{
    sv_job *job = job_of(r, a);
    if (!job)
        return;
    const char *text = r->argument[1] ? r->argument[1] : "0";
    char *end;
    const long number = strtol(text, &end, 10);
    char *path = NULL, *name = NULL;
    const char *type = NULL;
    sv_jobs_lock(job->jobs);
    const sv_state state = job->state;
    const int found = state == SV_DONE && !*end && number >= 0 && number < job->result_count;
    if (found) {
        path = must_copy(job->results[number].path);
        name = must_copy(job->results[number].name);
        type = job->results[number].type;
        job->fetched = 1;
    }
    sv_jobs_unlock(job->jobs);
    if (found) {
        sv_answer_file(a, type, path);
        disposition(a, name);
    } else if (state != SV_DONE) {
        sv_answer_error(a, 409, "the job is %s and has no results", sv_state_names[state]);
    } else {
        sv_answer_error(a, 404, "the job has no result '%.20s'", text);
    }
    free(path);
    free(name);
    sv_job_release(job);
}

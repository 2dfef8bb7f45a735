/* What the routes of other programs' APIs share. */
#include "server/routes/result.h"

#include "base/file.h"
#include "server/base64.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *sv_result_base64(const sv_job *job, int index)
{
    zn_map map;
    if (zn_map_open(&map, job->results[index].path) != ZN_OK)
        return NULL;
    char *text = sv_base64_encode(map.bytes, map.size);
    zn_map_close(&map);
    return text;
}

uint64_t sv_result_seed(const sv_job *job, int index) { return strtoull(job->results[index].name, NULL, 10); }

sv_job *sv_begin_job(const sv_request *r, sv_answer *a, const sv_task *task)
{
    char client[128];
    sv_client_of(r, client);
    sv_job *job = sv_job_new(sv_server_of(r)->jobs, task, client);
    if (!job)
        sv_answer_error(a, 500, "%s", zn_error_text());
    return job;
}

int sv_submit_or_answer(sv_answer *a, sv_job *job, zn_status status)
{
    sv_jobs *jobs = job->jobs;
    const int filled = status == ZN_OK;
    if (filled)
        status = sv_job_submit(job);
    if (status == ZN_OK)
        return 1;
    const int full = filled && status == ZN_ELIMIT;
    sv_answer_error(a, full ? (sv_jobs_closed(jobs) ? 503 : 429) : sv_status_of(status), "%s", zn_error_text());
    sv_job_release(job);
    return 0;
}

zn_status sv_option(zn_status status, sv_job *job, const char *name, const char *value)
{
    return status == ZN_OK && value && *value ? sv_job_set_option(job, name, value) : status;
}

int sv_takes_own_size(sv_job *job, double width, double height)
{
    if (width != height || (width != 512 && width != 1024))
        return 0;
    sv_job_remark(job, "%.0fx%.0f is taken for the client's default: the model's own size is used", width, height);
    return 1;
}

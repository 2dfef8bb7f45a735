/* What a job tells about itself: progress, previews, remarks and results, from the task that runs to the JSON that
 * clients see. */
#include "server/jobs.h"

#include "base/fail.h"
#include "server/server.h"
#include "ui/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TELL_MS = 100 };

/* ---- what tasks report ---- */

double sv_job_seconds(const sv_job *job) { return job->began > 0 ? (now_ms() - job->began) / 1000 : 0; }

void sv_job_stage(sv_job *job, const char *stage, double base, double share)
{
    sv_jobs_lock(job->jobs);
    job->base = base;
    job->share = share;
    snprintf(job->stage, sizeof job->stage, "%s", stage);
    sv_jobs_unlock(job->jobs);
}

void sv_job_image(sv_job *job, int image, int images)
{
    sv_jobs_lock(job->jobs);
    job->image = image;
    job->images = images;
    sv_jobs_unlock(job->jobs);
}

int sv_job_step(sv_job *job, int step, int steps, double fraction)
{
    const int limit = job->server->settings->job_seconds;
    sv_jobs_lock(job->jobs);
    const double whole = job->base + job->share * fraction;
    const int news = step != job->step || steps != job->steps;
    job->fraction = whole > job->fraction ? (whole < 1 ? whole : 1) : job->fraction;
    job->step = step;
    job->steps = steps;
    if (news || now_ms() - job->told > TELL_MS)
        sv_job_tell(job);
    const int late = limit && sv_job_seconds(job) > limit;
    sv_jobs_unlock(job->jobs);
    return job->cancelled || late;
}

int sv_job_tick(void *user, double fraction)
{
    sv_job *job = user;
    return sv_job_step(job, job->step, job->steps, fraction);
}

void sv_job_set_preview(sv_job *job, char *bytes, size_t size)
{
    sv_jobs_lock(job->jobs);
    free(job->preview);
    job->preview = bytes;
    job->preview_size = size;
    job->preview_number++;
    sv_job_tell(job);
    sv_jobs_unlock(job->jobs);
}

void sv_job_preview(sv_job *job, const zn_image *image)
{
    void *bytes = NULL;
    size_t size = 0;
    const zn_image_write_options writing = { .quality = 85 };
    if (zn_image_write_memory("jpeg", image, &writing, &bytes, &size) != ZN_OK)
        return; /* a build without JPEG has no previews */
    char *copy = must_alloc(NULL, size);
    memcpy(copy, bytes, size);
    zn_memory_free(bytes);
    sv_job_set_preview(job, copy, size);
}

void sv_job_remark(sv_job *job, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sv_jobs_lock(job->jobs);
    if (job->remark_count < (int)(sizeof job->remarks / sizeof *job->remarks))
        job->remarks[job->remark_count++] = must_copy(text);
    sv_jobs_unlock(job->jobs);
}

static const char *type_of(const char *extension)
{
    static const struct {
        const char *extension, *type;
    } types[] = { { "png", "image/png" },       { "jpg", "image/jpeg" }, { "jpeg", "image/jpeg" },
                  { "webp", "image/webp" },     { "mp4", "video/mp4" },  { "webm", "video/webm" },
                  { "mkv", "video/x-matroska" } };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].extension, extension))
            return types[i].type;
    return "application/octet-stream";
}

const char *sv_job_new_result(sv_job *job, const char *name, const char *extension)
{
    sv_jobs_lock(job->jobs);
    const int n = job->result_count;
    job->results = must_alloc(job->results, (size_t)(n + 1) * sizeof *job->results);
    job->results[n] = (sv_result){ .path = must_print("%s/out-%d.%s", job->folder, n, extension),
                                   .name = must_print("%s.%s", name, extension),
                                   .type = type_of(extension) };
    job->result_count++;
    const char *path = job->results[n].path;
    sv_jobs_unlock(job->jobs);
    return path;
}

zn_status sv_job_keep_result(sv_job *job, int width, int height)
{
    struct stat st;
    sv_jobs_lock(job->jobs);
    sv_result *r = &job->results[job->result_count - 1];
    const int found = !stat(r->path, &st);
    r->bytes = found ? (size_t)st.st_size : 0;
    r->width = width;
    r->height = height;
    sv_jobs_unlock(job->jobs);
    return found ? ZN_OK : ZN_FAIL(ZN_EIO, "the result was not written");
}

char *sv_job_stem(const sv_job *job, int i)
{
    const char *name = i < job->file_count ? job->files[i].name : "image";
    const char *dot = strrchr(name, '.');
    return dot && dot > name ? must_print("%.*s", (int)(dot - name), name) : must_copy(name);
}

zn_status sv_job_read_image(sv_job *job, const sv_file *file, int ignore_alpha, zn_image **out)
{
    const uint8_t *b = job->o.background;
    const zn_image_read_options reading = { .background = { b[0], b[1], b[2] },
                                            .max_pixels = job->server->settings->most_pixels,
                                            .ignore_alpha = ignore_alpha };
    return zn_image_read(file->path, &reading, out);
}

char *sv_job_sentence(const sv_job *job, const char *text)
{
    char *out = must_copy(text);
    for (int i = -2; i < job->file_count; i++) {
        const sv_file *f = i == -2 ? &job->mask : i == -1 ? &job->reference : &job->files[i];
        char *at = f->path ? strstr(out, f->path) : NULL;
        while (at) {
            char *next = must_print("%.*s%s%s", (int)(at - out), out, f->name, at + strlen(f->path));
            const size_t done = (size_t)(at - out) + strlen(f->name);
            free(out);
            out = next;
            at = strstr(out + done, f->path);
        }
    }
    return out;
}

/* ---- JSON ---- */

void sv_job_progress_json(json *j, const char *key, const sv_job *job)
{
    json_open(j, key, '{');
    json_real(j, "fraction", job->fraction);
    json_integer(j, "step", job->step);
    json_integer(j, "total", job->steps);
    json_text(j, "stage", job->stage);
    if (job->images) {
        json_integer(j, "image", job->image);
        json_integer(j, "images", job->images);
    }
    if (job->state == SV_RUNNING && job->fraction > 0.01)
        json_real(j, "seconds_left", sv_job_seconds(job) * (1 - job->fraction) / job->fraction);
    else
        json_null(j, "seconds_left");
    json_close(j, '}');
}

static void time_json(json *j, const char *key, double value)
{
    if (value > 0)
        json_integer(j, key, (int64_t)value);
    else
        json_null(j, key);
}

static void results_json(json *j, const sv_job *job)
{
    json_open(j, "results", '[');
    for (int i = 0; job->state == SV_DONE && i < job->result_count; i++) {
        const sv_result *r = &job->results[i];
        char *url = must_print("/api/jobs/%s/result/%d", job->id, i);
        json_open(j, NULL, '{');
        json_text(j, "name", r->name);
        json_text(j, "type", r->type);
        json_integer(j, "bytes", (int64_t)r->bytes);
        json_text(j, "url", url);
        if (r->width) {
            json_integer(j, "width", r->width);
            json_integer(j, "height", r->height);
        }
        json_close(j, '}');
        free(url);
    }
    json_close(j, ']');
}

void sv_job_remarks_json(json *j, const sv_job *job)
{
    json_open(j, "remarks", '[');
    for (int i = 0; i < job->remark_count; i++)
        json_text(j, NULL, job->remarks[i]);
    json_close(j, ']');
}

void sv_job_json(json *j, const char *key, const sv_job *job)
{
    const int position = sv_job_position(job);
    json_open(j, key, '{');
    json_text(j, "id", job->id);
    json_text(j, "task", job->task->name);
    json_text(j, "model", job->model ? job->model : "");
    json_text(j, "title", job->prompt ? job->prompt : job->file_count ? job->files[0].name : "");
    json_text(j, "state", sv_state_names[job->state]);
    json_integer(j, "position", position > 0 ? position : 0);
    time_json(j, "created", job->created);
    time_json(j, "started", job->started);
    time_json(j, "finished", job->finished);
    time_json(j, "expires",
              job->finished > 0 ? job->finished + 60.0 * job->server->settings->keep_minutes : job->finished);
    sv_job_progress_json(j, "progress", job);
    json_integer(j, "preview", job->preview_number);
    results_json(j, job);
    json_open(j, "facts", '{');
    if (job->state == SV_DONE && job->facts.length)
        json_raw(j, job->facts.text, job->facts.length);
    json_close(j, '}');
    sv_job_remarks_json(j, job);
    if (job->error)
        json_text(j, "error", job->error);
    else
        json_null(j, "error");
    json_close(j, '}');
}

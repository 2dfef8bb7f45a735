/* Jobs: the list, the queue, the workers, and what a job tells about itself. One lock guards them all; nothing slow
 * happens under it. */
#include "server/jobs.h"

#include "base/fail.h"
#include "base/file.h"
#include "server/queue.h"
#include "server/server.h"
#include "ui/report.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TELL_MS = 100, MOST_KEPT = 1000 };

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

double sv_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- folders ---- */

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            char *file = must_print("%s/%s", path, entry->d_name);
            unlink(file);
            free(file);
        }
    if (folder)
        closedir(folder);
    rmdir(path);
}

/* ---- life of a job ---- */

static void file_free(sv_file *f)
{
    free(f->path);
    free(f->name);
}

static void job_free(sv_job *job)
{
    remove_folder(job->folder);
    free(job->folder);
    free(job->model);
    free(job->prompt);
    for (int i = 0; i < job->text_count; i++)
        free(job->texts[i]);
    free(job->texts);
    for (int i = 0; i < job->file_count; i++)
        file_free(&job->files[i]);
    file_free(&job->mask);
    file_free(&job->reference);
    free(job->preview);
    for (int i = 0; i < job->result_count; i++) {
        free(job->results[i].path);
        free(job->results[i].name);
    }
    free(job->results);
    free(job->facts.text);
    for (int i = 0; i < job->remark_count; i++)
        free(job->remarks[i]);
    free(job->error);
    free(job->watchers);
    free(job);
}

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
        job_free(dead);
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

/* 0: no randomness, or no folder. */
static int name_job(sv_job *job)
{
    unsigned char bytes[12];
    char *end = job->id + snprintf(job->id, sizeof job->id, "%s-", job->server->instance);
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        end += sprintf(end, "%02x", bytes[i]);
    job->folder = must_print("%s/%s", job->server->spool, job->id);
    return mkdir(job->folder, 0700) == 0;
}

sv_job *sv_job_new(sv_jobs *jobs, const sv_task *task, const char *client)
{
    sv_job *job = must_alloc(NULL, sizeof *job);
    memset(job, 0, sizeof *job);
    job->server = jobs->server;
    job->jobs = jobs;
    job->task = task;
    job->references = 1;
    job->share = 1;
    job->form = "latent";
    job->o.dtype = job->o.run_seed = -1;
    job->o.quiet = 1;
    job->o.device = jobs->server->settings->device;
    job->o.threads = jobs->server->settings->threads;
    snprintf(job->client, sizeof job->client, "%s", client);
    if (name_job(job))
        return job;
    zn_fail(ZN_EIO, "cannot create a folder for a job in %s: %s", job->server->spool, strerror(errno));
    sv_job_release(job);
    return NULL;
}

const char *sv_job_text(sv_job *job, const char *text)
{
    job->texts = must_alloc(job->texts, (size_t)(job->text_count + 1) * sizeof *job->texts);
    return job->texts[job->text_count++] = must_copy(text);
}

zn_status sv_job_add_file(sv_job *job, sv_field *field, sv_file *slot)
{
    ZN_TRY(sv_field_decode(field));
    if (!slot && job->file_count == SV_MOST_FILES)
        return ZN_FAIL(ZN_ELIMIT, "a job takes at most %d files", SV_MOST_FILES);
    if (slot && slot->path)
        return ZN_FAIL(ZN_EINVALID, "%s is given twice", field->name);
    /* The extension tells the library what a video is; the rest of the name is ours. */
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const char *dot = field->filename ? strrchr(field->filename, '.') : NULL;
    const int plain = dot && strlen(dot) < 13 && dot[1] && strspn(dot + 1, letters) == strlen(dot + 1);
    const char *kind = slot == &job->mask ? "mask" : slot ? "reference" : "in";
    char *path = must_print("%s/%s-%d%s", job->folder, kind, job->file_count, plain ? dot : "");
    const zn_status status = zn_file_write(path, field->bytes, field->size);
    sv_file *file = slot ? slot : &job->files[job->file_count];
    file->path = path;
    file->name = must_copy(field->filename && field->filename[0] ? field->filename : field->name);
    job->file_count += !slot;
    return status;
}

/* ---- options ---- */

static int is_word_of(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' '))
            return 1;
    return 0;
}

static const option *option_of(const sv_job *job, const char *name)
{
    for (int i = 0; i < option_count; i++)
        if ((option_table[i].commands & job->task->command) && !strcmp(option_table[i].name, name) &&
            is_word_of(job->task->options, name))
            return &option_table[i];
    return NULL;
}

static zn_status set_flag(sv_job *job, const option *t, const char *value)
{
    const int yes = !strcmp(value, "true") || !strcmp(value, "1");
    if (!yes && strcmp(value, "false") && strcmp(value, "0"))
        return ZN_FAIL(ZN_EINVALID, "%s must be true or false, not '%.60s'", t->name, value);
    *(int *)((char *)&job->o + t->field) = yes;
    return ZN_OK;
}

/* Options that the program does not have. */
static int set_own_option(sv_job *job, const char *name, const char *value, zn_status *status)
{
    *status = ZN_OK;
    if (!strcmp(name, "preview") && job->task->command == CMD_GENERATE) {
        job->previews = strcmp(value, "false") && strcmp(value, "0");
    } else if (!strcmp(name, "to") && !strcmp(job->task->name, "clip")) {
        static const char *const forms[] = { "latent", "video", "frames" };
        job->form = NULL;
        for (int i = 0; i < 3; i++)
            job->form = strcmp(value, forms[i]) ? job->form : forms[i];
        if (!job->form)
            *status = ZN_FAIL(ZN_EINVALID, "to must be latent, video or frames, not '%.60s'", value);
    } else {
        return 0;
    }
    return 1;
}

zn_status sv_job_set_option(sv_job *job, const char *given, const char *value)
{
    char name[40];
    zn_status status;
    snprintf(name, sizeof name, "%s", given);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (set_own_option(job, name, value, &status))
        return status;
    const option *t = option_of(job, name);
    if (!t)
        return ZN_FAIL(ZN_EINVALID, "the task %s has no option '%.60s'", job->task->name, given);
    if (!t->value)
        return set_flag(job, t, value);
    if (!t->parse(sv_job_text(job, value), (char *)&job->o + t->field))
        return ZN_FAIL(ZN_EINVALID, "%s must be %s, not '%.60s'", name, t->wants, value);
    return ZN_OK;
}

static zn_status take_field(sv_job *job, sv_field *f)
{
    if (!f->option && (!strcmp(f->name, "files") || !strcmp(f->name, "file") || f->binary)) {
        sv_file *slot = !strcmp(f->name, "mask") ? &job->mask : !strcmp(f->name, "reference") ? &job->reference : NULL;
        return sv_job_add_file(job, f, slot);
    }
    if (strlen(f->bytes) != f->size)
        return ZN_FAIL(ZN_EINVALID, "%.60s: not a text", f->name);
    if (f->option)
        return sv_job_set_option(job, f->name, f->bytes);
    if (!strcmp(f->name, "mask"))
        return sv_job_add_file(job, f, &job->mask);
    if (!strcmp(f->name, "reference"))
        return sv_job_add_file(job, f, &job->reference);
    if (!strcmp(f->name, "task"))
        return ZN_OK;
    if (!strcmp(f->name, "model") || !strcmp(f->name, "prompt")) {
        char **field = f->name[0] == 'm' ? &job->model : &job->prompt;
        free(*field);
        *field = f->bytes[0] || f->name[0] == 'p' ? must_copy(f->bytes) : NULL;
        return ZN_OK;
    }
    return sv_job_set_option(job, f->name, f->bytes);
}

zn_status sv_job_fill(sv_job *job, const sv_form *form)
{
    for (int i = 0; i < form->count; i++)
        ZN_TRY(take_field(job, &form->fields[i]));
    return ZN_OK;
}

/* ---- watchers ---- */

static void tell_locked(sv_job *job)
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
        tell_locked(jobs->queue.items[i].value);
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

zn_status sv_job_submit(sv_job *job)
{
    sv_jobs *jobs = job->jobs;
    ZN_TRY(check_files(job));
    sv_jobs_lock(jobs);
    job->created = sv_now();
    const sv_queued queued = jobs->closed ? SV_QUEUE_FULL : sv_queue_push(&jobs->queue, job, job->client);
    const int closed = jobs->closed;
    if (queued == SV_QUEUED) {
        job->references++; /* of the list */
        job->next = jobs->first;
        jobs->first = job;
        tell_waiting_locked(jobs);
        pthread_cond_signal(&jobs->work);
    } else {
        jobs->totals.refused++;
    }
    sv_jobs_unlock(jobs);
    if (queued == SV_QUEUED)
        return ZN_OK;
    if (closed)
        return ZN_FAIL(ZN_ELIMIT, "the server is stopping and takes no new jobs");
    if (queued == SV_CLIENT_FULL)
        return ZN_FAIL(ZN_ELIMIT, "this client has %d jobs in the queue already", jobs->queue.per_client);
    return ZN_FAIL(ZN_ELIMIT, "the queue is full: %d jobs wait", jobs->queue.most);
}

static void end_locked(sv_job *job, sv_state state, const char *error)
{
    sv_jobs *jobs = job->jobs;
    job->state = state;
    job->finished = sv_now();
    job->fraction = state == SV_DONE ? 1 : job->fraction;
    job->error = error ? must_copy(error) : NULL;
    jobs->totals.ended[state]++;
    if (job->started > 0)
        jobs->totals.seconds += job->finished - job->started;
    tell_locked(job);
}

void sv_job_cancel(sv_job *job)
{
    sv_jobs *jobs = job->jobs;
    sv_jobs_lock(jobs);
    job->cancelled = 1;
    if (job->state == SV_WAITING && sv_queue_remove(&jobs->queue, job)) {
        job->status = ZN_ECANCELLED;
        end_locked(job, SV_CANCELLED, "cancelled");
        tell_waiting_locked(jobs);
    }
    sv_jobs_unlock(jobs);
}

void sv_job_forget(sv_job *job)
{
    sv_job *dead = NULL;
    sv_jobs_lock(job->jobs);
    sv_job **at = &job->jobs->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at && sv_job_ended(job)) {
        *at = job->next;
        release_locked(job, &dead);
    }
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

int sv_jobs_waiting(sv_jobs *jobs)
{
    sv_jobs_lock(jobs);
    const int count = jobs->queue.count;
    sv_jobs_unlock(jobs);
    return count;
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

/* The library's sentence with the client's names in place of our paths. */
static char *clients_words(const sv_job *job, const char *text)
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

static void run_job(sv_job *job)
{
    const int limit = job->server->settings->job_seconds;
    const zn_status status = job->cancelled ? ZN_ECANCELLED : job->task->run(job);
    char *why = clients_words(job, status == ZN_OK ? "" : zn_error_text());
    sv_jobs_lock(job->jobs);
    job->status = status;
    job->jobs->running--;
    if (status == ZN_OK) {
        end_locked(job, SV_DONE, NULL);
    } else if (status == ZN_ECANCELLED && job->cancelled) {
        end_locked(job, SV_CANCELLED, "cancelled");
    } else if (status == ZN_ECANCELLED) {
        char text[96];
        snprintf(text, sizeof text, "took longer than the limit of %d seconds", limit);
        job->status = ZN_ELIMIT;
        end_locked(job, SV_FAILED, text);
    } else {
        end_locked(job, SV_FAILED, why);
    }
    sv_jobs_unlock(job->jobs);
    free(why);
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
            job->state = SV_RUNNING;
            job->started = sv_now();
            jobs->running++;
            tell_locked(job);
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
    int good = sv_queue_init(&jobs->queue, s->queue, s->per_client);
    jobs->workers = must_alloc(NULL, (size_t)s->workers * sizeof *jobs->workers);
    while (good && jobs->worker_count < s->workers) {
        good = !pthread_create(&jobs->workers[jobs->worker_count], NULL, worker, jobs);
        jobs->worker_count += good;
    }
    if (good)
        return jobs;
    snprintf(why, 256, "cannot start %d workers", s->workers);
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

void sv_jobs_stop(sv_jobs *jobs)
{
    sv_job *dead = NULL;
    sv_jobs_lock(jobs);
    jobs->closed = jobs->ending = 1;
    for (sv_job *job; (job = sv_queue_next(&jobs->queue)) != NULL;) {
        job->status = ZN_ECANCELLED;
        end_locked(job, SV_CANCELLED, "cancelled: the server has stopped");
    }
    for (sv_job *job = jobs->first; job; job = job->next)
        job->cancelled = 1;
    pthread_cond_broadcast(&jobs->work);
    sv_jobs_unlock(jobs);
    for (int i = 0; i < jobs->worker_count; i++)
        pthread_join(jobs->workers[i], NULL);
    sv_jobs_lock(jobs);
    for (sv_job *job = jobs->first, *next; job; job = next) {
        next = job->next;
        release_locked(job, &dead);
    }
    jobs->first = NULL;
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
        sv_job *job = *at;
        if (sv_job_ended(job) && (job->finished < before || ++kept > MOST_KEPT)) {
            *at = job->next;
            release_locked(job, &dead);
        } else {
            at = &job->next;
        }
    }
    sv_jobs_unlock(jobs);
    bury(dead);
}

/* ---- what tasks report ---- */

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
        tell_locked(job);
    const int late = limit && sv_now() - job->started > limit;
    sv_jobs_unlock(job->jobs);
    return job->cancelled || late;
}

int sv_job_tick(void *user, double fraction)
{
    sv_job *job = user;
    return sv_job_step(job, job->step, job->steps, fraction);
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
    sv_jobs_lock(job->jobs);
    free(job->preview);
    job->preview = copy;
    job->preview_size = size;
    job->preview_number++;
    tell_locked(job);
    sv_jobs_unlock(job->jobs);
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

/* ---- JSON ---- */

void sv_job_progress_json(json *j, const char *key, const sv_job *job)
{
    const double spent = job->started > 0 ? sv_now() - job->started : 0;
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
        json_real(j, "seconds_left", spent * (1 - job->fraction) / job->fraction);
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

void sv_job_json(json *j, const char *key, const sv_job *job)
{
    const int position = sv_queue_position(&job->jobs->queue, job);
    json_open(j, key, '{');
    json_text(j, "id", job->id);
    json_text(j, "task", job->task->name);
    json_text(j, "model", job->model ? job->model : "");
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
    json_open(j, "remarks", '[');
    for (int i = 0; i < job->remark_count; i++)
        json_text(j, NULL, job->remarks[i]);
    json_close(j, ']');
    if (job->error)
        json_text(j, "error", job->error);
    else
        json_null(j, "error");
    json_close(j, '}');
}

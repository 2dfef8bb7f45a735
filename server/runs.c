/* Training runs: the one that trains, and the folders of all. */
#include "server/runs.h"
#include "server/jobs.h"
#include "server/sent.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "ui/report.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TELL_MS = 200, MOST_WATCHERS = 256 };

struct sv_runs {
    sv_server *server;
    pthread_mutex_t lock;
    pthread_t thread;
    int has_thread; /* to be joined */
    int closed;
    /* Of the run that trains or trained last. */
    char *name;
    sv_run_request request; /* strings are owned */
    int resumes;
    int arriving;      /* its images are not all decoded */
    zn_status refusal; /* why that failed: nothing is left of the run */
    atomic_int training, halts;
    zn_train_progress progress;
    char *error;
    int cancelled;
    char *remarks[8];
    int remark_count;
    double told;
    unsigned version;
    sv_exchange *watchers[MOST_WATCHERS];
    int watcher_count;
};

sv_runs *sv_runs_start(sv_server *server)
{
    sv_runs *r = must_alloc(NULL, sizeof *r);
    *r = (sv_runs){ .server = server };
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void lock(sv_runs *r) { pthread_mutex_lock(&r->lock); }
static void unlock(sv_runs *r) { pthread_mutex_unlock(&r->lock); }

int sv_run_name_good(const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return name && *name && strlen(name) < 100 && strspn(name, good) == strlen(name);
}

unsigned sv_runs_version(sv_runs *r)
{
    lock(r);
    const unsigned version = r->version;
    unlock(r);
    return version;
}

char *sv_run_path(sv_runs *r, const char *name, const char *file)
{
    if (!sv_run_name_good(name))
        return NULL;
    char *folder = must_print("%s/%s", r->server->settings->runs, name);
    lock(r);
    /* its folder may not be there yet */
    const int current = r->name && !strcmp(r->name, name) && r->refusal == ZN_OK;
    unlock(r);
    char *path = current || zn_is_folder(folder) ? must_print("%s/%s", folder, file) : NULL;
    free(folder);
    return path;
}

/* ---- the thread ---- */

static void tell_locked(sv_runs *r)
{
    r->told = now_ms();
    r->version++;
    for (int i = 0; i < r->watcher_count; i++)
        sv_http_wake(r->watchers[i]);
}

static int on_progress(void *user, const zn_train_progress *p)
{
    sv_runs *r = user;
    lock(r);
    r->progress = *p;
    r->progress.stage = NULL; /* belongs to the library */
    if (now_ms() - r->told > TELL_MS)
        tell_locked(r);
    unlock(r);
    return r->halts;
}

/* Once the run has its folder, so that it can be resumed: the client knows of it. */
static int on_stop(void *user)
{
    const sv_runs *r = user;
    if (!r->halts)
        return 0;
    char *folder = must_print("%s/%s", r->server->settings->runs, r->name);
    const int begun = zn_is_folder(folder);
    free(folder);
    return begun;
}

static void on_remark(void *user, const char *sentence)
{
    sv_runs *r = user;
    lock(r);
    if (r->remark_count < 8)
        r->remarks[r->remark_count++] = must_copy(sentence);
    unlock(r);
}

/* Where a run's images are is kept beside its folder, which must be new, so that it can be resumed. */
static char *data_file(const sv_runs *r, const char *name)
{
    return must_print("%s/%s.data", r->server->settings->runs, name);
}

static zn_status take_images(sv_runs *r)
{
    ZN_TRY(sv_sent_decode(r->request.data, r->server->settings->most_pixels, &r->halts));
    lock(r);
    r->arriving = 0;
    tell_locked(r);
    unlock(r);
    return ZN_OK;
}

static void *train(void *user)
{
    sv_runs *r = user;
    const sv_run_request *q = &r->request;
    const char *device = r->server->settings->device;
    char *folder = must_print("%s/%s", r->server->settings->runs, r->name), *data = data_file(r, r->name);
    const zn_options compute = { .size = sizeof compute,
                                 .context = r->server->context,
                                 .precision = (zn_precision)q->precision,
                                 .device = device ? device : "cpu" }; /* whatever the run had */
    const zn_train_options how = { .recipe = q->recipe,
                                   .run = { .data = q->data,
                                            .folder = folder,
                                            .from = q->from,
                                            .resume = r->resumes,
                                            .seed = q->seed >= 0 ? &q->seed : NULL,
                                            .steps = q->steps,
                                            .settings = q->settings[0] ? q->settings : NULL,
                                            .compute = &compute,
                                            .progress = on_progress,
                                            .stop = on_stop,
                                            .remark = on_remark,
                                            .user = r } };
    zn_train_result result;
    zn_status status = r->arriving ? take_images(r) : ZN_OK;
    if (status == ZN_OK)
        status = zn_train(&how, &result);
    lock(r);
    r->refusal = r->arriving ? status : ZN_OK;
    r->arriving = 0;
    r->cancelled = status == ZN_ECANCELLED;
    r->error = status == ZN_OK || r->cancelled ? NULL : must_copy(zn_error_text());
    if (!zn_is_folder(folder)) { /* it failed before it began */
        remove(data);
        if (q->sent)
            sv_folder_remove(q->data);
    }
    r->training = 0;
    tell_locked(r);
    unlock(r);
    free(folder);
    free(data);
    return NULL;
}

static void forget_locked(sv_runs *r)
{
    sv_run_request *q = &r->request;
    free((char *)q->recipe);
    free((char *)q->from);
    free(q->data);
    for (int i = 0; q->settings[i]; i++)
        free((char *)q->settings[i]);
    for (int i = 0; i < r->remark_count; i++)
        free(r->remarks[i]);
    free(r->name);
    free(r->error);
    *q = (sv_run_request){ 0 };
    r->name = r->error = NULL;
    r->remark_count = r->cancelled = 0;
    r->halts = 0;
    r->arriving = 0;
    r->refusal = ZN_OK;
    r->progress = (zn_train_progress){ .loss = NAN, .eval_psnr = NAN };
}

static char *copy_of(const char *text) { return text ? must_copy(text) : NULL; }

static zn_status check_locked(const sv_runs *r)
{
    return r->training ? ZN_FAIL(ZN_ELIMIT, "the run %s is training; only one can at a time", r->name) : ZN_OK;
}

zn_status sv_run_check(sv_runs *r)
{
    lock(r);
    const zn_status status = check_locked(r);
    unlock(r);
    return status;
}

/* Starts the thread; locked. */
static zn_status start_locked(sv_runs *r, const sv_run_request *q, int resumes)
{
    ZN_TRY(check_locked(r));
    if (r->closed)
        return ZN_FAIL(ZN_ELIMIT, "the server is stopping");
    if (r->has_thread)
        pthread_join(r->thread, NULL);
    r->has_thread = 0;
    forget_locked(r);
    r->name = must_copy(q->name);
    r->request = *q;
    r->request.recipe = copy_of(q->recipe);
    r->request.from = copy_of(q->from);
    r->request.data = copy_of(q->data);
    for (int i = 0; q->settings[i]; i++)
        r->request.settings[i] = must_copy(q->settings[i]);
    r->resumes = resumes;
    r->arriving = q->sent;
    r->training = 1;
    r->has_thread = !pthread_create(&r->thread, NULL, train, r);
    r->training = r->has_thread;
    return r->has_thread ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "cannot start a thread for the run");
}

zn_status sv_run_begin(sv_runs *r, const sv_run_request *q)
{
    char *path = data_file(r, q->name);
    zn_status status = zn_folder_make(r->server->settings->runs);
    lock(r);
    if (status == ZN_OK)
        status = check_locked(r);
    if (status == ZN_OK)
        status = zn_file_write(path, q->data, strlen(q->data));
    if (status == ZN_OK)
        status = start_locked(r, q, 0);
    unlock(r);
    free(path);
    return status;
}

int sv_run_begun(sv_runs *r, const char *name, zn_status *status, char **why)
{
    lock(r);
    const int current = r->name && !strcmp(r->name, name), pending = current && r->arriving;
    *status = current ? r->refusal : ZN_OK;
    *why = *status == ZN_OK ? NULL : must_copy(r->error ? r->error : "cancelled");
    unlock(r);
    return !pending;
}

zn_status sv_run_resume(sv_runs *r, const char *name)
{
    char *path = data_file(r, name);
    zn_map map = { 0 };
    zn_status status = zn_map_open(&map, path);
    char *data = status == ZN_OK ? must_print("%.*s", (int)map.size, (const char *)map.bytes) : NULL;
    if (status == ZN_OK) {
        const sv_run_request q = { .name = name, .data = data, .seed = -1 };
        lock(r);
        status = start_locked(r, &q, 1);
        unlock(r);
    }
    zn_map_close(&map);
    free(data);
    free(path);
    return status;
}

zn_status sv_run_halt(sv_runs *r, const char *name)
{
    lock(r);
    const int found = r->training && !strcmp(r->name, name);
    if (found) {
        r->halts = 1;
        tell_locked(r);
    }
    unlock(r);
    return found ? ZN_OK : ZN_FAIL(ZN_ENOTFOUND, "the run %s is not training", name);
}

void sv_runs_close(sv_runs *r)
{
    lock(r);
    r->closed = 1;
    r->halts = 1;
    unlock(r);
}

int sv_runs_busy(sv_runs *r) { return r->training; }

void sv_runs_stop(sv_runs *r)
{
    if (!r)
        return;
    sv_runs_close(r);
    if (r->has_thread)
        pthread_join(r->thread, NULL);
    forget_locked(r);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void sv_runs_watch(sv_runs *r, sv_exchange *e)
{
    lock(r);
    if (r->watcher_count < MOST_WATCHERS)
        r->watchers[r->watcher_count++] = e;
    unlock(r);
}

void sv_runs_unwatch(sv_runs *r, sv_exchange *e)
{
    lock(r);
    for (int i = 0; i < r->watcher_count; i++)
        if (r->watchers[i] == e)
            r->watchers[i--] = r->watchers[--r->watcher_count];
    unlock(r);
}

/* ---- what folders say ---- */

/* The name of the run that trains and has no folder yet; NULL: there is none. The caller frees it. */
static char *new_run(sv_runs *r)
{
    lock(r);
    char *name = r->training ? must_copy(r->name) : NULL;
    unlock(r);
    char *folder = must_print("%s/%s", r->server->settings->runs, name ? name : "");
    if (name && zn_is_folder(folder)) {
        free(name);
        name = NULL;
    }
    free(folder);
    return name;
}

void sv_runs_visit(sv_runs *r, void (*visit)(void *user, const char *name), void *user)
{
    char *first = new_run(r);
    if (first)
        visit(user, first);
    free(first);
    struct dirent **entries = NULL;
    const int count = scandir(r->server->settings->runs, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = sv_run_path(r, entries[i]->d_name, "");
        if (path)
            visit(user, entries[i]->d_name);
        free(path);
        free(entries[i]);
    }
    free(entries);
}

static int is_sample(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && !strcmp(dot, ".png") && entry->d_name[0] != '.';
}

static void samples_json(const char *folder, json *j)
{
    struct dirent **entries = NULL;
    char *path = must_print("%s/samples", folder);
    const int count = scandir(path, &entries, is_sample, alphasort);
    json_open(j, "samples", '[');
    for (int i = 0; i < count; i++) {
        json_text(j, NULL, entries[i]->d_name);
        free(entries[i]);
    }
    json_close(j, ']');
    free(entries);
    free(path);
}

/* The last number of a key in the lines of metrics.jsonl; NaN: none. */
static double last_metric(const char *path, const char *key)
{
    zn_map map = { 0 };
    double value = NAN;
    if (zn_map_open(&map, path) != ZN_OK)
        return NAN;
    const char *end = (const char *)map.bytes + map.size, *line = (const char *)map.bytes;
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((stop ? stop : end) - line);
        zn_json doc;
        if (length && zn_json_parse(&doc, line, length, path) == ZN_OK) {
            double v;
            if (zn_json_double(zn_json_get(doc.root, key), &v))
                value = v;
            zn_json_free(&doc);
        }
        line += length + 1;
    }
    zn_map_close(&map);
    return value;
}

/* The steps that a run is to have, by its recipe.yaml; 0: it says nothing. */
static double stored_steps(const char *folder)
{
    char *path = must_print("%s/recipe.yaml", folder);
    zn_map map = { 0 };
    double steps = 0;
    if (zn_map_open(&map, path) == ZN_OK) {
        char *text = must_print("\n%.*s", (int)map.size, (const char *)map.bytes);
        const char *at = strstr(text, "\nsteps: ");
        steps = at ? strtod(at + strlen("\nsteps: "), NULL) : 0;
        free(text);
    }
    zn_map_close(&map);
    free(path);
    return steps;
}

/* Of a run that does not train: from its files. A model is written at the end of a run. */
static void stored_json(sv_runs *r, const char *name, const char *folder, json *j)
{
    char *metrics = must_print("%s/metrics.jsonl", folder);
    const double step = last_metric(metrics, "step");
    const int failed = r->name && !strcmp(r->name, name) && r->error;
    const int ended = r->name && !strcmp(r->name, name) && !r->error && !r->cancelled && !r->training;
    const int complete =
        ended ? r->progress.step >= r->progress.steps : !failed && step > 0 && step >= stored_steps(folder);
    json_text(j, "state", failed ? "failed" : complete ? "finished" : "stopped");
    json_integer(j, "step", isfinite(step) ? (int64_t)step : 0);
    json_integer(j, "steps", ended || failed ? r->progress.steps : (int64_t)stored_steps(folder));
    json_real(j, "loss", last_metric(metrics, "loss"));
    json_real(j, "psnr", last_metric(metrics, "psnr"));
    json_null(j, "seconds_left");
    free(metrics);
}

static void training_json(const sv_runs *r, json *j)
{
    const zn_train_progress *p = &r->progress;
    json_text(j, "state", r->halts ? "stopping" : "running");
    json_integer(j, "step", p->step);
    json_integer(j, "steps", p->steps);
    json_real(j, "loss", p->loss);
    json_real(j, "psnr", p->eval_psnr);
    json_real(j, "images_per_second", p->images_per_second);
    json_real(j, "seconds_left", p->step ? p->seconds_left : NAN);
}

int sv_run_json(sv_runs *r, const char *name, json *j)
{
    char *folder = must_print("%s/%s", r->server->settings->runs, name),
         *model = must_print("%s/model.safetensors", folder),
         *checkpoint = must_print("%s/checkpoint.safetensors", folder);
    lock(r);
    const int mine = r->name && !strcmp(r->name, name), training = mine && r->training;
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    if (training)
        training_json(r, j);
    else
        stored_json(r, name, folder, j);
    json_text(j, "recipe", mine && r->request.recipe ? r->request.recipe : "");
    json_bool(j, "resumable", !training && zn_exists(checkpoint));
    samples_json(folder, j);
    if (zn_exists(model)) {
        char *called = must_print("run:%s", name);
        json_text(j, "model", called);
        free(called);
    } else {
        json_null(j, "model");
    }
    json_open(j, "remarks", '[');
    for (int i = 0; mine && i < r->remark_count; i++)
        json_text(j, NULL, r->remarks[i]);
    json_close(j, ']');
    if (mine && r->error)
        json_text(j, "error", r->error);
    else
        json_null(j, "error");
    json_close(j, '}');
    unlock(r);
    free(folder);
    free(model);
    free(checkpoint);
    return training;
}

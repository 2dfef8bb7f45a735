/* /api/runs, /api/recipes and /api/data. */
#include "server/routes/runs.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "server/models.h"
#include "server/routes/routes.h"
#include "server/runs.h"
#include "server/sent.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sv_runs *runs_of(const sv_request *r) { return sv_server_of(r)->runs; }

/* ---- what can be trained, and on what ---- */

void sv_get_recipes(const sv_request *r, sv_answer *a)
{
    (void)r;
    const char *name, *description;
    json j = { 0 };
    json_open(&j, NULL, '{');
    json_open(&j, "recipes", '[');
    for (int i = 0; (name = zn_train_preset(i, &description)) != NULL; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "name", name);
        json_text(&j, "description", description);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void sv_get_data(const sv_request *r, sv_answer *a)
{
    const char *const *data = sv_server_of(r)->settings->data;
    json j = { 0 };
    json_open(&j, NULL, '{');
    json_open(&j, "folders", '[');
    for (int i = 0; data[i]; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "name", last_part(data[i]));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

/* ---- lists ---- */

typedef struct listing {
    sv_runs *runs;
    json out;
} listing;

static void visit(void *user, const char *name)
{
    listing *l = user;
    sv_run_json(l->runs, name, &l->out);
}

void sv_get_runs(const sv_request *r, sv_answer *a)
{
    listing l = { .runs = runs_of(r) };
    json_open(&l.out, NULL, '{');
    json_open(&l.out, "runs", '[');
    sv_runs_visit(l.runs, visit, &l);
    json_close(&l.out, ']');
    json_close(&l.out, '}');
    sv_answer_json(a, 200, &l.out);
}

/* Path of a file in the run of the request; NULL after answering that there is no such run. */
static char *path_of(const sv_request *r, sv_answer *a, const char *file)
{
    char *path = sv_run_path(runs_of(r), r->argument[0], file);
    if (!path)
        sv_answer_error(a, 404, "there is no run '%.80s'", r->argument[0]);
    return path;
}

static void answer_run(sv_runs *runs, sv_answer *a, int status, const char *name)
{
    json j = { 0 };
    sv_run_json(runs, name, &j);
    sv_answer_json(a, status, &j);
}

void sv_get_run(const sv_request *r, sv_answer *a)
{
    char *path = path_of(r, a, "");
    if (path)
        answer_run(runs_of(r), a, 200, r->argument[0]);
    free(path);
}

/* ---- start, stop, resume ---- */

/* The path of a folder that --data names. */
static const char *folder_of(const sv_request *r, const char *name)
{
    const char *const *data = sv_server_of(r)->settings->data;
    for (int i = 0; name && data[i]; i++)
        if (!strcmp(last_part(data[i]), name))
            return data[i];
    return NULL;
}

static zn_status find_data(const sv_request *r, const sv_form *form, sv_run_request *q)
{
    const char *name = sv_form_text(form, "data"), *folder = folder_of(r, name);
    if (folder && !zn_exists(folder))
        return ZN_FAIL(ZN_ENOTFOUND, "the folder '%.80s' is not there any more", name);
    if (folder) {
        q->data = must_copy(folder);
        return ZN_OK;
    }
    if (name)
        return ZN_FAIL(ZN_ENOTFOUND, "no folder of images is called '%.80s'; GET /api/data lists them", name);
    if (!sv_form_field(form, "file", 0) && !sv_form_field(form, "files", 0))
        return ZN_FAIL(ZN_EINVALID, "data is missing: a folder from GET /api/data, or images as files");
    q->sent = 1;
    q->data = must_print("%s/%s.images", sv_server_of(r)->settings->runs, q->name);
    return sv_sent_keep(q->data, form);
}

static int is_preset(const char *name)
{
    const char *preset, *description;
    for (int i = 0; name && (preset = zn_train_preset(i, &description)) != NULL; i++)
        if (!strcmp(preset, name))
            return 1;
    return 0;
}

/* Settings that name files are refused: a run reads what it is given and nothing else. */
static zn_status take_settings(const sv_form *form, sv_run_request *q)
{
    int count = 0;
    for (sv_field *f; count < MOST_SETTINGS && (f = sv_form_field(form, "settings", count)) != NULL; count++) {
        if (!strchr(f->bytes, '=') || strchr(f->bytes, '/') || !strncmp(f->bytes, "labels", 6) ||
            !strncmp(f->bytes, "from", 4) || !strncmp(f->bytes, "autoencoder", 11))
            return ZN_FAIL(ZN_EINVALID, "the setting '%.60s' is not KEY=VALUE, or names a file", f->bytes);
        q->settings[count] = f->bytes;
    }
    if (sv_form_field(form, "settings", count))
        return ZN_FAIL(ZN_EINVALID, "a run takes at most %d settings", MOST_SETTINGS);
    return ZN_OK;
}

/* As zn_train does when the run begins, which is too late for who asks. */
static zn_status check_recipe(const sv_run_request *q)
{
    const zn_options compute = { .size = sizeof compute, .precision = (zn_precision)q->precision };
    return zn_train_check(&(zn_train_options){ .recipe = q->recipe,
                                               .run = { .from = q->from,
                                                        .seed = q->seed >= 0 ? &q->seed : NULL,
                                                        .steps = q->steps,
                                                        .settings = q->settings,
                                                        .compute = &compute } });
}

static zn_status take_number(const sv_form *form, const char *name, double least, int64_t *out)
{
    const double v = sv_form_number(form, name, least - 1);
    if (!sv_form_text(form, name))
        return ZN_OK;
    if (!(v >= least && v <= 1e9))
        return ZN_FAIL(ZN_EINVALID, "%s must be a number from %g to 1000000000", name, least);
    *out = (int64_t)v;
    return ZN_OK;
}

static zn_status take_precision(const char *name, sv_run_request *q)
{
    for (int i = ZN_PRECISION_F32; name && i <= ZN_PRECISION_BF16; i++)
        if (!strcmp(name, zn_precision_name(i))) {
            q->precision = i;
            return ZN_OK;
        }
    return name ? ZN_FAIL(ZN_EINVALID, "precision must be f32 or bf16, not '%.60s'", name) : ZN_OK;
}

static zn_status take_request(const sv_request *r, const sv_form *form, sv_run_request *q, char **from)
{
    const char *model = sv_form_text(form, "from");
    q->recipe = sv_form_text(form, "recipe");
    q->seed = -1;
    if (!is_preset(q->recipe))
        return ZN_FAIL(ZN_EINVALID, "recipe must be one of GET /api/recipes, not '%.60s'", q->recipe ? q->recipe : "");
    ZN_TRY(take_number(form, "steps", 1, &q->steps));
    ZN_TRY(take_number(form, "seed", 0, &q->seed));
    ZN_TRY(take_precision(sv_form_text(form, "precision"), q));
    if (model && *model && !(*from = sv_model_path(sv_server_of(r)->models, model, 0)))
        return ZN_FAIL(ZN_ENOTFOUND, "no model is called '%.80s'", model);
    q->from = *from;
    ZN_TRY(take_settings(form, q));
    ZN_TRY(check_recipe(q));
    return find_data(r, form, q);
}

/* Of a run that the client gave none. */
static void free_name(const sv_request *r, const char *recipe, char name[128])
{
    char *path = NULL;
    long long number = time(NULL);
    do {
        free(path);
        snprintf(name, 128, "%.60s-%lld", recipe, number++);
        path = sv_run_path(runs_of(r), name, "");
    } while (path);
}

static int name_run(const sv_request *r, sv_answer *a, const sv_form *form, char name[128])
{
    const char *given = sv_form_text(form, "name"), *recipe = sv_form_text(form, "recipe");
    if (given && *given)
        snprintf(name, 128, "%s", given);
    else
        free_name(r, sv_run_name_good(recipe) ? recipe : "run", name);
    char *path = sv_run_path(runs_of(r), name, "");
    const int good = sv_run_name_good(name), taken = path != NULL;
    free(path);
    if (!good)
        sv_answer_error(a, 400, "the name of a run has letters, digits, - and _");
    else if (taken)
        sv_answer_error(a, 409, "there is a run '%s' already", name);
    return good && !taken;
}

/* A request that waits until its images are decoded. */
typedef struct waiting {
    sv_runs *runs;
    sv_exchange *exchange;
    char name[128];
} waiting;

static void answer_failure(sv_answer *a, zn_status status, const char *why)
{
    sv_answer_error(a, status == ZN_ELIMIT ? 409 : sv_status_of(status), "%s", why);
}

static int ready(void *self, sv_answer *a)
{
    const waiting *w = self;
    zn_status status;
    char *why;
    if (!sv_run_begun(w->runs, w->name, &status, &why))
        return 0;
    if (status == ZN_OK)
        answer_run(w->runs, a, 201, w->name);
    else
        answer_failure(a, status, why);
    free(why);
    return 1;
}

static void stop_waiting(void *self)
{
    waiting *w = self;
    sv_runs_unwatch(w->runs, w->exchange);
    free(w);
}

static void answer_when_begun(const sv_request *r, sv_answer *a, const char *name)
{
    waiting *w = must_alloc(NULL, sizeof *w);
    *w = (waiting){ .runs = runs_of(r), .exchange = r->exchange };
    snprintf(w->name, sizeof w->name, "%s", name);
    sv_runs_watch(w->runs, r->exchange);
    a->ready = ready;
    a->release = stop_waiting;
    a->self = w;
}

void sv_post_run(const sv_request *r, sv_answer *a)
{
    sv_form form;
    char name[128], *from = NULL;
    if (!sv_take_form(r, a, &form))
        return;
    if (name_run(r, a, &form, name)) {
        sv_run_request q = { .name = name };
        zn_status status = sv_run_check(runs_of(r)); /* before images are written */
        if (status == ZN_OK)
            status = take_request(r, &form, &q, &from);
        if (status == ZN_OK)
            status = sv_run_begin(runs_of(r), &q);
        if (status == ZN_OK)
            answer_when_begun(r, a, name);
        else
            answer_failure(a, status, zn_error_text());
        if (status != ZN_OK && q.sent)
            sv_folder_remove(q.data);
        free(q.data);
        free(from);
    }
    sv_form_free(&form);
}

static void change(const sv_request *r, sv_answer *a, zn_status (*call)(sv_runs *runs, const char *name))
{
    char *path = path_of(r, a, "");
    if (!path)
        return;
    const zn_status status = call(runs_of(r), r->argument[0]);
    if (status == ZN_OK)
        answer_run(runs_of(r), a, 200, r->argument[0]);
    else
        answer_failure(a, status, zn_error_text());
    free(path);
}

void sv_stop_run(const sv_request *r, sv_answer *a) { change(r, a, sv_run_halt); }
void sv_resume_run(const sv_request *r, sv_answer *a) { change(r, a, sv_run_resume); }

/* ---- curve, samples ---- */

/* The lines of metrics.jsonl after a step, as they are. */
static void lines_json(const char *path, double after, json *j)
{
    zn_map map = { 0 };
    if (zn_map_open(&map, path) != ZN_OK)
        return; /* nothing was written yet */
    const char *end = (const char *)map.bytes + map.size, *line = (const char *)map.bytes;
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((stop ? stop : end) - line);
        zn_json doc;
        double step;
        if (length && zn_json_parse(&doc, line, length, path) == ZN_OK) {
            if (zn_json_double(zn_json_get(doc.root, "step"), &step) && step > after)
                json_raw(j, line, length);
            zn_json_free(&doc);
        }
        line += length + 1;
    }
    zn_map_close(&map);
}

void sv_get_run_metrics(const sv_request *r, sv_answer *a)
{
    const char *after = sv_query(r, "after");
    char *path = path_of(r, a, "metrics.jsonl");
    json j = { 0 };
    if (!path)
        return;
    json_open(&j, NULL, '{');
    json_open(&j, "metrics", '[');
    lines_json(path, after ? strtod(after, NULL) : -1, &j);
    json_close(&j, ']');
    json_close(&j, '}');
    free(path);
    sv_answer_json(a, 200, &j);
}

void sv_get_run_sample(const sv_request *r, sv_answer *a)
{
    const char *file = r->argument[1], *dot = strrchr(file, '.');
    char *inside = must_print("samples/%s", file), *path = path_of(r, a, inside);
    free(inside);
    if (path && dot && !strcmp(dot, ".png") && file[0] != '.' && !strchr(file, '/'))
        sv_answer_file(a, "image/png", path);
    else if (path)
        sv_answer_error(a, 404, "the run has no sample '%.80s'", file);
    free(path);
}

/* ---- events ---- */

typedef struct watching {
    sv_runs *runs;
    sv_exchange *exchange;
    char *name;
    json pending;
    size_t sent;
    int ended;
    unsigned version; /* of the runs when it was last looked at */
    int started;
    double spoke;
} watching;

static long pull(void *self, char *bytes, size_t most)
{
    watching *w = self;
    const unsigned version = sv_runs_version(w->runs);
    if (w->sent == w->pending.length && !w->ended && (!w->started || version != w->version)) {
        json j = { 0 };
        w->pending.length = w->sent = 0;
        w->version = version;
        w->started = 1;
        w->ended = !sv_run_json(w->runs, w->name, &j);
        const char *failed = "\"state\": \"failed\"", *stopped = "\"state\": \"stopped\"";
        char *text = must_print("%.*s", (int)j.length, j.text);
        const char *event = !w->ended               ? "progress"
                            : strstr(text, failed)  ? "failed"
                            : strstr(text, stopped) ? "stopped"
                                                    : "done";
        free(text);
        sv_event(&w->pending, event, &j);
        w->spoke = now_ms();
    }
    if (w->sent == w->pending.length && !w->ended && now_ms() - w->spoke > SV_BEAT_MS / 2) {
        w->pending.length = w->sent = 0;
        sv_event_beat(&w->pending);
        w->spoke = now_ms();
    }
    const size_t left = w->pending.length - w->sent, n = left < most ? left : most;
    if (!n)
        return w->ended ? -1 : 0;
    memcpy(bytes, w->pending.text + w->sent, n);
    w->sent += n;
    return (long)n;
}

static void stop_watching(void *self)
{
    watching *w = self;
    sv_runs_unwatch(w->runs, w->exchange);
    free(w->name);
    free(w->pending.text);
    free(w);
}

void sv_get_run_events(const sv_request *r, sv_answer *a)
{
    char *path = path_of(r, a, "");
    if (!path)
        return;
    free(path);
    watching *w = must_alloc(NULL, sizeof *w);
    *w = (watching){ .runs = runs_of(r), .exchange = r->exchange, .name = must_copy(r->argument[0]) };
    sv_runs_watch(w->runs, r->exchange);
    a->status = 200;
    a->type = "text/event-stream";
    a->pull = pull;
    a->release = stop_watching;
    a->self = w;
    sv_answer_header(a, "Cache-Control", "no-store");
    sv_answer_header(a, "X-Accel-Buffering", "no"); /* nginx */
}

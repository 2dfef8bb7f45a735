/* Loaded models: engines in a list, the weights that several of them may share, and names to paths. */
#include "server/models.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "files/extensions.h"
#include "options/model_names.h"
#include "server/runs.h"
#include "ui/report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char random_prefix[] = "random:";

typedef struct sv_weights {
    char *path;
    zn_model *model;
    int users;
    struct sv_weights *next;
} sv_weights;

struct sv_models {
    sv_server *server;
    pthread_mutex_t opening; /* held while a model is opened, so that two jobs do not open the same one */
    pthread_mutex_t lock;    /* of what follows; held for moments only, since requests wait for it */
    sv_engine *engines;
    sv_weights *weights;
    double budget;
    char chosen[128]; /* generator, by POST options; empty: none */
};

sv_models *sv_models_start(sv_server *server)
{
    sv_models *m = must_alloc(NULL, sizeof *m);
    *m = (sv_models){ .server = server };
    const size_t memory = server->settings->memory;
    m->budget = (double)(memory ? memory : zn_memory_available(ZN_MEMINFO) / 2) / 2; /* the rest is for work */
    pthread_mutex_init(&m->opening, NULL);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void lock(sv_models *m) { pthread_mutex_lock(&m->lock); }
static void unlock(sv_models *m) { pthread_mutex_unlock(&m->lock); }

/* ---- names ---- */

typedef struct search {
    const char *name;
    char *path;
} search;

static void match(void *user, const char *path, const zn_model_info *info, const char *error)
{
    search *s = user;
    if (s->path || !info || (error && *error))
        return;
    char *name = model_name(path);
    if (!strcmp(name, s->name))
        s->path = must_copy(path);
    free(name);
}

static void match_folder(void *user, const char *folder)
{
    search *s = user;
    if (!s->path && !strcmp(base_name(folder), s->name))
        s->path = must_copy(folder);
}

/* run:NAME is the model of a training run. NULL: it is not, or the run has none. */
static char *path_of_run(const sv_models *m, const char *name)
{
    const char *run = strncmp(name, "run:", 4) ? NULL : name + 4;
    if (!run || !sv_run_name_good(run) || !m->server->settings->runs)
        return NULL;
    char *path = must_print("%s/%s/model.safetensors", m->server->settings->runs, run);
    if (zn_exists(path))
        return path;
    free(path);
    return NULL;
}

char *sv_model_path(sv_models *m, const char *name, int generator)
{
    search s = { .name = name };
    s.path = generator ? NULL : path_of_run(m, name);
    zn_status status = ZN_OK;
    if (!s.path)
        status = generator ? zn_generators_visit(match_folder, &s) : zn_models_visit(match, &s);
    return status == ZN_OK || s.path ? s.path : NULL;
}

/* Also files that are not models on their own. */
static void match_any(void *user, const char *path, const zn_model_info *info, const char *error)
{
    (void)info, (void)error;
    search *s = user;
    char *name = model_name(path);
    if (!s->path && !strcmp(name, s->name))
        s->path = zn_exists(path) ? must_copy(path) : must_print("%s.safetensors", path);
    free(name);
}

zn_status sv_part_path(sv_models *m, const char *name, char **path)
{
    search s = { .name = name };
    s.path = path_of_run(m, name);
    if (!s.path)
        ZN_TRY(zn_models_visit(match_any, &s));
    *path = s.path;
    return s.path ? ZN_OK : ZN_FAIL(ZN_ENOTFOUND, "no weights are called '%.80s' in the folders of models", name);
}

typedef struct candidates {
    const zn_latent *latent;
    int count;
    char *name;
} candidates;

static void consider(void *user, const char *path, const zn_model_info *m, const char *error)
{
    candidates *c = user;
    const zn_latent *z = c->latent;
    if ((error && *error) || !m || !m->has_decoder || m->diffuses || m->latent_channels != z->channels ||
        (z->downscale && m->downscale != z->downscale) || (z->frames > 1 && !m->clip_frames))
        return;
    char *name = model_name(path);
    const int known = c->name && !strcmp(c->name, name);
    c->count += !known;
    if (c->name)
        free(name);
    else
        c->name = name;
}

zn_status sv_model_for_latent(sv_models *m, const zn_latent *latent, char **name)
{
    char *path = latent->model[0] ? sv_model_path(m, latent->model, 0) : NULL;
    free(path);
    *name = path ? must_copy(latent->model) : NULL;
    if (path)
        return ZN_OK;
    candidates c = { .latent = latent };
    ZN_TRY(zn_models_visit(consider, &c));
    *name = c.name;
    if (c.count == 1)
        return ZN_OK;
    free(c.name);
    *name = NULL;
    return ZN_FAIL(ZN_ENOTFOUND, "%s models decode this latent of %d channels; name one as model",
                   c.count ? "several" : "no", latent->channels);
}

/* ---- weights ---- */

static zn_status extend(sv_models *m, const char *name, zn_model *model)
{
    char *path = NULL;
    if (!name)
        return ZN_OK;
    ZN_TRY(sv_part_path(m, name, &path));
    const zn_status status = zn_model_extend(model, path);
    free(path);
    return status;
}

static zn_status open_model(sv_models *m, const sv_job *job, const char *name, const char *path, zn_model **out)
{
    const size_t n = sizeof random_prefix - 1;
    if (!name)
        return zn_model_find(NULL, out);
    const char *device = m->server->settings->device;
    const int on_cpu = !device || !strcmp(device, "cpu");
    ZN_TRY(!path    ? zn_model_random(name + n, job->o.seed, out)
           : on_cpu ? zn_model_find_released(path, out)
                    : zn_model_open(path, out));
    zn_status status = extend(m, job->o.classifier, *out);
    if (status == ZN_OK)
        status = extend(m, job->o.latent, *out);
    if (status != ZN_OK) {
        zn_model_free(*out);
        *out = NULL;
    }
    return status;
}

/* NULL: they are not loaded. */
static sv_weights *loaded_weights(sv_models *m, const char *key)
{
    lock(m);
    sv_weights *w = m->weights;
    while (w && strcmp(w->path, key))
        w = w->next;
    if (w)
        w->users++;
    unlock(m);
    return w;
}

static sv_weights *add_weights(sv_models *m, const char *key, zn_model *model)
{
    sv_weights *w = must_alloc(NULL, sizeof *w);
    lock(m);
    *w = (sv_weights){ .path = must_copy(key), .model = model, .users = 1, .next = m->weights };
    m->weights = w;
    unlock(m);
    return w;
}

/* Weights by path, shared by engines. */
static zn_status take_weights(sv_models *m, const sv_job *job, const char *name, sv_weights **out)
{
    const int is_random = name && !strncmp(name, random_prefix, sizeof random_prefix - 1);
    char *path = name && !is_random ? sv_model_path(m, name, 0) : NULL;
    if (name && !is_random && !path)
        return ZN_FAIL(ZN_ENOTFOUND, "no model is called '%.80s'; GET /api/models lists those found", name);
    const char *classifier = job->o.classifier ? job->o.classifier : "", *latent = job->o.latent ? job->o.latent : "";
    char *key = is_random ? must_print("%s %llu", name, (unsigned long long)job->o.seed)
                          : must_print("%s|%s|%s", path ? path : "", classifier, latent);
    zn_status status = ZN_OK;
    zn_model *model = NULL;
    *out = loaded_weights(m, key);
    if (!*out && (status = open_model(m, job, name, path, &model)) == ZN_OK)
        *out = add_weights(m, key, model);
    free(key);
    free(path);
    return status;
}

/* Locked. */
static void return_weights(sv_models *m, sv_weights *w)
{
    if (!w || --w->users)
        return;
    sv_weights **at = &m->weights;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    zn_model_free(w->model);
    free(w->path);
    free(w);
}

/* ---- engines ---- */

/* Locked, as the next two. */
static void engine_free(sv_models *m, sv_engine *e)
{
    zn_codec_free(e->codec);
    zn_diffae_free(e->diffae);
    zn_generator_free(e->generator);
    return_weights(m, e->weights);
    free(e->key);
    free(e);
}

static double loaded_bytes(const sv_models *m)
{
    double sum = 0;
    for (const sv_engine *e = m->engines; e; e = e->next)
        sum += e->bytes;
    return sum;
}

/* Frees idle engines, the one used longest ago first, until the rest fits. */
static void make_room_locked(sv_models *m, double limit)
{
    while (loaded_bytes(m) > limit) {
        sv_engine **oldest = NULL;
        for (sv_engine **at = &m->engines; *at; at = &(*at)->next)
            if (!(*at)->job && (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
        if (!oldest)
            return;
        sv_engine *e = *oldest;
        *oldest = e->next;
        engine_free(m, e);
    }
}

static void make_room(sv_models *m, double limit)
{
    lock(m);
    make_room_locked(m, limit);
    unlock(m);
}

static int tick(void *user, double fraction)
{
    const sv_engine *e = user;
    return e->job ? sv_job_tick(e->job, fraction) : 0;
}

size_t sv_handle_memory(const sv_server *s)
{
    const size_t all = s->settings->memory, shares = 2 * (size_t)s->settings->workers;
    const size_t overhead = all ? zn_context_overhead(s->context, s->settings->device) : 0;
    return overhead < all ? (all - overhead) / shares + overhead : all / shares;
}

static zn_options compute_of(const sv_models *m, const sv_job *job, sv_engine *e)
{
    const serve_settings *s = m->server->settings;
    return (zn_options){ .size = sizeof(zn_options),
                         .context = m->server->context,
                         .precision = (zn_precision)job->o.precision,
                         .device = s->device,
                         .memory = sv_handle_memory(m->server),
                         .tile = e->generator ? 0 : job->o.tile,
                         .progress = tick,
                         .user = e };
}

static zn_status open_engine(sv_models *m, const sv_job *job, const char *name, sv_engine *e)
{
    ZN_TRY(take_weights(m, job, name, &e->weights));
    e->model = e->weights->model;
    e->info = zn_model_info_of(e->model);
    e->bytes = (double)e->info->parameters * 8; /* as stored, and packed for the kernels */
    make_room(m, m->budget - e->bytes);
    const zn_options compute = compute_of(m, job, e);
    if (e->info->judges)
        return ZN_FAIL(ZN_EINVALID, "the model %s scores images; the task compare uses it", name ? name : "");
    return e->info->diffuses ? zn_diffae_new(e->model, &compute, &e->diffae)
                             : zn_codec_new(e->model, &compute, &e->codec);
}

/* "NAME" or "NAME:STRENGTH" */
static void split_lora(const char *text, char name[128], double *strength)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    *strength = colon ? strtod(colon + 1, &end) : 1;
    const int has_number = colon && end != colon + 1 && !*end;
    *strength = has_number ? *strength : 1;
    snprintf(name, 128, "%.*s", (int)(has_number ? colon - text : (long)strlen(text)), text);
}

static void match_lora(void *user, const char *name, const char *path)
{
    search *s = user;
    if (!s->path && !strcmp(name, s->name))
        s->path = must_copy(path);
}

/* By name only. */
static zn_status add_lora(sv_job *job, zn_generator *g, int index)
{
    char name[128];
    double strength;
    int layers, fitting;
    split_lora(job->o.loras[index], name, &strength);
    search s = { .name = name };
    ZN_TRY(zn_loras_visit(match_lora, &s));
    if (!s.path)
        return ZN_FAIL(ZN_ENOTFOUND, "no LoRA is called '%.80s'; GET /sdapi/v1/loras lists those found", name);
    const zn_status status = zn_generator_add_lora(g, s.path, strength);
    const char *found = status == ZN_OK ? NULL : strstr(zn_error_text(), s.path);
    char *why = found ? must_print("%s%s", name, found + strlen(s.path)) : NULL; /* without the server's path */
    free(s.path);
    if (why)
        (void)ZN_FAIL(status, "%s", why);
    free(why);
    if (status != ZN_OK)
        return status;
    zn_generator_lora_layers(g, index, &layers, &fitting);
    if (fitting < layers)
        sv_job_remark(job, "%s: only %d of its %d layers fit this transformer; the others are not used", name, fitting,
                      layers);
    return ZN_OK;
}

static zn_status open_generator(sv_models *m, sv_job *job, const char *name, sv_engine *e)
{
    char *folder = sv_model_path(m, name, 1);
    if (!folder)
        return name && *name ? ZN_FAIL(ZN_ENOTFOUND, "no generator is called '%.80s'; " SV_GET_GENERATOR, name)
                             : ZN_FAIL(ZN_ENOTFOUND, SV_NO_GENERATOR);
    const zn_generator_files files = { .size = sizeof files, .model = folder };
    const zn_options compute = compute_of(m, job, e);
    e->bytes = 64 << 20; /* its weights stay in the mapped files */
    make_room(m, m->budget - e->bytes);
    zn_status status = zn_generator_open(&files, &compute, &e->generator);
    free(folder);
    for (int i = 0; status == ZN_OK && job->o.loras[i]; i++)
        status = add_lora(job, e->generator, i);
    return status;
}

/* What an engine is opened with: jobs with the same key can share it. */
static char *key_of(const sv_job *job, const char *name, int generator)
{
    char *key = must_print("%s %s %d %d %llu", generator ? "g" : "c", name ? name : "", job->o.precision,
                           generator ? 0 : job->o.tile,
                           (unsigned long long)(name && !strncmp(name, "random:", 7) ? job->o.seed : 0));
    const char *parts[MOST_LORAS + 2] = { job->o.classifier, job->o.latent };
    for (int i = 0; generator && job->o.loras[i]; i++)
        parts[2 + i] = job->o.loras[i];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i]) {
            char *longer = must_print("%s %s", key, parts[i]);
            free(key);
            key = longer;
        }
    return key;
}

/* NULL: there is none that nobody uses. */
static sv_engine *idle_engine(sv_models *m, sv_job *job, const char *key)
{
    lock(m);
    sv_engine *e = m->engines;
    while (e && (e->job || strcmp(e->key, key)))
        e = e->next;
    if (e)
        e->job = job;
    unlock(m);
    return e;
}

static zn_status new_engine(sv_models *m, sv_job *job, const char *name, const char *key, int generator,
                            sv_engine **out)
{
    sv_engine *e = must_alloc(NULL, sizeof *e);
    *e = (sv_engine){ .key = must_copy(key), .job = job };
    const zn_status status = generator ? open_generator(m, job, name, e) : open_engine(m, job, name, e);
    lock(m);
    if (status == ZN_OK) {
        e->next = m->engines;
        m->engines = e;
    } else {
        engine_free(m, e);
        e = NULL;
    }
    unlock(m);
    *out = e;
    return status;
}

static zn_status take(sv_job *job, const char *name, int generator, sv_engine **out)
{
    sv_models *m = job->server->models;
    char *key = key_of(job, name, generator);
    zn_status status = ZN_OK;
    *out = idle_engine(m, job, key);
    if (!*out) {
        pthread_mutex_lock(&m->opening);
        *out = idle_engine(m, job, key);
        if (!*out)
            status = new_engine(m, job, name, key, generator, out);
        pthread_mutex_unlock(&m->opening);
    }
    free(key);
    return status;
}

zn_status sv_engine_take(sv_job *job, const char *name, sv_engine **out) { return take(job, name, 0, out); }

zn_status sv_generator_take(sv_job *job, const char *name, sv_engine **out) { return take(job, name, 1, out); }

void sv_engine_return(sv_engine *e)
{
    if (!e)
        return;
    sv_models *m = e->job->server->models;
    lock(m);
    e->job = NULL;
    e->used = now_ms();
    make_room_locked(m, m->budget);
    unlock(m);
}

void sv_models_stop(sv_models *m)
{
    if (!m)
        return;
    make_room(m, -1);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->opening);
    free(m);
}

void sv_models_memory(sv_models *m, double *budget, double *loaded, int *count)
{
    lock(m);
    *budget = m->budget;
    *loaded = loaded_bytes(m);
    *count = 0;
    for (const sv_engine *e = m->engines; e; e = e->next)
        ++*count;
    unlock(m);
}

int sv_model_is_loaded(sv_models *m, const char *name)
{
    int found = 0;
    const size_t n = strlen(name);
    lock(m);
    for (const sv_engine *e = m->engines; e; e = e->next)
        found |= !strncmp(e->key + 2, name, n) && e->key[2 + n] == ' ';
    unlock(m);
    return found;
}

/* ---- the generator that requests mean ---- */

static const char usual_generator[] = "z-image-turbo";

static void prefer(void *user, const char *name)
{
    char *best = user;
    if (!*best || !strcmp(name, usual_generator))
        snprintf(best, 128, "%s", name);
}

void sv_default_generator(sv_server *s, char name[128])
{
    lock(s->models);
    snprintf(name, 128, "%s", s->models->chosen);
    unlock(s->models);
    if (!*name)
        (void)!sv_generators_visit(prefer, name); /* an empty name: there is none */
}

void sv_generator_about(sv_models *m, const char *name, zn_generator_about *out)
{
    char *path = sv_model_path(m, name, 1);
    const zn_generator_files files = { .size = sizeof files, .model = path };
    *out = (zn_generator_about){ .size = sizeof *out };
    if (path)
        (void)!zn_generator_describe(&files, out);
    free(path);
}

void sv_choose_generator(sv_server *s, const char *name)
{
    lock(s->models);
    snprintf(s->models->chosen, sizeof s->models->chosen, "%s", name);
    unlock(s->models);
}

/* Loaded models: engines in a list, the weights that several of them may share, and names to paths. */
#include "server/models.h"

#include "base/fail.h"
#include "base/memory.h"
#include "ui/model_names.h"
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
    pthread_mutex_t lock; /* of the lists; models are opened under it, so that two jobs do not open the same one */
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
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

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

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void match_folder(void *user, const char *folder)
{
    search *s = user;
    if (!s->path && !strcmp(last_part(folder), s->name))
        s->path = must_copy(folder);
}

/* run:NAME is the model of a training run. */
static char *path_of_run(const sv_models *m, const char *name)
{
    const char *run = strncmp(name, "run:", 4) ? NULL : name + 4;
    if (!run || !*run || strchr(run, '/') || run[0] == '.' || !m->server->settings->runs)
        return NULL;
    return must_print("%s/%s/model.safetensors", m->server->settings->runs, run);
}

char *sv_model_path(sv_models *m, const char *name, int generator)
{
    search s = { .name = name };
    s.path = path_of_run(m, name);
    zn_status status = ZN_OK;
    if (!s.path)
        status = generator ? zn_generators_visit(match_folder, &s) : zn_models_visit(match, &s);
    return status == ZN_OK || s.path ? s.path : NULL;
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

static zn_status open_model(const sv_job *job, const char *name, const char *path, zn_model **out)
{
    const size_t n = sizeof random_prefix - 1;
    if (!name)
        return zn_model_find(NULL, out);
    return path ? zn_model_open(path, out) : zn_model_random(name + n, job->o.seed, out);
}

/* Weights by path, shared by engines. */
static zn_status take_weights(sv_models *m, const sv_job *job, const char *name, sv_weights **out)
{
    const int is_random = name && !strncmp(name, random_prefix, sizeof random_prefix - 1);
    char *path = name && !is_random ? sv_model_path(m, name, 0) : NULL;
    if (name && !is_random && !path)
        return ZN_FAIL(ZN_ENOTFOUND, "no model is called '%.80s'; GET /api/models lists those found", name);
    char *key = is_random ? must_print("%s %llu", name, (unsigned long long)job->o.seed) : must_copy(path ? path : "");
    sv_weights *w = m->weights;
    while (w && strcmp(w->path, key))
        w = w->next;
    zn_status status = ZN_OK;
    zn_model *model = NULL;
    if (!w && (status = open_model(job, name, path, &model)) == ZN_OK) {
        w = must_alloc(NULL, sizeof *w);
        *w = (sv_weights){ .path = must_copy(key), .model = model, .next = m->weights };
        m->weights = w;
    }
    if (w)
        w->users++;
    free(key);
    free(path);
    *out = w;
    return status;
}

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
static void make_room(sv_models *m, double limit)
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

static int tick(void *user, double fraction)
{
    const sv_engine *e = user;
    return e->job ? sv_job_tick(e->job, fraction) : 0;
}

static zn_options compute_of(const sv_models *m, const sv_job *job, sv_engine *e)
{
    const serve_settings *s = m->server->settings;
    return (zn_options){ .size = sizeof(zn_options),
                         .context = m->server->context,
                         .precision = (zn_precision)job->o.precision,
                         .device = s->device,
                         .memory = s->memory / 2 / (size_t)s->workers,
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

static zn_status open_generator(sv_models *m, const sv_job *job, const char *name, sv_engine *e)
{
    char *folder = sv_model_path(m, name, 1);
    if (!folder)
        return name && *name ? ZN_FAIL(ZN_ENOTFOUND, "no generator is called '%.80s'; " SV_GET_GENERATOR, name)
                             : ZN_FAIL(ZN_ENOTFOUND, SV_NO_GENERATOR);
    const zn_generator_files files = { .size = sizeof files, .model = folder };
    const zn_options compute = compute_of(m, job, e);
    e->bytes = 64 << 20; /* its weights stay in the mapped files */
    make_room(m, m->budget - e->bytes);
    const zn_status status = zn_generator_open(&files, &compute, &e->generator);
    free(folder);
    return status;
}

static zn_status take(sv_job *job, const char *name, int generator, sv_engine **out)
{
    sv_models *m = job->server->models;
    char *key = must_print("%s %s %d %d %llu", generator ? "g" : "c", name ? name : "", job->o.precision,
                           generator ? 0 : job->o.tile,
                           (unsigned long long)(name && !strncmp(name, "random:", 7) ? job->o.seed : 0));
    zn_status status = ZN_OK;
    pthread_mutex_lock(&m->lock);
    sv_engine *e = m->engines;
    while (e && (e->job || strcmp(e->key, key)))
        e = e->next;
    if (!e) {
        e = must_alloc(NULL, sizeof *e);
        *e = (sv_engine){ .key = must_copy(key) };
        status = generator ? open_generator(m, job, name, e) : open_engine(m, job, name, e);
        if (status == ZN_OK) {
            e->next = m->engines;
            m->engines = e;
        } else {
            engine_free(m, e);
            e = NULL;
        }
    }
    if (e)
        e->job = job;
    pthread_mutex_unlock(&m->lock);
    free(key);
    *out = e;
    return status;
}

zn_status sv_engine_take(sv_job *job, const char *name, sv_engine **out) { return take(job, name, 0, out); }

zn_status sv_generator_take(sv_job *job, const char *name, sv_engine **out) { return take(job, name, 1, out); }

void sv_engine_return(sv_engine *e)
{
    if (!e)
        return;
    sv_models *m = e->job->server->models;
    pthread_mutex_lock(&m->lock);
    e->job = NULL;
    e->used = now_ms();
    make_room(m, m->budget);
    pthread_mutex_unlock(&m->lock);
}

void sv_models_stop(sv_models *m)
{
    if (!m)
        return;
    make_room(m, -1);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void sv_models_memory(sv_models *m, double *budget, double *loaded, int *count)
{
    pthread_mutex_lock(&m->lock);
    *budget = m->budget;
    *loaded = loaded_bytes(m);
    *count = 0;
    for (const sv_engine *e = m->engines; e; e = e->next)
        ++*count;
    pthread_mutex_unlock(&m->lock);
}

/* ---- lists ---- */

typedef struct listing {
    sv_models *models;
    json *out;
    char **names; /* listed so far: of models of one name, the first is used */
    int count;
} listing;

/* Non-zero if the name was listed before. */
static int was_listed(listing *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (!strcmp(l->names[i], name))
            return 1;
    l->names = must_alloc(l->names, (size_t)(l->count + 1) * sizeof *l->names);
    l->names[l->count++] = must_copy(name);
    return 0;
}

static int is_loaded(sv_models *m, const char *name)
{
    int found = 0;
    const size_t n = strlen(name);
    pthread_mutex_lock(&m->lock);
    for (const sv_engine *e = m->engines; e; e = e->next)
        found |= !strncmp(e->key + 2, name, n) && e->key[2 + n] == ' ';
    pthread_mutex_unlock(&m->lock);
    return found;
}

static void tasks_json(json *j, const zn_model_info *m)
{
    const int codec = m->has_encoder && m->has_decoder;
    json_open(j, "tasks", '[');
    if (m->restores) {
        json_text(j, NULL, "restore");
        json_text(j, NULL, "upscale");
    } else if (m->diffuses) {
        json_text(j, NULL, "reconstruct");
        json_text(j, NULL, "interpolate");
        if (m->has_classifier)
            json_text(j, NULL, "edit");
        if (m->has_latent_net)
            json_text(j, NULL, "sample");
    } else if (!m->judges) {
        if (m->has_encoder)
            json_text(j, NULL, "encode");
        if (m->has_decoder)
            json_text(j, NULL, "decode");
        if (codec && !m->clip_frames)
            json_text(j, NULL, "reconstruct");
        if (m->clip_frames)
            json_text(j, NULL, "clip");
    }
    json_close(j, ']');
}

static void visit_model(void *user, const char *path, const zn_model_info *info, const char *error)
{
    listing *l = user;
    json *j = l->out;
    char *name = model_name(path);
    if (was_listed(l, name)) {
        free(name);
        return;
    }
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    if (!info || (error && *error)) {
        json_text(j, "kind", "unusable");
        json_open(j, "tasks", '[');
        json_close(j, ']');
        json_text(j, "error", error ? error : "");
        json_bool(j, "loaded", 0);
    } else {
        json_text(j, "architecture", info->architecture);
        json_text(j, "description", info->description);
        json_text(j, "kind",
                  info->judges        ? "judge"
                  : info->restores    ? "restorer"
                  : info->diffuses    ? "diffusion"
                  : info->clip_frames ? "video"
                                      : "autoencoder");
        tasks_json(j, info);
        json_integer(j, "latent_channels", info->latent_channels);
        json_integer(j, "downscale", info->downscale);
        json_integer(j, "clip_frames", info->clip_frames);
        json_bool(j, "encoder", info->has_encoder);
        json_bool(j, "decoder", info->has_decoder);
        json_integer(j, "image_size", info->image_size);
        json_bool(j, "latent_net", info->has_latent_net);
        json_bool(j, "classifier", info->has_classifier);
        json_integer(j, "parameters", info->parameters);
        json_bool(j, "loaded", is_loaded(l->models, name));
    }
    json_close(j, '}');
    free(name);
}

typedef struct part_list {
    json *out;
    double bytes; /* of all files */
} part_list;

static void visit_part(void *user, const zn_generator_part_info *p)
{
    part_list *parts = user;
    json *j = parts->out;
    json_open(j, NULL, '{');
    json_text(j, "name", p->name);
    json_bool(j, "present", p->path != NULL);
    json_bool(j, "optional", p->optional);
    json_text(j, "format", p->format ? p->format : "");
    json_text(j, "dtype", p->dtype ? p->dtype : "");
    json_real(j, "bytes", p->bytes);
    json_close(j, '}');
    parts->bytes += p->bytes;
}

static void visit_generator(void *user, const char *folder)
{
    listing *l = user;
    json *j = l->out;
    if (was_listed(l, last_part(folder)))
        return;
    const zn_generator_files files = { .size = sizeof files, .model = folder };
    json_open(j, NULL, '{');
    json_text(j, "name", last_part(folder));
    json_text(j, "architecture", "z-image");
    json_open(j, "parts", '[');
    part_list parts = { .out = j };
    const zn_status status = zn_generator_parts(&files, visit_part, &parts);
    json_close(j, ']');
    json_integer(j, "bytes", (int64_t)parts.bytes);
    json_text(j, "kind", status == ZN_OK ? "generator" : "unusable");
    json_open(j, "tasks", '[');
    if (status == ZN_OK)
        json_text(j, NULL, "generate");
    json_close(j, ']');
    if (status != ZN_OK)
        json_text(j, "error", zn_error_text());
    json_bool(j, "loaded", is_loaded(l->models, last_part(folder)));
    json_close(j, '}');
}

void sv_models_json(sv_models *m, json *j)
{
    listing l = { .models = m, .out = j };
    double budget, loaded;
    int count;
    json_open(j, "models", '[');
    zn_status status = zn_models_visit(visit_model, &l);
    if (status == ZN_OK)
        status = zn_generators_visit(visit_generator, &l);
    json_close(j, ']');
    for (int i = 0; i < l.count; i++)
        free(l.names[i]);
    free(l.names);
    if (status != ZN_OK)
        json_text(j, "error", zn_error_text());
    sv_models_memory(m, &budget, &loaded, &count);
    json_open(j, "memory", '{');
    json_real(j, "budget", budget);
    json_real(j, "loaded", loaded);
    json_close(j, '}');
}

typedef struct naming {
    void (*visit)(void *user, const char *name);
    void *user;
} naming;

static void name_generator(void *user, const char *folder)
{
    const naming *n = user;
    n->visit(n->user, last_part(folder));
}

void sv_generators_visit(void (*visit)(void *user, const char *name), void *user)
{
    naming n = { visit, user };
    if (zn_generators_visit(name_generator, &n) != ZN_OK)
        return;
}

static const char usual_generator[] = "z-image-turbo";

static void prefer(void *user, const char *name)
{
    char *best = user;
    if (!*best || !strcmp(name, usual_generator))
        snprintf(best, 128, "%s", name);
}

void sv_default_generator(sv_server *s, char name[128])
{
    pthread_mutex_lock(&s->models->lock);
    snprintf(name, 128, "%s", s->models->chosen);
    pthread_mutex_unlock(&s->models->lock);
    if (!*name)
        sv_generators_visit(prefer, name);
}

void sv_choose_generator(sv_server *s, const char *name)
{
    pthread_mutex_lock(&s->models->lock);
    snprintf(s->models->chosen, sizeof s->models->chosen, "%s", name);
    pthread_mutex_unlock(&s->models->lock);
}

/* Opening models by path and finding them by name.
 *
 * Weights of one model may be one file or two; files of a folder that differ only in extension or in the words encoder
 * and decoder belong together: taef2_encoder.pth, taef2_decoder.safetensors and taef2.safetensors share the stem
 * "taef2". */
#include "base/alloc.h"
#include "base/fail.h"
#include "models/model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096, MAX_ROOTS = 16 };

/* Best first: when a model is there twice, the mapped format is taken. */
static const char *const extensions[] = { ".safetensors", ".pth", ".pt", ".ckpt" };
enum { EXTENSIONS = sizeof extensions / sizeof *extensions };

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

static int extension_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < EXTENSIONS; i++)
        if (strcmp(dot, extensions[i]) == 0)
            return i;
    return -1;
}

/* "taef2" of "taef2_encoder.pth"; "" of "encoder.pth" and of diffusers' file name. */
static void stem_of(const char *name, char *stem, size_t size)
{
    snprintf(stem, size, "%s", name);
    char *dot = strrchr(stem, '.');
    if (dot)
        *dot = 0;
    static const char *const words[] = { "encoder", "decoder", "diffusion_pytorch_model" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(stem), w = strlen(words[i]);
        if (n >= w && strcmp(stem + n - w, words[i]) == 0) {
            stem[n - w] = 0;
            if (n > w && strchr("_-.", stem[n - w - 1]))
                stem[n - w - 1] = 0;
        }
    }
}

/* ---- opening ---- */

/* True if parts of two files make one network. */
static bool same_network(const zn_config *a, const zn_config *b)
{
    return strcmp(a->name, b->name) == 0 && a->latent == b->latent && a->width == b->width &&
           a->made_width == b->made_width && a->made_height == b->made_height;
}

static zn_status add_file(zn_model **model, const char *path)
{
    zn_weights *w;
    ZN_TRY(zn_weights_open(path, &w));
    zn_status status = ZN_OK;
    bool is_it = false;
    zn_config config = { 0 };
    zn_naming naming[2];
    int i = 0;
    for (; zn_archs[i] && !is_it && status == ZN_OK; i++)
        status = zn_archs[i]->recognise(w, &config, naming, &is_it);
    if (status != ZN_OK || !is_it) {
        if (status == ZN_OK)
            status = ZN_FAIL(ZN_EUNSUPPORTED, "%s: no known architecture in its %lld tensors", path,
                             (long long)zn_weights_count(w));
        goto done;
    }
    if (!*model)
        ZN_TRY_DONE(zn_model_new(zn_archs[i - 1], &config, model));
    zn_model *m = *model;
    if (!same_network(&m->config, &config)) {
        status = ZN_FAIL(ZN_EFORMAT, "%s: %s does not belong to the %s beside it", path, config.name, m->config.name);
        goto done;
    }
    for (int part = 0; part < 2; part++) {
        const int has = part == ZN_ENCODER ? m->info.has_encoder || m->info.restores : m->info.has_decoder;
        if (!naming[part].present || has)
            continue;
        memcpy(m->config.blocks[part], config.blocks[part], sizeof config.blocks[part]); /* only this file knows */
        ZN_TRY_DONE(zn_model_load_part(m, (zn_part)part, w, &naming[part]));
    }
done:
    zn_weights_close(w);
    return status;
}

/* Adds the path to sentences that name only a tensor. */
static zn_status explain(zn_status status, const char *path)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", zn_error_text());
    return strstr(text, path) ? status : ZN_FAIL(status, "%s: %s", path, text);
}

static zn_status finish(zn_model *m, zn_status status, const char *path, zn_model **out)
{
    if (status == ZN_OK) {
        m->info.path = zn_arena_copy(&m->arena, path);
        status = m->info.path ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    }
    if (status != ZN_OK) {
        zn_model_free(m);
        return explain(status, path);
    }
    *out = m;
    return ZN_OK;
}

/* Opens the files of `folder` that share a stem. */
static zn_status open_stem(const char *folder, const char *stem, zn_model **out)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        return ZN_FAIL(ZN_EIO, "%s: cannot read the folder", folder);
    zn_model *m = NULL;
    zn_status status = ZN_OK;
    for (int e = 0; e < EXTENSIONS; e++)
        for (int i = 0; i < count && status == ZN_OK; i++) {
            char name[256], path[PATH_SIZE];
            stem_of(entries[i]->d_name, name, sizeof name);
            if (extension_of(entries[i]->d_name) != e || strcmp(name, stem))
                continue;
            if (m && ((m->info.has_encoder && m->info.has_decoder) || m->info.restores))
                continue;
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
            status = add_file(&m, path);
        }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (status == ZN_OK && !m)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no weights there", folder);
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s%s%s", folder, stem[0] ? "/" : "", stem);
    return finish(m, status, path, out);
}

/* Calls visit for each different stem of a folder's weight files, in order. Stops when visit returns false. */
typedef bool (*stem_visit)(void *user, const char *folder, const char *stem);

static void each_stem(const char *folder, stem_visit visit, void *user)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    char previous[256] = "\n";
    bool more = count > 0;
    for (int i = 0; i < count; i++) {
        char stem[256];
        stem_of(entries[i]->d_name, stem, sizeof stem);
        if (more && extension_of(entries[i]->d_name) >= 0 && strcmp(stem, previous)) {
            more = visit(user, folder, stem);
            snprintf(previous, sizeof previous, "%s", stem);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

typedef struct stem_list {
    int count;
    char first[256];
    char names[512];
} stem_list;

static bool list_stem(void *user, const char *folder, const char *stem)
{
    (void)folder;
    stem_list *l = user;
    const size_t used = strlen(l->names);
    if (l->count++ == 0)
        snprintf(l->first, sizeof l->first, "%s", stem);
    snprintf(l->names + used, sizeof l->names - used, "%s%s", used ? ", " : "", stem);
    return true;
}

zn_status zn_model_open(const char *path, zn_model **out)
{
    *out = NULL;
    if (!is_folder(path)) {
        zn_model *m = NULL;
        const zn_status status = add_file(&m, path);
        return finish(m, status, path, out);
    }
    stem_list l = { 0 };
    each_stem(path, list_stem, &l);
    if (l.count == 0)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no weights in this folder", path);
    if (l.count > 1)
        return ZN_FAIL(ZN_EINVALID, "%s: holds several models (%s): name one", path, l.names);
    return open_stem(path, l.first, out);
}

zn_status zn_model_random(const char *architecture, uint64_t seed, zn_model **out)
{
    *out = NULL;
    const zn_config *config;
    const zn_arch *arch = zn_arch_find(architecture, &config);
    if (!arch)
        return ZN_FAIL(ZN_ENOTFOUND, "no architecture is called '%s'", architecture);
    zn_model *m;
    ZN_TRY(zn_model_new(arch, config, &m));
    m->info.is_random = 1;
    zn_status status = zn_model_random_part(m, ZN_ENCODER, seed);
    if (status == ZN_OK && arch->decode)
        status = zn_model_random_part(m, ZN_DECODER, seed);
    char path[64];
    snprintf(path, sizeof path, "(random, seed %llu)", (unsigned long long)seed);
    return finish(m, status, path, out);
}

/* ---- searching ---- */

typedef struct roots {
    char path[MAX_ROOTS][PATH_SIZE];
    int count;
} roots;

static void add_root(roots *r, const char *base, const char *rest, size_t length)
{
    if (r->count < MAX_ROOTS && length && length < PATH_SIZE - 64)
        snprintf(r->path[r->count++], PATH_SIZE, "%.*s%s", (int)length, base, rest);
}

/* Each folder of a list that is divided by colons. */
static void add_roots(roots *r, const char *list, const char *rest)
{
    while (list && *list) {
        const size_t n = strcspn(list, ":");
        add_root(r, list, rest, n);
        list += n + (list[n] == ':');
    }
}

/* The user's own before the repository's, and that before what is installed. */
static zn_status search_places(roots **out)
{
    roots *r = *out = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "out of memory while looking for models");
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME"), *system = getenv("XDG_DATA_DIRS");
    add_roots(r, getenv("ZENITH_MODELS"), "");
    if (data && *data)
        add_root(r, data, "/zenith/models", strlen(data));
    else if (home && *home)
        add_root(r, home, "/.local/share/zenith/models", strlen(home));
    add_root(r, "weights", "", strlen("weights"));
    add_roots(r, system && *system ? system : "/usr/local/share:/usr/share", "/zenith/models");
    return ZN_OK;
}

/* Visits every stem in the roots and in their direct subfolders. */
static void each_model(const roots *r, stem_visit visit, void *user)
{
    for (int i = 0; i < r->count; i++) {
        each_stem(r->path[i], visit, user);
        struct dirent **entries;
        const int count = scandir(r->path[i], &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            char path[PATH_SIZE + 256];
            snprintf(path, sizeof path, "%s/%s", r->path[i], entries[k]->d_name);
            if (entries[k]->d_name[0] != '.' && is_folder(path))
                each_stem(path, visit, user);
            free(entries[k]);
        }
        if (count >= 0)
            free(entries);
    }
}

typedef struct search {
    const char *name; /* NULL: any complete one */
    zn_model *found;
    zn_status failure; /* of a model that had the name */
    char text[1024];
} search;

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool search_stem(void *user, const char *folder, const char *stem)
{
    search *s = user;
    const bool named = s->name && (strcmp(stem, s->name) == 0 || strcmp(last_part(folder), s->name) == 0);
    if (s->name && !named)
        return true;
    zn_model *m;
    const zn_status status = open_stem(folder, stem, &m);
    if (status != ZN_OK) {
        if (named && s->failure == ZN_OK) {
            s->failure = status;
            snprintf(s->text, sizeof s->text, "%s", zn_error_text());
        }
        return true;
    }
    if (s->name || (m->info.has_encoder && m->info.has_decoder)) {
        s->found = m;
        return false;
    }
    zn_model_free(m);
    return true;
}

static bool search_once(void *user, const char *folder, const char *stem)
{
    search *s = user;
    return !s->found && search_stem(user, folder, stem);
}

zn_status zn_model_find(const char *name, zn_model **out)
{
    *out = NULL;
    if (name && (exists(name) || strchr(name, '/')))
        return zn_model_open(name, out);
    roots *r;
    ZN_TRY(search_places(&r));
    search s = { .name = name };
    each_model(r, search_once, &s);
    char places[1024] = "";
    for (int i = 0; i < r->count; i++) {
        const size_t used = strlen(places);
        snprintf(places + used, sizeof places - used, "%s%.200s", used ? ", " : "", r->path[i]);
    }
    zn_free(r);
    *out = s.found;
    if (s.found)
        return ZN_OK;
    if (s.failure != ZN_OK)
        return ZN_FAIL(s.failure, "%s", s.text);
    return ZN_FAIL(ZN_ENOTFOUND, "no model%s%s%s found in %s", name ? " '" : "", name ? name : "", name ? "'" : "",
                   places);
}

typedef struct visitor {
    zn_model_visit_fn visit;
    void *user;
} visitor;

static bool visit_stem(void *user, const char *folder, const char *stem)
{
    const visitor *v = user;
    static const zn_model_info unknown = { .architecture = "", .description = "", .path = "" };
    char path[PATH_SIZE + 256];
    snprintf(path, sizeof path, "%s%s%s", folder, stem[0] ? "/" : "", stem);
    zn_model *m;
    if (open_stem(folder, stem, &m) == ZN_OK) {
        v->visit(v->user, path, &m->info, "");
        zn_model_free(m);
    } else {
        v->visit(v->user, path, &unknown, zn_error_text());
    }
    return true;
}

zn_status zn_models_visit(zn_model_visit_fn visit, void *user)
{
    roots *r;
    ZN_TRY(search_places(&r));
    visitor v = { visit, user };
    each_model(r, visit_stem, &v);
    zn_free(r);
    return ZN_OK;
}

/* Finding models by name, in the places where they may lie. */
#define _GNU_SOURCE /* dladdr */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "models/model.h"
#include "pipeline/model/open.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zenith/pull.h>

enum { MAX_ROOTS = 16 };

typedef struct roots {
    char path[MAX_ROOTS][ZN_MODEL_PATH];
    int count;
} roots;

/* Two names of one folder: weights/ of a clone is also found beside the program that was built in it. */
static bool is_same_folder(const char *a, const char *b)
{
    struct stat s, t;
    return strcmp(a, b) == 0 || (stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino);
}

static void add_root(roots *r, const char *base, const char *rest, size_t length)
{
    if (r->count == MAX_ROOTS || !length || length >= ZN_MODEL_PATH - 64)
        return;
    char *path = r->path[r->count];
    snprintf(path, ZN_MODEL_PATH, "%.*s%s", (int)length, base, rest);
    for (int i = 0; i < r->count; i++)
        if (is_same_folder(r->path[i], path))
            return;
    r->count++;
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

/* A folder that CMake builds in. */
static bool is_build_tree(const char *folder, size_t length)
{
    char path[ZN_MODEL_PATH + 16];
    snprintf(path, sizeof path, "%.*s/CMakeCache.txt", (int)length, folder);
    return zn_exists(path);
}

/* What lies beside a program or a library, whose path is cut: PREFIX/share/zenith/models of PREFIX/bin/zenith and
 * PREFIX/lib/libzenith.so.0, and weights/ beside the build tree of one that is not installed, CLONE/build/cli/zenith.
 */
static void add_root_beside(roots *r, char *file)
{
    char *name = strrchr(file, '/');
    if (!name)
        return;
    *name = 0;
    char *folder = strrchr(file, '/');
    if (!folder)
        return;
    if (strcmp(folder, "/bin") == 0 || strcmp(folder, "/lib") == 0 || strcmp(folder, "/lib64") == 0)
        add_root(r, file, "/share/zenith/models", (size_t)(folder - file));
    if ((strcmp(folder, "/cli") && strcmp(folder, "/src")) || !is_build_tree(file, (size_t)(folder - file)))
        return;
    *folder = 0;
    const char *tree = strrchr(file, '/');
    if (tree)
        add_root(r, file, "/weights", (size_t)(tree - file));
}

/* What belongs to the program, and to the shared library in a program of others, wherever they are called from. */
static void add_own_roots(roots *r)
{
    static const char inside = 0; /* an address in this library */
    char program[ZN_MODEL_PATH];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    add_root_beside(r, program);
    Dl_info library;
    char *path = dladdr(&inside, &library) && strchr(library.dli_fname, '/') ? realpath(library.dli_fname, NULL) : NULL;
    if (path)
        add_root_beside(r, path);
    free(path);
}

zn_status zn_models_folder(char *path, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length;
    if (data && *data)
        length = snprintf(path, size, "%s/zenith/models", data);
    else if (home && *home)
        length = snprintf(path, size, "%s/.local/share/zenith/models", home);
    else
        return ZN_FAIL(ZN_ENOTFOUND, "there is no folder for models: neither HOME nor XDG_DATA_HOME is set");
    return length < (int)size ? ZN_OK : ZN_FAIL(ZN_EINVALID, "the path of the folder for models is too long");
}

/* The user's own before the repository's, and that before what is installed. */
static zn_status search_places(roots **out)
{
    roots *r = *out = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "out of memory while looking for models");
    const char *system = getenv("XDG_DATA_DIRS");
    char own[ZN_MODEL_PATH];
    add_roots(r, getenv("ZENITH_MODELS"), "");
    if (zn_models_folder(own, sizeof own) == ZN_OK)
        add_root(r, own, "", strlen(own));
    add_root(r, "weights", "", strlen("weights"));
    add_own_roots(r);
    add_roots(r, system && *system ? system : "/usr/local/share:/usr/share", "/zenith/models");
    return ZN_OK;
}

zn_status zn_each_place(bool (*visit)(void *user, const char *folder), void *user)
{
    roots *r;
    ZN_TRY(search_places(&r));
    for (int i = 0; i < r->count && visit(user, r->path[i]); i++)
        continue;
    zn_free(r);
    return ZN_OK;
}

/* Visits every stem in the roots and in their direct subfolders, besides loras/, where files are no models. */
static void each_model(const roots *r, zn_stem_visit visit, void *user)
{
    for (int i = 0; i < r->count; i++) {
        zn_each_stem(r->path[i], visit, user);
        struct dirent **entries;
        const int count = scandir(r->path[i], &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            char path[ZN_MODEL_PATH + 256];
            snprintf(path, sizeof path, "%s/%s", r->path[i], entries[k]->d_name);
            if (entries[k]->d_name[0] != '.' && strcmp(entries[k]->d_name, "loras") != 0 && zn_is_folder(path))
                zn_each_stem(path, visit, user);
            free(entries[k]);
        }
        if (count >= 0)
            free(entries);
    }
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

typedef struct search {
    const char *name;
    bool whole; /* only an autoencoder with both of its parts */
    bool released;
    zn_model *found;
    zn_status failure; /* of a model that had the name */
    char text[1024];
} search;

static bool is_whole(const zn_model *m) { return m->info.has_encoder && m->info.has_decoder && !m->arch->named_only; }

static bool search_stem(void *user, const char *folder, const char *stem)
{
    search *s = user;
    if (s->found)
        return false;
    if (strcmp(stem, s->name) != 0 && strcmp(last_part(folder), s->name) != 0)
        return true;
    zn_model *m;
    const zn_status status = zn_open_stem(folder, stem, s->released, &m);
    if (status != ZN_OK && s->failure == ZN_OK) {
        s->failure = status;
        snprintf(s->text, sizeof s->text, "%s", zn_error_text());
    }
    if (status != ZN_OK)
        return true;
    if (!s->whole || is_whole(m)) {
        s->found = m;
        return false;
    }
    zn_model_free(m);
    return true;
}

/* What is used where no model is named, wherever it lies: what else is in the folders does not change it. Without it
 * the only autoencoder that is there; of several, none. */
static const char default_model[] = "zenith-r";

typedef struct choice {
    int count;
    char path[ZN_MODEL_PATH + 256]; /* of the first */
    char names[1024];               /* of all, each after a blank and before a comma */
} choice;

static bool is_listed(const char *names, const char *name)
{
    char entry[300];
    snprintf(entry, sizeof entry, " %s,", name);
    return strstr(names, entry);
}

/* One name is one model, found in the best place. */
static bool choose_stem(void *user, const char *folder, const char *stem)
{
    choice *c = user;
    zn_model *m;
    if (zn_open_stem(folder, stem, true, &m) != ZN_OK)
        return true;
    const bool whole = is_whole(m);
    zn_model_free(m);
    const char *name = stem[0] && strcmp(stem, "model") != 0 ? stem : last_part(folder);
    if (!whole || is_listed(c->names, name))
        return true;
    if (c->count++ == 0)
        snprintf(c->path, sizeof c->path, "%s%s%s", folder, stem[0] ? "/" : "", stem);
    const size_t used = strlen(c->names);
    snprintf(c->names + used, sizeof c->names - used, " %s,", name);
    return true;
}

static zn_status choose(const roots *r, bool released, zn_model **out)
{
    choice c = { 0 };
    each_model(r, choose_stem, &c);
    if (c.count > 1)
        return ZN_FAIL(ZN_EINVALID, "%s, the default model, is not found, and there are several others:%.*s; name one",
                       default_model, (int)strlen(c.names) - 1, c.names);
    return c.count ? zn_open_path(c.path, released, out) : ZN_FAIL(ZN_ENOTFOUND, "no model is there");
}

static zn_status not_found(const roots *r, const char *name)
{
    char places[1024] = "";
    for (int i = 0; i < r->count; i++) {
        const size_t used = strlen(places);
        snprintf(places + used, sizeof places - used, "%s%.200s", used ? ", " : "", r->path[i]);
    }
    return ZN_FAIL(ZN_ENOTFOUND, "no model%s%s%s found in %s", name ? " '" : "", name ? name : "", name ? "'" : "",
                   places);
}

static zn_status find(const char *name, bool released, zn_model **out)
{
    *out = NULL;
    if (name && (zn_exists(name) || strchr(name, '/')))
        return zn_open_path(name, released, out);
    roots *r;
    ZN_TRY(search_places(&r));
    search s = { .name = name ? name : default_model, .whole = !name, .released = released };
    each_model(r, search_stem, &s);
    *out = s.found;
    zn_status status = s.found ? ZN_OK : ZN_ENOTFOUND;
    if (!s.found && !name)
        status = choose(r, released, out);
    if (status == ZN_ENOTFOUND)
        status = s.failure == ZN_OK ? not_found(r, name) : ZN_FAIL(s.failure, "%s", s.text);
    zn_free(r);
    return status;
}

zn_status zn_model_find(const char *name, zn_model **out) { return find(name, false, out); }
zn_status zn_model_find_released(const char *name, zn_model **out) { return find(name, true, out); }

typedef struct visitor {
    zn_model_visit_fn visit;
    void *user;
} visitor;

static bool visit_stem(void *user, const char *folder, const char *stem)
{
    const visitor *v = user;
    static const zn_model_info unknown = { .architecture = "", .description = "", .path = "" };
    char path[ZN_MODEL_PATH + 256];
    snprintf(path, sizeof path, "%s%s%s", folder, stem[0] ? "/" : "", stem);
    zn_model *m;
    if (zn_open_stem(folder, stem, true, &m) == ZN_OK) {
        v->visit(v->user, path, &m->info, "");
        zn_model_free(m);
    } else if (!zn_stem_is_latent(folder, stem)) {
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

/* The cache of prompts' features. */
#include "pipeline/generate/cache.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "io/weights/writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".safetensors"

enum { PATH_ROOM = 4096 + 128, KEY = 64 };

void zn_cache_folder(char *out, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    out[0] = 0;
    if (cache && cache[0])
        snprintf(out, size, "%s/zenith/prompts", cache);
    else if (home && home[0])
        snprintf(out, size, "%s/.cache/zenith/prompts", home);
}

static void path_of(const char *folder, const char *key, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%.4000s/%.64s" ENDING, folder, key);
}

/* The tensor of an entry, if its digest is that of its bytes. */
static const zn_weight *sound(const zn_weights *w)
{
    const zn_weight *t = zn_weights_find(w, "features");
    const char *digest = zn_weights_metadata(w, "sha256");
    char own[KEY + 1];
    if (!t || !digest || t->dtype != ZN_F32 || t->rank != 2 || t->shape[0] < 1 || t->shape[0] > ZN_PROMPT_TOKENS)
        return NULL;
    zn_sha256_hex(t->data, t->bytes, own);
    return strcmp(own, digest) == 0 ? t : NULL;
}

bool zn_cache_get(const char *folder, const char key[65], zn_features *out)
{
    char path[PATH_ROOM];
    zn_weights *w;
    path_of(folder, key, path);
    if (!folder[0] || zn_weights_open(path, &w) != ZN_OK)
        return false;
    const zn_weight *t = sound(w);
    float *data = t ? zn_alloc(t->bytes) : NULL;
    if (data) {
        memcpy(data, t->data, t->bytes);
        out->data = data;
        out->tokens = (int)t->shape[0];
        out->width = (int)t->shape[1];
        out->cached = true;
        utimensat(AT_FDCWD, path, NULL, 0); /* used now */
    }
    zn_weights_close(w);
    return data != NULL;
}

/* ---- keeping it small ---- */

typedef struct entry {
    char name[KEY + sizeof ENDING];
    struct timespec used;
    size_t bytes;
} entry;

static bool is_entry(const char *name)
{
    return strlen(name) == KEY + sizeof ENDING - 1 && strspn(name, "0123456789abcdef") == KEY &&
           strcmp(name + KEY, ENDING) == 0;
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;
    const int seconds = (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec);
    return seconds ? seconds : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* All entries, and how many bytes they have together. NULL if there is no memory for them. */
static entry *list(const char *folder, DIR *d, size_t *count, size_t *bytes)
{
    entry *entries = NULL;
    size_t capacity = 0;
    *count = *bytes = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[PATH_ROOM];
        struct stat s;
        if (!is_entry(e->d_name))
            continue;
        path_of(folder, e->d_name, path);
        if (stat(path, &s) != 0 || !ZN_GROW(entries, capacity, *count + 1))
            continue;
        entry *own = &entries[(*count)++];
        memcpy(own->name, e->d_name, sizeof own->name);
        own->used = s.st_mtim;
        own->bytes = (size_t)s.st_size;
        *bytes += own->bytes;
    }
    return entries;
}

static void prune(const char *folder, size_t most)
{
    size_t count, bytes;
    DIR *d = opendir(folder);
    if (!d)
        return;
    entry *entries = list(folder, d, &count, &bytes);
    closedir(d);
    if (entries)
        qsort(entries, count, sizeof *entries, by_use);
    for (size_t i = 0; i < count && bytes > most; i++) {
        char path[PATH_ROOM];
        path_of(folder, entries[i].name, path);
        bytes -= unlink(path) == 0 ? entries[i].bytes : 0;
    }
    zn_free(entries);
}

void zn_cache_put(const char *folder, const char key[65], const zn_features *f, size_t most)
{
    char path[PATH_ROOM], digest[KEY + 1];
    const zn_weight t = {
        .name = "features", .dtype = ZN_F32, .rank = 2, .shape = { f->tokens, f->width }, .data = f->data
    };
    const zn_metadata m[] = { { "format", "zenith-prompt" }, { "sha256", digest } };
    if (!folder[0] || zn_folder_make(folder) != ZN_OK)
        return;
    zn_sha256_hex(f->data, sizeof *f->data * (size_t)f->tokens * (size_t)f->width, digest);
    path_of(folder, key, path);
    if (zn_safetensors_write(path, &t, 1, m, 2) == ZN_OK)
        prune(folder, most);
}

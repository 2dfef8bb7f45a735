/* LoRAs of a generator: the files stay open, their pairs are put together into one list. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "pipeline/generate/generate.h"
#include "pipeline/model/open.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

typedef struct visitor {
    zn_lora_visit_fn visit;
    void *user;
} visitor;

static void visit_file(const visitor *v, const char *folder, const char *file)
{
    static const char suffix[] = ".safetensors";
    char name[256], path[ZN_MODEL_PATH + 512];
    const size_t length = strlen(file), end = sizeof suffix - 1;
    if (file[0] == '.' || length <= end || length - end >= sizeof name || strcmp(file + length - end, suffix) != 0)
        return;
    snprintf(name, sizeof name, "%.*s", (int)(length - end), file);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    v->visit(v->user, name, path);
}

static bool visit_place(void *user, const char *place)
{
    char folder[ZN_MODEL_PATH + 8];
    struct dirent **entries;
    snprintf(folder, sizeof folder, "%s/loras", place);
    const int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        visit_file(user, folder, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return true;
}

zn_status zn_loras_visit(zn_lora_visit_fn visit, void *user)
{
    visitor v = { visit, user };
    return zn_each_place(visit_place, &v);
}

typedef struct named {
    const char *name;
    char path[ZN_MODEL_PATH + 512]; /* empty: not found yet */
} named;

static void match(void *user, const char *name, const char *path)
{
    named *n = user;
    if (!n->path[0] && strcmp(name, n->name) == 0)
        snprintf(n->path, sizeof n->path, "%s", path);
}

/* ---- files ---- */

static zn_status read_form(const zn_generator *g, zn_zimage_form *form)
{
    zn_part_files files;
    zn_zimage_naming naming;
    ZN_TRY(zn_part_open(g->paths.part[ZN_GENERATOR_TRANSFORMER], ZN_GENERATOR_TRANSFORMER, &files));
    const zn_status status = zn_zimage_recognise(files.files, files.count, files.config.root, form, &naming);
    zn_part_close(&files);
    return status;
}

/* Takes the LoRA over, or closes it. */
static zn_status keep(zn_generator *g, zn_lora *l)
{
    const int all = g->adapter_count + l->count;
    if (!ZN_GROW(g->loras, g->lora_capacity, g->lora_count + 1) || !ZN_GROW(g->adapters, g->adapter_capacity, all)) {
        zn_lora_close(l);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a LoRA");
    }
    memcpy(g->adapters + g->adapter_count, l->adapters, sizeof *l->adapters * (size_t)l->count);
    g->loras[g->lora_count++] = *l;
    g->adapter_count = all;
    return ZN_OK;
}

static zn_status add(zn_generator *g, const char *path, double strength)
{
    zn_zimage_form form;
    zn_lora l;
    named n = { .name = path };
    if (!zn_exists(path) && !strchr(path, '/'))
        ZN_TRY(zn_loras_visit(match, &n));
    ZN_TRY(read_form(g, &form));
    zn_generator_forget(g, ZN_GENERATOR_TRANSFORMER);
    ZN_TRY(zn_lora_open(n.path[0] ? n.path : path, strength, &form, &l));
    return keep(g, &l);
}

zn_status zn_generator_add_lora(zn_generator *g, const char *path, double strength)
{
    if (!isfinite(strength) || fabs(strength) > 100)
        return ZN_FAIL(ZN_EINVALID, "%s: a strength of %g: it must be from -100 to 100", path, strength);
    pthread_mutex_lock(&g->lock);
    const zn_status status = add(g, path, strength);
    pthread_mutex_unlock(&g->lock);
    return status;
}

void zn_generator_lora_layers(const zn_generator *g, int index, int *layers, int *fitting)
{
    *layers = g->loras[index].layers;
    *fitting = g->loras[index].fitting;
}

void zn_generator_close_loras(zn_generator *g)
{
    for (int i = 0; i < g->lora_count; i++)
        zn_lora_close(&g->loras[i]);
    zn_free(g->loras);
    zn_free(g->adapters);
}

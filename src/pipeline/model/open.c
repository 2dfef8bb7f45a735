/* Opening models by path.
 *
 * Weights of one model may be one file or two; files of a folder that differ only in extension or in the words encoder
 * and decoder belong together: taef2_encoder.pth, taef2_decoder.safetensors and taef2.safetensors share the stem
 * "taef2". */
#include "pipeline/model/open.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "io/latent/latent_file.h"
#include "models/model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Best first: when a model is there twice, the mapped format is taken. */
static const char *const extensions[] = { ".safetensors", ".pth", ".pt", ".ckpt" };
enum { EXTENSIONS = sizeof extensions / sizeof *extensions };

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
        const char *word = zn_ending(stem, words[i]);
        const size_t n = word ? (size_t)(word - stem) : 0;
        if (word)
            stem[n > 0 && strchr("_-.", stem[n - 1]) ? n - 1 : n] = 0;
    }
}

/* True if parts of two files make one network. */
static bool same_network(const zn_config *a, const zn_config *b)
{
    return strcmp(a->name, b->name) == 0 && a->latent == b->latent && a->width == b->width &&
           a->made_width == b->made_width && a->made_height == b->made_height;
}

/* Adds a part that the file has and the model lacks. */
static zn_status add_part(zn_model *m, zn_part part, const zn_weights *w, const zn_config *config,
                          const zn_naming *naming)
{
    if (m->arch->adopt)
        ZN_TRY(m->arch->adopt(&m->config, config, part));
    ZN_TRY(zn_model_load_part(m, part, w, naming));
    return part == ZN_CLASSIFIER ? zn_model_read_attributes(m, w) : ZN_OK;
}

/* How a file would name a part that goes with the other one: "decoder.layers." with "encoder.layers.". */
static zn_naming naming_beside(const zn_naming *other, zn_part part, int shift)
{
    zn_naming n = { .present = true, .shift = other->shift + shift };
    const char *from = part == ZN_ENCODER ? "decoder" : "encoder", *to = part == ZN_ENCODER ? "encoder" : "decoder";
    const char *at = strstr(other->prefix, from);
    snprintf(n.prefix, sizeof n.prefix, "%s", other->prefix);
    if (at)
        memcpy(n.prefix + (at - other->prefix), to, strlen(to));
    return n;
}

/* A part of an autoencoder that is not recognised because one of its tensors is wrong is an error that names the
 * tensor, not a model without that part. */
static zn_status check_lost_part(const zn_model *m, const zn_weights *w, const zn_naming naming[ZN_PARTS])
{
    const zn_part part = naming[ZN_ENCODER].present ? ZN_DECODER : ZN_ENCODER;
    if (!m->arch->encode || !m->arch->decode || naming[part].present || m->has[part])
        return ZN_OK;
    const zn_naming *other = &naming[part == ZN_ENCODER ? ZN_DECODER : ZN_ENCODER];
    zn_naming best = naming_beside(other, part, 0);
    double share = zn_model_share_stored(m, part, w, &best);
    for (int shift = -1; shift <= 1; shift += 2) { /* diffusers' decoder of TAESD counts one layer less */
        const zn_naming n = naming_beside(other, part, shift);
        const double found = zn_model_share_stored(m, part, w, &n);
        if (found > share) {
            share = found;
            best = n;
        }
    }
    return share >= 0.5 ? zn_model_explain_lost(m, part, w, &best) : ZN_OK;
}

static zn_status add_file(zn_model **model, const char *path, bool released)
{
    zn_weights *w;
    ZN_TRY(zn_weights_open(path, &w));
    zn_status status = ZN_OK;
    bool is_it = false;
    zn_config config = { 0 };
    zn_naming naming[ZN_PARTS];
    int i = 0;
    for (; zn_archs[i] && !is_it && status == ZN_OK; i++)
        status = zn_archs[i]->recognise(w, &config, naming, &is_it);
    if (status != ZN_OK || !is_it) {
        if (status == ZN_OK && zn_weights_hold_latent(w))
            status =
                ZN_FAIL(ZN_EUNSUPPORTED,
                        "%s: this is a latent, not the weights of a model; 'zenith decode %s' makes an image of it",
                        path, path);
        else if (status == ZN_OK)
            status = ZN_FAIL(ZN_EUNSUPPORTED, "%s: no known architecture in its %lld tensors", path,
                             (long long)zn_weights_count(w));
        goto done;
    }
    if (!*model)
        ZN_TRY_DONE(zn_model_new(zn_archs[i - 1], &config, model));
    zn_model *m = *model;
    m->released = released;
    if (!same_network(&m->config, &config)) {
        status = ZN_FAIL(ZN_EFORMAT, "%s: %s does not belong to the %s beside it", path, config.name, m->config.name);
        goto done;
    }
    for (int part = 0; part < ZN_PARTS; part++)
        if (naming[part].present && !m->has[part])
            ZN_TRY_DONE(add_part(m, (zn_part)part, w, &config, &naming[part]));
    const char *task = zn_weights_metadata(w, ZN_MODEL_TASK_KEY);
    m->info.upscales = m->info.restores && task && !strcmp(task, ZN_MODEL_UPSCALES);
    status = check_lost_part(m, w, naming);
done:
    zn_weights_close(w);
    return status;
}

static zn_status extend_by_file(zn_model *m, const char *path)
{
    zn_weights *w;
    zn_config config = { 0 };
    zn_naming naming[ZN_PARTS];
    bool is_it = false;
    int added = 0;
    ZN_TRY(zn_weights_open(path, &w));
    zn_status status = m->arch->recognise(w, &config, naming, &is_it);
    if (status == ZN_OK && (!is_it || !(m->arch->can & ZN_EDITS)))
        status = ZN_FAIL(ZN_EFORMAT, "nothing in it belongs to a %s", m->info.architecture);
    for (int part = ZN_LATENT_NET; part < ZN_PARTS && status == ZN_OK; part++)
        if (naming[part].present && !m->has[part]) {
            status = add_part(m, (zn_part)part, w, &config, &naming[part]);
            added++;
        }
    zn_weights_close(w);
    if (status == ZN_OK && !added)
        status = ZN_FAIL(ZN_EFORMAT, "it has nothing that %s lacks", m->info.path);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, path);
}

static zn_status finish(zn_model *m, zn_status status, const char *path, zn_model **out)
{
    if (status == ZN_OK) {
        m->info.path = zn_arena_copy(&m->arena, path);
        status = m->info.path ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    }
    if (status != ZN_OK) {
        zn_model_free(m);
        return zn_fail_in_file(status, path);
    }
    *out = m;
    return ZN_OK;
}

zn_status zn_open_stem(const char *folder, const char *stem, bool released, zn_model **out)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        return ZN_FAIL(ZN_EIO, "%s: cannot read the folder", folder);
    zn_model *m = NULL;
    zn_status status = ZN_OK;
    for (int e = 0; e < EXTENSIONS; e++)
        for (int i = 0; i < count && status == ZN_OK; i++) {
            char name[256], path[ZN_MODEL_PATH];
            stem_of(entries[i]->d_name, name, sizeof name);
            if (extension_of(entries[i]->d_name) != e || strcmp(name, stem))
                continue;
            if (m && ((m->info.has_encoder && m->info.has_decoder) || m->info.restores))
                continue;
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
            status = add_file(&m, path, released);
        }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (status == ZN_OK && !m)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no weights there", folder);
    char path[ZN_MODEL_PATH];
    snprintf(path, sizeof path, "%s%s%s", folder, stem[0] ? "/" : "", stem);
    return finish(m, status, path, out);
}

bool zn_stem_is_latent(const char *folder, const char *stem)
{
    char path[ZN_MODEL_PATH];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, stem);
    zn_weights *w;
    if (!zn_exists(path) || zn_weights_open(path, &w) != ZN_OK)
        return false;
    const bool latent = zn_weights_hold_latent(w);
    zn_weights_close(w);
    return latent;
}

/* The original DiffAE keeps the conditions of its training images, and their statistics, beside an autoencoder. */
static const char *const condition_files[] = { "latent.pkl", "latent.ckpt" };
enum { CONDITION_FILES = sizeof condition_files / sizeof *condition_files };

/* True for the conditions beside the original's checkpoint. */
static bool is_of_checkpoint(const char *folder, const char *name)
{
    char path[ZN_MODEL_PATH];
    snprintf(path, sizeof path, "%s/last.ckpt", folder);
    return strcmp(name, condition_files[1]) == 0 && zn_exists(path);
}

/* Mean and deviation of conditions, for what is trained on them. */
static zn_status add_statistics(zn_model *m, const char *path)
{
    static const char *const names[] = { "conds_mean", "conds_std" };
    zn_weights *w;
    ZN_TRY(zn_weights_open(path, &w));
    zn_status status = ZN_OK;
    for (int i = 0; i < 2 && status == ZN_OK; i++) {
        const zn_weight *t = zn_weights_find(w, names[i]);
        status = t ? zn_model_load_constant(m, ZN_LATENT_NET, names[i], ZN_SHAPE(1, m->config.latent), t)
                   : ZN_FAIL(ZN_EFORMAT, "it has no %s", names[i]);
    }
    zn_weights_close(w);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, path);
}

static zn_status find_statistics(zn_model *m, const char *folder)
{
    char path[ZN_MODEL_PATH];
    if (!(m->arch->can & ZN_SAMPLES) || !m->has[ZN_ENCODER] || zn_model_parameter_find(m, "conds_mean"))
        return ZN_OK;
    for (int i = 0; i < CONDITION_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, condition_files[i]);
        if (zn_exists(path))
            return add_statistics(m, path);
    }
    return ZN_OK;
}

/* In the folder of a training run the model counts, not what the run itself needs beside it. */
static bool is_of_run(const char *folder, const char *name)
{
    char path[ZN_MODEL_PATH];
    snprintf(path, sizeof path, "%s/recipe.yaml", folder);
    return (strcmp(name, "checkpoint.safetensors") == 0 || strcmp(name, "conditions.safetensors") == 0) &&
           zn_exists(path);
}

/* True for the first weight file of its stem. */
static bool begins_stem(struct dirent **entries, int index, const char *stem)
{
    for (int i = 0; i <= index; i++) {
        char other[256];
        if (extension_of(entries[i]->d_name) < 0)
            continue;
        stem_of(entries[i]->d_name, other, sizeof other);
        if (strcmp(other, stem) == 0)
            return i == index;
    }
    return false;
}

void zn_each_stem(const char *folder, zn_stem_visit visit, void *user)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    bool more = true;
    for (int i = 0; i < count && more; i++) {
        char stem[256];
        if (extension_of(entries[i]->d_name) < 0) /* most, in a folder of images */
            continue;
        stem_of(entries[i]->d_name, stem, sizeof stem);
        if (begins_stem(entries, i, stem) && !is_of_run(folder, entries[i]->d_name) &&
            !is_of_checkpoint(folder, entries[i]->d_name))
            more = visit(user, folder, stem);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
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

/* "weights/taef2", as zn_models_visit names the files taef2*.* of the folder weights. ZN_ENOTFOUND: there are none. */
static zn_status open_named(const char *path, bool released, zn_model **out)
{
    const char *slash = strrchr(path, '/');
    char folder[ZN_MODEL_PATH];
    if (!slash || zn_exists(path) || (size_t)(slash - path) >= sizeof folder)
        return ZN_ENOTFOUND;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return zn_is_folder(folder) ? zn_open_stem(folder, slash + 1, released, out) : ZN_ENOTFOUND;
}

/* The stem of the only model in a folder. */
static zn_status only_stem(const char *folder, char *stem, size_t size)
{
    stem_list l = { 0 };
    zn_each_stem(folder, list_stem, &l);
    if (l.count == 0)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no weights in this folder", folder);
    if (l.count > 1)
        return ZN_FAIL(ZN_EINVALID, "%s: several files in this folder could be a model (%s); name one of them", folder,
                       l.names);
    snprintf(stem, size, "%s", l.first);
    return ZN_OK;
}

zn_status zn_open_path(const char *path, bool released, zn_model **out)
{
    *out = NULL;
    const zn_status named = open_named(path, released, out);
    if (named != ZN_ENOTFOUND)
        return named;
    if (!zn_is_folder(path)) {
        zn_model *m = NULL;
        const zn_status status = add_file(&m, path, released);
        return finish(m, status, path, out);
    }
    char stem[256];
    ZN_TRY(only_stem(path, stem, sizeof stem));
    ZN_TRY(zn_open_stem(path, stem, released, out));
    const zn_status status = find_statistics(*out, path);
    if (status != ZN_OK) {
        zn_model_free(*out);
        *out = NULL;
    }
    return status;
}

zn_status zn_model_extend(zn_model *m, const char *path)
{
    char stem[256], file[ZN_MODEL_PATH];
    if (!zn_is_folder(path))
        return extend_by_file(m, path);
    ZN_TRY(only_stem(path, stem, sizeof stem));
    for (int e = 0; e < EXTENSIONS; e++) {
        snprintf(file, sizeof file, "%s/%s%s", path, stem, extensions[e]);
        if (zn_exists(file))
            return extend_by_file(m, file);
    }
    return ZN_FAIL(ZN_ENOTFOUND, "%s: no weights in this folder for a latent net or a classifier", path);
}

zn_status zn_model_open(const char *path, zn_model **out) { return zn_open_path(path, false, out); }

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
    zn_status status = ZN_OK;
    if (config->latent || !(arch->can & ZN_SAMPLES)) /* plain diffusion models encode nothing */
        status = zn_model_random_part(m, ZN_ENCODER, seed);
    if (status == ZN_OK && !(arch->can & (ZN_RESTORES | ZN_JUDGES)))
        status = zn_model_random_part(m, ZN_DECODER, seed);
    char path[64];
    snprintf(path, sizeof path, "(random, seed %llu)", (unsigned long long)seed);
    return finish(m, status, path, out);
}
